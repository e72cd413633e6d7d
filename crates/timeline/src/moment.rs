//! Parses a moment of a trace, as typed by the user.

use std::str::FromStr;

use thiserror::Error;
use unstarve_model::{Nanos, Time};

/// A moment as typed: `812.5` is a time as the trace and perf print it, in seconds; `+1.2s` and `1200ms` count from the
/// trace's first event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// On the trace's clock.
    At(Time),
    /// After its first event.
    After(Nanos),
}

impl Moment {
    /// On the clock of a trace that begins at `start`.
    pub fn on(self, start: Time) -> Time {
        match self {
            Moment::At(time) => time,
            Moment::After(offset) => start + offset,
        }
    }
}

/// The text is not a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a time; expected 812.5 (as in the trace), or +1.2s or 1200ms (from its start)")]
pub struct NotAMoment;

const UNITS: [(&str, u32); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];

impl FromStr for Moment {
    type Err = NotAMoment;

    fn from_str(text: &str) -> Result<Moment, NotAMoment> {
        let (number, unit) = match text.find(|c: char| c.is_alphabetic()) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let from_start = number.starts_with('+') || !unit.is_empty();
        let power = match UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, power)) => *power,
            None if unit.is_empty() => 9,
            None => return Err(NotAMoment),
        };
        let ns = decimal(number.strip_prefix('+').unwrap_or(number), power).ok_or(NotAMoment)?;
        Ok(if from_start { Moment::After(Nanos(ns)) } else { Moment::At(Time(ns)) })
    }
}

/// A decimal number times ten to the `power`, exactly: a float has too few digits for nanoseconds since boot.
fn decimal(number: &str, power: u32) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > power as usize {
        return None;
    }
    let scaled = whole.parse::<u64>().ok()?.checked_mul(10u64.pow(power))?;
    let rest = match fraction {
        "" => 0,
        fraction => fraction.parse::<u64>().ok()? * 10u64.pow(power - fraction.len() as u32),
    };
    scaled.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_to_the_nanosecond() {
        let read = |text: &str| text.parse::<Moment>();
        let at = |ns| Ok(Moment::At(Time(ns)));
        let after = |ns| Ok(Moment::After(Nanos(ns)));
        assert_eq!(read("812.5"), at(812_500_000_000));
        assert_eq!(read("812.098000123"), at(812_098_000_123));
        assert_eq!(read("0"), at(0));
        assert_eq!(read("+1.2s"), after(1_200_000_000));
        assert_eq!(read("+3"), after(3_000_000_000));
        assert_eq!(read("1200ms"), after(1_200_000_000));
        assert_eq!(read("1.5us"), after(1_500));
        assert_eq!(read("7ns"), after(7));
        assert_eq!("+1s".parse::<Moment>().unwrap().on(Time(5)), Time(1_000_000_005));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["", "+", "-1", "1.2.3", "5 s", "1h", "0.5ns", "99999999999999999999", "99999999999s", "1e9", "s"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
