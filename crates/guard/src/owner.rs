//! Owners of tasks: the user ids that the kernel shows, and the users' names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

/// A user id, as seen in this program's user namespace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uid(pub u32);

impl Uid {
    /// Root.
    pub const ROOT: Uid = Uid(0);
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ids of a task, from `Uid:` in `/proc/PID/status` (proc_pid_status(5)).
///
/// A set-user-ID program keeps the real id of the user who started it; the effective and saved ids are those of the file's
/// owner. The first user controls its name, arguments and signals, the second its code, so it belongs to neither alone. The
/// filesystem id is left out: without privileges it follows the effective id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The user who started it.
    pub real: Uid,
    /// The user whose permissions it has.
    pub effective: Uid,
    /// The user whose permissions it can regain.
    pub saved: Uid,
}

impl Owner {
    /// Reads the owner from a task's `status`.
    pub fn read(status: &str) -> Option<Owner> {
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        let mut ids = line.split_ascii_whitespace().map(|id| id.parse().map(Uid));
        Some(Owner { real: ids.next()?.ok()?, effective: ids.next()?.ok()?, saved: ids.next()?.ok()? })
    }

    /// The user, if all ids are the same; `None` for a set-user-ID program, and for one that dropped its privileges temporarily.
    pub fn sole(&self) -> Option<Uid> {
        (self.real == self.effective && self.real == self.saved).then_some(self.real)
    }

    /// Whether all ids are in the set.
    pub fn is_within(&self, set: &UidSet) -> bool {
        [self.real, self.effective, self.saved].into_iter().all(|uid| set.contains(uid))
    }
}

/// A set of user ids: `1000`, or `0,1000-1999`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct UidSet {
    /// Ascending; ranges neither overlap nor touch.
    ranges: Vec<(u32, u32)>,
}

impl UidSet {
    /// The set of one user.
    pub fn of(uid: Uid) -> UidSet {
        UidSet { ranges: vec![(uid.0, uid.0)] }
    }

    /// Whether the set contains a user.
    pub fn contains(&self, uid: Uid) -> bool {
        self.ranges.iter().any(|&(first, last)| (first..=last).contains(&uid.0))
    }

    /// How many ids the set has.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|&(first, last)| u64::from(last - first) + 1).sum()
    }
}

/// The text is not a set of users.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no set of user ids; expected one such as 1000 or 0,1000-1999")]
pub struct NoUidSet(String);

impl FromStr for UidSet {
    type Err = NoUidSet;

    fn from_str(text: &str) -> Result<UidSet, NoUidSet> {
        let wrong = || NoUidSet(text.to_owned());
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u32>().ok().filter(|_| digits).ok_or_else(wrong)
        };
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first.trim())?, number(last.trim())?);
            if first > last {
                return Err(wrong());
            }
            ranges.push((first, last));
        }
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if u64::from(first) <= u64::from(before.1) + 1 => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Ok(UidSet { ranges: merged })
    }
}

impl fmt::Display for UidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        Ok(())
    }
}

/// The users of `/etc/passwd`. NSS is not used: it may run other code, differs between builds with different C libraries, and
/// can hang when the network does. Users known only to NSS are shown by number.
#[derive(Clone, Debug, Default)]
pub struct Users {
    by_name: BTreeMap<String, Uid>,
}

impl Users {
    /// The users of this machine; empty if the file cannot be read.
    pub fn of_this_machine() -> Users {
        /// Room for 100,000 users with long names.
        const LARGEST: u64 = 16 << 20;
        let mut text = String::new();
        let read: io::Result<usize> =
            File::open("/etc/passwd").and_then(|file| file.take(LARGEST).read_to_string(&mut text));
        read.map(|_| Users::parse(&text)).unwrap_or_default()
    }

    /// Parses a text in the format of passwd(5). The first line with a name counts, as in the C library.
    pub fn parse(text: &str) -> Users {
        let mut by_name = BTreeMap::new();
        for line in text.lines() {
            let mut fields = line.split(':');
            let (Some(name), Some(Ok(uid))) = (fields.next(), fields.nth(1).map(str::parse)) else { continue };
            if !name.is_empty() && !name.starts_with(['+', '-']) {
                by_name.entry(name.to_owned()).or_insert(Uid(uid));
            }
        }
        Users { by_name }
    }

    /// The id of a user name.
    pub fn uid(&self, name: &str) -> Option<Uid> {
        self.by_name.get(name).copied()
    }

    /// The user name of an id; the number if it has none.
    pub fn name(&self, uid: Uid) -> String {
        let found = self.by_name.iter().find(|(_, other)| **other == uid);
        found.map_or_else(|| uid.to_string(), |(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_users_are_numbers_and_ranges() {
        let set = |text: &str| text.parse::<UidSet>().map(|set| set.to_string()).map_err(|_| ());
        assert_eq!(set("1000"), Ok("1000".to_owned()));
        assert_eq!(set("5, 1-3,4,4294967295"), Ok("1-5,4294967295".to_owned()));
        for wrong in ["", "*", "-1", "3-1", "1-", "root", "+1", "4294967296", "1,,2"] {
            assert_eq!(set(wrong), Err(()), "{wrong}");
        }
        let all: UidSet = "0-4294967295".parse().unwrap();
        assert_eq!(all.count(), 1 << 32);
        assert!(all.contains(Uid(u32::MAX)) && !UidSet::of(Uid::ROOT).contains(Uid(1)));
    }

    #[test]
    fn a_set_user_id_program_is_nobodys_alone() {
        let owner = |ids: &str| Owner::read(&format!("Name:\tx\nUid:\t{ids}\nGid:\t0\t0\t0\t0\n")).unwrap();
        let su = owner("1001\t0\t0\t0");
        assert_eq!(su.sole(), None);
        assert!(!su.is_within(&UidSet::of(Uid::ROOT)) && !su.is_within(&UidSet::of(Uid(1001))));
        assert!(su.is_within(&"0,1001".parse().unwrap()));
        // A root daemon that acts for a user.
        assert!(!owner("0\t1001\t0\t1001").is_within(&UidSet::of(Uid(1001))));
        assert_eq!(owner("7\t7\t7\t0").sole(), Some(Uid(7)), "the filesystem id says nothing");
        assert_eq!(Owner::read("Uid:\t1\t2\n"), None);
    }

    #[test]
    fn names_are_those_of_passwd() {
        let users =
            Users::parse("root:x:0:0:root:/root:/bin/sh\n+nis\nbad\ndb:x:70:70::/:\nroot:x:99:0::/:\nx:x:y:0:::\n");
        assert_eq!((users.uid("root"), users.uid("db"), users.uid("x")), (Some(Uid(0)), Some(Uid(70)), None));
        assert_eq!((users.name(Uid(70)), users.name(Uid(71))), ("db".to_owned(), "71".to_owned()));
    }
}
