//! Wall-clock times, and their relation to the trace clock.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Time;

/// A moment on the wall clock: nanoseconds since 1970-01-01 UTC (`CLOCK_REALTIME`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct WallTime(pub u64);

/// One moment on both the trace clock and the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ClockPair {
    /// On the trace clock.
    #[serde(rename = "trace_ns")]
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub trace: Time,
    /// On the wall clock.
    #[serde(rename = "realtime_ns")]
    #[cfg_attr(feature = "typescript", ts(type = "number"))]
    pub wall: WallTime,
}

/// Converts trace times to wall-clock times.
///
/// Between two pairs time is interpolated, which compensates for clock drift. Outside them the offset of the nearer
/// pair applies. If the wall clock was set in between, times are off by a part of that step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WallClock {
    first: ClockPair,
    last: ClockPair,
}

impl WallClock {
    /// Built from these pairs, in order; `None` if there are none.
    pub fn of(pairs: &[ClockPair]) -> Option<WallClock> {
        Some(WallClock { first: *pairs.first()?, last: *pairs.last()? })
    }

    /// The pairs it uses: the first, and the last if that is another.
    pub fn pairs(&self) -> Vec<ClockPair> {
        if self.first == self.last { vec![self.first] } else { vec![self.first, self.last] }
    }

    /// The wall-clock time at a trace time.
    pub fn at(&self, time: Time) -> WallTime {
        let (first, last) = (self.first, self.last);
        let distance = |pair: ClockPair| i128::from(pair.wall.0) - i128::from(pair.trace.0);
        let distance = if time <= first.trace || last.trace <= first.trace {
            distance(first)
        } else if time >= last.trace {
            distance(last)
        } else {
            let (since, span) = (time.since(first.trace).0, last.trace.since(first.trace).0);
            distance(first) + (distance(last) - distance(first)) * i128::from(since) / i128::from(span)
        };
        WallTime(u64::try_from((i128::from(time.0) + distance).max(0)).unwrap_or(u64::MAX))
    }
}

impl WallTime {
    const SECOND: u64 = 1_000_000_000;
    const DAY: u64 = 86_400;

    /// `2026-11-22`, in UTC.
    pub fn date(self) -> String {
        let (year, month, day) = civil(self.0 / WallTime::SECOND / WallTime::DAY);
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// `14:03:07.205`, in UTC.
    pub fn clock(self) -> String {
        format!("{}.{:03}", self.seconds_of_day(), self.0 % WallTime::SECOND / 1_000_000)
    }

    fn seconds_of_day(self) -> String {
        let second = self.0 / WallTime::SECOND % WallTime::DAY;
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

/// RFC 3339 with nanoseconds: `2026-11-22T14:03:07.205000123Z`.
impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}T{}.{:09}Z", self.date(), self.seconds_of_day(), self.0 % WallTime::SECOND))
    }
}

/// Year, month and day of a day number since 1970-01-01, in the Gregorian calendar.
///
/// Years begin in March here, so the leap day is the last of its year, and month lengths repeat every five months with
/// 153 days (March to July, August to December). Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`.
fn civil(day: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097; // days of 400 years
    const MARCH_OF_YEAR_0: u64 = 719_468; // days from 0000-03-01 to 1970-01-01
    let day = day + MARCH_OF_YEAR_0;
    let (era, of_era) = (day / ERA, day % ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date_u() {
        // `date -u -d @… --iso-8601=seconds`
        let table = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000000000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000000Z"),
            (1_764_000_187, "2025-11-24T16:03:07.000000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000000Z"),
        ];
        for (second, shown) in table {
            assert_eq!(WallTime(second * WallTime::SECOND).to_string(), shown);
        }
        let moment = WallTime(1_764_000_187_205_000_123);
        assert_eq!((moment.date().as_str(), moment.clock().as_str()), ("2025-11-24", "16:03:07.205"));
        assert_eq!(moment.to_string(), "2025-11-24T16:03:07.205000123Z");
        assert_eq!(WallTime(u64::MAX).date(), "2554-07-21", "the last that fits");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..200_000 {
            let (year, month, day_of_month) = civil(day);
            let is_next = match day_of_month {
                1 if month == 1 => (year, 12, 31) == (before.0 + 1, before.1, before.2),
                1 => before.1 + 1 == month && before.0 == year && (28..=31).contains(&before.2),
                _ => (year, month, day_of_month) == (before.0, before.1, before.2 + 1),
            };
            assert!(is_next, "{before:?} and {:?}", civil(day));
            before = (year, month, day_of_month);
        }
    }

    #[test]
    fn drift_is_shared_out_and_what_lies_outside_keeps_the_nearer_distance() {
        let pair = |trace, wall| ClockPair { trace: Time(trace), wall: WallTime(wall) };
        let clock = WallClock::of(&[pair(1000, 5_001_000), pair(2000, 5_002_010)]).expect("two pairs");
        let at = |time| clock.at(Time(time)).0;
        assert_eq!(
            [at(0), at(1000), at(1500), at(2000), at(3000)],
            [5_000_000, 5_001_000, 5_001_505, 5_002_010, 5_003_010]
        );
        assert_eq!(WallClock::of(&[pair(10, 7)]).map(|one| one.at(Time(11)).0), Some(8));
        assert_eq!(WallClock::of(&[pair(10, 7)]).map(|one| one.at(Time(0)).0), Some(0), "before 1970 is 1970");
        assert_eq!(WallClock::of(&[]), None);
    }
}
