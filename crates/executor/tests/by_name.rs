//! Remedies that find their thread by its name, and those for the next boot: planned, applied or refused, kept, taken back.

use unstarve_change::{Change, Durable, Form, Selector, Target, Thread, Value, Whose, durable};
use unstarve_executor::audit::Audit;
use unstarve_executor::authority::Authority;
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{ByHand, Extent};
use unstarve_executor::plan::{Ids, Look, Obstacle, Planned, plan};
use unstarve_host::Root;
use unstarve_model::Tid;
use unstarve_testing::fake_host::FakeHost;
use unstarve_testing::host_tree::HostTree;

const SYSCTL: &str = "/proc/sys/kernel/sched_rt_runtime_us";

fn nice(thread: Thread) -> Change {
    Change::of(Target::Thread(thread), Value::Nice(-5))
}

/// A recording without a snapshot knows no more of a thread than this.
fn seen(tid: u32, name: &[u8]) -> Thread {
    Thread::known_by(Tid(tid), name)
}

fn all_steps(plan: &[Planned<'_>]) -> Vec<Step> {
    plan.iter().flat_map(|planned| planned.steps.clone()).collect()
}

fn obstacle(host: &FakeHost, change: Change, ids: Ids) -> Option<String> {
    plan(host, &[change], "test", &Authority::own(ids)).remove(0).obstacle.map(|obstacle| obstacle.to_string())
}

/// Applies and takes back in a journal of its own. `None` where the lock for changes cannot be had.
fn there_and_back(host: &mut FakeHost, changes: &[Change], ids: Ids) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("the lock for changes is root's");
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let before = host.state();
    let mut steps = all_steps(&plan(host, changes, "test", &Authority::own(ids)));
    assert!(!steps.is_empty(), "{changes:?}");
    let mut hand = ByHand::open_file(&directory.path().join("journal"), "test").expect("a journal");
    assert_eq!(hand.apply(host, &mut Audit::none(), &mut steps).expect("applied"), steps.len());
    assert_ne!(host.state(), before);
    assert!(
        all_steps(&plan(host, changes, "test", &Authority::own(ids))).is_empty(),
        "a second plan has nothing to do"
    );
    let taken = hand.undo(host, &mut Audit::none(), Extent::All, |_| true);
    assert!(taken.undone.is_complete() && taken.theirs.is_empty(), "{taken:?}");
    assert_eq!(host.state(), before);
    Some(())
}

#[test]
fn a_thread_of_which_only_the_name_was_recorded_has_to_have_it_still() {
    for (recorded, now) in [
        (&b"loader"[..], "loader"),
        // As the kernel has it, and not as a terminal shows it.
        (b"a\tb", "a\tb"),
        (b"end\n", "end\n"),
        (b"\\*?\"", "\\*?\""),
        (b"\xff!", "\u{fffd}!"),
        // What a worker works on is a part of its name in /proc alone.
        (b"kworker/1:2", "kworker/1:2-dio/sda"),
        (b"kworker/1:2+events", "kworker/1:2-dio/sda"),
    ] {
        let host = FakeHost::default().program(8, 1001, "other");
        let mut host = match now.starts_with("kworker/") {
            true => host.kernel_thread(7, 1000, now),
            false => host.program(7, 1000, now),
        };
        there_and_back(&mut host, &[nice(seen(7, recorded))], Ids::Hold);
        let steps = all_steps(&plan(&host, &[nice(seen(7, recorded))], "test", &Authority::own(Ids::Hold)));
        assert_eq!(steps.len(), 1, "{now:?}");
    }
    let host = FakeHost::default().program(7, 1000, "a\tb");
    for other in [&b"a\\tb"[..], b"a b", b"a", b"kworker/1:2", b"<...>"] {
        let why = obstacle(&host, nice(seen(7, other)), Ids::Hold);
        assert_eq!(why.as_deref(), Some("thread 7 is another one by now"), "{other:?}");
    }
    assert_eq!(obstacle(&host, nice(seen(9, b"a\tb")), Ids::Hold).as_deref(), Some("thread 9 has ended"));
}

#[test]
fn on_another_boot_numbers_mean_nothing_and_names_of_kernel_threads_do() {
    let mut host = FakeHost::default()
        .program(7, 1000, "loader")
        .program(30, 1, "napi/eth0-1")
        .kernel_thread(31, 5, "napi/eth0-3")
        .kernel_thread(32, 6, "napi/eth0-4")
        .kernel_thread(40, 7, "kworker/0:1-events")
        .kernel_thread(41, 8, "kworker/0:1H")
        .kernel_thread(42, 9, "kworker/u8:1")
        .file(SYSCTL, "950000");
    let strange = obstacle(&host, nice(seen(7, b"loader")), Ids::AreStrange).expect("an obstacle");
    assert!(strange.contains("thread 7 is of another host or boot"), "{strange}");
    let process = Change::of(Target::Threads(Selector::Process(seen(7, b"loader"))), Value::Nice(1));
    assert!(obstacle(&host, process, Ids::AreStrange).is_some_and(|why| why.contains("another host or boot")));
    let of_kernel = |selector| Change::of(Target::Threads(selector), Value::Nice(-5));
    let napi = of_kernel(Selector::KernelThreads { prefix: "napi/eth0-".to_owned() });
    let workers = of_kernel(Selector::Workers { cpus: vec![0] });
    let who = |change: &Change| {
        let steps = all_steps(&plan(&host, std::slice::from_ref(change), "test", &Authority::own(Ids::AreStrange)));
        steps.iter().map(|step| step.comm.clone()).collect::<Vec<_>>()
    };
    assert_eq!(who(&napi), ["napi/eth0-3", "napi/eth0-4"], "a program of that name is none of them");
    assert_eq!(who(&workers), ["kworker/0:1-events"]);
    there_and_back(&mut host, &[napi, workers, Change::file(SYSCTL, "900000")], Ids::AreStrange);
    let nobody = of_kernel(Selector::KernelThreads { prefix: "napi/none-".to_owned() });
    assert!(obstacle(&host, nobody, Ids::AreStrange).is_some_and(|why| why.contains("napi/none-*")));
}

fn at_boot(parameter: &str) -> Change {
    Change::at_boot(parameter)
}

fn kept(changes: &[Change], form: Form) -> Result<Vec<Durable>, (String, Vec<Form>)> {
    durable(changes, form, &|_| Whose::default()).map_err(|not| (not.why, not.instead))
}

#[test]
fn a_boot_parameter_is_not_applied_and_says_where_it_belongs() {
    let host = FakeHost::default().file(SYSCTL, "950000");
    let changes = [at_boot("preempt=full"), Change::file(SYSCTL, "900000")];
    let planned = plan(&host, &changes, "test", &Authority::own(Ids::Hold));
    assert!(matches!(planned[0].obstacle, Some(Obstacle::AtBoot)) && planned[0].steps.is_empty());
    let why = planned[0].obstacle.as_ref().map(ToString::to_string).expect("an obstacle");
    assert!(why.contains("read at boot") && why.contains("--as cmdline"), "{why}");
    assert!(planned[1].obstacle.is_none() && planned[1].steps.len() == 1);
    for form in [Form::Systemd, Form::Sysctl, Form::Tmpfiles, Form::Guard] {
        let (why, instead) = kept(&changes[..1], form).expect_err("no parameter of the kernel's");
        assert!(why.contains("the boot parameter preempt=full"), "{why}");
        assert_eq!(instead, [Form::Cmdline, Form::Tuned]);
    }
}

/// Below a root of their own the files are where the host's own tools, and our snapshot, look for them.
#[test]
fn what_is_kept_is_found_again_on_the_next_boot() {
    let changes = [at_boot("preempt=full"), at_boot("isolcpus=2-3")];
    let words = kept(&changes, Form::Cmdline).expect("a command line").remove(0);
    assert_eq!((words.file.as_deref(), words.text.as_str()), (None, "preempt=full isolcpus=2-3\n"));
    let tree = HostTree::new(&[]);
    tree.write("/etc/default/grub", &format!("GRUB_TIMEOUT=1\nGRUB_CMDLINE_LINUX=\"{}\"\n", words.text.trim_end()));
    let sysctl = kept(&[Change::file(SYSCTL, "900000")], Form::Sysctl).expect("a sysctl").remove(0);
    tree.write(sysctl.file.as_deref().expect("a file"), &sysctl.text);
    let found = |tree: &HostTree| -> Vec<String> {
        let snapshot = unstarve_host::take_whole(&Root::at(tree.path()));
        snapshot.configured.iter().map(|one| format!("{} {}={}", one.place(), one.key, one.value)).collect()
    };
    assert_eq!(
        found(&tree),
        [
            "/etc/sysctl.d/60-unstarve.conf:1 kernel.sched_rt_runtime_us=900000",
            "/etc/default/grub:2 preempt=full",
            "/etc/default/grub:2 isolcpus=2-3",
        ]
    );
    // On the next boot it is on the command line that the kernel shows.
    tree.write("/proc/cmdline", &format!("root=/dev/sda1 {}", words.text));
    assert!(found(&tree).contains(&"/proc/cmdline preempt=full".to_owned()), "{:?}", found(&tree));
}

/// Anybody can take a kernel thread's name, and a recording without a snapshot knows no more.
#[test]
fn a_program_under_a_kernel_threads_name_is_not_raised() {
    let host =
        FakeHost::default().kernel_thread(22, 5, "ksoftirqd/1").program(900, 70, "ksoftirqd/1").of_user(900, 65534);
    let raise = |tid| {
        let fifo = Value::Class { policy: unstarve_model::SchedPolicy::Fifo, rt_priority: 11, slice: None };
        Change::of(Target::Thread(seen(tid, b"ksoftirqd/1")), fifo)
    };
    assert_eq!(obstacle(&host, raise(22), Ids::Hold), None);
    let why = obstacle(&host, raise(900), Ids::Hold).expect("refused");
    assert!(why.contains("calls itself ksoftirqd/1"), "{why}");
    // To put it last is another matter: it may well be the hog.
    let low = Change::of(Target::Thread(seen(900, b"ksoftirqd/1")), Value::Nice(19));
    assert_eq!(obstacle(&host, low, Ids::Hold), None);
}

/// A database's name is free to take, too.
#[test]
fn programs_of_several_users_are_not_raised_together() {
    let host = FakeHost::default().program(100, 5, "dbwriter").program(900, 70, "dbwriter").of_user(900, 65534);
    let changes = [nice(seen(100, b"dbwriter")), nice(seen(900, b"dbwriter"))];
    for planned in plan(&host, &changes, "test", &Authority::own(Ids::Hold)) {
        let why = planned.obstacle.map(|obstacle| obstacle.to_string());
        assert!(
            planned.steps.is_empty() && why.as_ref().is_some_and(|why| why.contains("uid 0, uid 65534")),
            "{why:?}"
        );
    }
    assert_eq!(plan(&host, &changes[..1], "test", &Authority::own(Ids::Hold))[0].steps.len(), 1, "one user's alone is");
    let lower = [100, 900].map(|tid| Change::of(Target::Thread(seen(tid, b"dbwriter")), Value::Nice(5)));
    assert_eq!(all_steps(&plan(&host, &lower, "test", &Authority::own(Ids::Hold))).len(), 2, "and all may be lowered");
}

#[test]
fn an_interrupt_is_the_one_that_was_recorded_or_left_alone() {
    let mut host = FakeHost::default()
        .interrupt(24, "eth0-rx-0", "0-3")
        .file("/sys/class/net/eth0/queues/rx-0/rps_cpus", "0")
        .file("/sys/kernel/debug/sched/fair_server/cpu1/runtime", "50000000");
    let cpus = "2-3".parse().expect("CPUs");
    let of = |handlers: &[&str]| Change::of_interrupt(24, &cpus, handlers.iter().map(|name| (*name).to_owned()));
    let rps = Change::file("/sys/class/net/eth0/queues/rx-0/rps_cpus", "3");
    let server = Change::file("/sys/kernel/debug/sched/fair_server/cpu1/runtime", "200000000");
    for (change, thing) in
        [(of(&[]), "interrupt"), (of(&["eth0-rx-0"]), "interrupt"), (rps.clone(), "queue"), (server.clone(), "CPU")]
    {
        let why = obstacle(&host, change, Ids::AreStrange).expect("refused");
        assert!(why.contains("another host or boot") && why.contains(&format!("number of the {thing}")), "{why}");
    }
    let why = obstacle(&host, of(&["nvme0q1"]), Ids::Hold);
    assert_eq!(why.as_deref(), Some("interrupt 24 is another one by now: its handler was nvme0q1, and is eth0-rx-0"));
    let gone = Change::of_interrupt(25, &cpus, ["eth0-rx-1".to_owned()]);
    assert_eq!(obstacle(&host, gone, Ids::Hold).as_deref(), Some("/proc/irq/25/smp_affinity_list is not here"));
    there_and_back(&mut host, &[of(&["eth0-rx-0"]), rps, server], Ids::Hold);
    // A recording without a snapshot knows no handler; on its own boot the number is enough.
    assert_eq!(obstacle(&host, of(&[]), Ids::Hold), None);
}

#[test]
fn the_number_of_an_interrupt_that_is_anothers_by_now_is_not_undone() {
    if !rustix::process::geteuid().is_root() {
        unstarve_testing::not_possible_here("the lock for changes is root's");
        return;
    }
    let cpus = "2-3".parse().expect("CPUs");
    let change = Change::of_interrupt(24, &cpus, ["eth0-rx-0".to_owned()]);
    // The value is in both cases the one that was set.
    for (now, left) in [("nvme0q1", "2-3"), ("eth0-rx-0", "0-3")] {
        let mut host = FakeHost::default().interrupt(24, "eth0-rx-0", "0-3");
        let directory = tempfile::tempdir().expect("a directory");
        let mut steps = all_steps(&plan(&host, std::slice::from_ref(&change), "test", &Authority::own(Ids::Hold)));
        let mut hand = ByHand::open_file(&directory.path().join("journal"), "test").expect("a journal");
        assert_eq!(hand.apply(&mut host, &mut Audit::none(), &mut steps).expect("applied"), 1);
        let mut host = host.interrupt(24, now, "2-3");
        let taken = hand.undo(&mut host, &mut Audit::none(), Extent::All, |_| true);
        assert!(taken.undone.is_complete(), "{taken:?}");
        assert_eq!(host.state(), FakeHost::default().interrupt(24, now, left).state(), "{taken:?}");
    }
}

#[test]
fn the_clamp_of_a_group_is_set_kept_and_taken_back() {
    let path = "/sys/fs/cgroup/maint/cpu.uclamp.min";
    let change = [Change::file(path, "20.00")];
    let mut host = FakeHost::default().file(path, "0.00");
    there_and_back(&mut host, &change, Ids::AreStrange);
    let policy = kept(&change, Form::Guard).expect("a policy").remove(0);
    assert!(policy.text.contains("path = \"/maint\"\nuclamp-min = \"20.00\"\n"), "{}", policy.text);
    let (why, instead) = kept(&change, Form::Systemd).expect_err("no unit has a word for it");
    assert!(why.contains("belongs to no unit") && instead == [Form::Guard], "{why} {instead:?}");
    let lines = unstarve_change::commands(&[change[0].clone().from(Value::content("0.00"))]).expect("commands");
    assert_eq!((lines.apply, lines.undo), (format!("echo 20.00 > {path}"), format!("echo 0.00 > {path}")));
}

#[test]
fn a_partition_that_has_no_effect_is_put_back_as_it_was_written() {
    const PARTITION: &str = "/sys/fs/cgroup/a/cpuset.cpus.partition";
    let mut host = FakeHost::default().file(PARTITION, "root invalid (Cpu list in cpuset.cpus not exclusive)");
    let steps = |host: &FakeHost, to: &str| {
        all_steps(&plan(host, &[Change::file(PARTITION, to)], "test", &Authority::own(Ids::Hold)))
    };
    assert!(steps(&host, "root").is_empty(), "it is set already");
    let mut steps = steps(&host, "member");
    assert_eq!(steps.iter().map(|step| step.old.clone()).collect::<Vec<_>>(), [Value::content("root")]);
    if !rustix::process::geteuid().is_root() {
        return unstarve_testing::not_possible_here("the lock for changes is root's");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut hand = ByHand::open_file(&directory.path().join("journal"), "test").expect("a journal");
    assert_eq!(hand.apply(&mut host, &mut Audit::none(), &mut steps).expect("applied"), 1);
    assert_eq!(host.text(PARTITION).expect("a text"), "member");
    assert!(hand.undo(&mut host, &mut Audit::none(), Extent::All, |_| true).undone.is_complete());
    assert_eq!(host.text(PARTITION).expect("a text"), "root");
}
