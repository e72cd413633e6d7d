//! Decides which hours are too old, even if clocks are wrong.
//!
//! The age of an hour is measured from now, or from the newest hour in the store if that is earlier. Both can be wrong: this
//! machine's clock may jump, and any host can create a directory of a future hour. So in each run the reference time advances
//! by at most a quarter of the retention time, but at least a day; `state/keep.json` stores it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use unstarve_model::WallTime;
use unstarve_tables::Partition;

use crate::error::{FleetError, chain};
use crate::merge::Options;
use crate::problem::{Kind, Problem};
use crate::store::Store;

const KEEP_NAME: &str = "keep.json";
const MAX_KEEP_BYTES: u64 = 4 << 10;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The content of the file.
#[derive(Serialize, Deserialize)]
struct KeepFile {
    /// The reference time of the last run, ns since 1970.
    counted_from_ns: u64,
}

/// Hours before this time are dropped; `None`: no hour is dropped.
pub(crate) fn oldest(
    store: &Store,
    hours: &[Partition],
    options: &Options,
    problems: &mut Vec<Problem>,
) -> Result<Option<WallTime>, FleetError> {
    let Some(keep) = options.keep else { return Ok(None) };
    let newest = hours.iter().filter_map(Partition::begin).max();
    let wanted = newest.map_or(options.now, |newest| newest.min(options.now));
    let (before, from) = match store.note(KEEP_NAME, MAX_KEEP_BYTES) {
        Ok(None) => (None, Some(wanted)),
        Ok(Some(text)) => {
            let before = serde_json::from_slice::<KeepFile>(&text).ok().map(|kept| kept.counted_from_ns);
            let step = nanos((keep / 4).max(DAY));
            (before, before.map(|before| wanted.min(WallTime(before.saturating_add(step)))))
        }
        Err(_) => (None, None),
    };
    // Written before anything is dropped, so that a killed run has advanced it, too. A clock that is far behind does not move
    // it back: later runs would take weeks to advance again. A clock that is slightly behind does: otherwise occasional runs
    // with a fast clock would add up.
    let is_far_behind = before.is_some_and(|before| before > wanted.0.saturating_add(nanos(keep)));
    let counted_from_ns = before.filter(|_| is_far_behind).unwrap_or(from.unwrap_or(wanted).0);
    let text = serde_json::to_vec(&KeepFile { counted_from_ns });
    let text = text.map_err(|error| FleetError::Rows { path: store.path().join(KEEP_NAME), why: error.to_string() })?;
    if let Err(error) = store.put_note(KEEP_NAME, &text) {
        let why = format!("no hour is dropped this time: {}", chain(&error));
        Problem::of(Kind::Store, KEEP_NAME, &why).add(problems);
        return Ok(None);
    }
    match from {
        None => {
            let why = "no compactor wrote it: no hour is dropped this time, and it is written anew";
            Problem::of(Kind::Store, KEEP_NAME, why).add(problems);
        }
        Some(from) if from < wanted => {
            let why = format!(
                "the clock and the newest hour are far ahead of the last run: hours are dropped as if it were {} {}; if the time is right, the next runs drop the rest",
                from.date(),
                from.clock()
            );
            Problem::of(Kind::Store, KEEP_NAME, &why).add(problems);
        }
        Some(_) => {}
    }
    Ok(from.map(|from| WallTime(from.0.saturating_sub(nanos(keep)))))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
