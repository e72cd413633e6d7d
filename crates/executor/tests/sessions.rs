//! The nice value of a session (autogroup): planned, set, and taken back, also when who was named has ended.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use unstarve_change::{Change, Place, Target, Thread, Value};
use unstarve_executor::audit::Audit;
use unstarve_executor::authority::Authority;
use unstarve_executor::host::{Host, ThisHost};
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::{ByHand, Extent};
use unstarve_executor::plan::{Ids, Look, plan};
use unstarve_model::Tid;
use unstarve_testing::fake_host::FakeHost;

/// A session of a shell and a `sleep`.
struct Session {
    shell: Child,
    sleep: Tid,
}

fn autogroup(tid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/autogroup")).ok().filter(|text| !text.is_empty())
}

impl Session {
    fn new() -> Option<Session> {
        if !fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0) {
            unstarve_testing::not_possible_here("to raise a session needs root");
            return None;
        }
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", "sleep 60 > /dev/null & echo $!; read line"]);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("setsid");
        let mut line = String::new();
        BufReader::new(shell.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let session = Session { shell, sleep: Tid(line.trim().parse().expect("a number")) };
        if autogroup(session.shell.id()).is_none() {
            unstarve_testing::not_possible_here("this kernel has no autogroups");
            return None;
        }
        fs::write(format!("/proc/{}/autogroup", session.shell.id()), "-8").expect("raised");
        Some(session)
    }

    fn thread(&self) -> Thread {
        let tid = Tid(self.shell.id());
        Thread { start: ThisHost.start_of(tid), ..Thread::known_by(tid, "sh") }
    }

    fn end_shell(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_shell();
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(self.sleep.0 as i32).expect("a number"),
            rustix::process::Signal::KILL,
        );
    }
}

fn to_nice_0(thread: Thread, was: i32) -> Change {
    Change::of(Target::Session(thread), Value::Nice(0)).from(Value::Nice(was))
}

fn steps<L: Look>(look: &L, change: &Change) -> Result<Vec<Step>, String> {
    let planned = plan(look, std::slice::from_ref(change), "test", &Authority::own(Ids::Hold)).remove(0);
    planned.obstacle.map_or(Ok(planned.steps), |obstacle| Err(obstacle.to_string()))
}

#[test]
fn it_is_set_and_taken_back_though_who_was_named_has_ended() {
    let Some(mut session) = Session::new() else { return };
    let before = autogroup(session.sleep.0);
    let mut steps = steps(&ThisHost, &to_nice_0(session.thread(), -8)).expect("steps");
    assert!(matches!(steps[..], [Step { target: Place::Session { .. }, .. }]), "{steps:?}");
    let directory = tempfile::tempdir().expect("a directory");
    let journal = directory.path().join("journal");
    let open = |path: &Path| ByHand::open_file(path, "test").expect("a journal");
    assert_eq!(open(&journal).apply(&mut ThisHost, &mut Audit::none(), &mut steps).expect("applied"), 1);
    assert!(autogroup(session.sleep.0).is_some_and(|text| text.ends_with(" nice 0\n")));
    session.end_shell();
    let taken = open(&journal).undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
    assert_eq!((taken.undone.restored, taken.undone.is_complete()), (1, true), "{taken:?}");
    assert_eq!(autogroup(session.sleep.0), before);
}

#[test]
fn what_somebody_else_has_set_since_is_left() {
    let Some(session) = Session::new() else { return };
    let mut steps = steps(&ThisHost, &to_nice_0(session.thread(), -8)).expect("steps");
    let directory = tempfile::tempdir().expect("a directory");
    let mut hand = ByHand::open_file(&directory.path().join("journal"), "test").expect("a journal");
    hand.apply(&mut ThisHost, &mut Audit::none(), &mut steps).expect("applied");
    ThisHost.write(&steps[0].target, &Value::Nice(5)).expect("written");
    let taken = hand.undo(&mut ThisHost, &mut Audit::none(), Extent::All, |_| true);
    assert_eq!((taken.undone.restored, taken.theirs.len()), (0, 1), "{taken:?}");
    assert!(autogroup(session.sleep.0).is_some_and(|text| text.ends_with(" nice 5\n")));
}

#[test]
fn a_session_that_is_gone_or_is_init_s_is_not_changed() {
    let host = FakeHost::default()
        .program(1, 1, "init")
        .program(7, 1000, "hog")
        .program(8, 1000, "child-of-init")
        .program(9, 1000, "of-none")
        .in_session(1, 3, -8)
        .in_session(8, 3, -8)
        .in_session(7, 57, -8);
    let of = |tid: u32, comm: &str, was| {
        let thread = Thread { start: Some(1000), ..Thread::known_by(Tid(tid), comm) };
        steps(&host, &to_nice_0(thread, was))
    };
    let shown = |step: &Step| format!("{}: {} to {}", step.target, step.old, step.new);
    assert_eq!(
        of(7, "hog", -8).expect("steps").iter().map(shown).collect::<Vec<_>>(),
        ["session autogroup-57: nice -8 to nice 0"]
    );
    assert_eq!(
        of(7, "hog", -3).unwrap_err(),
        "session autogroup-57 was nice -3 when it was recorded, and is nice -8 now: record again"
    );
    assert!(of(8, "child-of-init", -8).unwrap_err().contains("init"), "its session is that of the first process");
    assert_eq!(of(9, "of-none", -8).unwrap_err(), "a session (autogroup) of thread 9 is not here");
    let mut gone = ThisHost;
    let nobody = Place::Session { id: u64::MAX };
    assert!(!gone.is_there(&nobody));
    let error = gone.write(&nobody, &Value::Nice(0)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::SRCH.raw_os_error()));
}
