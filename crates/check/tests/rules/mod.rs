//! Each rule on a host where it fires, on one where it nearly does, and on a healthy one.

mod agreement;
mod busy_pollers;
mod cases;
mod commands;
mod damage;
mod host;
mod host_kinds;
mod outputs;
mod upgrade;

use host::healthy;
use unstarve_check::{RULES, Severity};
use unstarve_facts::{ConfiguredBy, NfsdFacts};
use unstarve_model::{SchedPolicy, Tid};

#[test]
fn a_healthy_host_has_no_hit_at_all() {
    let audit = healthy().audit();
    // 6.1 has RT_PUSH_IPI's bug, which needs real-time tasks.
    assert_eq!(audit.hits, [], "{:#?}", audit.hits);
    assert_eq!(audit.rules.len(), RULES.len());
}

/// The command that gives threads a FIFO priority if they are the kernel's, and were created then.
fn raise_if_of_kernel(threads: &[(u32, u64)], priority: u32) -> String {
    let stat = "tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f";
    let tids: Vec<String> = threads.iter().map(|(tid, _)| tid.to_string()).collect();
    let those: Vec<String> = threads.iter().map(|(tid, start)| format!("2:0/{tid}:{start}")).collect();
    format!(
        "for t in {}; do case $({stat} 2,21 | tr ' ' :)/$t:$({stat} 20) in {}) chrt --fifo --pid {priority} $t ;; *) echo \"thread $t has \
         ended\" >&2 ;; esac; done",
        tids.join(" "),
        those.join("|")
    )
}

#[test]
fn real_time_on_interrupt_cpus() {
    let rule = "rt-on-interrupt-cpu";
    let mut host = healthy();
    host.real_time(900, "monitor", 10, "0-1", 0.08);
    insta::assert_snapshot!(host.says(rule).join("\n"), @"
    critical monitor[900] RR 10 may run on CPUs 0-1, which serve network and block interrupts, ahead of ksoftirqd there.
    ");
    let hits = host.hits(rule);
    assert!(hits[0].consequence.starts_with("On Linux 6.1.176 all softirqs"), "{}", hits[0].consequence);
    assert!(hits[0].consequence.contains("950 ms"));
    let commands: Vec<&str> = hits[0].fixes.iter().map(|fix| fix.apply.as_str()).collect();
    assert_eq!(commands[0], raise_if_of_kernel(&[(20, 1000), (30, 1000)], 11));
    assert!(commands[1].contains("for t in $(pgrep -P 2 '^napi/eth0-')"), "{}", commands[1]);

    // One that hardly ever runs is a remark; several such are one remark.
    let mut quiet = healthy();
    quiet.real_time(900, "watchdogd", 50, "0-7", 0.0);
    assert_eq!(quiet.worst(rule), Some(Severity::Info));
    quiet.real_time(901, "multipathd", 99, "0-7", 0.0);
    assert_eq!(quiet.hits(rule).len(), 1);

    // Children inherit the policy, so their time is its time.
    let mut parent = healthy();
    parent.real_time(900, "monitor", 10, "0-7", 0.0).child_ticks = Some(3_600);
    assert_eq!(parent.worst(rule), Some(Severity::Warning));

    // Nearly: ksoftirqd of these CPUs is above it.
    let mut above = healthy();
    above.real_time(900, "monitor", 10, "0-1", 0.08);
    for task in above.0.tasks.iter_mut().filter(|task| task.comm.starts_with("ksoftirqd/")) {
        (task.policy, task.rt_priority) = (SchedPolicy::Fifo, 11);
    }
    assert_eq!(above.says(rule), [""; 0]);
    // Nearly: pinned beside them (the disk's queues are on every CPU, so without the disk).
    let mut beside = healthy();
    beside.0.irqs.retain(|irq| irq.irq < 40);
    beside.real_time(900, "stargate", 10, "2-7", 0.9);
    assert_eq!(beside.says(rule), [""; 0]);
}

#[test]
fn later_kernels_limit_it_in_other_ways() {
    let consequence = |release: &str, config: &str| {
        let mut host = healthy();
        host.kernel(release, "#1 SMP").config("RT_GROUP_SCHED", config);
        host.real_time(900, "monitor", 10, "0-1", 0.08);
        host.hits("rt-on-interrupt-cpu").remove(0).consequence
    };
    let fair = consequence("6.12.107", "n");
    assert!(
        fair.starts_with("Linux 6.12.107 runs softirqs at the end of an interrupt") && fair.contains("fair server")
    );
    assert!(consequence("6.12.107", "y").contains("RT throttling ends it"));
    let mut off = healthy();
    off.setting("/proc/sys/kernel/sched_rt_runtime_us", "-1");
    off.real_time(900, "monitor", 10, "0-1", 0.08);
    assert!(off.hits("rt-on-interrupt-cpu")[0].consequence.contains("Nothing ends it"));
}

#[test]
fn real_time_beside_completion_workers() {
    let rule = "rt-beside-completion-worker";
    let mut host = healthy();
    host.real_time(900, "stargate", 10, "2-7", 0.9);
    insta::assert_snapshot!(host.says(rule).join("\n"), @"
    critical stargate[900] RR 10 may run on CPUs 2-7, where a worker of normal priority completes direct writes of xfs on /dev/nvme0n1.
    ");
    // The kernel completes overwrites inline: less bad.
    host.kernel("7.2.1", "#1 SMP");
    assert_eq!(host.worst(rule), Some(Severity::Warning));
    // Nearly: no file system that completes in bound workers; or read-only; or btrfs.
    for (fs, options) in [("xfs", "ro,relatime"), ("btrfs", "rw"), ("vfat", "rw")] {
        let mut other = healthy();
        other.real_time(900, "stargate", 10, "2-7", 0.9);
        (other.0.mounts[0].fs, other.0.mounts[0].options) = (fs.into(), options.into());
        assert_eq!(other.says(rule), [""; 0], "{fs}");
    }
    // Nearly: every worker there is above it.
    let mut above = healthy();
    above.real_time(900, "stargate", 10, "2-7", 0.9);
    for task in above.0.tasks.iter_mut().filter(|task| task.comm.starts_with("kworker/")) {
        (task.policy, task.rt_priority) = (SchedPolicy::Rr, 11);
    }
    assert_eq!(above.says(rule), [""; 0]);
}

#[test]
fn inherited_real_time() {
    let rule = "rt-inherited";
    let mut host = healthy();
    host.real_time(900, "monitor", 10, "0-7", 0.02).child_faults = Some(12_345);
    insta::assert_snapshot!(host.says(rule).join("\n"), @"
    warning monitor[900] is RR 10 and starts children, which inherit that.
    ");
    // An heir that is alive says it, too.
    let mut alive = healthy();
    alive.real_time(900, "monitor", 10, "0-7", 0.02);
    alive.real_time(901, "probe", 10, "0-7", 0.0).parent = Some(Tid(900));
    assert_eq!(alive.hits(rule).len(), 1);
    // Nearly: reset on fork; no child ever; a child with a priority of its own.
    let mut reset = healthy();
    let task = reset.real_time(900, "monitor", 10, "0-7", 0.02);
    (task.child_faults, task.reset_on_fork) = (Some(12_345), Some(true));
    assert_eq!(reset.says(rule), [""; 0]);
    let mut childless = healthy();
    childless.real_time(900, "monitor", 10, "0-7", 0.02);
    assert_eq!(childless.says(rule), [""; 0]);
    childless.real_time(901, "chosen", 20, "0-7", 0.0).parent = Some(Tid(900));
    assert_eq!(childless.says(rule), [""; 0]);
}

#[test]
fn heavy_cgroups() {
    let rule = "heavy-cgroup";
    let table = [200, 201, 1000, 2500, 3023, 10_000].map(|weight| {
        let mut host = healthy();
        host.group("/kubepods.slice", weight).task(700, "broker", "0-7", "/kubepods.slice/pod1/c");
        match host.hits(rule).first() {
            Some(hit) => {
                format!("{} {}\n  {}\n  {}", hit.severity.word(), hit.sentence, hit.evidence[0], hit.evidence[1])
            }
            None => format!("{weight}: nothing"),
        }
    });
    insta::assert_snapshot!(table.join("\n"), @"
    200: nothing
    warning Tasks of /kubepods.slice (cpu.weight 201) outweigh kernel workers 2 to 1 on a CPU.
      load weight 2058: a worker (1024) gets 33.2 % of a CPU on which all of the group's load runs, 80 % when it is spread over 8 CPUs (257 on each)
      nice -4 (2501) would make a worker equal on one CPU
    critical Tasks of /kubepods.slice (cpu.weight 1000) outweigh kernel workers 10 to 1 on a CPU.
      load weight 10240: a worker (1024) gets 9.1 % of a CPU on which all of the group's load runs, 44 % when it is spread over 8 CPUs (1280 on each)
      nice -11 (11916) would make a worker equal on one CPU
    critical Tasks of /kubepods.slice (cpu.weight 2500) outweigh kernel workers 25 to 1 on a CPU.
      load weight 25600: a worker (1024) gets 3.8 % of a CPU on which all of the group's load runs, 24 % when it is spread over 8 CPUs (3200 on each)
      nice -15 (29154) would make a worker equal on one CPU
    critical Tasks of /kubepods.slice (cpu.weight 3023) outweigh kernel workers 30 to 1 on a CPU.
      load weight 30956: a worker (1024) gets 3.2 % of a CPU on which all of the group's load runs, 21 % when it is spread over 8 CPUs (3869 on each)
      nice -16 (36291) would make a worker equal on one CPU
    critical Tasks of /kubepods.slice (cpu.weight 10000) outweigh kernel workers 100 to 1 on a CPU.
      load weight 102400: a worker (1024) gets 1.0 % of a CPU on which all of the group's load runs, 7 % when it is spread over 8 CPUs (12800 on each)
      no nice would make a worker equal on one CPU: nice -20 weighs 88761
    ");
    // Nobody in it; no disk that needs workers; EEVDF; below the top level.
    let mut vacant = healthy();
    vacant.group("/kubepods.slice", 2500);
    assert_eq!(vacant.worst(rule), Some(Severity::Info));
    let mut diskless = healthy();
    diskless.0.mounts.clear();
    diskless.group("/kubepods.slice", 2500).task(700, "broker", "0-7", "/kubepods.slice");
    assert_eq!(diskless.worst(rule), Some(Severity::Warning));
    let mut below = healthy();
    below.group("/kubepods.slice/pod1", 2500).task(700, "broker", "0-7", "/kubepods.slice/pod1");
    assert_eq!(below.says(rule), [""; 0]);
}

#[test]
fn crowded_pools() {
    let rule = "crowded-pool";
    let with = |threads, release: &str| {
        let mut host = healthy();
        host.kernel(release, "#1 SMP");
        let nfsd = NfsdFacts { threads, pool_mode: Some("global".into()) };
        host.0.services.as_mut().expect("looked at").nfsd = Some(nfsd);
        host.says(rule)
    };
    insta::assert_snapshot!(with(128, "6.1.176").join("\n"), @"
    warning nfsd has 128 threads on 8 CPUs, 16 for each.
    ");
    assert!(with(128, "6.12.107")[0].starts_with("info "));
    assert_eq!(with(63, "6.1.176"), [""; 0]);
    assert_eq!(with(8, "6.1.176"), [""; 0]);

    let mut java = healthy();
    for tid in 0..256 {
        java.task(2000 + tid, &format!("worker-{tid}"), "0-7", "/system.slice").tgid = Some(Tid(2000));
    }
    assert_eq!(java.says(rule), ["info worker (process 2000) has 256 threads on 8 CPUs."]);
    java.0.tasks.pop();
    assert_eq!(java.says(rule), [""; 0]);
}

#[test]
fn rt_throttling_off() {
    let rule = "rt-throttling-off";
    let with = |runtime: &str, release: &str| {
        let mut host = healthy();
        host.kernel(release, "#1 SMP").config("RT_GROUP_SCHED", "n");
        host.setting("/proc/sys/kernel/sched_rt_runtime_us", runtime);
        host
    };
    let mut off = with("-1", "6.1.176");
    assert_eq!(off.worst(rule), Some(Severity::Info), "nobody who could loop");
    off.real_time(900, "monitor", 10, "2", 0.5);
    insta::assert_snapshot!(off.says(rule).join("\n"), @"
    critical RT throttling is off: a real-time task that does not sleep keeps its CPU for ever.
    ");
    off.written(ConfiguredBy::Sysctl, "kernel.sched_rt_runtime_us", "-1");
    assert_eq!(off.hits(rule)[0].places[0].line, Some(7));
    // Nearly: almost all of it is a limit, too; and where it limits nothing it is not missed.
    assert_eq!(with("999999", "6.1.176").says(rule), [""; 0]);
    assert_eq!(with("1000000", "6.1.176").says(rule).len(), 1);
    assert_eq!(with("-1", "6.12.107").says(rule), [""; 0]);
    assert_eq!(with("1000000", "7.2.1").says(rule), [""; 0]);
    // There the fair server counts.
    let mut server = with("950000", "6.12.107");
    server.setting("/sys/kernel/debug/sched/fair_server/cpu3/runtime", "50000000");
    assert_eq!(server.says(rule), [""; 0]);
    server.setting("/sys/kernel/debug/sched/fair_server/cpu4/runtime", "0");
    assert_eq!(
        server.says(rule),
        ["info The fair server is off on CPU 4: real-time tasks may starve everybody else there."]
    );
}

#[test]
fn throttled_groups() {
    let rule = "throttled-cgroup";
    let with = |periods, throttled| {
        let mut host = healthy();
        host.limit("/system.slice/api.service", periods, throttled);
        host.says(rule)
    };
    insta::assert_snapshot!(with(1000, 400).join("\n"), @"
    warning /system.slice/api.service hit its limit of 0.50 CPUs in 40 % of the periods in which it ran.
    ");
    assert!(with(1000, 50)[0].starts_with("info "));
    assert_eq!(with(10_000, 99), [""; 0], "below 1 %");
    assert_eq!(with(10, 9), [""; 0], "a program's start");
    let mut old = healthy();
    old.kernel("5.3.0-40-generic", "#1 SMP").limit("/system.slice/api.service", 1000, 400);
    assert!(!old.hits(rule)[0].evidence.iter().any(|line| line.contains("expire")), "the level is not known");
    old.kernel("5.3.8", "#1 SMP");
    assert!(old.hits(rule)[0].evidence.iter().any(|line| line.contains("expire")));
}

#[test]
fn interrupts_on_pinned_cpus() {
    let rule = "interrupt-on-pinned-cpu";
    let mut host = healthy();
    host.real_time(900, "stargate", 10, "2-5", 0.9);
    assert_eq!(host.says(rule), [""; 0], "50 interrupts a second on each of its CPUs");
    host.irq(50, "eth1-rx-0", "net/eth1", "3", 3_600_000);
    insta::assert_snapshot!(host.says(rule).join("\n"), @"
    warning A busy interrupt reaches CPUs to which tasks are pinned.
    ");
    // Counts are of the past; it goes elsewhere now.
    host.0.irqs.last_mut().expect("just added").affinity = Some("0".parse().expect("CPUs"));
    assert_eq!(host.says(rule), [""; 0]);
    // irqbalance may move interrupts to them, unless they are isolated.
    host.0.services.as_mut().expect("looked at").running = vec!["irqbalance".into()];
    assert_eq!(host.says(rule).len(), 1);
    host.0.cpus.isolated = Some("2-5".parse().expect("CPUs"));
    assert_eq!(host.says(rule), [""; 0]);
    // A busy normal task that is pinned counts like one.
    let mut normal = healthy();
    normal.irq(50, "eth1-rx-0", "net/eth1", "3", 3_600_000);
    assert_eq!(normal.says(rule), [""; 0]);
    normal.task(700, "poller", "3", "/system.slice").cpu_ticks = Some(300_000);
    assert_eq!(normal.hits(rule).len(), 1);
}

#[test]
fn known_bugs() {
    let rule = "known-bug";
    let with = |release: &str| {
        let mut host = healthy();
        host.kernel(release, "#1 SMP");
        host.group("/kubepods.slice", 100).group("/kubepods.slice/pod1", 100);
        host
    };
    insta::assert_snapshot!(with("6.18.44").says(rule).join("\n"), @"
    warning Wakeups in nested cgroups can starve everybody outside them, kernel workers first.
    ");
    assert_eq!(with("7.2.13").says(rule), [""; 0]);
    // The bug of SCHED_IDLE needs such tasks, the one of pushing needs real-time tasks and the feature.
    let mut idle = with("6.12.20");
    let about_idle = |host: &host::Host| host.hits(rule).iter().any(|hit| hit.subject == "idle-slice");
    assert!(!about_idle(&idle));
    idle.task(800, "scrub", "0-7", "/system.slice").policy = SchedPolicy::Idle;
    assert!(about_idle(&idle));
    let mut push = healthy();
    push.kernel("6.1.176", "#1 SMP").real_time(900, "monitor", 10, "0-7", 0.0);
    assert_eq!(push.hits(rule).len(), 1);
    push.features(&[("RT_PUSH_IPI", false)]);
    assert_eq!(push.says(rule), [""; 0]);
}

#[test]
fn autogroup() {
    let rule = "autogroup";
    let mut host = healthy();
    host.task(800, "backup", "0-7", "/").nice = 19;
    assert_eq!(host.says(rule), [""; 0], "off");
    host.setting("/proc/sys/kernel/sched_autogroup_enabled", "1");
    assert_eq!(host.says(rule), ["info Autogroup is on: the nice of 1 task counts only inside a session."]);
    host.0.tasks.last_mut().expect("just added").cgroup = Some("/system.slice/backup.service".into());
    assert_eq!(host.says(rule), [""; 0], "autogroup acts in the root cgroup alone");
}

#[test]
fn preempt_modes() {
    let rule = "preempt-mode";
    let with = |release: &str, line: &str| {
        let mut host = healthy();
        host.kernel(release, "#1 SMP PREEMPT_DYNAMIC").boots_with(line);
        host
    };
    insta::assert_snapshot!(with("7.2.1", "preempt=none").says(rule).join("\n"), @"
    warning Linux 7.2.1 ignores preempt=none and goes on as it was built.
    ");
    assert_eq!(with("7.2.1", "preempt=full").says(rule), [""; 0]);
    assert_eq!(with("6.12.107", "preempt=none").says(rule), [""; 0]);
    assert_eq!(with("5.10.223", "preempt=none").says(rule).len(), 1, "before 5.12 there is no such parameter");
    assert_eq!(with("6.12.107", "preempt=turbo").says(rule).len(), 1);
    let mut guests = with("7.2.1", "preempt=lazy");
    assert_eq!(guests.says(rule), [""; 0]);
    guests.task(700, "vhost-4711", "0-7", "/machine.slice");
    assert_eq!(guests.hits(rule).len(), 1);
}

#[test]
fn settings_that_do_nothing() {
    let rule = "knob-drift";
    // Debian 12 has 6.1: the granularities are in debugfs.
    let mut host = healthy();
    host.written(ConfiguredBy::Sysctl, "kernel.sched_wakeup_granularity_ns", "15000000");
    insta::assert_snapshot!(host.says(rule).join("\n"), @"
    warning A sysctl file sets sched_wakeup_granularity_ns where Linux 6.1.176 does not have it: it is at /sys/kernel/debug/sched/wakeup_granularity_ns.
    ");
    assert_eq!(host.hits(rule)[0].places[0].file, "/etc/sysctl.d/90-tuning.conf");
    // Nearly: it asks for what is in force; TuneD finds the new place by itself; the line is not the last.
    let mut force = healthy();
    force.written(ConfiguredBy::Sysctl, "kernel.sched_rt_runtime_us", "950000");
    force.written(ConfiguredBy::Tuned, "sched_wakeup_granularity_ns", "15000000");
    assert_eq!(force.says(rule), [""; 0]);
    force.written(ConfiguredBy::Sysctl, "kernel.sched_rt_runtime_us", "-1");
    assert_eq!(force.says(rule), ["info A sysctl file sets sched_rt_runtime_us to -1, but it is 950000."]);
    // A kernel that moved it back is asked, not looked up.
    host.setting("/proc/sys/kernel/sched_wakeup_granularity_ns", "15000000");
    assert_eq!(host.says(rule), [""; 0]);
    // Without a look at the settings nothing is said.
    host.0.settings.clear();
    assert_eq!(host.says(rule), [""; 0]);
}
