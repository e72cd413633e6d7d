//! Authorises changes: by who could have written the recording, and by what root named on the command line.
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
//! A change that contradicts the recording ([`crate::claim`]), or whose target cannot be read, is refused in any case.

use std::fmt;
use std::str::FromStr;

use unstarve_model::Tid;
use unstarve_sched::setting::{Content, File};

use crate::look::Ids;

/// What authorises a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authority {
    /// Whether ids in the recording are valid on this host.
    pub ids: Ids,
    /// Who could have written the recording.
    pub author: Author,
    /// What was named on the command line.
    pub named: Named,
}

impl Authority {
    /// Changes that only the caller can have written: as if the remedy was named.
    pub fn own(ids: Ids) -> Authority {
        Authority { ids, author: Author::Trusted, named: Named::Remedy(Vec::new()) }
    }
}

/// Who could have written a recording, besides root and the user of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Author {
    /// Nobody else.
    Trusted,
    /// This user, who owns the file or a directory on its path.
    User(u32),
    /// Any user: the file is writable by others, or came through a pipe.
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

/// What the caller named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// Nothing: the first remedy that can be carried out.
    Nothing,
    /// The remedy, and these things in it.
    Remedy(Vec<Thing>),
    /// Everything in the recording.
    Everything,
}

/// Something named so that it may be changed. Not by its name, because any user can choose a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Thing {
    /// A thread, or all threads of a process.
    Task(Tid),
    /// A cgroup, by its directory in the mounted hierarchy.
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

/// What is changed, as far as authorisation depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A kernel thread.
    KernelThread,
    /// A program of this user.
    Program(u32),
    /// A program of another host or boot, or one that exited: only printed commands and files affect it.
    Elsewhere,
    /// A cgroup whose directory belongs to this user.
    Group(u32),
    /// A setting of the whole machine.
    Machine,
}

/// The direction of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Toward {
    /// Above all ordinary tasks.
    RealTime,
    /// More CPU time, at the cost of others.
    More,
    /// Anything else: less CPU time, other CPUs.
    Other,
}

/// What the caller must name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// The remedy.
    Remedy,
    /// The remedy, and the thing that it changes.
    Thing,
}

/// Implements the table above.
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

/// The direction of a cgroup setting's change.
pub(crate) fn of_group(file: File<'_>, old: Option<&Content>, new: Option<&Content>) -> Toward {
    let unknown = Content::default();
    let is_more = file.gives_more(old.unwrap_or(&unknown), new.unwrap_or(&unknown));
    if is_more { Toward::More } else { Toward::Other }
}
