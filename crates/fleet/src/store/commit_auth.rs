//! Whether a file that is called like a commit is one. Hosts can put files of any name into an hour; those that are none of a compactor's are named
//! and passed over, as if they were not there.

use std::io::Read;

use super::directory::{Entry, Hour};
use crate::commit::{BadCommit, Commit, HEAD_BYTES, Head, Name, Trusted, Writer};
use crate::error::FleetError;

/// A file that is called like a commit.
pub(crate) enum CommitFile<T> {
    /// It is not there any more.
    Gone,
    /// It is none of this hour's.
    Ignored(FleetError),
    /// It is one.
    Trusted(T),
}

/// More than any version has written.
const MAX_COMMIT_FILE_BYTES: u64 = 256 << 20;

impl Hour<'_> {
    /// A commit.
    ///
    /// # Errors
    /// If it is a compactor's and cannot be read, or if that cannot be decided: wrong rows are worse than none.
    pub fn read_commit(&self, number: u64) -> Result<CommitFile<Commit>, FleetError> {
        let text = match self.read_text(number, MAX_COMMIT_FILE_BYTES)? {
            CommitFile::Trusted(text) => text,
            CommitFile::Gone => return Ok(CommitFile::Gone),
            CommitFile::Ignored(why) => return Ok(CommitFile::Ignored(why)),
        };
        if text.len() as u64 > MAX_COMMIT_FILE_BYTES {
            let why = format!("larger than {MAX_COMMIT_FILE_BYTES} bytes; expected a smaller commit");
            return Err(self.io("read", &Name::commit(number), std::io::Error::other(why)));
        }
        let commit = Commit::decode(number, self.key(), &text);
        self.check_hour(number, commit, |commit| &commit.head)
    }

    /// The first line of one.
    ///
    /// # Errors
    /// As of the whole.
    pub fn read_head(&self, number: u64) -> Result<CommitFile<Head>, FleetError> {
        let mut text = match self.read_text(number, HEAD_BYTES)? {
            CommitFile::Trusted(text) => text,
            CommitFile::Gone => return Ok(CommitFile::Gone),
            CommitFile::Ignored(why) => return Ok(CommitFile::Ignored(why)),
        };
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            return Ok(match self.read_commit(number)? {
                CommitFile::Trusted(commit) => CommitFile::Trusted(commit.head),
                CommitFile::Gone => CommitFile::Gone,
                CommitFile::Ignored(why) => CommitFile::Ignored(why),
            });
        };
        text.truncate(end + 1);
        self.check_hour(number, Head::decode(number, self.key(), &text), |head| head)
    }

    /// Whether there is a commit between two numbers.
    ///
    /// # Errors
    /// As of a commit.
    pub fn has_commit_between(&self, low: u64, high: u64) -> Result<bool, FleetError> {
        let trusted = self.store().trusted();
        for entry in self.list()?.0 {
            if let Name::Commit(number) = entry.kind
                && (low + 1..high).contains(&number)
                && self.why_ignored(&trusted, &entry).is_none()
                && matches!(self.read_head(number)?, CommitFile::Trusted(_))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Why what is called like a commit is none, where its owner and its mode say so: hosts can make any number of such files, and none is opened.
    pub fn why_ignored(&self, trusted: &Trusted, entry: &Entry) -> Option<FleetError> {
        let path = || self.path().join(&entry.name);
        if !entry.is_regular {
            return Some(FleetError::NoFile { path: path() });
        }
        let is_another = trusted.judge(entry.owner, entry.mode) == Writer::Another;
        is_another.then(|| FleetError::Owner { path: path(), owner: entry.owner })
    }

    /// What a compactor made for this hour; what it made for another one, somebody else brought here.
    fn check_hour<T>(
        &self,
        number: u64,
        decoded: Result<T, BadCommit>,
        head: impl Fn(&T) -> &Head,
    ) -> Result<CommitFile<T>, FleetError> {
        let path = || self.path().join(Name::commit(number));
        match decoded {
            Ok(commit) if head(&commit).hour.is_none() && !self.is_closed()? => {
                Err(FleetError::Unbound { path: path() })
            }
            Ok(commit) => Ok(CommitFile::Trusted(commit)),
            Err(source @ BadCommit::Elsewhere { .. }) => {
                Ok(CommitFile::Ignored(FleetError::Commit { path: path(), source }))
            }
            Err(source) => Err(FleetError::Commit { path: path(), source }),
        }
    }

    /// Whether nobody who is not believed can bring files into this hour: then a commit of an early version is of it, too.
    fn is_closed(&self) -> Result<bool, FleetError> {
        let owners = self.owners().map_err(|error| self.io("read", "", error))?;
        Ok(self.store().trusted().is_closed(owners))
    }

    /// What is in the file of a commit, up to one byte more than a limit.
    fn read_text(&self, number: u64, limit: u64) -> Result<CommitFile<Vec<u8>>, FleetError> {
        let name = Name::commit(number);
        let (file, found) = match self.open(&name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return Ok(CommitFile::Gone),
            Err(why) if self.is_no_file(&name) => return Ok(CommitFile::Ignored(why)),
            Err(error) => return Err(error),
        };
        match self.check_writer(&name, &found) {
            Err((Writer::Another, why)) => return Ok(CommitFile::Ignored(why)),
            checked => checked.map_err(|(_, why)| why)?,
        }
        let mut text = Vec::new();
        file.take(limit.saturating_add(1)).read_to_end(&mut text).map_err(|error| self.io("read", &name, error))?;
        Ok(CommitFile::Trusted(text))
    }
}
