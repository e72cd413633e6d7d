//! Kernel versions.

use std::fmt;
use std::str::FromStr;

use crate::KernelInfo;

/// An upstream kernel version, as far as it is known.
///
/// A distribution's release names the series but often not the stable level: `6.1.0-32-amd64` of Debian is 6.1.129 and
/// `6.8.0-45-generic` of Ubuntu is 6.8.12. So a level 0 followed by a package number is treated as unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// 6 of 6.12.107.
    pub major: u32,
    /// 12 of 6.12.107.
    pub minor: u32,
    /// 107 of 6.12.107, if known.
    pub patch: Option<u32>,
}

/// Text that is not a kernel version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// It does not begin with a version.
    #[error(
        "`{0}` does not begin with a kernel version such as 6.12.107 or 6.12; of 4 to 7 the number alone is enough"
    )]
    NotOne(String),
    /// There is no such series: the next major number followed.
    #[error("there is no Linux {named}: the last of {} is {last}", .last.major)]
    NeverWas {
        /// The version in the text.
        named: Version,
        /// The last series of that major number.
        last: Version,
    },
}

impl Version {
    /// The version without a stable level.
    pub const fn series(major: u32, minor: u32) -> Version {
        Version { major, minor, patch: None }
    }

    /// The last series whose source was read for the facts here (docs/knobs.md).
    pub const NEWEST_READ: Version = Version::series(7, 2);

    /// The last series of each major number from 4 on; there may be later ones of the newest number.
    const LAST: [Version; 4] =
        [Version::series(4, 20), Version::series(5, 19), Version::series(6, 19), Version::NEWEST_READ];

    /// Parses a version given by a user: `6.12`, `6.12.107`, or `7` alone for its newest known series, as the lab calls
    /// the newest kernel.
    ///
    /// # Errors
    ///
    /// The text does not begin with a version, and is not a known major number; or there is no such kernel.
    pub fn named(text: &str) -> Result<Version, VersionError> {
        let text = text.trim();
        let bare = text.strip_prefix('v').unwrap_or(text);
        let last_of = |major: u32| Version::LAST.into_iter().find(|last| last.major == major);
        if let Some(last) = bare.parse().ok().and_then(last_of) {
            return Ok(last);
        }
        let named: Version = bare.parse()?;
        match last_of(named.major) {
            Some(last) if named.minor > last.minor && last != Version::NEWEST_READ => {
                Err(VersionError::NeverWas { named, last })
            }
            _ => Ok(named),
        }
    }

    /// The version of a host: from Debian's and Ubuntu's own notes of the upstream version if there are any, otherwise
    /// from the release.
    pub fn of(kernel: &KernelInfo) -> Option<Version> {
        let noted = |text: &str| text.split_ascii_whitespace().find_map(|word| word.parse::<Version>().ok());
        let debian = kernel.version.as_deref().and_then(|text| noted(text.split_once(" Debian ")?.1));
        let ubuntu = kernel.signature.as_deref().and_then(|text| text.rsplit(' ').next()?.parse().ok());
        let release: Version = kernel.release.as_deref()?.parse().ok()?;
        // A note about another series is not about this kernel.
        let same = |version: &Version| (version.major, version.minor) == (release.major, release.minor);
        Some(debian.filter(same).or(ubuntu.filter(same)).unwrap_or(release))
    }

    /// Whether this series is newer than the facts here.
    pub fn is_unread(self) -> bool {
        (self.major, self.minor) > (Version::NEWEST_READ.major, Version::NEWEST_READ.minor)
    }

    /// Whether the series is `major.minor` or later.
    pub fn is_at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    /// Whether, within the series `major.minor`, the stable level is `patch` or later. `None` for another series or an
    /// unknown level.
    pub fn stable_reaches(self, major: u32, minor: u32, patch: u32) -> Option<bool> {
        let level = self.patch.filter(|_| (self.major, self.minor) == (major, minor))?;
        Some(level >= patch)
    }
}

/// When a new major number begins, add the last series of 7 to [`Version::LAST`].
const _: () = assert!(Version::NEWEST_READ.major == 7);

impl FromStr for Version {
    type Err = VersionError;

    /// Reads the version at the beginning of `text`: `6.12.107-1-cloud-amd64`, `7.2-rc3`, `6.1.0-32-amd64`.
    fn from_str(text: &str) -> Result<Version, VersionError> {
        parse(text).ok_or_else(|| VersionError::NotOne(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Version> {
    let (major, rest) = number(text)?;
    let (minor, rest) = number(rest.strip_prefix('.')?)?;
    let (patch, rest) = match rest.strip_prefix('.').and_then(number) {
        Some((patch, rest)) => (Some(patch), rest),
        None => (None, rest),
    };
    let packaged = rest.strip_prefix('-').is_some_and(|tail| tail.starts_with(|c: char| c.is_ascii_digit()));
    let patch = if patch == Some(0) && packaged { None } else { patch };
    Some(Version { major, minor, patch })
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_names_the_series_and_sometimes_the_level() {
        let shown = |text: &str| text.parse::<Version>().map(|version| version.to_string()).unwrap_or_default();
        for (release, version) in [
            ("6.12.107-1-cloud-amd64", "6.12.107"),
            ("6.1.0-32-cloud-amd64", "6.1"),
            ("6.8.0-45-generic", "6.8"),
            ("7.0.0", "7.0.0"),
            ("7.2-rc3", "7.2"),
            ("5.10", "5.10"),
            ("linux", ""),
            ("6", ""),
            ("99999999999.1", ""),
        ] {
            assert_eq!(shown(release), version, "{release}");
        }
    }

    #[test]
    fn a_number_alone_is_the_newest_series_of_it() {
        let named = |text: &str| Version::named(text).map(|version| version.to_string()).unwrap_or_default();
        for (text, version) in [
            ("7", "7.2"),
            (" 7 ", "7.2"),
            ("v7", "7.2"),
            ("7.2", "7.2"),
            ("7.2.13", "7.2.13"),
            ("6", "6.19"),
            ("6.12", "6.12"),
            ("v6.12.107", "6.12.107"),
            ("7.9", "7.9"),
            ("8", ""),
            ("8.1", "8.1"),
            ("mine", ""),
            ("", ""),
        ] {
            assert_eq!(named(text), version, "{text}");
        }
    }

    #[test]
    fn what_never_was_is_no_version() {
        let refused = |text: &str| Version::named(text).map_err(|error| error.to_string()).err();
        assert_eq!(refused("6.99").as_deref(), Some("there is no Linux 6.99: the last of 6 is 6.19"));
        assert_eq!(refused("v5.20.1").as_deref(), Some("there is no Linux 5.20.1: the last of 5 is 5.19"));
        assert_eq!(["4.20", "5.19", "6.19.3", "7.3", "3.19"].map(refused), [const { None }; 5]);
    }

    #[test]
    fn distributions_note_the_upstream_level_elsewhere() {
        let kernel = |release: &str, version: &str, signature: Option<&str>| KernelInfo {
            release: Some(release.into()),
            version: Some(version.into()),
            signature: signature.map(Into::into),
            ..KernelInfo::default()
        };
        let debian = kernel("6.1.0-32-cloud-amd64", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1 (2025-03-06)", None);
        assert_eq!(Version::of(&debian).map(|v| v.to_string()).as_deref(), Some("6.1.129"));
        let ubuntu = kernel("6.8.0-45-generic", "#45-Ubuntu SMP", Some("Ubuntu 6.8.0-45.45-generic 6.8.12"));
        assert_eq!(Version::of(&ubuntu).map(|v| v.to_string()).as_deref(), Some("6.8.12"));
        let red_hat = kernel("5.14.0-503.el9.x86_64", "#1 SMP PREEMPT_DYNAMIC", None);
        assert_eq!(Version::of(&red_hat), Some(Version::series(5, 14)));
    }

    #[test]
    fn series_compare_by_number_and_levels_only_within_their_series() {
        let version: Version = "6.12.30".parse().unwrap();
        assert!(version.is_at_least(6, 6) && version.is_at_least(6, 12) && !version.is_at_least(6, 13));
        assert_eq!(version.stable_reaches(6, 12, 31), Some(false));
        assert_eq!(version.stable_reaches(6, 18, 45), None);
        assert_eq!(Version::series(6, 12).stable_reaches(6, 12, 31), None);
    }
}
