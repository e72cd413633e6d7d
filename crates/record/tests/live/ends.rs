//! Every way in which a recording can end: the file is complete or does not exist, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Completion;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::Outcome;
use crate::child::{Ended, MAX_SIZE, Recorder, Task};
use crate::host::{TinyDisk, children_of, enabled_of, instances_of, is_recording, names_in};
use crate::whole::Contents;

pub fn place() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Waits until recording has begun.
pub fn recording(recorder: &Recorder) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !is_recording(recorder.pid()) {
        assert!(Instant::now() < limit, "it does not begin to record");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that this recorder has left only these files.
pub fn left_only(files: &[&str], ended: &Ended, directory: &Path) {
    assert_eq!(names_in(directory), files);
    assert_eq!(instances_of(ended.pid), [""; 0]);
}

pub fn ends_after_the_time_given() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let ended = Task { milliseconds: Some(300), ..Task::to(&output) }.run();
    let report = ended.report();
    assert!((0.3..2.0).contains(&report.seconds), "{report:?}");
    assert!(report.events > 0, "even an idle machine switches");
    left_only(&["t.dat"], &ended, place.path());
    Ok(Completion::Completed)
}

pub fn sigint_ends_it_cleanly_even_if_ignored_at_start() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    std::fs::write(&output, vec![0; 12_000]).expect("an older recording");
    let task = Task::to(&output).invocation();
    // Shells start background commands with SIGINT ignored, and so does this one.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' INT; exec \"$0\" \"$@\""]).arg(task.get_program()).args(task.get_args());
    shell.envs(task.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let recorder = Recorder::start(shell);
    recording(&recorder);
    recorder.signal(Signal::INT);
    let ended = recorder.finish();
    ended.report();
    left_only(&["t.dat", "t.dat.old"], &ended, place.path());
    assert_eq!(fs::read(place.path().join("t.dat.old")).expect("the older recording"), [0; 12_000]);
    // The user is shown what ends it, and what becomes of the older file.
    let path = output.display();
    for notice in [format!("{path} (12 kB, of "), format!("recording into {path} until Ctrl-C\n")] {
        assert!(ended.output.contains(&format!("notice {notice}")), "{notice}: {ended:?}");
    }
    Ok(Completion::Completed)
}

pub fn sigterm_is_handed_on_to_the_command() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let recorder = Task { command: Some("stubborn"), ..Task::to(&output) }.start();
    recording(&recorder);
    // The command starts after the recording has.
    std::thread::sleep(Duration::from_millis(200));
    recorder.signal(Signal::TERM);
    let ended = recorder.finish();
    assert_eq!(ended.report().command, Some(-Signal::TERM.as_raw()));
    left_only(&["t.dat"], &ended, place.path());
    Ok(Completion::Completed)
}

pub fn the_command_s_exit_code_comes_back() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    fs::write(&output, "an older recording").expect("a file");
    let ended = Task { command: Some("short"), ..Task::to(&output) }.run();
    assert_eq!(ended.report().command, Some(7));
    assert!(fs::read(&output).expect("the new file").starts_with(unstarve_readers::trace_dat::TRACE_DAT_MAGIC));
    assert_eq!(fs::read_to_string(place.path().join("t.dat.old")).expect("kept"), "an older recording");
    left_only(&["t.dat", "t.dat.old"], &ended, place.path());
    Ok(Completion::Completed)
}

pub fn a_command_that_does_not_exist_leaves_nothing() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    fs::write(&output, "an older recording").expect("a file");
    let ended = Task { command: Some("/nonexistent/program"), ..Task::to(&output) }.run();
    assert_eq!(ended.error(), "cannot run /nonexistent/program: No such file or directory (os error 2)");
    assert_eq!(fs::read_to_string(&output).expect("the older file"), "an older recording");
    left_only(&["t.dat"], &ended, place.path());
    Ok(Completion::Completed)
}

pub fn a_full_disk_leaves_nothing() -> Outcome {
    let place = place();
    let disk = TinyDisk::on(place.path(), c"size=1m");
    let output = disk.0.join("t.dat");
    let ended = Task { command: Some("ping-pong"), ..Task::to(&output) }.run();
    assert!(ended.error().contains("no room for"), "{ended:?}");
    left_only(&[], &ended, &disk.0);
    Ok(Completion::Completed)
}

pub fn a_disk_is_not_filled() -> Outcome {
    let place = place();
    let disk = TinyDisk::on(place.path(), c"size=80m");
    let output = disk.0.join("t.dat");
    let ended = Task { milliseconds: Some(15_000), ..Task::to(&output) };
    let load = Task::load("long-ping-pong");
    let ended = ended.run();
    drop(load);
    let report = ended.report();
    assert_eq!(report.stopped, "disk", "{report:?}");
    assert!(report.seconds < 14.0 && report.events > 10_000, "{report:?}");
    left_only(&["t.dat"], &ended, &disk.0);
    let disk = rustix::fs::statvfs(&disk.0).expect("a filesystem");
    assert!(disk.f_bavail * 20 >= disk.f_blocks, "a twentieth is left: {} of {}", disk.f_bavail, disk.f_blocks);
    assert_eq!(Contents::of(&output).events(), report.events, "what was recorded is whole");
    Ok(Completion::Completed)
}

pub fn a_size_that_was_asked_for_is_kept() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let mut task = Task { command: Some("long-ping-pong"), ..Task::to(&output) }.invocation();
    task.env(MAX_SIZE, (20_u64 << 20).to_string());
    let ended = Recorder::start(task).finish();
    let report = ended.report();
    assert_eq!((report.stopped.as_str(), report.command), ("size", Some(7)), "the command ran to its end");
    assert!(report.seconds < 10.0, "{report:?}");
    let size = fs::metadata(&output).expect("a file").len();
    // The content of the buffers at that time is added.
    assert!((10 << 20..28 << 20).contains(&size), "{size} bytes");
    assert_eq!(Contents::of(&output).events(), report.events);
    left_only(&["t.dat"], &ended, place.path());
    Ok(Completion::Completed)
}

pub fn two_recorders_at_once() -> Outcome {
    let place = place();
    let (first, second) = (place.path().join("1.dat"), place.path().join("2.dat"));
    let first = Task::to(&first).start();
    recording(&first);
    let within = Task { milliseconds: Some(100), ..Task::to(&second) }.run();
    assert!(is_recording(first.pid()), "the second did not take the first for a leftover");
    assert!(within.report().events > 0);
    first.signal(Signal::INT);
    let around = first.finish();
    assert!(around.report().events > within.report().events);
    left_only(&["1.dat", "2.dat"], &around, place.path());
    left_only(&["1.dat", "2.dat"], &within, place.path());
    Ok(Completion::Completed)
}

/// Whichever process is killed, and at whatever stage: nothing of it continues.
pub fn no_instance_is_left_of_fifty_killed_recorders() -> Outcome {
    let place = place();
    for round in 0..50_u64 {
        let output = place.path().join("t.dat");
        let killed = Task::to(&output).start();
        // Up to a fifth of a second: before, during and after the preparation.
        std::thread::sleep(Duration::from_millis(round * 37 % 200));
        killed.signal(Signal::KILL);
        let killed = killed.finish();
        let limit = Instant::now() + Duration::from_secs(12);
        while !instances_of(killed.pid).is_empty() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Until its remover exists, an instance has no events enabled, and the next recorder removes it.
        let enabled = enabled_of(killed.pid);
        assert!(enabled.iter().all(|state| state == "0"), "round {round}: {enabled:?}");
    }
    let last = Task { milliseconds: Some(50), ..Task::to(&place.path().join("t.dat")) }.run();
    last.report();
    left_only(&["t.dat"], &last, place.path());
    Ok(Completion::Completed)
}

pub fn what_a_killed_recorder_left_goes_with_the_next() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let killed = Task::to(&output).start();
    recording(&killed);
    // First kill the process that would remove it immediately.
    let removers = children_of(killed.pid(), "unstarve-remove");
    assert_eq!(removers.len(), 1, "{removers:?}");
    removers.into_iter().for_each(|remover| rustix::process::kill_process(remover, Signal::KILL).expect("a signal"));
    killed.signal(Signal::KILL);
    let killed = killed.finish();
    assert_eq!(instances_of(killed.pid).len(), 1, "nobody could remove it");
    assert!(!is_recording(killed.pid), "but the kernel stopped tracing into it");
    assert_eq!(names_in(place.path()).len(), 1, "a hidden directory, with nothing that could be salvaged yet");

    let next = Task { milliseconds: Some(50), ..Task::to(&output) }.run();
    next.report();
    left_only(&["t.dat"], &next, place.path());
    left_only(&["t.dat"], &killed, place.path());
    Ok(Completion::Completed)
}

pub fn without_privileges_it_says_what_to_do() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let task = Task { milliseconds: Some(50), ..Task::to(&output) }.invocation();
    // Root without capabilities, as in a container.
    let mut bare = std::process::Command::new("setpriv");
    bare.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(task.get_program()).args(task.get_args());
    bare.envs(task.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Recorder::start(bare).finish();
    assert_eq!(ended.error(), "recording needs root: run it with sudo (in a container: with --privileged)");
    left_only(&[], &ended, place.path());
    Ok(Completion::Completed)
}
