//! The last seconds, taken again and again from the same two instances.

use std::time::Duration;

use libtest_mimic::Completion;
use unstarve_record::{BufferSize, Flight};

use crate::Outcome;
use crate::child::Task;
use crate::whole::Contents;

/// The page at which the reader was is filled first when recording goes on, and is never overwritten: from the second use of an
/// instance on, it is as old as that, and a hole follows.
pub fn nothing_is_left_of_the_time_before() -> Outcome {
    let place = tempfile::tempdir().expect("a temporary directory");
    // Small, so that a second's switches go round in it many times.
    let mut flight = Flight::prepare(Duration::from_secs(60), BufferSize::KiB(256), &mut |_| {})?;
    flight.run()?;
    for number in 0..4 {
        Task::load("ping-pong").finish();
        let Some(frozen) = flight.freeze()? else { return Err("both instances are frozen".into()) };
        let file = place.path().join(format!("{number}.dat"));
        let (saved, roll) = frozen.save(&file);
        assert!(flight.take_back(roll).is_none(), "its own");
        saved?;
        let contents = Contents::of(&file);
        assert!(contents.events() > 1000, "{} events in file {number}", contents.events());
        assert_eq!((contents.lost, contents.gaps), (0, 0), "holes in file {number}");
    }
    Ok(Completion::Completed)
}

/// An instance that was being written while another recorder took the first one's place.
pub fn an_instance_of_another_recorder_is_not_taken() -> Outcome {
    let prepare = |kib| Flight::prepare(Duration::from_secs(60), BufferSize::KiB(kib), &mut |_| {});
    let mut old = prepare(64)?;
    old.run()?;
    let Some(frozen) = old.freeze()? else { return Err("nothing was frozen".into()) };
    let mut new = prepare(128)?;
    drop(old);
    assert!(new.take_back(frozen.discard()).is_some());
    new.run()?;
    let Some(first) = new.freeze()? else { return Err("nothing was frozen".into()) };
    assert!(new.freeze()?.is_none(), "both are its own, and one of them is out");
    assert!(new.take_back(first.discard()).is_none());
    Ok(Completion::Completed)
}
