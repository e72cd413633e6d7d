//! Printed commands, run by `sh -eu` on processes of this machine: they do what they say, and leave nothing behind.

use std::fs;
use std::process::{Child, Command};

use unstarve_change::{Change, Commands, Relative, Selector, Target, Thread, To, Value, commands};
use unstarve_model::{SchedPolicy, Tid};

/// A process that sleeps until the test is over.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(Command::new("sleep").arg("60").spawn().expect("sleep"))
    }

    fn thread(&self) -> Thread {
        let thread = Thread::known_by(Tid(self.0.id()), "x; reboot #");
        Thread { reset_on_fork: Some(false), start: Some(self.created()), ..thread }
    }

    /// The tests themselves may run at another nice than 0.
    fn nice(&self) -> i32 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("stat");
        let field = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().nth(16);
        field.expect("a field").parse().expect("nice")
    }

    /// When it was created, of proc_pid_stat(5).
    fn created(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("stat");
        let field = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().nth(19);
        field.expect("a field").parse().expect("ticks")
    }

    /// Priority, nice, real-time priority and policy of proc_pid_stat(5), and the CPUs.
    fn state(&self) -> String {
        let pid = self.0.id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().collect();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).expect("its CPUs");
        let chrt = Command::new("chrt").args(["-p", &pid.to_string()]).output().expect("chrt");
        format!("{:?} {cpus} {}", [fields[16], fields[37], fields[38]], String::from_utf8_lossy(&chrt.stdout))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sh(line: &str) {
    let output = Command::new("sh").args(["-euc", line]).output().expect("sh");
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}

fn class(policy: SchedPolicy, rt_priority: u32) -> Value {
    Value::Class { policy, rt_priority, slice: None }
}

/// Applies, sees a difference, takes back, sees none.
fn there_and_back(sleeper: &Sleeper, changes: &[Change]) -> Commands {
    let lines = commands(changes).expect("commands");
    let before = sleeper.state();
    sh(&lines.apply);
    assert_ne!(sleeper.state(), before, "{}", lines.apply);
    sh(&lines.undo);
    assert_eq!(sleeper.state(), before, "{}\n{}", lines.apply, lines.undo);
    for line in [&lines.apply, &lines.undo] {
        assert!(!line.contains("reboot") && !line.contains("OLD"), "{line}");
    }
    lines
}

#[test]
fn what_was_recorded_is_put_back_by_plain_commands() {
    if !is_root() {
        unstarve_testing::not_possible_here("real-time policies need root");
        return;
    }
    let sleeper = Sleeper::new();
    let at = || Target::Thread(sleeper.thread());
    let other = class(SchedPolicy::Other, 0);
    let lines = there_and_back(&sleeper, &[Change::of(at(), class(SchedPolicy::Fifo, 1)).from(other.clone())]);
    let tid = sleeper.0.id();
    assert!(lines.apply.starts_with(&format!("for t in {tid}; ")), "{}", lines.apply);
    for (line, command) in [(&lines.apply, "chrt --fifo --pid 1 $t"), (&lines.undo, "chrt --other --pid 0 $t")] {
        assert!(line.contains(command) && line.len() < 220, "{line}");
    }
    let nice = Value::Nice(sleeper.nice());
    there_and_back(&sleeper, &[Change::of(at(), Value::Nice(-5)).from(nice.clone())]);
    there_and_back(
        &sleeper,
        &[Change::of(at(), class(SchedPolicy::Batch, 0)).from(other), Change::of(at(), Value::Nice(7)).from(nice)],
    );
}

#[test]
fn another_thread_of_the_same_number_is_left_alone() {
    let sleeper = Sleeper::new();
    let before = sleeper.state();
    let other = Thread { start: Some(sleeper.created() + 1), ..sleeper.thread() };
    let at = || Target::Thread(other.clone());
    // The old value is known, and not; and a process.
    let known = Change::of(at(), Value::Nice(7)).from(Value::Nice(0));
    let process = Target::Threads(Selector::Process(other.clone()));
    for change in [known, Change::of(at(), Value::Nice(7)), Change::of(process, Value::Nice(7))] {
        let lines = commands(&[change]).expect("commands");
        sh(&lines.apply);
        assert_eq!(sleeper.state(), before, "{}", lines.apply);
        sh(&lines.undo);
        assert_eq!(sleeper.state(), before, "{}", lines.undo);
    }
    // It was this one when the change was made, and has ended since: the number is another's now.
    let lines = commands(&[Change::of(Target::Thread(sleeper.thread()), Value::Nice(7))]).expect("commands");
    sh(&lines.apply);
    let file = lines.undo.split(' ').nth(1).expect("a file").to_owned();
    let text = fs::read_to_string(&file).expect("the undo file");
    let start = sleeper.created().to_string();
    assert!(text.contains(&start), "{text}");
    fs::write(&file, text.replace(&start, "1")).expect("written");
    let now = sleeper.state();
    sh(&lines.undo);
    assert_eq!(sleeper.state(), now, "{text}");
}

#[test]
fn the_cpus_are_those_found_when_it_was_made() {
    let sleeper = Sleeper::new();
    let cpus = |text: &str| Value::Affinity(text.parse().expect("CPUs"));
    let status = fs::read_to_string("/proc/self/status").expect("status");
    if status.contains("Cpus_allowed_list:\t0\n") {
        unstarve_testing::not_possible_here("one CPU");
        return;
    }
    // The recording saw CPU 0; somebody has moved it since.
    let change = Change::of(Target::Thread(sleeper.thread()), cpus("0")).from(cpus("0"));
    there_and_back(&sleeper, &[change]);
}

#[test]
fn what_was_not_recorded_is_written_down_first() {
    if !is_root() {
        unstarve_testing::not_possible_here("real-time policies need root");
        return;
    }
    let (sleeper, second) = (Sleeper::new(), Sleeper::new());
    let at = || Target::Thread(Thread { reset_on_fork: None, ..sleeper.thread() });
    let start = format!("--fifo --pid 3 {}", sleeper.0.id());
    sh(&format!("chrt --reset-on-fork {start}"));
    for to in [
        To::Value(class(SchedPolicy::Other, 0)),
        To::Value(class(SchedPolicy::Rr, 9)),
        To::Value(Value::ResetOnFork(false)),
        To::Value(Value::Nice(-3)),
        To::Value(Value::Affinity("0".parse().expect("a CPU"))),
    ] {
        there_and_back(&sleeper, &[Change { target: at(), to: Some(to), was: None, handlers: Vec::new() }]);
    }
    let process = Target::Threads(Selector::Process(sleeper.thread()));
    there_and_back(&sleeper, &[Change::of(process, class(SchedPolicy::Idle, 0))]);
    // Two threads with different pasts; one has ended before the undo.
    let lines = commands(&[
        Change::of(at(), class(SchedPolicy::Other, 0)),
        Change::of(Target::Thread(second.thread()), class(SchedPolicy::Other, 0)),
    ])
    .expect("commands");
    let before = sleeper.state();
    sh(&lines.apply);
    assert!(!Command::new("sh").args(["-euc", &lines.apply]).output().expect("sh").status.success(), "twice");
    drop(second);
    sh(&lines.undo);
    assert_eq!(sleeper.state(), before);
}

#[test]
fn a_deadline_task_gets_half_of_its_runtime_and_all_of_it_back() {
    let sleeper = Sleeper::new();
    let make = format!(
        "chrt --deadline --sched-runtime 4000000 --sched-deadline 50000000 --sched-period 100000000 --pid 0 {}",
        sleeper.0.id()
    );
    if !is_root() || !Command::new("sh").args(["-euc", &make]).output().expect("sh").status.success() {
        unstarve_testing::not_possible_here("no deadline tasks here");
        return;
    }
    let half = Change::relative(Target::Thread(sleeper.thread()), Relative::RuntimePercent(50));
    let lines = there_and_back(&sleeper, std::slice::from_ref(&half));
    sh(&lines.apply);
    assert!(sleeper.state().contains("2000000/50000000/100000000"), "{}", sleeper.state());
    sh(&lines.undo);
}

#[test]
fn files_are_put_back_and_odd_names_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cpu.max").to_str().expect("UTF-8").to_owned();
    fs::write(&path, "max 100000\n").expect("written");
    let real = "/sys/fs/cgroup/g/cpu.max";
    let known = Change::file(real, "5000 10000").from(Value::content("max 100000"));
    for change in [Change::file(real, "5000 10000"), known] {
        let lines = commands(&[change]).expect("commands");
        sh(&lines.apply.replace(real, &path));
        assert_eq!(fs::read_to_string(&path).expect("read"), "5000 10000\n");
        sh(&lines.undo.replace(real, &path));
        assert_eq!(fs::read_to_string(&path).expect("read"), "max 100000\n");
    }
    // A recording may say anything of where a setting is and what it was.
    for planted in [
        "/sys/kernel/../../home/mallory/m/migration_cost_ns",
        "/etc/cron.d/migration_cost_ns",
        "/home/mallory/m/g/cpu.shares",
        "/sys/fs/cgroup/../../home/mallory/cpu.shares",
    ] {
        let change = Change::file(planted, "1").from(Value::content("* * * * * root sh /home/mallory/x"));
        assert_eq!(commands(&[change]), None, "{planted}");
        assert_eq!(commands(&[Change::file(planted, "1")]), None, "{planted}");
    }
    for odd in ["/sys/fs/cgroup/it's/cpu.max", "/sys/fs/cgroup/\u{202e}x/cpu.max", "/sys/fs/cgroup/a\nb/cpu.max"] {
        assert_eq!(commands(&[Change::file(odd, "1")]), None, "{odd:?}");
    }
}

#[test]
fn the_weight_of_a_group_that_was_not_recorded() {
    let root = if fs::metadata("/sys/fs/cgroup/cpu/cpu.shares").is_ok() {
        ("/sys/fs/cgroup/cpu", "cpu.shares", "1024")
    } else if fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control").is_ok_and(|text| text.contains("cpu ")) {
        ("/sys/fs/cgroup", "cpu.weight", "100")
    } else {
        unstarve_testing::not_possible_here("no cgroup hierarchy with the CPU controller at its usual place");
        return;
    };
    let group = format!("{}/unstarve-{}", root.0, std::process::id());
    if !is_root() || fs::create_dir(&group).is_err() {
        unstarve_testing::not_possible_here("a cgroup cannot be made here");
        return;
    }
    let sleeper = Sleeper::new();
    let weight = || fs::read_to_string(format!("{group}/{}", root.1)).expect("its weight").trim().to_owned();
    fs::write(format!("{group}/cgroup.procs"), sleeper.0.id().to_string()).expect("moved");
    fs::write(format!("{group}/{}", root.1), "5000").expect("set");
    let lines = commands(&[Change::relative(Target::GroupWeightOf(sleeper.thread()), Relative::WeightAtMost(100))]);
    let lines = lines.expect("commands");
    sh(&lines.apply);
    let lowered = weight();
    sh(&lines.undo);
    let restored = weight();
    drop(sleeper);
    let _ = fs::remove_dir(&group);
    assert_eq!((lowered.as_str(), restored.as_str()), (root.2, "5000"), "{}", lines.apply);
}

#[test]
fn the_nice_value_of_a_session() {
    let child = Command::new("setsid").args(["sleep", "60"]).spawn().expect("setsid");
    let sleeper = Sleeper(child);
    let file = format!("/proc/{}/autogroup", sleeper.0.id());
    let session = || fs::read_to_string(&file).unwrap_or_default();
    let began = std::time::Instant::now();
    while fs::read_to_string(format!("/proc/{}/comm", sleeper.0.id())).is_ok_and(|comm| comm != "sleep\n")
        && began.elapsed() < std::time::Duration::from_secs(60)
    {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    if !is_root() || session().is_empty() {
        unstarve_testing::not_possible_here("to raise a session needs root and a kernel with autogroups");
        return;
    }
    fs::write(&file, "-8").expect("raised");
    let before = session();
    assert!(before.ends_with(" nice -8\n"), "{before}");
    let change = Change::of(Target::Session(sleeper.thread()), Value::Nice(0));
    let another = Thread { start: Some(sleeper.created() + 1), ..sleeper.thread() };
    let of_another = Change { target: Target::Session(another), ..change.clone() };
    for was in [Some(Value::Nice(-8)), None] {
        let lines = commands(&[of_another.clone().from(was.clone())]).expect("commands");
        sh(&lines.apply);
        assert_eq!(session(), before, "{}", lines.apply);
        sh(&lines.undo);
        let lines = commands(&[change.clone().from(was)]).expect("commands");
        sh(&lines.apply);
        assert_eq!(session(), before.replace("nice -8", "nice 0"), "{}", lines.apply);
        sh(&lines.undo);
        assert_eq!(session(), before, "{}", lines.undo);
    }
}

#[test]
fn a_thread_that_is_known_by_its_name_alone_has_to_have_it_still() {
    let sleeper = Sleeper::new();
    let tid = Tid(sleeper.0.id());
    let before = sleeper.state();
    let nice = |target: fn(Thread) -> Target, name: &[u8]| {
        commands(&[Change::of(target(Thread::known_by(tid, name)), Value::Nice(7))])
    };
    let one: fn(Thread) -> Target = Target::Thread;
    let process: fn(Thread) -> Target = |thread| Target::Threads(Selector::Process(thread));
    for target in [one, process] {
        for stranger in [&b"other"[..], b"slee", b"sleep ", b"sleep\n", b"x; reboot #", b"$(reboot)", b"*", b"\xff"] {
            let lines = nice(target, stranger).expect("commands");
            sh(&lines.apply);
            assert_eq!(sleeper.state(), before, "{stranger:?}: {}", lines.apply);
            sh(&lines.undo);
            assert!(!lines.apply.contains("reboot"), "{}", lines.apply);
        }
        let lines = nice(target, b"sleep").expect("commands");
        sh(&lines.apply);
        assert_ne!(sleeper.state(), before, "{}", lines.apply);
        sh(&lines.undo);
        assert_eq!(sleeper.state(), before, "{}", lines.undo);
        // A recorder that did not know the name says nothing by which to find the thread.
        assert_eq!(nice(target, b"<...>"), None);
    }
    let weight = |name: &str| {
        let target = Target::GroupWeightOf(Thread::known_by(tid, name));
        commands(&[Change::relative(target, Relative::WeightAtMost(100))]).expect("commands").apply
    };
    assert!(weight("sleep").contains(":?*@736c6565700a)"), "{}", weight("sleep"));
    // A name of 15 bytes may go on in /proc.
    assert!(weight("jbd2/nvme0n1p1-").contains("@6a6264322f6e766d65306e3170312d*)"), "{}", weight("jbd2/nvme0n1p1-"));
    let cut = Thread::known_by(tid, "jbd2/nvme0n1p1-");
    assert!(cut.is_called("jbd2/nvme0n1p1-8") && cut.is_called("jbd2/nvme0n1p1-") && !cut.is_called("jbd2/nvme0n1p1"));
    assert!(!Thread::known_by(tid, "jbd2/sda1").is_called("jbd2/sda1-8"));
    // What a worker works on is a part of its name in /proc alone, and changes.
    let worker = weight("kworker/1:2+events");
    assert!(worker.contains("@6b776f726b65722f313a320a|") && worker.contains("@6b776f726b65722f313a322d*"), "{worker}");
}

#[test]
fn a_file_that_the_kernel_says_is_busy_is_tried_again() {
    let path = "/sys/kernel/debug/sched/fair_server/cpu0/runtime";
    let known = Change::file(path, "200000000").from(Value::content("50000000"));
    for change in [known, Change::file(path, "200000000")] {
        let directory = tempfile::tempdir().expect("a directory");
        let lines = commands(&[change]).expect("commands");
        // A directory that is not there yet refuses as well as a busy file.
        let place = directory.path().join("cpu0");
        let here =
            |line: &str| line.replace("/sys/kernel/debug/sched/fair_server/cpu0", place.to_str().expect("UTF-8"));
        let file = place.join("runtime");
        let holds = || fs::read_to_string(&file).expect("read").trim().to_owned();
        fs::create_dir(&place).expect("made");
        fs::write(&file, "50000000\n").expect("written");
        sh(&here(&lines.apply));
        assert_eq!(holds(), "200000000", "{}", lines.apply);
        let line = here(&lines.undo);
        let hidden = directory.path().join("hidden");
        if lines.undo.starts_with('(') {
            fs::rename(&place, &hidden).expect("hidden");
        }
        let child = Command::new("sh").args(["-euc", &line]).stderr(std::process::Stdio::null()).spawn();
        std::thread::sleep(std::time::Duration::from_millis(300));
        if hidden.exists() {
            fs::rename(&hidden, &place).expect("shown");
        }
        assert!(child.expect("sh").wait().expect("ended").success(), "{line}");
        assert_eq!(holds(), "50000000", "{line}");
    }
    // It gives up, with an error.
    let known = Change::file(path, "200000000").from(Value::content("50000000"));
    let lines = commands(&[known]).expect("commands");
    let line = lines.apply.replace("/sys/kernel/debug/sched", "/nowhere").replace("sleep 1", "sleep 0");
    assert!(!Command::new("sh").args(["-euc", &line]).output().expect("sh").status.success(), "{line}");
}

#[test]
fn an_interrupt_of_another_handler_is_left_alone() {
    let cpus = "2-3".parse().expect("CPUs");
    let change = Change::of_interrupt(24, &cpus, ["eth0 rx".to_owned()]);
    for change in [change.clone(), change.from(Value::content("0-3"))] {
        let lines = commands(&[change]).expect("commands");
        let directory = tempfile::tempdir().expect("a directory");
        let base = directory.path().to_str().expect("UTF-8").to_owned();
        let here = |line: &str| line.replace("/proc/irq", &base);
        let file = directory.path().join("24/smp_affinity_list");
        let holds = || fs::read_to_string(&file).expect("read").trim().to_owned();
        fs::create_dir_all(directory.path().join("24/nvme0q1")).expect("made");
        fs::write(&file, "0-3\n").expect("written");
        sh(&here(&lines.apply));
        assert_eq!(holds(), "0-3", "{}", lines.apply);
        sh(&here(&lines.undo));
        fs::create_dir_all(directory.path().join("24/eth0 rx")).expect("made");
        sh(&here(&lines.apply));
        assert_eq!(holds(), "2-3", "{}", lines.apply);
        sh(&here(&lines.undo));
        assert_eq!(holds(), "0-3", "{}", lines.undo);
    }
    assert_eq!(commands(&[Change::of_interrupt(24, &"1".parse().expect("a CPU"), ["it's".to_owned()])]), None);
}

/// What a recording claims of a thread is compared by the printed command itself, wherever it runs.
#[test]
fn what_the_recording_claims_is_compared_by_the_command_itself() {
    if !is_root() {
        unstarve_testing::not_possible_here("real-time policies need root");
        return;
    }
    let sleeper = Sleeper::new();
    let before = sleeper.state();
    let (fifo, other) = (class(SchedPolicy::Fifo, 3), class(SchedPolicy::Other, 0));
    let thread = |is_kernel, user| Thread { kernel_thread: is_kernel, user, ..sleeper.thread() };
    let by_name = |name: &str| Thread { start: None, ..Thread::known_by(Tid(sleeper.0.id()), name) };
    let nice = |nice| (Value::Nice(nice), Value::Nice(sleeper.nice()));
    for (thread, (to, was), is_agreed) in [
        (thread(Some(true), None), (fifo.clone(), other.clone()), false),
        (thread(Some(true), None), nice(7), false),
        (thread(Some(false), Some(0)), (fifo.clone(), other.clone()), true),
        (thread(Some(false), Some(65534)), (fifo.clone(), other.clone()), false),
        // Anybody's may be put last.
        (thread(Some(false), Some(65534)), nice(7), true),
        (thread(None, None), (fifo.clone(), other.clone()), true),
        (Thread { comm: "ksoftirqd/1".to_owned(), ..thread(None, None) }, (fifo.clone(), other.clone()), false),
        (by_name("sleep"), (fifo.clone(), other.clone()), true),
        (Thread { kernel_thread: Some(true), ..by_name("sleep") }, (fifo.clone(), other.clone()), false),
        (Thread { user: Some(65534), ..by_name("sleep") }, (fifo.clone(), other.clone()), false),
    ] {
        let process = Target::Threads(Selector::Process(thread.clone()));
        let one = || Change::of(Target::Thread(thread.clone()), to.clone());
        for change in [one().from(was.clone()), one(), Change::of(process, to.clone())] {
            let lines = commands(&[change]).expect("commands");
            sh(&lines.apply);
            assert_eq!(sleeper.state() != before, is_agreed, "{thread:?} {to}: {}", lines.apply);
            sh(&lines.undo);
            assert_eq!(sleeper.state(), before, "{thread:?}: {}", lines.undo);
        }
    }
}

/// Otherwise the undo would give what the recording says and nobody had.
#[test]
fn what_only_root_can_have_given_has_to_be_there_before_it_is_changed() {
    if !is_root() {
        unstarve_testing::not_possible_here("real-time policies need root");
        return;
    }
    let sleeper = Sleeper::new();
    let before = sleeper.state();
    let at = || Target::Thread(sleeper.thread());
    for (to, was) in [
        (class(SchedPolicy::Batch, 0), class(SchedPolicy::Fifo, 98)),
        (Value::Nice(7), Value::Nice(sleeper.nice() - 21)),
    ] {
        let lines = commands(&[Change::of(at(), to).from(was)]).expect("commands");
        let output = Command::new("sh").args(["-euc", &lines.apply]).output().expect("sh");
        assert!(String::from_utf8_lossy(&output.stderr).contains("is not as it was recorded"), "{}", lines.apply);
        assert_eq!(sleeper.state(), before, "{}", lines.apply);
    }
    sh(&format!("chrt --rr --pid 4 {}", sleeper.0.id()));
    there_and_back(&sleeper, &[Change::of(at(), class(SchedPolicy::Other, 0)).from(class(SchedPolicy::Rr, 4))]);
}

#[test]
fn programs_of_several_users_are_not_raised_by_one_command() {
    let thread = |tid: u32, user| Thread { start: Some(1), user, ..Thread::known_by(Tid(tid), "db") };
    let to = |nice: i32, users: [Option<u32>; 2]| {
        let change = |(tid, user)| Change::of(Target::Thread(thread(tid, user)), Value::Nice(nice));
        commands(&[change((7, users[0])), change((8, users[1]))])
    };
    assert_eq!(to(-5, [Some(1), Some(2)]), None);
    assert!(to(-5, [Some(1), Some(1)]).is_some() && to(5, [Some(1), Some(2)]).is_some());
}
