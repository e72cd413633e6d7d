//! By whose word something is changed: who could have written the recording, and what root has named beside it.
//!
//! | is changed | to | a trusted recording | one that others could have written |
//! |---|---|---|---|
//! | a kernel thread | more | by default | if the remedy is named |
//! | a kernel thread | no more | by default | if the thread is named, too |
//! | a program | before all ordinary tasks | if the remedy is named | if the thread is named, too |
//! | a program | more | by default | if the thread is named, too |
//! | a program of who could have written it | no more | by default | if the remedy is named |
//! | another program | no more | by default | if the thread is named, too |
//! | a cgroup | more | by default | if the group is named, too |
//! | a cgroup of who could have written it | no more | by default | if the remedy is named |
//! | another cgroup | no more | by default | if the group is named, too |
//! | a setting of the machine | within its bounds | by default | if the remedy is named |
//! | a program of another host, in print | before all ordinary tasks | if the remedy is named | if the thread is named, too |
//! | a program of another host, in print | more | by default | if the thread is named, too |
//! | a program of another host, in print | no more | by default | if the remedy is named |
//!
//! What contradicts the recording ([`crate::claim`]), and what cannot be read, is refused whatever is named.

use std::fmt;
use std::str::FromStr;

use unstarve_model::Tid;
use unstarve_sched::setting::{Content, File};

use crate::plan::Ids;

/// Whose word a plan is made on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authority {
    /// Whether numbers mean the same here.
    pub ids: Ids,
    /// Who could have written the recording.
    pub author: Author,
    /// What was named beside it.
    pub named: Named,
}

impl Authority {
    /// Changes that nobody but who asks for them can have written: it counts as if the remedy was named.
    pub fn own(ids: Ids) -> Authority {
        Authority { ids, author: Author::Trusted, named: Named::Remedy(Vec::new()) }
    }
}

/// Who could have written a recording, beside root and the user of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Author {
    /// Nobody else.
    Trusted,
    /// This user: the file, or a directory on the way to it, is theirs.
    User(u32),
    /// Nobody knows who: others may write it, or it came through a pipe.
    Anybody,
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Author::Trusted => f.write_str("root"),
            Author::User(user) => write!(f, "uid {user}"),
            Author::Anybody => f.write_str("anybody"),
        }
    }
}

/// What was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// Nothing: the first remedy that can be carried out.
    Nothing,
    /// The remedy, and these things in it.
    Remedy(Vec<Thing>),
    /// All that it contains.
    Everything,
}

/// Something that is named so that it may be changed. Not by its name: anybody can take a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Thing {
    /// A thread, or all of a process.
    Task(Tid),
    /// A cgroup, by the directory where it is mounted.
    Group(String),
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Thing::Task(tid) => write!(f, "{tid}"),
            Thing::Group(directory) => f.write_str(directory),
        }
    }
}

impl FromStr for Thing {
    type Err = String;

    fn from_str(text: &str) -> Result<Thing, String> {
        if text.starts_with('/') {
            return Ok(Thing::Group(text.trim_end_matches('/').to_owned()));
        }
        let tid = text.parse().ok().filter(|tid| *tid > 0);
        tid.map(Tid).map(Thing::Task).ok_or_else(|| {
            "expected the number of a thread or process, or the directory of a cgroup (/sys/fs/cgroup/…); names are taken by anybody".to_owned()
        })
    }
}

/// What is changed, as far as it matters who asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A kernel thread.
    KernelThread,
    /// A program of this user.
    Program(u32),
    /// A program of another host or boot, or one that has ended: only printed commands and files are about it.
    Elsewhere,
    /// A cgroup whose directory belongs to this user.
    Group(u32),
    /// A setting of the whole machine.
    Machine,
}

/// To what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toward {
    /// Before all ordinary tasks.
    RealTime,
    /// Before more of the others.
    More,
    /// Anything else: less, other CPUs.
    Other,
}

/// What has to be named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// The remedy.
    Remedy,
    /// The remedy, and what it changes.
    Thing,
}

/// The table above.
pub fn needs(author: Author, subject: Subject, toward: Toward) -> Needs {
    let is_theirs = |user: u32| user != 0 && author == Author::User(user);
    match (author, subject, toward) {
        (Author::Trusted, Subject::Program(_) | Subject::Elsewhere, Toward::RealTime) => Needs::Remedy,
        (Author::Trusted, ..) => Needs::Nothing,
        (_, Subject::KernelThread, Toward::RealTime | Toward::More) => Needs::Remedy,
        (_, Subject::KernelThread, Toward::Other) => Needs::Thing,
        (_, Subject::Machine, _) | (_, Subject::Elsewhere, Toward::Other) => Needs::Remedy,
        (_, Subject::Program(user) | Subject::Group(user), Toward::Other) if is_theirs(user) => Needs::Remedy,
        (_, Subject::Program(_) | Subject::Group(_) | Subject::Elsewhere, _) => Needs::Thing,
    }
}

/// Toward what a setting of a cgroup goes.
pub(crate) fn of_group(file: File<'_>, old: Option<&Content>, new: Option<&Content>) -> Toward {
    let unknown = Content::default();
    let is_more = file.gives_more(old.unwrap_or(&unknown), new.unwrap_or(&unknown));
    if is_more { Toward::More } else { Toward::Other }
}
