//! State directories that are full, removed, somebody else's, or not what they seem.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::state::{State, StateError};

use crate::child::{Guard, Running, role};
use crate::deaths::everything;
use crate::sleepers::Sleepers;
use crate::stage::{Ended, Stage, Stop, eventually};

/// A small file system in memory, which is unmounted whatever happens.
struct Small(PathBuf);

impl Small {
    fn mount(path: PathBuf) -> Result<Small, Stop> {
        fs::create_dir(&path).map_err(|error| error.to_string())?;
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=2m,mode=755", "none"]).arg(&path).status();
        match done {
            Ok(status) if status.success() => Ok(Small(path)),
            _ => Err(Stop::Skip("no tmpfs can be mounted".to_owned())),
        }
    }

    fn fill(&self) {
        let mut size = 1 << 20;
        let mut number = 0;
        while size >= 1 {
            if fs::write(self.0.join(format!("filler{number}")), vec![0; size]).is_err() {
                size /= 2;
            }
            number += 1;
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

pub fn full(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(4)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    for way in ["told to end", "killed", "both killed"] {
        let small = Small::mount(stage.path(&format!("small {way}")))?;
        let guard = Guard::start_in(small.0.join("state"), &policy, "")?;
        assert!(eventually(Duration::from_secs(3), || sleepers
            .attributes()
            .iter()
            .all(|(tid, now)| *now != before[tid])));
        small.fill();
        match way {
            "told to end" => drop(guard.end()?),
            "killed" => guard.process.signal(Signal::KILL),
            _ => {
                guard.process.signal(Signal::STOP);
                kill_process(guard.dead_man()?, Signal::KILL).map_err(|error| error.to_string())?;
                guard.process.signal(Signal::KILL);
                drop(guard);
                let mut state = State::lock(&small.0.join("state"), "test").map_err(|error| error.to_string())?;
                let undone = state.undo(&mut ThisHost, &mut Audit::none()).map_err(|error| error.to_string())?;
                assert!(undone.0.restored >= 4, "{undone:?}");
            }
        }
        if !eventually(Duration::from_secs(5), || sleepers.attributes() == before) {
            return Err(Stop::Fail(format!("{way}: {:?}", sleepers.attributes())));
        }
    }
    Ok(())
}

pub fn removed(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(4)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let changed = || sleepers.attributes().iter().all(|(tid, now)| *now != before[tid]);
    // At once: only the two processes know what was changed.
    for signal in [Signal::TERM, Signal::KILL] {
        let mut guard = Guard::start(stage, &policy, "")?;
        assert!(eventually(Duration::from_secs(3), changed));
        fs::remove_dir_all(stage.state()).map_err(|error| error.to_string())?;
        guard.process.signal(signal);
        assert!(guard.process.has_ended(Duration::from_secs(5)));
        if !eventually(Duration::from_secs(5), || sleepers.attributes() == before) {
            return Err(Stop::Fail(format!("{signal:?}: {:?}", sleepers.attributes())));
        }
    }
    // Later: it is there again, and says all.
    let guard = Guard::start(stage, &policy, "")?;
    assert!(eventually(Duration::from_secs(3), changed));
    fs::remove_dir_all(stage.state()).map_err(|error| error.to_string())?;
    assert!(eventually(Duration::from_secs(4), || guard.status().is_some()), "{}", guard.audit());
    guard.process.signal(Signal::STOP);
    kill_process(guard.dead_man()?, Signal::KILL).map_err(|error| error.to_string())?;
    guard.process.signal(Signal::KILL);
    drop(guard);
    let mut state = State::lock(&stage.state(), "test").map_err(|error| error.to_string())?;
    state.undo(&mut ThisHost, &mut Audit::none()).map_err(|error| error.to_string())?;
    assert_eq!(sleepers.attributes(), before);
    Ok(())
}

pub fn dead_man_gone(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(2)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let mut guard = Guard::start(stage, &policy, "")?;
    for (signal, limit) in [(Signal::KILL, 4), (Signal::STOP, 10)] {
        let first = guard.dead_man()?;
        kill_process(first, signal).map_err(|error| error.to_string())?;
        let another = || guard.dead_man().is_ok_and(|now| now != first);
        assert!(eventually(Duration::from_secs(limit), another), "{signal:?}: {}", guard.audit());
    }
    assert_eq!(guard.settled_status()?.counts.dead_man_restarts, 2, "{}", guard.audit());
    guard.process.signal(Signal::KILL);
    assert!(guard.process.has_ended(Duration::from_secs(2)));
    assert!(eventually(Duration::from_secs(4), || sleepers.attributes() == before), "{:?}", sleepers.attributes());
    Ok(())
}

/// Elsewhere a journal is only text, and a lock only a file.
pub fn planted(stage: &Stage) -> Ended {
    let refused = |path: &Path, what: &str| match State::lock(path, "test")
        .and_then(|mut state| state.undo(&mut ThisHost, &mut Audit::none()))
    {
        Err(StateError::Trust(_)) => Ok(()),
        other => Err(Stop::Fail(format!("{what}: {other:?}"))),
    };
    let state = stage.path("planted");
    fs::create_dir(&state).map_err(|error| error.to_string())?;
    let secret = stage.path("secret");
    fs::write(&secret, "precious").map_err(|error| error.to_string())?;
    symlink(&secret, state.join("guard.journal")).map_err(|error| error.to_string())?;
    refused(&state, "a journal that is a link")?;
    fs::remove_file(state.join("guard.journal")).map_err(|error| error.to_string())?;
    fs::write(state.join("guard.journal"), "").map_err(|error| error.to_string())?;
    chown(state.join("guard.journal"), Some(65534), None).map_err(|error| error.to_string())?;
    refused(&state, "a journal of somebody else's")?;
    chown(&state, Some(65534), None).map_err(|error| error.to_string())?;
    refused(&state, "a directory of somebody else's")?;
    refused(&state.join("below"), "one below it")?;
    assert_eq!(fs::read_to_string(&secret).ok().as_deref(), Some("precious"));
    Ok(())
}

/// Each change that was made is told, and each that was taken back, by whoever did it.
pub fn audited(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(6)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let mut guard = Guard::start(stage, &policy, "")?;
    let changed = || sleepers.attributes().iter().all(|(tid, now)| *now != before[tid]);
    assert!(eventually(Duration::from_secs(3), changed));
    guard.process.signal(Signal::KILL);
    assert!(guard.process.has_ended(Duration::from_secs(2)));
    assert!(eventually(Duration::from_secs(4), || sleepers.attributes() == before));
    std::thread::sleep(Duration::from_millis(100));
    let audit = guard.audit();
    let mut numbers = std::collections::BTreeMap::<u64, u64>::new();
    let (mut applied, mut restored) = (Vec::new(), Vec::new());
    for line in audit.lines() {
        let line: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let number = numbers.entry(line["pid"].as_u64().unwrap_or(0)).or_default();
        *number += 1;
        assert_eq!(line["n"], *number, "{audit}");
        match line["event"].as_str() {
            Some("applied") => applied.push((line["target"].to_string(), line["new"].to_string())),
            Some("restored") => restored.push((line["target"].to_string(), line["old"].to_string())),
            _ => {}
        }
    }
    applied.sort();
    restored.sort();
    assert_eq!((applied.len(), numbers.len()), (24, 2), "{audit}");
    assert_eq!(applied, restored, "{audit}");
    Ok(())
}

/// Where notes of births cannot outlive the guard, that is said in its status, and only there.
pub fn without_a_bpf_file_system(stage: &Stage) -> Ended {
    crate::stage::need("unshare")?;
    let policy = "[[rule]]\nname = \"r\"\nmatch = { comm = \"nobody-is-so\" }\nset = { nice = -3 }\n";
    let policy = stage.policy("p.toml", policy)?;
    for (kind, is_said) in [("tmpfs", true), ("bpf", !cfg!(feature = "bpf"))] {
        let (guard, state) = (role("guard"), stage.path(kind));
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("mount -t {kind} none /sys/fs/bpf && exec \"$@\""), "sh"]);
        command.envs(guard.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.arg(guard.get_program()).arg(&policy).arg(&state).arg("");
        let mut guard = Running::start(&mut command)?;
        let status = || unstarve_guard::run::status(&state).ok().flatten();
        if !eventually(Duration::from_secs(10), || status().is_some()) {
            return match guard.has_ended(Duration::ZERO) {
                true => Err(Stop::Skip(format!("no {kind} can be mounted in a mount namespace here"))),
                false => Err(Stop::Fail(format!("{kind}: the guard does not get ready"))),
            };
        }
        let gaps = status().map(|status| status.gaps).unwrap_or_default();
        let says = gaps.iter().any(|gap| gap.contains("births cannot be noted beyond the guard and its dead-man"));
        assert_eq!(says, is_said, "{kind}: {gaps:?}");
        guard.signal(Signal::TERM);
        assert!(guard.has_ended(Duration::from_secs(10)), "{kind}");
    }
    Ok(())
}
