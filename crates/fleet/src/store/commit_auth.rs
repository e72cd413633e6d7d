//! Checks whether a file with a commit's name is a compactor's. Hosts can put files of any name into an hour; a commit that no
//! trusted user wrote is reported and ignored.

use std::io::Read;

use super::directory::{Entry, Hour};
use crate::commit::{BadCommit, Commit, HEAD_BYTES, Head, Name, Trusted, Writer};
use crate::error::FleetError;

/// Why a file with a commit's name gives no commit.
pub(crate) enum NoCommit {
    /// It was removed meanwhile.
    Gone,
    /// Not this hour's, or not by a trusted user.
    Ignored(FleetError),
    /// A compactor wrote it and it cannot be read, or its writer cannot be determined: wrong rows are worse than none.
    Failed(FleetError),
}

impl From<FleetError> for NoCommit {
    fn from(error: FleetError) -> NoCommit {
        NoCommit::Failed(error)
    }
}

/// More than any version has written.
const MAX_COMMIT_FILE_BYTES: u64 = 256 << 20;

impl Hour<'_> {
    /// Reads a commit that a trusted user wrote for this hour.
    pub fn read_commit(&self, number: u64) -> Result<Commit, NoCommit> {
        let text = self.read_text(number, MAX_COMMIT_FILE_BYTES)?;
        if text.len() as u64 > MAX_COMMIT_FILE_BYTES {
            let why = format!("larger than {MAX_COMMIT_FILE_BYTES} bytes; expected a smaller commit");
            return Err(self.io("read", &Name::commit(number), std::io::Error::other(why)).into());
        }
        let commit = Commit::decode(number, self.key(), &text);
        self.check_hour(number, commit, |commit| &commit.head)
    }

    /// Reads the first line of such a commit.
    pub fn read_head(&self, number: u64) -> Result<Head, NoCommit> {
        let mut text = self.read_text(number, HEAD_BYTES)?;
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            return Ok(self.read_commit(number)?.head);
        };
        text.truncate(end + 1);
        self.check_hour(number, Head::decode(number, self.key(), &text), |head| head)
    }

    /// Whether there is a commit between two numbers.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn has_commit_between(&self, low: u64, high: u64) -> Result<bool, FleetError> {
        let trusted = self.store().trusted();
        for entry in self.list()?.0 {
            if let Name::Commit(number) = entry.kind
                && (low + 1..high).contains(&number)
                && self.why_ignored(&trusted, &entry).is_none()
            {
                match self.read_head(number) {
                    Ok(_) => return Ok(true),
                    Err(NoCommit::Failed(error)) => return Err(error),
                    Err(NoCommit::Gone | NoCommit::Ignored(_)) => {}
                }
            }
        }
        Ok(false)
    }

    /// Why a file with a commit's name is ignored, if its owner or mode decides that. Such files are not opened: hosts can make any number of them.
    pub fn why_ignored(&self, trusted: &Trusted, entry: &Entry) -> Option<FleetError> {
        let path = || self.path().join(&entry.name);
        if !entry.is_regular {
            return Some(FleetError::NoFile { path: path() });
        }
        let is_another = trusted.judge(entry.owner, entry.mode) == Writer::Another;
        is_another.then(|| FleetError::Owner { path: path(), owner: entry.owner })
    }

    /// Accepts a commit of this hour. A compactor's commit for another hour was copied here by another user.
    fn check_hour<T>(
        &self,
        number: u64,
        decoded: Result<T, BadCommit>,
        head: impl Fn(&T) -> &Head,
    ) -> Result<T, NoCommit> {
        let path = || self.path().join(Name::commit(number));
        match decoded {
            Ok(commit) if head(&commit).hour.is_none() && !self.is_closed()? => {
                Err(FleetError::Unbound { path: path() }.into())
            }
            Ok(commit) => Ok(commit),
            Err(source @ BadCommit::Elsewhere { .. }) => {
                Err(NoCommit::Ignored(FleetError::Commit { path: path(), source }))
            }
            Err(source) => Err(FleetError::Commit { path: path(), source }.into()),
        }
    }

    /// Whether only trusted users can bring files into this hour. Then a commit of an early version, which does not name its hour, belongs to it.
    fn is_closed(&self) -> Result<bool, FleetError> {
        let owners = self.owners().map_err(|error| self.io("read", "", error))?;
        Ok(self.store().trusted().is_closed(owners))
    }

    /// The text of a commit's file, up to one byte more than `limit`.
    fn read_text(&self, number: u64, limit: u64) -> Result<Vec<u8>, NoCommit> {
        let name = Name::commit(number);
        let (file, found) = match self.open(&name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Err(NoCommit::Gone),
            Err(why) if self.is_no_file(&name) => return Err(NoCommit::Ignored(why)),
            Err(error) => return Err(error.into()),
        };
        match self.check_writer(&name, &found) {
            Err((Writer::Another, why)) => return Err(NoCommit::Ignored(why)),
            checked => checked.map_err(|(_, why)| why)?,
        }
        let mut text = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut text).map_err(|error| self.io("read", &name, error))?;
        Ok(text)
    }
}
