//! Durations and fractions as configurations and command lines write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time, written `250ms`, `10s`, `2m`, `1h`, `14d`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Length(pub Duration);

impl Length {
    /// So many milliseconds.
    pub const fn from_millis(count: u64) -> Length {
        Length(Duration::from_millis(count))
    }

    /// In nanoseconds.
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

const EXPECTED: &str = "expected a time such as 250ms, 10s, 2m, 1h or 14d";

/// The units of time, in microseconds.
const UNITS: [(&str, f64); 7] =
    [("us", 1.0), ("ms", 1e3), ("s", 1e6), ("m", 6e7), ("min", 6e7), ("h", 3.6e9), ("d", 8.64e10)];

/// Parses a time as written in files and on the command line: a number and a unit; `bare` is the unit of a number without one.
///
/// # Errors
/// If it is not a time; says what was expected.
pub fn parse_time(text: &str, bare: Option<&str>) -> Result<Duration, String> {
    let wrong = || format!("`{text}`: {EXPECTED}");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
    let unit = if unit.is_empty() { bare.ok_or_else(wrong)? } else { unit };
    let micros = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, micros)| micros).ok_or_else(wrong)?;
    let number: f64 = number.parse().map_err(|_| wrong())?;
    // Up to this, whole microseconds are exact in an f64, and nanoseconds fit 64 bits even when added to the current time.
    const MAX_TIME: Duration = Duration::from_secs(250 * 366 * 86_400);
    let time = Duration::try_from_secs_f64((number * micros).round() / 1e6).ok().filter(|time| *time <= MAX_TIME);
    time.ok_or_else(|| format!("`{text}`: more than 250 years"))
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        // So that sums of two lengths in nanoseconds stay far below the limit of 64 bits.
        const MAX_TIME: Duration = Duration::from_secs(366 * 86_400);
        let time = parse_time(text, None)?;
        if time <= MAX_TIME { Ok(Length(time)) } else { Err(format!("`{text}`: more than a year")) }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let units = [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
        let fits = units.into_iter().find(|(size, _)| micros >= *size && micros.is_multiple_of(*size));
        match fits {
            Some((size, unit)) => write!(f, "{}{unit}", micros / size),
            None if micros == 0 => f.write_str("0s"),
            None => write!(f, "{micros}us"),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Length, D::Error> {
        deserializer.deserialize_str(Written)
    }
}

/// Visitor for a length. It accepts strings only: a bare number has no unit.
struct Written;

impl Visitor<'_> for Written {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED.trim_start_matches("expected "))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Length, E> {
        text.parse().map_err(E::custom)
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Length {
    fn schema_name() -> Cow<'static, str> {
        "Length".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(us|ms|s|m|min|h|d)$" })
    }
}

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize)]
pub struct Fraction(pub f64);

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
        let part = f64::deserialize(deserializer)?;
        match (0.0..=1.0).contains(&part) {
            true => Ok(Fraction(part)),
            false => Err(D::Error::custom(format!("{part}: expected a part between 0 and 1"))),
        }
    }
}

impl JsonSchema for Fraction {
    fn schema_name() -> Cow<'static, str> {
        "Fraction".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": 0, "maximum": 1 })
    }
}
