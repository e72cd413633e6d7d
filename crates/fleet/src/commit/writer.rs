//! Whether the writer of a commit is trusted: one rule for compactors and readers. Pure.

/// Mode bits that let users other than the owner write.
pub const OTHERS_WRITE: u32 = 0o022;

/// The users of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trusted {
    /// The user who reads it.
    pub us: u32,
    /// The owner of the store's directory, if it can be read.
    pub owner: Option<u32>,
    /// The user who wrote `manifest.parquet`, and so compacts the store, trusted or not.
    pub keeper: Option<u32>,
}

/// Whether a file is trusted, by its owner and mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// It is trusted.
    Believed,
    /// Another user wrote it: it is ignored.
    Another,
    /// The store's keeper wrote it, but is not trusted. Ignoring it would give wrong rows.
    Keeper,
    /// Users other than its owner may write it.
    Anybody,
}

impl Trusted {
    /// Whether this user is trusted: root, the reader, and the owner of the store's directory.
    pub fn believes(&self, user: u32) -> bool {
        user == 0 || user == self.us || self.owner == Some(user)
    }

    /// Judges a file with this owner and mode.
    pub fn judge(&self, user: u32, mode: u32) -> Writer {
        match self.believes(user) {
            false if self.keeper == Some(user) => Writer::Keeper,
            false => Writer::Another,
            true if mode & OTHERS_WRITE != 0 => Writer::Anybody,
            true => Writer::Believed,
        }
    }

    /// Whether only trusted users can create files in directories with these owners and modes.
    pub fn is_closed(&self, directories: impl IntoIterator<Item = (u32, u32)>) -> bool {
        directories.into_iter().all(|(owner, mode)| self.judge(owner, mode) == Writer::Believed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_who_looks_and_the_owner_are_believed_and_nobody_else() {
        let trusted = Trusted { us: 7, owner: Some(8), keeper: Some(9) };
        for user in [0, 7, 8] {
            assert_eq!(trusted.judge(user, 0o644), Writer::Believed, "{user}");
            assert_eq!((trusted.judge(user, 0o664), trusted.judge(user, 0o646)), (Writer::Anybody, Writer::Anybody));
        }
        assert_eq!((trusted.judge(9, 0o644), trusted.judge(10, 0o644)), (Writer::Keeper, Writer::Another));
        // The user who keeps the store is trusted.
        assert_eq!(Trusted { keeper: Some(7), ..trusted }.judge(7, 0o644), Writer::Believed);
        assert!(trusted.is_closed([(0, 0o755), (8, 0o700)]) && !trusted.is_closed([(0, 0o755), (8, 0o1777)]));
        assert!(!trusted.is_closed([(9, 0o755)]));
    }
}
