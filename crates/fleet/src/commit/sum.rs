use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A sum over rows that does not depend on their order: the rows of files merged in any order have the sum of the files' sums.
///
/// Each row is hashed with the names of its columns; what is empty does not count, so a column that is added and empty changes nothing.
/// It finds what is lost, doubled or changed by mistake; it is no protection against somebody who wants to deceive.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sum(pub u64);

impl Sum {
    /// Both together.
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

/// As text: JSON numbers of 64 bits are not read exactly everywhere.
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
