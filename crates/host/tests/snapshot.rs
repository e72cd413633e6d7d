//! Snapshots of made-up hosts: a cgroup v2 machine, an old v1 one, one under lockdown, one with many threads.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use unstarve_facts::{CgroupVersion, Snapshot};
use unstarve_host::Root;
use unstarve_model::{Nanos, Policy, SchedPolicy, Tid};

/// A tree of files; a path that ends in `/` is an empty directory.
fn host(files: &[(&str, &str)]) -> TempDir {
    // In memory if possible: ten thousand links take a minute on a busy disk.
    let place = Some(Path::new("/dev/shm")).filter(|place| place.is_dir());
    let tree = tempfile::tempdir_in(place.unwrap_or(&std::env::temp_dir())).expect("a temporary directory");
    add(tree.path(), files);
    tree
}

fn add(tree: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let full = tree.join(path);
        if path.ends_with('/') {
            fs::create_dir_all(full).expect("a directory");
        } else {
            fs::create_dir_all(full.parent().expect("a parent")).expect("a directory");
            fs::write(full, text).expect("a file");
        }
    }
}

const KTHREAD_BOUND: u64 = 0x0420_8040;

/// `stat` of a thread with the fields that matter.
fn stat(tid: u32, comm: &str, flags: u64, nice: i32, rt: u32, policy: u32, start: u64) -> String {
    format!(
        "{tid} ({comm}) S 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 {nice} 1 0 {start} 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 \
         {rt} {policy} 0 0 0\n"
    )
}

fn add_task(tree: &Path, tgid: u32, tid: u32, stat: &str, allowed: &str, cgroup: &str) {
    let directory = format!("proc/{tgid}/task/{tid}");
    let status = format!("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n");
    add(
        tree,
        &[
            (&format!("{directory}/stat"), stat),
            (&format!("{directory}/status"), &status),
            (&format!("{directory}/cgroup"), cgroup),
        ],
    );
}

fn kubernetes_node() -> TempDir {
    let tree = host(&[
        ("proc/sys/kernel/osrelease", "6.12.107+deb13-cloud-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.12.107-1 (2026-10-01)\n"),
        ("proc/sys/kernel/arch", "x86_64\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
        ("proc/sys/kernel/panic", "0\n"),
        ("proc/cmdline", "root=/dev/vda1 isolcpus=7\n"),
        (
            "proc/mounts",
            "proc /proc proc rw 0 0\n/dev/vda1 / ext4 rw,relatime 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n\
             /dev/nvme0n1 /var/lib/my\\040data xfs rw 0 0\n",
        ),
        (
            "proc/interrupts",
            "           CPU0       CPU1\n 24:         10          5  PCI-MSIX-0000:00:01.0   0-edge      nvme0q0\n\
             NMI:          0          0   Non-maskable interrupts\n",
        ),
        ("proc/irq/24/smp_affinity_list", "0-1\n"),
        ("proc/irq/24/effective_affinity_list", "1\n"),
        ("proc/irq/24/nvme0q0/", ""),
        ("proc/irq/default_smp_affinity", "ff\n"),
        (
            "boot/config-6.12.107+deb13-cloud-amd64",
            "CONFIG_HZ=250\nCONFIG_PREEMPT_DYNAMIC=y\n# CONFIG_PREEMPT_RT is not set\nCONFIG_XFS_FS=m\n",
        ),
        ("sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
        ("sys/kernel/debug/sched/features", "PLACE_LAG NO_NEXT_BUDDY RUN_TO_PARITY\n"),
        ("sys/kernel/debug/sched/base_slice_ns", "2800000\n"),
        ("sys/kernel/debug/sched/debug", "a very long dump\n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/period", "1000000000\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
        ("sys/devices/system/cpu/possible", "0-7\n"),
        ("sys/devices/system/cpu/isolated", "7\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("sys/devices/virtual/workqueue/cpumask", "ff\n"),
        ("sys/devices/virtual/workqueue/writeback/max_active", "256\n"),
        ("sys/devices/virtual/workqueue/writeback/nice", "0\n"),
        ("sys/fs/cgroup/kubepods.slice/cpu.weight", "2500\n"),
        ("sys/fs/cgroup/kubepods.slice/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/kubepods.slice/cpu.stat", "usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
        ("sys/fs/cgroup/kubepods.slice/pod1/cpu.weight", "39\n"),
        ("sys/fs/cgroup/kubepods.slice/pod1/cpu.max", "50000 100000\n"),
        (
            "sys/fs/cgroup/kubepods.slice/pod1/cpu.stat",
            "usage_usec 9\nnr_periods 100\nnr_throttled 10\nthrottled_usec 700\n",
        ),
        ("sys/fs/cgroup/system.slice/cpu.stat", "usage_usec 9\n"),
        ("sys/fs/cgroup/idle.slice/cpu.weight", "100\n"),
        ("sys/fs/cgroup/idle.slice/cpu.idle", "1\n"),
    ]);
    let t = tree.path();
    add_task(t, 47, 47, &stat(47, "kworker/0:2-dio/nvme0n1", KTHREAD_BOUND, 0, 0, 0, 12), "0", "0::/\n");
    add_task(t, 900, 900, &stat(900, "redpanda", 0x400000, 0, 0, 0, 4000), "0-6", "0::/kubepods.slice/pod1/ctr\n");
    add_task(t, 900, 901, &stat(901, "reactor-1", 0x400000, -5, 0, 0, 4001), "1", "0::/kubepods.slice/pod1/ctr\n");
    add_task(t, 950, 950, &stat(950, "monitor", 0x400000, 0, 10, 2, 4100), "0-7", "0::/system.slice/monitor.service\n");
    add_task(t, 960, 960, &stat(960, "scrub", 0x400000, 0, 0, 5, 4200), "0-7", "0::/idle.slice\n");
    // A process that exits while being read: its directory exists, but its files are gone.
    add(t, &[("proc/970/task/970/", ""), ("proc/980/", "")]);
    tree
}

#[test]
fn a_cgroup_v2_node_answers_what_a_diagnosis_asks() {
    let tree = kubernetes_node();
    let snapshot = unstarve_host::take(&Root::at(tree.path()));
    assert_eq!(snapshot.kernel_release(), Some("6.12.107+deb13-cloud-amd64"));
    assert_eq!(snapshot.hierarchy.as_ref().map(|h| h.version), Some(CgroupVersion::V2));

    let mut table = String::new();
    for task in &snapshot.tasks {
        let tid = task.tid;
        let policy = snapshot.policy_of(tid).and_then(SchedPolicy::class).map(|class| class.to_string());
        table += &format!(
            "{tid:>4} {:<24} {:<5} on {:<4} kernel {:<6} in {:<28} weight {:?}\n",
            task.comm,
            policy.unwrap_or_default(),
            snapshot.allowed_cpus(tid).map(ToString::to_string).unwrap_or_default(),
            snapshot.is_kernel_thread(tid).unwrap_or_default(),
            snapshot.cgroup_of(tid).unwrap_or("?"),
            snapshot.weight_of_top_cgroup(tid),
        );
    }
    insta::assert_snapshot!(table, @"
      47 kworker/0:2-dio/nvme0n1  fair  on 0    kernel true   in /                            weight None
     900 redpanda                 fair  on 0-6  kernel false  in /kubepods.slice/pod1/ctr     weight Some(25600)
     901 reactor-1                fair  on 1    kernel false  in /kubepods.slice/pod1/ctr     weight Some(25600)
     950 monitor                  rt    on 0-7  kernel false  in /system.slice/monitor.service weight None
     960 scrub                    fair  on 0-7  kernel false  in /idle.slice                  weight Some(3)
    ");

    assert_eq!(snapshot.limited_cgroup_of(Tid(901)).map(|group| group.path.as_str()), Some("/kubepods.slice/pod1"));
    assert_eq!(snapshot.irq_affinity(24).map(ToString::to_string).as_deref(), Some("0-1"));
    assert_eq!(
        snapshot.irq(24).map(|irq| (irq.handlers.clone(), irq.count)),
        Some((vec!["nvme0q0".to_owned()], Some(15)))
    );
    assert_eq!(snapshot.config("HZ"), Some("250"));
    assert_eq!(snapshot.config("PREEMPT_RT"), Some("n"));
    assert_eq!(snapshot.config("XFS_FS"), None, "not kept, which is not off");
    assert_eq!(snapshot.feature("NEXT_BUDDY"), Some(false));
    assert_eq!(snapshot.feature("GENTLE_FAIR_SLEEPERS"), None);
    assert_eq!(snapshot.setting("base_slice_ns"), Some(("/sys/kernel/debug/sched/base_slice_ns", "2800000")));
    assert_eq!(snapshot.setting("fair_server/cpu0/runtime").map(|(_, value)| value), Some("50000000"));
    assert_eq!(snapshot.setting("panic"), None);
    assert_eq!(snapshot.cpus.isolated.as_ref().map(ToString::to_string).as_deref(), Some("7"));
    assert_eq!(snapshot.mounts.iter().map(|m| m.target.as_str()).collect::<Vec<_>>(), ["/", "/var/lib/my data"]);
    assert_eq!(snapshot.workqueues.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["writeback"]);
    assert_eq!(snapshot.missing, [], "everything was there");

    let again = Snapshot::from_json(&snapshot.to_json()).expect("its own JSON");
    assert_eq!(again, snapshot);
}

#[test]
fn a_recording_keeps_who_came_and_went_and_counts_the_throttling() {
    let tree = kubernetes_node();
    let root = Root::at(tree.path());
    let begin = unstarve_host::take(&root);
    fs::remove_dir_all(tree.path().join("proc/950")).expect("the monitor ends");
    // In between, the monitor's id is reused, and pod1 is throttled seven more times.
    add_task(tree.path(), 950, 950, &stat(950, "sh", 0x400000, 0, 0, 0, 9000), "0-7", "0::/system.slice\n");
    add(
        tree.path(),
        &[("sys/fs/cgroup/kubepods.slice/pod1/cpu.stat", "nr_periods 130\nnr_throttled 17\nthrottled_usec 1700\n")],
    );
    let whole = begin.finished_by(unstarve_host::take(&root));

    let monitors: Vec<_> = whole.tasks.iter().filter(|task| task.tid == Tid(950)).map(|task| &task.comm).collect();
    assert_eq!(monitors, ["monitor", "sh"]);
    assert_eq!(whole.policy_of(Tid(950)).and_then(SchedPolicy::class), Some(Policy::Fair), "the younger one answers");
    let grown = whole.throttled_meanwhile("/kubepods.slice/pod1").expect("it was throttled");
    assert_eq!((grown.periods, grown.count, grown.ns), (30, 7, Nanos::from_millis(1)));
    assert_eq!(whole.throttled_meanwhile("/kubepods.slice"), None);
}

#[test]
fn a_recording_keeps_who_was_there_only_in_between() {
    let tree = kubernetes_node();
    let root = Root::at(tree.path());
    let begin = unstarve_host::take(&root);
    add_task(tree.path(), 960, 960, &stat(960, "fio", 0x400000, 0, 0, 0, 9000), "0-7", "0::/guests\n");
    add(tree.path(), &[("sys/fs/cgroup/guests/cpu.weight", "1000\n")]);
    let middle = unstarve_host::take(&root);
    fs::remove_dir_all(tree.path().join("proc/960")).expect("fio ends");
    fs::remove_dir_all(tree.path().join("sys/fs/cgroup/guests")).expect("its cgroup goes");
    let count = begin.tasks.len();
    let whole = begin.finished_by(unstarve_host::take(&root)).joined_by(middle);

    assert_eq!(whole.tasks.len(), count + 1);
    assert_eq!(whole.weight_of_top_cgroup(Tid(960)), Some(10240));
}

#[test]
fn an_old_host_with_cgroup_v1() {
    let tree = host(&[
        ("proc/sys/kernel/osrelease", "5.10.0-30-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP Debian 5.10.218-1 (2024-06-01)\n"),
        ("proc/sys/kernel/sched_wakeup_granularity_ns", "15000000\n"),
        ("proc/cmdline", "quiet\n"),
        (
            "proc/mounts",
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n",
        ),
        ("proc/irq/", ""),
        ("sys/kernel/debug/sched_features", "GENTLE_FAIR_SLEEPERS NO_HRTICK\n"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ("sys/devices/system/cpu/online", "0\n"),
        ("sys/devices/system/cpu/possible", "0\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.shares", "2048\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/c1/cpu.shares", "512\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/c1/cpu.cfs_quota_us", "20000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/c1/cpu.cfs_period_us", "100000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/c1/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 12345\n"),
    ]);
    let cgroups = "3:cpu,cpuacct:/docker/c1\n0::/elsewhere\n";
    add_task(tree.path(), 10, 10, &stat(10, "server", 0, 0, 0, 0, 1), "0", cgroups);
    let snapshot = unstarve_host::take(&Root::at(tree.path()));

    assert_eq!(snapshot.cgroup_of(Tid(10)), Some("/docker/c1"));
    assert_eq!(snapshot.weight_of_top_cgroup(Tid(10)), Some(2048));
    let limited = snapshot.limited_cgroup_of(Tid(10)).expect("c1 has a quota");
    assert_eq!(limited.throttled.map(|t| (t.count, t.ns)), Some((3, Nanos(12345))));
    assert_eq!(snapshot.feature("HRTICK"), Some(false));
    assert_eq!(snapshot.kernel.lockdown.as_deref(), Some("integrity"));
    assert_eq!(
        snapshot.setting("sched_wakeup_granularity_ns"),
        Some(("/proc/sys/kernel/sched_wakeup_granularity_ns", "15000000"))
    );
    let missing: Vec<_> = snapshot.missing.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(missing, ["kernel configuration", "/sys/kernel/debug/sched/*"]);
}

#[test]
fn an_empty_host_is_a_list_of_what_is_missing_and_no_failure() {
    let tree = host(&[]);
    let snapshot = unstarve_host::take(&Root::at(tree.path()));
    assert_eq!((snapshot.tasks.len(), snapshot.kernel_release(), &snapshot.features), (0, None, &None));
    for what in ["scheduler features", "tasks", "/proc/irq", "/proc/mounts", "/sys/devices/system/cpu/online"] {
        assert!(snapshot.missing.iter().any(|missing| missing.what == what), "{what}: {:?}", snapshot.missing);
    }
    assert!(snapshot.missing.iter().all(|missing| !missing.why.is_empty()));
}

#[test]
fn json_that_is_no_snapshot_is_refused_and_additions_are_not() {
    assert!(Snapshot::from_json("{").is_err());
    let other = Snapshot::from_json(r#"{"schema":"unstarve.snapshot/2","kernel":{}}"#).expect_err("another schema");
    assert!(other.to_string().contains("unstarve.snapshot/2"), "{other}");
    let newer = r#"{"schema":"unstarve.snapshot/1","kernel":{"release":"9.9","colour":"red"},"moon":1,
        "tasks":[{"tid":9,"comm":"b","policy":"quantum","start_ticks":1},{"tid":3,"comm":"a","policy":"rr","start_ticks":1}]}"#;
    let snapshot = Snapshot::from_json(newer).expect("additions are allowed");
    assert_eq!(snapshot.policy_of(Tid(3)), Some(SchedPolicy::Rr));
    assert_eq!(snapshot.policy_of(Tid(9)).and_then(SchedPolicy::class), None);
    assert_eq!(snapshot.is_kernel_thread(Tid(4)), None);
}

#[test]
fn ten_thousand_threads_are_read_in_under_a_second() {
    let tree = host(&[("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")]);
    let one = stat(5, "nfsd", 0, 0, 0, 0, 1);
    add_task(tree.path(), 1_000, 1_000, &one, "0-127", "0::/system.slice/nfs-server.service\n");
    for tid in 1_001..11_000 {
        let link = tree.path().join(format!("proc/1000/task/{tid}"));
        std::os::unix::fs::symlink("1000", link).expect("a link to the first thread's files");
    }
    // CPU time: the machine may be busy with other tests.
    let start = cpu_time();
    assert_eq!(unstarve_host::take(&Root::at(tree.path())).tasks.len(), 10_000);
    let taken = cpu_time() - start;
    assert!(taken < Duration::from_secs(1), "{taken:?}");
}

fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn this_very_host_is_readable_and_knows_this_thread() {
    let snapshot = unstarve_host::take(&Root::host());
    let me = Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    assert_eq!(snapshot.is_kernel_thread(me), Some(false), "{:?}", snapshot.missing);
    assert_eq!(snapshot.policy_of(me).and_then(SchedPolicy::class), Some(Policy::Fair));
    assert!(snapshot.allowed_cpus(me).is_some_and(|cpus| !cpus.is_empty()));
    assert!(snapshot.kernel_release().is_some());
    assert!(snapshot.cpus.online.as_ref().is_some_and(|cpus| !cpus.is_empty()));
}

#[test]
fn what_a_thread_does_to_itself_is_seen() {
    let snapshot = std::thread::spawn(|| {
        let mut first = rustix::thread::CpuSet::new();
        let allowed = rustix::thread::sched_getaffinity(None).expect("an affinity");
        let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).expect("a CPU");
        first.set(cpu);
        rustix::thread::sched_setaffinity(None, &first).expect("a narrower affinity");
        rustix::process::setpriority_process(None, 7).expect("a higher nice");
        let me = Tid(rustix::thread::gettid().as_raw_nonzero().get() as u32);
        (unstarve_host::take(&Root::host()), me, cpu)
    });
    let (snapshot, me, cpu) = snapshot.join().expect("the thread");
    let task = snapshot.task(me).expect("itself");
    assert_eq!((task.nice, task.tgid), (7, Some(Tid(std::process::id()))));
    assert_eq!(snapshot.allowed_cpus(me).map(ToString::to_string), Some(cpu.to_string()));
}

#[test]
fn the_host_s_name_is_for_nobody_else() {
    let json =
        r#"{"schema":"unstarve.snapshot/1","kernel":{},"host":"web1","clock_pairs":[{"trace_ns":1,"realtime_ns":2}]}"#;
    let snapshot = Snapshot::from_json(json).unwrap();
    assert_eq!(snapshot.host.as_deref(), Some("web1"));
    let redacted = snapshot.redacted();
    assert_eq!(redacted.host, None);
    assert!(!redacted.to_json().contains("web1"));
    assert_eq!(redacted.clock_pairs.len(), 1, "clocks name nobody");
}

/// Cgroups whose weights no other user's groups may hide, whatever the order of directory entries.
fn pod(tree: &Path, top: &str) -> [String; 4] {
    let mut path = top.to_owned();
    ["", "burstable.slice", "pod1.slice", "container.scope"].map(|name| {
        if !name.is_empty() {
            path += &format!("/{name}");
        }
        add(tree, &[(&format!("sys/fs/cgroup{path}/cpu.weight"), "39\n")]);
        path.clone()
    })
}

#[test]
fn a_user_hides_nobody_elses_groups() {
    const DELEGATED: &str = "/user.slice/user-1000.slice/user@1000.service";
    let tree = host(&[("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")]);
    // Directory entries come in order of creation, or in reverse.
    let mut others = pod(tree.path(), "/a.slice").to_vec();
    let make = |path: &str| fs::create_dir_all(tree.path().join(format!("sys/fs/cgroup{path}"))).expect("a group");
    for group in 0..25 {
        (0..900).for_each(|below| make(&format!("{DELEGATED}/{group}/{below}")));
    }
    (0..1100).for_each(|below| make(&format!("{DELEGATED}/wide/{below}")));
    make(&format!("{DELEGATED}/deep{}", "/d".repeat(40)));
    others.extend(pod(tree.path(), "/b.slice"));
    others.extend(pod(tree.path(), "/user.slice/user-1001.slice"));

    let snapshot = unstarve_host::take(&Root::at(tree.path()));
    let weight = |path: &String| snapshot.cgroups.iter().find(|group| group.path == *path).map(|group| group.weight);
    let hidden: Vec<_> = others.iter().filter(|path| weight(path) != Some(Some(39))).collect();
    assert_eq!(hidden, Vec::<&String>::new());
    assert_eq!(snapshot.cgroups.len(), 20_000, "as many as before");
    let cut: Vec<_> = snapshot.missing.iter().filter(|missing| missing.what.contains("cgroups")).collect();
    assert!(!cut.is_empty() && cut.len() <= 17, "{cut:?}");
    let mine = format!("cgroups below {DELEGATED}");
    assert!(cut.iter().all(|missing| missing.what.starts_with(&mine) || missing.what == "cgroups"), "{cut:?}");
    assert!(cut.iter().any(|missing| missing.why == "there are more than 1024" && missing.what.ends_with("/wide")));
    assert!(cut.iter().any(|missing| missing.why == "no more than 20000 are read in all"), "{cut:?}");
    let redacted = snapshot.redacted();
    let is_named = |what: &str| what.contains("user@1000") || what.contains("wide");
    assert!(!redacted.missing.iter().any(|missing| is_named(&missing.what)), "{:?}", redacted.missing);
}

#[test]
fn groups_that_are_nested_too_deep_are_said_to_be_missing() {
    let tree = host(&[("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")]);
    let path = |depth: usize| "/d".repeat(depth);
    add(tree.path(), &[(&format!("sys/fs/cgroup{}/", path(40)), "")]);
    let snapshot = unstarve_host::take(&Root::at(tree.path()));
    assert_eq!(snapshot.cgroups.len(), 16);
    let missing = snapshot.missing.iter().find(|missing| missing.what == format!("cgroups below {}", path(16)));
    assert_eq!(missing.map(|missing| missing.why.as_str()), Some("they are nested too deep"));
}
