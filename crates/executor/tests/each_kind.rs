//! Each kind of target on this machine: planned, made, taken back; and the same by processes that are killed in the middle.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use unstarve_change::{Change, FeatureState, Relative, Selector, Target, Thread, Value};
use unstarve_executor::audit::Audit;
use unstarve_executor::authority::Authority;
use unstarve_executor::host::ThisHost;
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{ByHand, Extent};
use unstarve_executor::plan::{Ids, Look, Obstacle, plan};
use unstarve_model::{SchedPolicy, Tid};

/// Both tests that change something change the same sysctl.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const SYSCTL: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// A process with its cgroup, and all that is changed of them.
struct Stage {
    child: Child,
    /// In the group. The first is in none: real-time is refused in groups without a share of it.
    grouped: Child,
    group: Option<PathBuf>,
    /// Of the newer hierarchy, without anybody in it.
    new_group: Option<PathBuf>,
    /// A deadline task.
    deadline: Option<Child>,
    /// An interrupt that may be moved.
    interrupt: Option<u32>,
    directory: tempfile::TempDir,
}

fn seen(child: &Child) -> Thread {
    let tid = Tid(child.id());
    Thread { start: ThisHost.start_of(tid), ..Thread::known_by(tid, "sleep") }
}

/// One of several CPUs, which takes the value that it has: some are managed by the kernel and refuse any.
fn interrupt() -> Option<u32> {
    let numbers = fs::read_dir("/proc/irq").ok()?.flatten();
    let mut numbers: Vec<u32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().find(|irq| {
        let file = cpus_of(*irq);
        let now = fs::read_to_string(&file).unwrap_or_default();
        now.starts_with("0-") && fs::write(&file, now.trim()).is_ok()
    })
}

fn cpus_of(irq: u32) -> String {
    format!("/proc/irq/{irq}/smp_affinity_list")
}

/// A group with `cpu.weight`, where the newer hierarchy has the CPU controller.
fn new_group(name: &str) -> Option<PathBuf> {
    let groups = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| Path::new(mount).join(name));
    groups.into_iter().find(|group| {
        let is_one = fs::create_dir(group).is_ok();
        let has_weight = group.join("cpu.weight").exists();
        if is_one && !has_weight {
            let _ = fs::remove_dir(group);
        }
        is_one && has_weight
    })
}

fn deadline() -> Option<Child> {
    let mut child = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("sleep");
    let times = ["--sched-runtime", "4000000", "--sched-deadline", "50000000", "--sched-period", "100000000"];
    let chrt =
        Command::new("chrt").arg("--deadline").args(times).args(["--pid", "0", &child.id().to_string()]).output();
    if chrt.is_ok_and(|output| output.status.success()) {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

fn kernel_thread() -> Option<Thread> {
    let tid = ThisHost.kernel_threads("kswapd").into_iter().next()?;
    Some(Thread { start: ThisHost.start_of(tid), ..Thread::known_by(tid, ThisHost.comm_of(tid)?) })
}

fn nice_of(tid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).expect("stat");
    stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().nth(16).expect("nice").to_owned()
}

impl Stage {
    fn new() -> Option<Stage> {
        if !fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0) {
            unstarve_testing::not_possible_here("changes need root");
            return None;
        }
        let sleep = || Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().expect("sleep");
        let (child, grouped) = (sleep(), sleep());
        let name = format!("unstarve-{}-{}", std::process::id(), child.id());
        let group = Path::new("/sys/fs/cgroup/cpu").join(&name);
        let group = fs::create_dir(&group).is_ok().then_some(group);
        if let Some(group) = &group {
            fs::write(group.join("cgroup.procs"), grouped.id().to_string()).expect("moved");
            fs::write(group.join("cpu.shares"), "5000").expect("set");
        }
        let (new_group, deadline, interrupt) = (new_group(&name), deadline(), interrupt());
        let is_here = [
            (group.is_some(), "a group of the older hierarchy with the CPU controller"),
            (new_group.is_some(), "a group of the newer hierarchy with the CPU controller"),
            (deadline.is_some(), "a deadline task"),
            (interrupt.is_some(), "an interrupt that may be moved"),
            (kernel_thread().is_some(), "a kernel thread kswapd0"),
        ];
        is_here.iter().filter(|(is_here, _)| !is_here).for_each(|(_, what)| {
            unstarve_testing::not_possible_here(format!("{what} is not here"));
        });
        let directory = tempfile::tempdir().expect("a directory");
        Some(Stage { child, grouped, group, new_group, deadline, interrupt, directory })
    }

    fn thread(&self) -> Thread {
        seen(&self.child)
    }

    fn changes(&self) -> Vec<Change> {
        let at = || Target::Thread(self.thread());
        let class = |policy, rt_priority| Value::Class { policy, rt_priority, slice: None };
        let mut changes = vec![
            Change::of(at(), class(SchedPolicy::Fifo, 3)),
            Change::of(at(), Value::Nice(-4)),
            Change::of(at(), Value::Affinity("0".parse().expect("a CPU"))),
            Change::of(at(), Value::ResetOnFork(true)),
            Change::file(SYSCTL, "90"),
        ];
        if self.group.is_some() {
            changes.push(Change::relative(Target::GroupWeightOf(seen(&self.grouped)), Relative::WeightAtMost(100)));
        }
        changes.push(Change::of(Target::Threads(Selector::Process(seen(&self.grouped))), Value::Nice(7)));
        changes.push(Change::of(Target::Thread(seen(&self.grouped)), Value::TimerSlack(1_000_000)));
        if let Some(group) = &self.new_group {
            changes.push(Change::file(group.join("cpu.weight").to_str().expect("UTF-8"), "50"));
        }
        if let Some(child) = &self.deadline {
            changes.push(Change::relative(Target::Thread(seen(child)), Relative::RuntimePercent(50)));
        }
        if let Some(irq) = self.interrupt {
            let handlers = ThisHost.handlers_of(irq).expect("it is there");
            changes.push(Change::of_interrupt(irq, &"0".parse().expect("a CPU"), handlers));
        }
        if let Some(thread) = kernel_thread() {
            changes.push(Change::of(Target::Thread(thread), Value::Nice(-1)));
        }
        let feature = Change::feature("NEXT_BUDDY", FeatureState::On);
        if ThisHost.file("/sys/kernel/debug/sched/features").is_some() {
            changes.push(feature);
        }
        changes
    }

    /// As the system's tools show it.
    fn state(&self) -> String {
        let pid = self.child.id().to_string();
        let chrt = Command::new("chrt").args(["-p", &pid]).output().expect("chrt");
        let taskset = Command::new("taskset").args(["-p", &pid]).output().expect("taskset");
        let tids = [Some(self.child.id()), Some(self.grouped.id()), kernel_thread().map(|thread| thread.tid.0)];
        let nice: Vec<String> = tids.into_iter().flatten().map(nice_of).collect();
        let deadline = self.deadline.as_ref().map(|child| {
            let shown = Command::new("chrt").args(["-p", &child.id().to_string()]).output().expect("chrt");
            String::from_utf8_lossy(&shown.stdout).into_owned()
        });
        let text = |file: Option<PathBuf>| file.map(|file| fs::read_to_string(file).expect("a value"));
        let cpus = text(self.interrupt.map(|irq| cpus_of(irq).into()));
        let weight = text(self.new_group.as_ref().map(|group| group.join("cpu.weight")));
        let shares = self.group.as_ref().map(|group| fs::read_to_string(group.join("cpu.shares")).expect("shares"));
        let [chrt, taskset] = [chrt, taskset].map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let slack = fs::read_to_string(format!("/proc/{}/timerslack_ns", self.grouped.id())).expect("timer slack");
        format!(
            "{chrt}{taskset}nice {nice:?} slack {slack:?} {shares:?} {:?} interrupt {cpus:?} weight {weight:?} {deadline:?}",
            fs::read_to_string(SYSCTL).ok()
        )
    }

    fn steps(&self) -> Vec<Step> {
        let changes = self.changes();
        let planned = plan(&ThisHost, &changes, "test", &Authority::own(Ids::Hold));
        planned.into_iter().flat_map(|planned| planned.steps).collect()
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("journal")
    }

    fn undo(&self) -> usize {
        let mut hand = ByHand::open_file(&self.journal(), "test").expect("a journal");
        let taken = hand.undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
        assert!(taken.undone.is_complete() && taken.theirs.is_empty(), "{taken:?}");
        taken.undone.restored
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A test that failed in between leaves this machine as it was, too.
        if let Ok(mut hand) = ByHand::open_file(&self.journal(), "test") {
            let _ = hand.undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
        }
        for child in [&mut self.child, &mut self.grouped].into_iter().chain(&mut self.deadline) {
            let _ = child.kill();
            let _ = child.wait();
        }
        for group in self.group.iter().chain(&self.new_group) {
            let _ = fs::remove_dir(group);
        }
    }
}

#[test]
fn each_kind_of_target_is_made_and_taken_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stage) = Stage::new() else { return };
    let before = stage.state();
    let mut steps = stage.steps();
    assert!(steps.len() >= 5, "{steps:?}");
    let mut hand = ByHand::open_file(&stage.journal(), "test").expect("a journal");
    let done = hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps);
    drop(hand);
    // The features file cannot be written where the kernel is locked down; then nothing is.
    let done = done.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(done, steps.len());
    let after = stage.state();
    let here = [
        (true, "SCHED_FIFO"),
        (true, "RESET_ON_FORK"),
        (true, "affinity mask: 1"),
        (true, "\"90"),
        (true, "nice [\"-4\", \"7\""),
        (kernel_thread().is_some(), ", \"-1\"]"),
        (stage.interrupt.is_some(), "interrupt Some(\"0\\n\")"),
        (stage.new_group.is_some(), "weight Some(\"50\\n\")"),
        (stage.deadline.is_some(), "2000000/50000000/100000000"),
    ];
    for (_, part) in here.iter().filter(|(is_here, _)| *is_here) {
        assert!(after.contains(part), "{part}: {after}");
    }
    // What depends on what is there (half of a runtime) is another change each time.
    let again =
        stage.steps().into_iter().filter(|step| !matches!(step.new, Value::Deadline { .. })).collect::<Vec<_>>();
    assert!(again.is_empty(), "a second plan has nothing to do: {again:?}");
    assert_eq!(stage.undo(), done);
    assert_eq!(stage.state(), before);
}

/// The name of the variable that makes this program the child: where its journal is, and the process that it changes.
const CHILD: &str = "UNSTARVE_EXECUTOR_CHILD";

/// Not a test: what the child of the next one does.
#[test]
fn a_child_that_changes_things() {
    let Ok(text) = std::env::var(CHILD) else { return };
    let (journal, steps) = text.split_once('\n').expect("a journal and steps");
    let mut steps: Vec<Step> = serde_json::from_str(steps).expect("steps");
    loop {
        let Ok(mut hand) = ByHand::open_file(Path::new(journal), "test") else { continue };
        hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps).expect("applied");
        hand.undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
    }
}

#[test]
fn a_process_that_is_killed_leaves_nothing_that_cannot_be_taken_back() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(stage) = Stage::new() else { return };
    let before = stage.state();
    let text = format!("{}\n{}", stage.journal().display(), serde_json::to_string(&stage.steps()).expect("JSON"));
    let (mut changed, mut round) = (0, 0_u64);
    // On a busy machine few kills come while something is changed.
    while round < 40 || changed == 0 && round < 1_000 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "each_kind::a_child_that_changes_things"])
            .env(CHILD, &text)
            .stdout(Stdio::null())
            .spawn()
            .expect("a child");
        let (began, length) = (Instant::now(), || fs::metadata(stage.journal()).map_or(0, |meta| meta.len()));
        let first = length();
        while length() == first && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(round * 733 % 5_000));
        child.kill().expect("killed");
        child.wait().expect("ended");
        changed += u32::from(stage.state() != before);
        stage.undo();
        assert_eq!(stage.state(), before, "round {round}");
        round += 1;
    }
    println!("something was changed at {changed} of {round} kills");
    assert!(changed > 0, "no kill came in between");
}

#[test]
fn what_stands_in_the_way_is_said() {
    let Some(stage) = Stage::new() else { return };
    let obstacle = |change: Change, ids| {
        let changes = [change];
        let planned = plan(&ThisHost, &changes, "test", &Authority::own(ids));
        planned.into_iter().next().and_then(|planned| planned.obstacle)
    };
    let nice = |thread| Change::of(Target::Thread(thread), Value::Nice(-1));
    let thread = stage.thread();
    assert!(obstacle(nice(thread.clone()), Ids::Hold).is_none());
    assert!(matches!(obstacle(nice(thread.clone()), Ids::AreStrange), Some(Obstacle::Strange(_))));
    let other = Thread { start: thread.start.map(|start| start + 1), ..thread.clone() };
    assert!(matches!(obstacle(nice(other), Ids::Hold), Some(Obstacle::Another(_))));
    let renamed = Thread { start: None, comm: "other".to_owned(), ..thread.clone() };
    assert!(matches!(obstacle(nice(renamed), Ids::Hold), Some(Obstacle::Another(_))));
    let init = Thread { start: ThisHost.start_of(Tid(1)), ..Thread::known_by(Tid(1), "x") };
    assert!(matches!(obstacle(nice(init), Ids::Hold), Some(Obstacle::Init(_))));
    let stopper = ThisHost.kernel_threads("migration/").first().copied().expect("a stopper");
    let stopper = Thread { start: ThisHost.start_of(stopper), ..Thread::known_by(stopper, "migration/0") };
    assert!(matches!(obstacle(nice(stopper), Ids::Hold), Some(Obstacle::Untouchable(..))));
    let bound = ThisHost.kernel_threads("ksoftirqd/").first().copied().expect("ksoftirqd");
    let bound = Thread { start: ThisHost.start_of(bound), ..Thread::known_by(bound, "ksoftirqd/0") };
    let moved = Change::of(Target::Thread(bound), Value::Affinity("0".parse().expect("a CPU")));
    assert!(matches!(obstacle(moved, Ids::Hold), Some(Obstacle::Bound(_))));
    for (path, value) in [("/etc/passwd", "x"), ("/proc/sys/kernel/core_pattern", "|x"), ("/proc/sys/kernel/../x", "1")]
    {
        assert!(matches!(obstacle(Change::file(path, value), Ids::Hold), Some(Obstacle::NoSetting(_))), "{path}");
    }
    let runtime = "/proc/sys/kernel/sched_rt_runtime_us";
    assert!(matches!(obstacle(Change::file(runtime, "0"), Ids::Hold), Some(Obstacle::Harm { .. })));
    assert!(matches!(obstacle(Change::file(SYSCTL, "1\n2"), Ids::Hold), Some(Obstacle::Unfit(_))));
    assert!(matches!(obstacle(Change::advice(), Ids::Hold), Some(Obstacle::ForAPerson)));
    let nobody = Target::Threads(Selector::KernelThreads { prefix: "napi/none-".to_owned() });
    assert!(matches!(obstacle(Change::of(nobody, Value::Nice(1)), Ids::Hold), Some(Obstacle::NotHere { .. })));
}

/// The name of the variable that makes this program the process whose second thread becomes another program.
const EXECS: &str = "UNSTARVE_EXECUTOR_EXECS";

/// Not a test: what the process of the next one does.
#[test]
fn a_second_thread_that_calls_execve() {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(EXECS).is_none() {
        return;
    }
    let worker = std::thread::spawn(|| {
        let _ = rustix::thread::set_name(c"executes");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).expect("a line");
        Command::new("sleep").arg("60").exec()
    });
    panic!("{:?}", worker.join());
}

/// It becomes the first thread of its process, with what it was given, and its own id is gone.
#[test]
fn what_a_thread_took_into_another_program_is_taken_back() {
    use std::io::Write;
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "each_kind::a_second_thread_that_calls_execve", "--nocapture"])
        .env(EXECS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a child");
    let process = child.id();
    let named = |name: &str| {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let mut tids = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
        tids.find(|tid| fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|comm| comm.trim() == name))
    };
    let until = |name: &str| {
        let began = Instant::now();
        loop {
            if let Some(tid) = named(name) {
                break tid;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{name} does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let tid = until("executes");
    let changes = [Change::of(Target::Thread(Thread::known_by(Tid(tid), "executes")), Value::Nice(-7))];
    let mut steps: Vec<Step> =
        plan(&ThisHost, &changes, "test", &Authority::own(Ids::Hold)).into_iter().flat_map(|plan| plan.steps).collect();
    let journal = directory.path().join("journal");
    let mut hand = ByHand::open_file(&journal, "test").expect("a journal");
    assert_eq!(hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps).expect("applied"), 1);
    writeln!(child.stdin.take().expect("a pipe"), "go").expect("written");
    assert_eq!(until("sleep"), process);
    let nice = || rustix::process::getpriority_process(rustix::process::Pid::from_raw(process as i32)).expect("a nice");
    assert_eq!(nice(), -7, "the program has it");
    // Another process reads what this one has written.
    drop(hand);
    let mut hand = ByHand::open_file(&journal, "test").expect("a journal");
    hand.undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
    let after = nice();
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(after, 0);
}
