//! Reads the hosts' files of an hour that are not merged yet.

use std::collections::VecDeque;

use bytes::Bytes;

use super::outputs::{OutputFiles, Refused};
use super::refusals::Refusals;
use crate::commit::Input;
use crate::decode::parallel_read::Work;
use crate::decode::{Examined, NOT_EXAMINED, Run};
use crate::error::{FleetError, chain};
use crate::problem::{Kind, Problem};
use crate::store::{Content, Entry, Hour, MAX_INPUT_BYTES, Place, Readers, digest_of};

/// Maximum size of a group of files that is decoded at once: small enough that an hour of a hundred hosts keeps several threads busy.
const MAX_GROUP_FILES: usize = 32;
const MAX_GROUP_BYTES: usize = 2 << 20;

/// Files of hosts, read in groups of those with the same readers.
pub(super) struct UnmergedFiles<'a, 'h> {
    outputs: &'a mut OutputFiles<'h>,
    hosts: &'a Place<'a>,
    files: std::vec::IntoIter<&'a Entry>,
    /// Bytes left in the commit for their lines.
    room: u64,
    /// Files that are being decoded.
    asked: VecDeque<Loaded<'a>>,
    /// A file that was read and begins the next group.
    next: Option<(Loaded<'a>, Bytes)>,
    pub inputs: Vec<Input>,
    problems: &'a mut Vec<Problem>,
    refusals: &'a mut Refusals,
    /// Number of files that were refused before and have not changed; the first one's name and reason.
    refused_before: Option<(u64, String, String)>,
}

/// A file that was read.
struct Loaded<'a> {
    entry: &'a Entry,
    bytes: u64,
    digest: String,
    readers: Readers,
}

impl Work for UnmergedFiles<'_, '_> {
    type Error = FleetError;

    fn next(&mut self) -> Option<Vec<Bytes>> {
        let (first, bytes) = self.load()?;
        let (mut size, readers) = (bytes.len(), first.readers);
        let mut group = vec![bytes];
        self.asked.push_back(first);
        while group.len() < MAX_GROUP_FILES && size < MAX_GROUP_BYTES {
            let Some((file, bytes)) = self.load() else { break };
            if file.readers != readers || size + bytes.len() > MAX_GROUP_BYTES {
                self.next = Some((file, bytes));
                break;
            }
            size += bytes.len();
            group.push(bytes);
            self.asked.push_back(file);
        }
        Some(group)
    }

    fn take(&mut self, answer: Result<Run, String>) -> Result<(), FleetError> {
        let run = match answer {
            Ok(run) => run,
            Err(why) => {
                let file = self.asked.pop_front().ok_or_else(|| self.lost())?;
                if !why.starts_with(NOT_EXAMINED) {
                    self.refusals.note(self.outputs.hour.key(), file.entry, &why);
                }
                return self.refuse(&file.entry.name, Refused::File(why));
            }
        };
        let files = run.files.clone();
        if files.len() > self.asked.len() {
            return Err(self.lost());
        }
        let asked: Vec<Loaded<'_>> = self.asked.drain(..files.len()).collect();
        let Some(readers) = asked.first().map(|file| file.readers) else { return Ok(()) };
        match self.outputs.push(run, readers) {
            Ok(()) => {
                self.inputs.extend(asked.into_iter().zip(files).map(|(file, found)| input(file, found)));
                Ok(())
            }
            Err(Refused::File(why)) => {
                asked.iter().try_for_each(|file| self.refuse(&file.entry.name, Refused::File(why.clone())))
            }
            Err(error) => self.refuse("", error),
        }
    }

    fn lost(&self) -> FleetError {
        self.outputs.rows_error("files were read by nobody")
    }
}

fn input(file: Loaded<'_>, found: Examined) -> Input {
    let Loaded { entry, bytes, digest, .. } = file;
    Input { name: entry.name.clone(), bytes, rows: found.rows, sum: found.sum, digest }
}

impl<'a, 'h> UnmergedFiles<'a, 'h> {
    /// Starts reading the files of an hour; their rows go into `outputs`.
    pub fn of(
        outputs: &'a mut OutputFiles<'h>,
        hour: &'a Hour<'a>,
        hosts: &'a Place<'a>,
        refusals: &'a mut Refusals,
        problems: &'a mut Vec<Problem>,
    ) -> UnmergedFiles<'a, 'h> {
        UnmergedFiles {
            room: outputs.commit_bytes,
            outputs,
            hosts,
            files: hour.unmerged().into_iter(),
            asked: VecDeque::new(),
            next: None,
            inputs: Vec::new(),
            problems,
            refusals,
            refused_before: None,
        }
    }

    pub fn is_any(&self) -> bool {
        self.files.len() > 0
    }

    fn refuse(&mut self, name: &str, why: Refused) -> Result<(), FleetError> {
        why.problem(self.hosts.shown(name))?.add(self.problems);
        Ok(())
    }

    /// Reads the next file, as long as the commit has room for it.
    fn load(&mut self) -> Option<(Loaded<'a>, Bytes)> {
        if let Some(next) = self.next.take() {
            return Some(next);
        }
        while let Some(entry) = self.files.next() {
            if self.is_refused(entry) {
                continue;
            }
            let name = entry.name.as_str();
            let line = Input::most_line_bytes(name);
            if line > self.room {
                self.stop();
                return None;
            }
            match self.hosts.read(name, MAX_INPUT_BYTES) {
                Ok(Some(Content { bytes, readers, .. })) => {
                    self.room -= line;
                    let digest = digest_of(&bytes);
                    return Some((Loaded { entry, bytes: bytes.len() as u64, digest, readers }, bytes));
                }
                // The file was removed meanwhile.
                Ok(None) => {}
                Err(error) => Problem::new(self.hosts.shown(name), &chain(&error)).add(self.problems),
            }
        }
        None
    }

    /// Whether an earlier run refused the file, and it has not changed.
    fn is_refused(&mut self, entry: &Entry) -> bool {
        let Some(why) = self.refusals.holds(self.outputs.hour.key(), entry) else { return false };
        self.refused_before.get_or_insert_with(|| (0, entry.name.clone(), why)).0 += 1;
        true
    }

    /// Reports how many files were not read because they were refused before.
    pub fn say_refused(&mut self) -> u64 {
        let Some((count, name, why)) = self.refused_before.take() else { return 0 };
        let others = match count {
            1 => String::new(),
            _ => format!("; so were {} more files of this hour, each for a reason of its own", count - 1),
        };
        let why = format!("refused in an earlier run and not changed since, so it was not read again: {why}{others}");
        Problem::new(self.hosts.shown(&name), &why).add(self.problems);
        count
    }

    /// Ends the reading: the commit is full.
    fn stop(&mut self) {
        let rest = self.files.len() + 1;
        self.files = Vec::new().into_iter();
        let most = self.outputs.commit_bytes;
        let why = format!(
            "{rest} files are left to the next run: the commit would be larger than {most} bytes; let hosts write fewer and larger files"
        );
        Problem::of(Kind::Place, self.hosts.shown(""), &why).add(self.problems);
    }
}
