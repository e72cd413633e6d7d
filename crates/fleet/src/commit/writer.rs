//! Whether who wrote a commit is believed: one rule for who merges and for who reads. Pure.

/// Mode bits by which others than the owner may write.
pub const OTHERS_WRITE: u32 = 0o022;

/// Who looks at a store, and whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trusted {
    /// The user who looks.
    pub us: u32,
    /// The owner of the whole directory, where that can be seen.
    pub owner: Option<u32>,
    /// Who wrote `manifest.parquet`, and so keeps the store, whether believed or not.
    pub keeper: Option<u32>,
}

/// What the owner and the mode of a file say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// It is believed.
    Believed,
    /// Somebody else wrote it: as if it were not there.
    Another,
    /// The store's keeper wrote it, who is not believed. Without it the rows would be wrong.
    Keeper,
    /// Others than its owner may write it.
    Anybody,
}

impl Trusted {
    /// Whether what this user wrote is believed: root, who looks, and the owner of the whole directory.
    pub fn believes(&self, user: u32) -> bool {
        user == 0 || user == self.us || self.owner == Some(user)
    }

    /// Of a file with this owner and this mode.
    pub fn judge(&self, user: u32, mode: u32) -> Writer {
        match self.believes(user) {
            false if self.keeper == Some(user) => Writer::Keeper,
            false => Writer::Another,
            true if mode & OTHERS_WRITE != 0 => Writer::Anybody,
            true => Writer::Believed,
        }
    }

    /// Whether nobody who is not believed can bring files into directories with these owners and modes.
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
        // The user who keeps the store is believed.
        assert_eq!(Trusted { keeper: Some(7), ..trusted }.judge(7, 0o644), Writer::Believed);
        assert!(trusted.is_closed([(0, 0o755), (8, 0o700)]) && !trusted.is_closed([(0, 0o755), (8, 0o1777)]));
        assert!(!trusted.is_closed([(9, 0o755)]));
    }
}
