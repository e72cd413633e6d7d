//! Conditions of scenarios: `when`, and bounds on kernel versions.

use std::fmt;
use std::str::FromStr;

use unstarve_facts::Version;

/// The requests to which a step, load or knob applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Any request.
    Always,
    /// Only with the fault.
    Fault,
    /// Only without it.
    Healthy,
    /// Only with this remedy.
    Remedy(String),
    /// Only without this remedy.
    UnlessRemedy(String),
}

/// An invalid `when`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("when = \"{0}\": expected `fault`, `healthy`, `remedy:ID` or `unless-remedy:ID`")]
pub struct WhenError(pub(super) String);

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<When, WhenError> {
        let id = |id: &str| if id.is_empty() { Err(WhenError(text.into())) } else { Ok(id.to_owned()) };
        match (text, text.split_once(':')) {
            ("fault", _) => Ok(When::Fault),
            ("healthy", _) => Ok(When::Healthy),
            (_, Some(("remedy", name))) => id(name).map(When::Remedy),
            (_, Some(("unless-remedy", name))) => id(name).map(When::UnlessRemedy),
            _ => Err(WhenError(text.into())),
        }
    }
}

impl When {
    /// Parses the field; absent means [`When::Always`].
    pub fn read(field: Option<&str>) -> Result<When, WhenError> {
        field.map_or(Ok(When::Always), str::parse)
    }
}

/// One bound on a kernel's version: `>=6.6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    comparison: Comparison,
    major: u32,
    minor: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    Below,
    Series,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let (comparison, version) = match text.trim() {
            text if text.starts_with(">=") => (Comparison::AtLeast, &text[2..]),
            text if text.starts_with('<') && !text.starts_with("<=") => (Comparison::Below, &text[1..]),
            text if text.starts_with('=') => (Comparison::Series, &text[1..]),
            _ => return Err(format!("`{text}` is no bound on a kernel: expected `>=6.6`, `<5.13` or `=6.1`")),
        };
        let (major, minor) = series(version.trim())
            .ok_or_else(|| format!("`{text}`: expected a version such as 6.6 after the comparison"))?;
        Ok(Bound { comparison, major, minor })
    }
}

impl Bound {
    fn holds(self, (major, minor): (u32, u32)) -> bool {
        match self.comparison {
            Comparison::AtLeast => (major, minor) >= (self.major, self.minor),
            Comparison::Below => (major, minor) < (self.major, self.minor),
            Comparison::Series => (major, minor) == (self.major, self.minor),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.comparison {
            Comparison::AtLeast => ">=",
            Comparison::Below => "<",
            Comparison::Series => "=",
        };
        write!(f, "{sign}{}.{}", self.major, self.minor)
    }
}

/// `6.12.107-cloud` → 6.12; `7`, the store's name of the newest kernel, → 7.0.
fn series(text: &str) -> Option<(u32, u32)> {
    if let Ok(version) = text.parse::<Version>() {
        return Some((version.major, version.minor));
    }
    text.parse().ok().map(|major| (major, 0))
}

/// Whether a kernel's release (`6.12.107-…`) or store name (`6.12`, `7`) satisfies all `bounds`.
///
/// No bounds match every kernel. `None` if the text does not begin with a version, or a bound is invalid.
pub fn kernel_suits(bounds: &[String], kernel: &str) -> Option<bool> {
    if bounds.is_empty() {
        return Some(true);
    }
    let version = series(kernel)?;
    bounds.iter().try_fold(true, |suits, bound| Some(suits && bound.parse::<Bound>().ok()?.holds(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_told_apart() {
        assert_eq!(When::read(None), Ok(When::Always));
        assert_eq!("remedy:raise-worker".parse(), Ok(When::Remedy("raise-worker".into())));
        assert_eq!("unless-remedy:null".parse(), Ok(When::UnlessRemedy("null".into())));
        assert!("remedy:".parse::<When>().is_err());
        assert!("faulty".parse::<When>().is_err());
    }

    #[test]
    fn kernels_are_chosen_by_series() {
        let suits = |bounds: &[&str], kernel: &str| {
            kernel_suits(&bounds.iter().map(|bound| (*bound).to_owned()).collect::<Vec<_>>(), kernel)
        };
        assert_eq!(suits(&[], "mine"), Some(true));
        assert_eq!(suits(&[">=5.13", "<6.6"], "6.1.0-32-amd64"), Some(true));
        assert_eq!(suits(&[">=5.13", "<6.6"], "5.10"), Some(false));
        assert_eq!(suits(&[">=6.6"], "7"), Some(true));
        assert_eq!(suits(&["=6.1"], "6.12.1"), Some(false));
        assert_eq!(suits(&[">=6.6"], "mine"), None);
    }
}
