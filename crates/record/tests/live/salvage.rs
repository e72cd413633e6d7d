//! The recording of a killed recorder can be salvaged.

use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

use libtest_mimic::Completion;
use rustix::process::Signal;
use unstarve_facts::Snapshot;
use unstarve_model::EventType;
use unstarve_record::{RecordError, salvage};

use crate::Outcome;
use crate::child::Task;
use crate::ends::{left_only, place, recording};
use crate::host::names_in;
use crate::whole::Contents;

/// A recorder that is killed after it has stored what is needed besides pages.
pub fn killed(task: std::process::Command) {
    let load = Task::load("long-ping-pong");
    let killed = crate::child::Recorder::start(task);
    recording(&killed);
    std::thread::sleep(Duration::from_secs(4));
    killed.signal(Signal::KILL);
    killed.finish();
    drop(load);
}

pub fn what_a_killed_recorder_recorded_is_salvaged() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    assert!(matches!(salvage(place.path(), None), Err(RecordError::NothingLeft(_))));
    killed(Task::to(&output).invocation());
    let left = names_in(place.path());
    assert_eq!(left.len(), 1, "{left:?}");

    // The next recording reports it and does not touch it.
    let next = Task { milliseconds: Some(100), ..Task::to(&output) }.run();
    next.report();
    assert!(next.output.contains("unstarve record --salvage"), "{}", next.output);
    left_only(&[left[0].as_str(), "t.dat"], &next, place.path());

    let salvaged = salvage(place.path(), None).expect("salvaged").files;
    assert_eq!(salvaged.len(), 1);
    let file = salvaged[0].path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    left_only(&["t.dat", &file], &next, place.path());
    let contents = Contents::of(&salvaged[0].path);
    assert!(contents.count(EventType::Switch) > 1000, "{}", contents.events());
    let snapshot = Snapshot::from_json(contents.info.snapshot.as_deref().expect("a snapshot")).expect("ours");
    assert!(snapshot.missing.iter().any(|missing| missing.why.contains("killed")), "{:?}", snapshot.missing);
    assert!(snapshot.tasks.len() > 10);
    Ok(Completion::Completed)
}

/// A recorder that is killed before it has stored what is needed besides pages leaves unusable pages.
pub fn what_cannot_be_salvaged_is_removed() -> Outcome {
    let place = place();
    let output = place.path().join("t.dat");
    let killed = Task::to(&output).start();
    recording(&killed);
    killed.signal(rustix::process::Signal::KILL);
    killed.finish();
    // And leftovers of recorders that were killed before signing their directory, or while removing it.
    for (name, content) in [("0123456789abcdef", None), ("fedcba9876543210", Some(""))] {
        let directory = place.path().join(format!(".unstarve-part-{name}"));
        std::fs::DirBuilder::new().mode(0o700).create(&directory).expect("a directory");
        content.into_iter().for_each(|text| std::fs::write(directory.join("made-by-unstarve"), text).expect("a file"));
    }
    assert_eq!(names_in(place.path()).len(), 3);
    let salvaged = salvage(place.path(), None).expect("looked at");
    assert_eq!((salvaged.files.len(), salvaged.unusable.len()), (0, 1), "{salvaged:?}");
    assert_eq!(names_in(place.path()), [""; 0]);
    Ok(Completion::Completed)
}
