//! The flight recorder saves the last seconds again and again from the same two instances.

use std::time::Duration;

use libtest_mimic::Completion;
use unstarve_record::{BufferSize, Flight};

use crate::Outcome;
use crate::child::Task;
use crate::whole::Contents;

/// The page where the reader was is filled first when recording resumes, and is never overwritten: from the second use
/// of an instance on, it is that old, and a hole follows.
pub fn nothing_is_left_of_the_time_before() -> Outcome {
    let place = tempfile::tempdir().expect("a temporary directory");
    // Small enough for a second of switches to wrap around many times.
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
