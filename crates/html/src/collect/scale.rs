//! Intervals of a trace whose length is not known in advance.

use unstarve_model::{Nanos, Time};

/// Intervals of equal length over a trace of unknown length: pairs are merged when the trace outgrows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// One interval's length.
    pub width: Nanos,
}

/// The position of a time span on a [`Scale`]: parts of its first and last interval and all intervals between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub first: usize,
    pub last: usize,
    pub in_first: u64,
    pub in_last: u64,
}

impl Default for Scale {
    fn default() -> Scale {
        Scale { width: Scale::MIN_INTERVAL }
    }
}

impl Scale {
    /// Maximum intervals; at least half as many once the trace is longer than a fifteenth of a second. More would be
    /// too dense on a wide screen.
    pub const MAX_INTERVALS: usize = 512;

    /// The initial length of an interval.
    const MIN_INTERVAL: Nanos = Nanos(1 << 17);

    /// The interval of a time `since` the trace's start; `None` if the scale must grow first.
    pub fn index(self, since: Nanos) -> Option<usize> {
        let index = since.0 / self.width.0;
        (index < Scale::MAX_INTERVALS as u64).then_some(index as usize)
    }

    /// Doubles the intervals.
    pub fn grow(&mut self) {
        self.width = Nanos(self.width.0.saturating_mul(2));
    }

    /// The position of `start..end`; the scale must reach both.
    pub fn stretch(self, zero: Time, start: Time, end: Time) -> Stretch {
        let (from, to) = (start.since(zero).0, end.since(zero).0);
        let at = |since: u64| ((since / self.width.0) as usize).min(Scale::MAX_INTERVALS - 1);
        let (first, last) = (at(from), at(to));
        if first == last {
            return Stretch { first, last, in_first: to.saturating_sub(from), in_last: 0 };
        }
        let edge = |index: usize| index as u64 * self.width.0;
        Stretch { first, last, in_first: edge(first + 1) - from, in_last: to - edge(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_adds_up() {
        let scale = Scale { width: Nanos(100) };
        let stretch = |start, end| scale.stretch(Time(1000), Time(start), Time(end));
        assert_eq!(stretch(1010, 1030), Stretch { first: 0, last: 0, in_first: 20, in_last: 0 });
        assert_eq!(stretch(1090, 1110), Stretch { first: 0, last: 1, in_first: 10, in_last: 10 });
        let long = stretch(1050, 1420);
        assert_eq!(long.in_first + long.in_last + (long.last - long.first - 1) as u64 * 100, 370);
    }
}
