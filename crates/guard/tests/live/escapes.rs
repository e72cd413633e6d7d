//! What a raised program could do to keep what it was given: each of these once worked.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use unstarve_executor::sched;
use unstarve_model::{SchedPolicy, Tid};

use crate::child::{Guard, Running, role};
use crate::stage::{Ended, Stage, Stop, eventually};

/// A name that nobody else has; a task's has 15 characters.
fn name(what: &str) -> String {
    format!("{what}{}", std::process::id())
}

fn escape(what: &str, name: &str) -> Result<Running, Stop> {
    Running::start(role("escape").args([what, name]))
}

fn nice_of(process: &Running) -> i32 {
    sched::read(Tid(process.0.id())).map_or(99, |attributes| attributes.nice)
}

fn rule(name: &str, set: &str) -> String {
    format!(
        "[limits]\ndead-man = 2\n[[rule]]\nname = \"r\"\nmatch = {{ comm = \"{name}\", kind = \"user\" }}\nset = {{ {set} }}\n"
    )
}

/// Runs another program, of a name that no rule is about: what the rule set is taken back while the guard goes on.
pub fn by_exec(stage: &Stage) -> Ended {
    for (what, source) in [("exec", ""), ("exec", "netlink"), ("thread-exec", ""), ("thread-exec", "netlink")] {
        let name = name("esc");
        let guard = Guard::start(stage, &stage.policy("p.toml", &rule(&name, "nice = -7"))?, source)?;
        let process = escape(what, &name)?;
        let runs_sleep =
            || std::fs::read_to_string(format!("/proc/{}/comm", process.0.id())).is_ok_and(|comm| comm == "sleep\n");
        assert!(eventually(Duration::from_secs(6), runs_sleep), "{what}");
        let audit = || guard.audit();
        assert!(audit().contains("applied"), "{what} by {source}: it was raised: {}", audit());
        if what == "exec" {
            assert!(eventually(Duration::from_secs(3), || nice_of(&process) == 0), "{what} by {source}: {}", audit());
        }
        let audit = guard.end()?;
        assert_eq!(nice_of(&process), 0, "{what} by {source}: {audit}");
    }
    Ok(())
}

/// Goes down by one from what it was given, which needs no right.
pub fn by_a_step_down(stage: &Stage) -> Ended {
    for drift in ["keep", "yield"] {
        let name = name("stp");
        let set = format!("policy = \"fifo\", rt-priority = 5 }}\non-drift = \"{drift}\"\n# {{");
        let process = escape("step-down", &name)?;
        let guard = Guard::start(stage, &stage.policy("p.toml", &rule(&name, &set))?, "")?;
        let tid = Tid(process.0.id());
        let priority = || sched::read(tid).map_or(0, |attributes| attributes.rt_priority);
        assert!(eventually(Duration::from_secs(3), || priority() > 0), "{}", guard.audit());
        std::thread::sleep(Duration::from_millis(1500));
        let audit = guard.end()?;
        let now = sched::read(tid).map_err(|error| error.to_string())?;
        assert_eq!((now.policy, now.rt_priority), (SchedPolicy::Other, 0), "{drift}: {audit}");
    }
    Ok(())
}

/// Daemons of a program that has ended before anybody looked.
pub fn by_daemons(stage: &Stage) -> Ended {
    for source in ["", "netlink"] {
        let mark = format!("56.{}", std::process::id());
        let name = name("dmn");
        let guard =
            Guard::start(stage, &stage.policy("p.toml", &rule(&name, "nice = -7, reset-on-fork = false"))?, source)?;
        let process = Running::start(role("escape").args(["daemons", &name, &mark]))?;
        // Late with everything, as a busy guard is.
        assert!(eventually(Duration::from_secs(3), || nice_of(&process) == -7), "{}", guard.audit());
        guard.process.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(1200));
        guard.process.signal(Signal::CONT);
        let audit = guard.end()?;
        let daemons = sleepers(&mark);
        let left: Vec<_> =
            daemons.iter().filter(|tid| sched::read(**tid).is_ok_and(|attributes| attributes.nice != 0)).collect();
        for tid in &daemons {
            if let Some(pid) = rustix::process::Pid::from_raw(tid.0 as i32) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        assert!(daemons.len() >= 10, "{daemons:?}");
        // Without the kernel's own notes the one between is not known, if it ended before it was heard of.
        if source.is_empty() {
            assert!(left.is_empty(), "{left:?} of {daemons:?}: {audit}");
        }
    }
    Ok(())
}

fn sleepers(mark: &str) -> Vec<Tid> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let cmdline = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let is_it =
            cmdline.starts_with(b"sleep") && cmdline.split(|&byte| byte == 0).any(|word| word == mark.as_bytes());
        if is_it {
            found.extend(process.file_name().to_str().and_then(|text| text.parse().ok()).map(Tid));
        }
    }
    found
}

/// Children and threads of a raised service of root's that become another user's, as a login's and a job's do.
pub fn as_another_user(stage: &Stage) -> Ended {
    for (source, within) in [("", 1500), ("netlink", 2500), ("scan", 15_000)] {
        let (name, mark) = (name("svc"), format!("58.{}", std::process::id()));
        let text = rule(&name, "nice = -7, reset-on-fork = false").replace("kind =", "uid = 0, kind =");
        let guard = Guard::start(stage, &stage.policy("p.toml", &text)?, source)?;
        let process = Running::start(role("escape").args(["service", &name, &mark]))?;
        let threads = || threads_of(process.0.id());
        let all_there = || threads().len() == 3 && sleepers(&mark).len() == 2 && nice_of(&process) == -7;
        assert!(eventually(Duration::from_secs(8), all_there), "{source}: {}", guard.audit());
        // One thread is of another user, the other one is the service's own; of two programs, one is as well.
        let of_others = || {
            let of_process = threads().into_iter().filter(|tid| is_of_nobody(*tid));
            of_process.chain(sleepers(&mark)).collect::<Vec<_>>()
        };
        assert_eq!(of_others().len(), 3, "{source}");
        let restored = || of_others().iter().all(|tid| sched::read(*tid).is_ok_and(|has| has.nice == 0));
        if !eventually(Duration::from_millis(within), restored) {
            let left: Vec<_> = of_others().iter().map(|tid| (*tid, sched::read(*tid).map(|has| has.nice))).collect();
            return Err(Stop::Fail(format!("{source}: {left:?}: {}", guard.audit())));
        }
        let own: Vec<i32> = threads()
            .into_iter()
            .filter(|tid| !is_of_nobody(*tid))
            .filter_map(|tid| Some(sched::read(tid).ok()?.nice))
            .collect();
        assert_eq!(own, [-7, -7], "{source}: the service and its thread keep it: {}", guard.audit());
        guard.end()?;
        end(sleepers(&mark));
    }
    Ok(())
}

/// With reset-on-fork, which such a rule implies: no child is ever real-time, and a thread of the raised program soon is.
pub fn by_birth(stage: &Stage) -> Ended {
    for (source, within) in [("", 500), ("netlink", 500), ("scan", 15_000)] {
        let (name, mark) = (name("rtp"), format!("59.{}", std::process::id()));
        let text = rule(&name, "policy = \"fifo\", rt-priority = 3");
        let guard = Guard::start(stage, &stage.policy("p.toml", &text)?, source)?;
        let process = Running::start(role("escape").args(["realtime", &name, &mark]))?;
        let tid = Tid(process.0.id());
        let is_fifo = |tid: Tid| sched::read(tid).is_ok_and(|has| has.policy == SchedPolicy::Fifo);
        assert!(eventually(Duration::from_secs(5), || is_fifo(tid)), "{source}: {}", guard.audit());
        assert!(sched::read(tid).is_ok_and(|has| has.reset_on_fork), "{source}: {}", guard.audit());
        // Looked at all the while, as nothing of it may be there for a moment.
        let (mut ever, mut seen) = (Vec::new(), 0);
        let all_there = || {
            let children = sleepers(&mark);
            seen = seen.max(children.len());
            ever.extend(children.into_iter().filter(|tid| is_fifo(*tid)));
            seen >= 5 && threads_of(process.0.id()).len() == 2
        };
        assert!(eventually(Duration::from_secs(8), all_there), "{source}: {}", guard.audit());
        // Netlink does not say that a child waits for its program: until then it has the name of its parent, and the rule is about it.
        assert!(ever.is_empty() || source == "netlink", "{source}: {ever:?}");
        let ordinary = || sleepers(&mark).into_iter().all(|tid| !is_fifo(tid));
        assert!(eventually(Duration::from_millis(within), ordinary), "{source}: {}", guard.audit());
        let raised = || threads_of(process.0.id()).into_iter().all(is_fifo);
        assert!(eventually(Duration::from_millis(within), raised), "{source}: its thread is not: {}", guard.audit());
        let audit = guard.end()?;
        let left: Vec<_> = threads_of(process.0.id()).into_iter().filter_map(|tid| sched::read(tid).ok()).collect();
        assert!(left.iter().all(|has| has.policy == SchedPolicy::Other && !has.reset_on_fork), "{left:?}: {audit}");
        end(sleepers(&mark));
    }
    Ok(())
}

fn threads_of(pid: u32) -> Vec<Tid> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok().map(Tid)).collect()
}

const NOBODY: u32 = 65_534;

fn is_of_nobody(tid: Tid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with(&format!("Uid:\t{NOBODY}\t")))
}

fn end(tids: Vec<Tid>) {
    for pid in tids.into_iter().filter_map(|tid| rustix::process::Pid::from_raw(tid.0 as i32)) {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Nobody reads the log: neither the guard nor its dead-man waits for it.
pub fn by_an_unread_log(stage: &Stage) -> Ended {
    let family = crate::family::Family::start(Duration::from_millis(1), Duration::from_millis(1500))?;
    std::thread::sleep(Duration::from_secs(2));
    let policy = format!(
        "[limits]\ndead-man = 2\n[[rule]]\nname = \"a rule with a long name, so that there is much to write\"\nmatch = {}\n\
         set = {{ nice = -7 }}\n",
        family.selector()
    );
    let policy = stage.policy("p.toml", &policy)?;
    for signal in [Signal::TERM, Signal::KILL] {
        let (mut reader, writer) = std::io::pipe().map_err(|error| error.to_string())?;
        let mut command = role("guard-unread");
        command.arg(&policy).arg(stage.state()).stderr(Stdio::from(writer));
        let mut guard = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(|e| e.to_string())?);
        drop(command);
        let changed = || family.changed().len() > 20;
        assert!(eventually(Duration::from_secs(8), changed), "{} changed", family.changed().len());
        std::thread::sleep(Duration::from_millis(500));
        guard.signal(signal);
        assert!(guard.has_ended(Duration::from_secs(5)), "{signal:?}");
        assert!(
            eventually(Duration::from_secs(5), || family.changed().is_empty()),
            "{signal:?}: {:?}",
            family.changed()
        );
        // Nothing keeps the lock.
        let free = || unstarve_executor::state::holder().is_ok_and(|holder| holder.is_none());
        assert!(eventually(Duration::from_secs(5), free), "{signal:?}");
        let mut text = vec![0; 100];
        let _ = reader.read(&mut text);
    }
    Ok(())
}

/// What the program does.
pub fn be(arguments: &[String]) -> Result<(), String> {
    let (what, name) = (arguments[0].as_str(), arguments[1].as_str());
    let rename = || std::fs::write("/proc/thread-self/comm", name).map_err(|error| error.to_string());
    let own = || sched::read(Tid(0)).map_err(|error| error.to_string());
    let wait_for = |holds: &dyn Fn() -> bool| eventually(Duration::from_secs(5), holds);
    match what {
        "exec" | "thread-exec" => {
            use std::os::unix::process::CommandExt;
            let run = move |name: String| {
                let _ = std::fs::write("/proc/thread-self/comm", name);
                eventually(Duration::from_secs(5), || sched::read(Tid(0)).is_ok_and(|own| own.nice == -7));
                Command::new("sleep").arg("30").exec().to_string()
            };
            let name = name.to_owned();
            if what == "exec" {
                return Err(run(name));
            }
            let ended = std::thread::spawn(move || run(name)).join();
            Err(ended.unwrap_or_default())
        }
        "step-down" => {
            rename()?;
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_secs(20) {
                let now = own()?;
                if now.rt_priority > 3 {
                    let _ = sched::set_class(Tid(0), SchedPolicy::Fifo, now.rt_priority - 1, None);
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        }
        "daemons" => {
            rename()?;
            wait_for(&|| sched::read(Tid(0)).is_ok_and(|own| own.nice == -7));
            // The guard is stopped about now.
            std::thread::sleep(Duration::from_millis(200));
            for _ in 0..10 {
                drop(role("orphan-maker").arg(&arguments[2]).status());
            }
            std::thread::sleep(Duration::from_millis(100));
            Ok(())
        }
        "service" => {
            use std::os::unix::process::CommandExt;
            rename()?;
            wait_for(&|| sched::read(Tid(0)).is_ok_and(|own| own.nice == -7));
            let sleeps = || std::thread::sleep(Duration::from_secs(40));
            let becomes_another = move || {
                // Of this thread alone: the C library's function would take all of them along.
                // SAFETY: a number, and no memory.
                unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
                sleeps();
            };
            let threads = [std::thread::spawn(sleeps), std::thread::spawn(becomes_another)];
            // One by posix_spawn or fork and exec of another user, and one that changes its user first and runs a program then.
            let children = [
                Command::new("sleep").arg(&arguments[2]).uid(NOBODY).spawn(),
                Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", "sleep", &arguments[2]]).spawn(),
            ];
            threads.into_iter().for_each(|thread| drop(thread.join()));
            drop(children);
            Ok(())
        }
        "realtime" => {
            rename()?;
            wait_for(&|| sched::read(Tid(0)).is_ok_and(|own| own.policy == SchedPolicy::Fifo));
            let children: Vec<_> = (0..5).map(|_| Command::new("sleep").arg(&arguments[2]).spawn()).collect();
            let thread = std::thread::spawn(|| std::thread::sleep(Duration::from_secs(40)));
            let _ = thread.join();
            drop(children);
            Ok(())
        }
        other => Err(format!("no escape {other}")),
    }
}
