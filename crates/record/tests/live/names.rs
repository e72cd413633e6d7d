//! A redacted file contains no names of processes.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Completion;
use tempfile::TempDir;
use unstarve_facts::Snapshot;
use unstarve_model::{Batch, Comm, EventKind, EventType};
use unstarve_record::salvage;

use crate::Outcome;
use crate::child::{REDACT, Recorder, Task};
use crate::ends::place;
use crate::whole::Contents;

/// A name that does not occur by chance.
const PROGRAM: &str = "qzvxprogram";

/// A program with this name, and its child with another, which both keep running.
fn named_load(place: &TempDir) -> Recorder {
    let programs = [PROGRAM, "qzvxchild"].map(|name| place.path().join(name));
    for program in &programs {
        std::fs::copy("/bin/sh", program).expect("a shell");
    }
    let mut load = Command::new(&programs[0]);
    load.arg("-c").arg("for i in $(seq 400); do \"$0\" -c 'sleep 0.01'; done").arg(&programs[1]);
    Recorder::start(load)
}

/// Names that must not be in a file: of all processes (if too long to occur by chance), their cgroups, and the host.
fn names() -> Vec<String> {
    let snapshot = unstarve_host::take(&unstarve_host::Root::host());
    let kernel: Vec<&str> =
        snapshot.tasks.iter().filter(|task| task.kernel_thread).map(|task| task.comm.as_str()).collect();
    let processes = snapshot.tasks.iter().filter(|task| !task.kernel_thread).map(|task| task.comm.clone());
    let cgroups = snapshot.cgroups.iter().filter_map(|group| group.path.rsplit('/').next().map(str::to_owned));
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names: Vec<String> = processes.chain(cgroups).chain([host]).filter(|name| name.len() >= 7).collect();
    names.retain(|name| !kernel.contains(&name.as_str()) && !KNOWN.contains(&name.as_str()));
    names.push("qzvx".into());
    names.sort();
    names.dedup();
    names
}

/// Parts of paths that are the same on every host, our own threads, and what is in every file: `unstarve.snapshot/1`.
const KNOWN: [&str; 7] =
    ["unstarve", "unstarve-record", "system.slice", "user.slice", "init.scope", "machine.slice", "kubepods.slice"];

fn has(bytes: &[u8], name: &str) -> bool {
    bytes.windows(name.len()).any(|part| part == name.as_bytes())
}

/// Names found in a file, except those that kallsyms and the event formats contain anyway.
fn leaks(path: &Path, plain: &Path) -> Vec<String> {
    let (bytes, plain) = (std::fs::read(path).expect("a file"), std::fs::read(plain).expect("a file"));
    let symbols = std::fs::read("/proc/kallsyms").unwrap_or_default();
    let suspects = names().into_iter().filter(|name| has(&plain, name));
    suspects.filter(|name| has(&bytes, name) && !has(&symbols, name)).collect()
}

/// Names of tasks that switched, and how many of them belong to kernel threads.
fn kernel_names(path: &Path) -> (usize, usize) {
    let mut source = unstarve_readers::open(path).expect("a trace");
    let (mut batch, mut switches, mut kernel) = (Batch::default(), 0, 0);
    let starts = |comm: &Comm, name: &str| comm.as_bytes().starts_with(name.as_bytes());
    while source.read(&mut batch).expect("a batch") {
        for event in &batch.events {
            if let EventKind::Switch { next, .. } = event.kind {
                switches += 1;
                kernel += usize::from(
                    ["swapper", "kworker/", "rcu_", "ksoftirqd/"].iter().any(|name| starts(next.comm(), name)),
                );
            }
        }
    }
    (switches, kernel)
}

pub fn no_name_of_a_process_is_in_a_redacted_file() -> Outcome {
    let place = place();
    let (plain, redacted) = (place.path().join("plain.dat"), place.path().join("redacted.dat"));
    let load = named_load(&place);
    // At the same time, so that both record the same.
    let first = Task { milliseconds: Some(1500), block: true, ..Task::to(&plain) }.start();
    let mut task = Task { milliseconds: Some(1500), block: true, ..Task::to(&redacted) }.invocation();
    task.env(REDACT, "1");
    Recorder::start(task).finish().report();
    first.finish().report();
    drop(load);
    assert!(has(&std::fs::read(&plain).expect("a file"), PROGRAM), "the other one has the name");
    assert_eq!(leaks(&redacted, &plain), Vec::<String>::new());

    let (before, after) = (Contents::of(&plain), Contents::of(&redacted));
    for kind in [EventType::Switch, EventType::Waking, EventType::Fork, EventType::Exec, EventType::Exit] {
        assert!(
            after.count(kind) * 10 > before.count(kind) * 9,
            "{kind}: {} of {}",
            after.count(kind),
            before.count(kind)
        );
    }
    let ((switches, kernel), (_, expected)) = (kernel_names(&redacted), kernel_names(&plain));
    assert!(kernel * 10 > expected * 9 && switches > kernel, "{kernel} of {expected} names of kernel threads");
    let snapshot = Snapshot::from_json(after.info.snapshot.as_deref().expect("a snapshot")).expect("ours");
    assert!(snapshot.view.is_some_and(|view| view.redacted));
    assert!(snapshot.tasks.iter().any(|task| task.comm.starts_with("program-")));
    assert!(snapshot.tasks.iter().any(|task| task.kernel_thread && task.comm.starts_with("kworker/")));
    Ok(Completion::Completed)
}

pub fn a_killed_recorder_leaves_no_name_either() -> Outcome {
    let place = place();
    let output = place.path().join("out");
    std::fs::create_dir(&output).expect("a directory");
    let load = named_load(&place);
    let mut task = Task::to(&output.join("t.dat")).invocation();
    task.env(REDACT, "1");
    crate::salvage::killed(task);
    drop(load);
    let left = std::fs::read_dir(&output).expect("listed").next().expect("a leftover").expect("an entry").path();
    for entry in std::fs::read_dir(left).expect("listed").flatten() {
        assert!(!has(&std::fs::read(entry.path()).expect("a file"), "qzvx"), "{}", entry.path().display());
    }
    let salvaged = salvage(&output, None).expect("salvaged").files;
    assert!(Contents::of(&salvaged[0].path).count(EventType::Switch) > 1000);
    Ok(Completion::Completed)
}
