use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time, written `250ms`, `10s`, `2m`, `1h`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Length(pub Duration);

impl Length {
    /// In nanoseconds.
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

const EXPECTED: &str = "expected a time such as 250ms, 10s or 2m";

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Length, String> {
        let wrong = || format!("`{text}`: {EXPECTED}");
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let micros = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(wrong()),
        };
        // Sums of two lengths in nanoseconds stay far from what 64 bits hold.
        let most = 366 * 24 * 3_600_000_000_u64;
        let micros = number.checked_mul(micros).filter(|micros| *micros <= most);
        micros.map(Duration::from_micros).map(Length).ok_or_else(|| format!("`{text}`: more than a year"))
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        let units = [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
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
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
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
        json_schema!({ "type": "string", "pattern": "^[0-9]+(us|ms|s|m|h)$" })
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
