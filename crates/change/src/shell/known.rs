//! How a printed command recognises the recorded thread. It runs without any other check, perhaps on another host, so the command
//! itself compares everything that the recording claims about the thread.

use unstarve_model::Tid;
use unstarve_sched::KernelThread;

use crate::Value;
use crate::change::{Thread, is_cut};

/// Prints the creation time of `$t`: the twentieth field after the name in proc_pid_stat(5). The name may contain any bytes,
/// including newlines. In some locales, sed's match ends at bytes that are not valid text.
pub(super) const CREATED: &str = "tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 20";

/// Prints the parent and the memory size of `$t`. A kernel thread is a child of kthreadd (2) and has no memory; a program has
/// memory, whatever its name, unless it has ended.
///
/// Source: `do_task_stat()` in fs/proc/array.c, where `get_task_mm()` returns nothing for PF_KTHREAD.
pub(super) const KIND: &str =
    "tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 2,21 | tr ' ' :";

/// Prints the real user of `$t`. The name comes first in the file, with newlines escaped.
pub(super) const OWNER: &str = "LC_ALL=C sed -n 's/^Uid:[[:space:]]*//p' /proc/$t/status 2> /dev/null | cut -f 1";

/// Prints the bytes of the name of `$t`, including the newline that `/proc` appends.
pub(super) const NAME: &str = "od -An -v -tx1 /proc/$t/comm 2> /dev/null | tr -d ' \\n'";

/// What the command compares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    start: Option<u64>,
    /// Patterns of `case` for the output of [`NAME`], if nothing better is known: a name never becomes part of a command
    /// literally.
    names: Option<Vec<String>>,
    is_of_kernel: bool,
    user: Option<u32>,
}

/// Which of the claims a word of `case` contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    pub(super) kind: bool,
    pub(super) owner: bool,
    pub(super) name: bool,
}

impl Known {
    /// For a command that sets this value; `None` if the recording has neither the creation time nor the name, because then
    /// nothing shows that the thread with this id is the recorded one.
    pub(super) fn of(thread: &Thread, to: Option<&Value>) -> Option<Known> {
        let is_privileged = to.is_some_and(Value::is_privileged);
        // A kernel thread's name proves nothing: a program that has taken the name must not be raised.
        let by_name = || is_privileged && KernelThread::is_name_of_one(&thread.comm.as_str().into());
        let known = Known::before(thread)?;
        Some(Known {
            is_of_kernel: known.is_of_kernel || thread.kernel_thread.unwrap_or_else(by_name),
            user: thread.user.filter(|_| is_privileged),
            ..known
        })
    }

    /// For a command that restores the old value. The thread keeps it even if it has changed its program or user since.
    pub(super) fn before(thread: &Thread) -> Option<Known> {
        let names = match thread.start {
            Some(_) => None,
            None => Some(names(thread.name_bytes()?)),
        };
        let is_of_kernel = names.is_some() && thread.kernel_thread == Some(true);
        Some(Known { start: thread.start, names, is_of_kernel, user: None })
    }

    pub(super) fn start(&self) -> Option<u64> {
        self.start
    }

    pub(super) fn parts(&self) -> Parts {
        Parts { kind: self.is_of_kernel, owner: self.user.is_some(), name: self.names.is_some() }
    }

    /// The patterns of `case` for a word with these parts.
    pub(super) fn patterns(&self, tid: Tid, parts: Parts) -> String {
        let before = self.before_number(parts);
        let start = self.start.map_or("?*".to_owned(), |start| start.to_string());
        let of = |name: &str| match parts.name {
            true => format!("{before}{tid}:{start}@{name}"),
            false => format!("{before}{tid}:{start}"),
        };
        match &self.names {
            Some(names) => names.iter().map(|name| of(name)).collect::<Vec<_>>().join("|"),
            None => of("*"),
        }
    }

    /// The same without the id and the creation time.
    pub(super) fn before_number(&self, parts: Parts) -> String {
        let kind = parts.kind.then(|| if self.is_of_kernel { "2:0/" } else { "*/" }.to_owned());
        let owner = parts.owner.then(|| self.user.map_or("*/".to_owned(), |user| format!("{user}/")));
        kind.into_iter().chain(owner).collect()
    }

    pub(super) fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }
}

impl Parts {
    pub(super) fn and(self, other: Parts) -> Parts {
        Parts { kind: self.kind || other.kind, owner: self.owner || other.owner, name: self.name || other.name }
    }

    /// The part of the word before the id; `kind` and `owner` are the commands that print them.
    pub(super) fn before_number(self, kind: &str, owner: &str) -> String {
        let kind = self.kind.then(|| format!("$({kind})/"));
        let owner = self.owner.then(|| format!("$({owner})/"));
        kind.into_iter().chain(owner).collect()
    }
}

/// Patterns for the output of [`NAME`]. `/proc` appends a worker's work to its name after `-` or `+`, and has the full, longer
/// names of kernel threads.
fn names(name: &[u8]) -> Vec<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let is_worker = name.starts_with(b"kworker/");
    let added = name.iter().position(|byte| is_worker && matches!(byte, b'-' | b'+'));
    let stem = added.map_or(name, |at| &name[..at]);
    match is_worker {
        _ if is_cut(stem) => vec![format!("{}*", hex(stem))],
        true => ["0a", "2d*", "2b*"].map(|end| format!("{}{end}", hex(stem))).to_vec(),
        false => vec![format!("{}0a", hex(stem))],
    }
}
