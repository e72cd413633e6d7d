//! Times on the trace clock.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// A moment on the trace clock, in nanoseconds since that clock's zero (for `local` and `mono`, near boot).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

/// A duration in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Time {
    /// The time from `earlier` to `self`; zero if `earlier` is later (clocks of two CPUs may disagree).
    pub fn since(self, earlier: Time) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Time {
    type Output = Time;
    fn add(self, span: Nanos) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Nanos> for Time {
    type Output = Time;
    fn sub(self, span: Nanos) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Nanos {
    /// No time.
    pub const ZERO: Nanos = Nanos(0);

    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// As seconds, for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The difference, or zero if `other` is longer.
    pub fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// This duration as a fraction of `whole`; 0 if `whole` is empty.
    pub fn share_of(self, whole: Nanos) -> f64 {
        if whole.0 == 0 { 0.0 } else { self.0 as f64 / whole.0 as f64 }
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    /// Panics in debug builds if `other` is longer. Use `saturating_sub` where that is possible.
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        *self = *self - other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Add::add)
    }
}

/// Three significant digits and a unit: `950 ns`, `12.3 µs`, `94.8 ms`, `1.20 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            1_000..999_500 => (ns / 1e3, "µs"),
            999_500..999_500_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let text = if value < 9.995 {
            format!("{value:.2} {unit}")
        } else if value < 99.95 {
            format!("{value:.1} {unit}")
        } else {
            format!("{value:.0} {unit}")
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_with_three_figures() {
        let shown: Vec<String> = [7, 1_000, 12_345, 999_499, 999_500, 94_800_000, 1_204_000_000, 3_600_000_000_000]
            .into_iter()
            .map(|ns| Nanos(ns).to_string())
            .collect();
        assert_eq!(shown, ["7 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms", "94.8 ms", "1.20 s", "3600 s"]);
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_time_rather_than_centuries() {
        assert_eq!(Time(5).since(Time(9)), Nanos::ZERO);
    }
}
