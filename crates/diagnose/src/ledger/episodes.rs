//! Long waits (or runs) of an actor over time, and the steady interval at which they recur.

use unstarve_model::{Nanos, Time};

/// One long wait (or run), or several that follow each other closely.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Episode {
    pub start: Time,
    pub end: Time,
    /// The longest single wait in it.
    pub longest: Nanos,
}

/// The long waits of one actor over time, to find out whether they recur.
///
/// Bounded: when it is full, waits much shorter than the longest are dropped. If all are about as long, the older half is
/// dropped: the latest few hundred are enough to find an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Episodes {
    list: Vec<Episode>,
    threshold: Nanos,
    longest: Nanos,
}

impl Episodes {
    const KEPT: usize = 512;
    /// Waits shorter than this (the length of a short tick) are not used to find an interval.
    const LEAST: Nanos = Nanos::from_millis(1);

    #[inline]
    pub fn push(&mut self, start: Time, end: Time) {
        let length = end.since(start);
        if length >= self.threshold.max(Episodes::LEAST) {
            self.push_long(start, end, length);
        }
    }

    #[inline(never)]
    fn push_long(&mut self, start: Time, end: Time, length: Nanos) {
        self.longest = self.longest.max(length);
        if let Some(last) = self.list.last_mut()
            && start <= last.end + Nanos(last.longest.max(length).0 / 8)
        {
            last.start = last.start.min(start);
            last.end = last.end.max(end);
            last.longest = last.longest.max(length);
            return;
        }
        if self.list.len() == Episodes::KEPT {
            self.thin_out();
        }
        if length >= self.threshold {
            self.list.push(Episode { start, end, longest: length });
        }
    }

    fn thin_out(&mut self) {
        let comparable = Nanos(self.longest.0 / 2);
        if self.list.iter().filter(|episode| episode.longest >= comparable).count() <= Episodes::KEPT / 2 {
            self.threshold = comparable;
            self.list.retain(|episode| episode.longest >= comparable);
        } else {
            self.list.drain(..Episodes::KEPT / 2);
        }
    }

    /// The episodes of several actors in time order.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Episodes>) -> Episodes {
        let mut list: Vec<Episode> = all.into_iter().flat_map(|episodes| episodes.list.iter().copied()).collect();
        list.sort_by_key(|episode| episode.start);
        let longest = list.iter().map(|episode| episode.longest).max().unwrap_or(Nanos::ZERO);
        let mut merged: Vec<Episode> = Vec::with_capacity(list.len());
        for episode in list {
            match merged.last_mut() {
                Some(last) if episode.start <= last.end + Nanos(last.longest.max(episode.longest).0 / 8) => {
                    last.end = last.end.max(episode.end);
                    last.longest = last.longest.max(episode.longest);
                }
                _ => merged.push(episode),
            }
        }
        Episodes { list: merged, threshold: Nanos::ZERO, longest }
    }

    /// The interval at which the longest waits recur within `start..end`, if it is steady.
    pub fn period(&self, start: Time, end: Time) -> Option<Period> {
        let comparable = Nanos(self.longest.0 / 2);
        let worst: Vec<&Episode> = self.list.iter().filter(|episode| episode.longest >= comparable).collect();
        let mut gaps: Vec<u64> = worst.windows(2).map(|pair| pair[1].start.since(pair[0].start).0).collect();
        gaps.sort_unstable();
        let median = *gaps.get(gaps.len() / 2)?;
        let steady = gaps.iter().filter(|gap| is_multiple(**gap, median)).count();
        if (steady as f64) < gaps.len() as f64 * STEADY_SHARE {
            return None;
        }
        // Two occurrences make one gap, which could be chance. Accept it only if both lasted about equally long and no third one
        // was due before the first or after the last.
        if let [first, last] = worst[..] {
            let alike = first.longest.0.abs_diff(last.longest.0) <= self.longest.0 / 4;
            let late = (median as f64 * (1.0 + TOLERANCE)) as u64;
            let none_missing = first.start.since(start).0 <= late && end.since(last.start).0 <= late;
            if !alike || !none_missing {
                return None;
            }
        }
        Some(Period { interval: Nanos(median), occurrences: worst.len() })
    }
}

/// A steady interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Period {
    pub interval: Nanos,
    pub occurrences: usize,
}

/// This share of the gaps must agree with the median gap; the rest may be chance.
const STEADY_SHARE: f64 = 0.75;
/// Gaps agree if they differ by at most this fraction: a timer is exact, but the work it starts is not.
const TOLERANCE: f64 = 0.1;

/// One or two occurrences in a gap may have been missed because the victim slept; more may not.
fn is_multiple(gap: u64, interval: u64) -> bool {
    (1..=3).any(|n| gap.abs_diff(interval.saturating_mul(n)) as f64 <= TOLERANCE * interval as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(list: &[(u64, u64)]) -> Episodes {
        let mut episodes = Episodes::default();
        for &(start, length) in list {
            let start = Time(start * 1_000_000);
            episodes.push(start, start + Nanos::from_millis(length));
        }
        episodes
    }

    fn period(list: &[(u64, u64)], end: u64) -> Option<u64> {
        waits(list).period(Time(0), Time(end * 1_000_000)).map(|period| period.interval.0 / 1_000_000)
    }

    #[test]
    fn trouble_at_a_steady_interval_has_a_period() {
        // ms:            start, length
        assert_eq!(period(&[(500, 90), (1500, 88), (2503, 90), (3498, 91)], 4000), Some(1000));
        assert_eq!(
            period(&[(500, 90), (700, 4), (1500, 88), (1800, 3), (2503, 90)], 3000),
            Some(1003),
            "noise between"
        );
        assert_eq!(period(&[(0, 90), (1000, 90), (3000, 90), (4000, 90)], 5000), Some(1000), "one unseen");
        assert_eq!(period(&[(10, 40), (60, 39), (110, 40), (160, 40)], 200), Some(50), "four fifths of the time");
    }

    #[test]
    fn trouble_at_random_has_none() {
        assert_eq!(period(&[(0, 90), (170, 90), (900, 90), (1010, 90), (2700, 90)], 3000), None);
        assert_eq!(period(&[(100, 90)], 3000), None);
        assert_eq!(period(&[], 3000), None);
    }

    #[test]
    fn two_occurrences_make_a_period_only_where_nothing_contradicts_it() {
        assert_eq!(period(&[(790, 90), (1790, 91)], 2000), Some(1000));
        assert_eq!(period(&[(790, 90), (1790, 91)], 4000), None, "one more was due at 2.79 s");
        assert_eq!(period(&[(790, 90), (1790, 50)], 2000), None, "not alike");
    }

    #[test]
    fn the_list_stays_small_and_still_shows_the_period() {
        let mut list = Vec::new();
        for second in 0..4000 {
            list.push((second * 1000, 90));
            list.extend((1..10).map(|tenth| (second * 1000 + tenth * 100, 2)));
        }
        let episodes = waits(&list);
        assert!(episodes.list.len() <= Episodes::KEPT);
        let period = episodes.period(Time(0), Time(4_000_000_000_000)).map(|period| period.interval);
        assert_eq!(period, Some(Nanos::from_millis(1000)));
    }
}
