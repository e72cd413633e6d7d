//! An order-independent sum over rows, which detects lost and doubled rows.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A sum over rows that does not depend on their order: the rows of files merged in any order have the sum of the files' sums.
///
/// Each row is hashed with the names of its columns. Empty cells do not count, so an added empty column changes nothing. It
/// detects rows that are lost, doubled or changed by mistake, not forgery.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sum(pub u64);

impl Sum {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Sum) -> Sum {
        Sum(self.0.wrapping_add(other.0))
    }
}

impl std::iter::Sum for Sum {
    fn sum<I: Iterator<Item = Sum>>(sums: I) -> Sum {
        sums.fold(Sum::default(), Sum::plus)
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// As text, because some JSON readers lose digits of 64-bit numbers.
impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sum, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Sum).map_err(|_| D::Error::custom("expected a sum in hexadecimal digits"))
    }
}
