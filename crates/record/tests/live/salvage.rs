//! What was recorded is not lost with its recorder.

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

/// A recorder that is killed in the middle, after what is needed besides pages was kept.
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

    // The next recording says it, and leaves it alone.
    let next = Task { milliseconds: Some(100), ..Task::to(&output) }.run();
    next.report();
    assert!(next.output.contains("unstarve record --salvage"), "{}", next.output);
    left_only(&[left[0].as_str(), "t.dat"], &next, place.path());

    let salvaged = salvage(place.path(), None).expect("salvaged");
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
