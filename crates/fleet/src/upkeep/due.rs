//! When an hour is merged: once after it has settled, and again for files that come late.
//!
//! Merged files are never merged again, so that nothing that an engine lists changes. An hour gets further files only when it is
//! twice as old as at its last commit, or a day has passed since: seven commits for a day of stragglers, one for each day after that
//! (docs/decisions/0616).

use unstarve_model::WallTime;
use unstarve_tables::Partition;

use crate::merge::Options;

const HOUR_NS: u64 = 3_600_000_000_000;
const DAY_NS: u64 = 24 * HOUR_NS;

/// When files of an hour are merged; `last` is when its newest commit was made.
pub(super) fn due(partition: &Partition, last: Option<u64>, options: &Options) -> WallTime {
    let settle = u64::try_from(options.settle.as_nanos()).unwrap_or(u64::MAX);
    let end = partition.begin().map_or(u64::MAX, |begin| begin.0.saturating_add(HOUR_NS));
    let settled = end.saturating_add(settle);
    // By a clock that was ahead, or by somebody who does not want to wait.
    let last = last.filter(|last| *last <= options.now.0 && settle > 0);
    let again = last.map(|last| last.saturating_add(last.saturating_sub(end).clamp(settle, DAY_NS.max(settle))));
    WallTime(settled.max(again.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BEGIN: u64 = 1_795_305_600_000_000_000;
    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn an_hour_is_merged_again_when_it_is_twice_as_old() {
        let hour = Partition::of("hosts", WallTime(BEGIN));
        // Minutes: settle, when the last commit was made, now; when it is due. All after the hour's end but `settle`.
        for (settle, last, now, expected) in [
            (10, None, 0, 10),
            (10, None, 99_999, 10),
            (10, Some(10), 11, 20),
            (10, Some(12), 13, 24),
            (10, Some(60), 61, 120),
            (10, Some(1_440), 1_500, 2_880),
            (10, Some(10_000), 10_001, 11_440),
            // A commit by a clock that was ahead holds nothing up; nor does one of a run that did not wait.
            (10, Some(5_000), 100, 10),
            (10, Some(1), 2, 11),
            (0, Some(10), 11, 0),
        ] {
            let at = |minutes: u64| BEGIN + HOUR_NS + minutes * MINUTE;
            let settle = Duration::from_secs(settle * 60);
            let options = Options { now: WallTime(at(now)), settle, grace: Duration::ZERO, keep: None };
            let found = due(&hour, last.map(at), &options).0.saturating_sub(at(0)) / MINUTE;
            assert_eq!(found, expected, "settle {settle:?}, last {last:?}, now {now}");
        }
    }

    /// Files for a whole month, tried each ten minutes: few.
    #[test]
    fn late_files_make_few_merged_ones() {
        let hour = Partition::of("hosts", WallTime(BEGIN));
        let (mut last, mut commits) = (None, 0);
        for minute in (0..30 * 1440).step_by(10) {
            let now = WallTime(BEGIN + HOUR_NS + minute * MINUTE);
            let options = Options { now, settle: Duration::from_secs(600), grace: Duration::ZERO, keep: None };
            if due(&hour, last, &options) <= now {
                (last, commits) = (Some(now.0), commits + 1);
            }
        }
        assert_eq!(commits, 37);
    }
}
