//! A watch that is stopped for a while.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};
use crate::watch::Watch;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Who is starved while the watch is stopped (SIGSTOP) is an episode afterwards: the machine did not stand still.
pub fn hides_nothing(stage: &Stage) -> Ended {
    let watch = Watch::start(stage, stage.unstarve())?;
    let before = watch.episodes()?.len();
    watch.signal(Signal::STOP);
    let mut victim = stage.load("spinner", &[], "hog --lasts 5000 --period 1000 --busy 1000")?;
    let mut hog = stage.load("hog", &["chrt", "--fifo", "50"], "hog --lasts 5000 --period 500 --busy 450")?;
    let loads = [Running::start(&mut victim)?, Running::start(&mut hog)?];
    for load in loads {
        load.finish(TEST_TIMEOUT)?;
    }
    watch.signal(Signal::CONT);
    let end = Instant::now() + TEST_TIMEOUT;
    let by_hog = loop {
        let episodes = watch.episodes()?;
        let is_by_hog = |episode: &&serde_json::Value| {
            episode["trigger"]["rule"] == "class" && episode["trigger"]["culprit"]["role"] == "real-time"
        };
        if let Some(episode) = episodes.iter().skip(before).find(is_by_hog) {
            break Some(episode.clone());
        }
        if Instant::now() > end {
            break None;
        }
        thread::sleep(Duration::from_millis(250));
    };
    watch.stop();
    let done = watch.running.finish(TEST_TIMEOUT)?;
    assert!(done.err.contains("this process was stopped for "), "{}", done.err);
    assert!(!done.err.contains("stood still"), "{}", done.err);
    if by_hog.is_none() && before > 0 {
        return Err(Stop::Skip(format!("an episode of another load was open: {}", done.err)));
    }
    assert!(by_hog.is_some(), "{}", done.err);
    Ok(())
}
