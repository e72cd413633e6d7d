//! By what a printed command recognises the thread that was recorded. It runs where nothing else asks, perhaps on another host: all
//! that the recording claims of the thread is compared by the command itself.

use unstarve_model::Tid;
use unstarve_sched::KernelThread;

use crate::Value;
use crate::change::{Thread, is_cut};

/// Prints when `$t` was created: the twentieth field after its name in proc_pid_stat(5). The name may hold anything, line ends too.
/// Bytes that are no text in some locale end a match of sed there.
pub(super) const CREATED: &str = "tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 20";

/// Prints the parent of `$t` and the size of its memory. A kernel thread is a child of kthreadd (2) and has no memory; a program has
/// memory, whatever it calls itself, unless it has ended.
///
/// Source: `do_task_stat()` in fs/proc/array.c, where `get_task_mm()` finds none for PF_KTHREAD.
pub(super) const KIND: &str =
    "tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 2,21 | tr ' ' :";

/// Prints the real user of `$t`. The name, which comes first in the file, has its line ends escaped there.
pub(super) const OWNER: &str = "LC_ALL=C sed -n 's/^Uid:[[:space:]]*//p' /proc/$t/status 2> /dev/null | cut -f 1";

/// Prints the bytes of the name of `$t`, with the line end that follows them in `/proc`.
pub(super) const NAME: &str = "od -An -v -tx1 /proc/$t/comm 2> /dev/null | tr -d ' \\n'";

/// What is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    start: Option<u64>,
    /// Patterns of `case` for what [`NAME`] prints, where nothing better is known: a name never becomes part of a command as it is.
    names: Option<Vec<String>>,
    is_of_kernel: bool,
    user: Option<u32>,
}

/// Which of the claims a word of `case` holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    pub(super) kind: bool,
    pub(super) owner: bool,
    pub(super) name: bool,
}

impl Known {
    /// For a command that gives this value; `None` if the recording knows neither the creation nor the name: then nothing says that a
    /// thread of this number is the one that was meant.
    pub(super) fn of(thread: &Thread, to: Option<&Value>) -> Option<Known> {
        let is_privileged = to.is_some_and(Value::is_privileged);
        // Of a kernel thread's name nothing says whose it is: a program that has taken it is not raised for it.
        let by_name = || is_privileged && KernelThread::is_name_of_one(&thread.comm.as_str().into());
        let known = Known::before(thread)?;
        Some(Known {
            is_of_kernel: known.is_of_kernel || thread.kernel_thread.unwrap_or_else(by_name),
            user: thread.user.filter(|_| is_privileged),
            ..known
        })
    }

    /// For a command that gives back what the thread had, which it keeps whatever it does and whoever it runs for since.
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

    /// The patterns of `case` for a word of these parts.
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

    /// The same without number and creation.
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

    /// What comes before the number in the word: `kind` and `owner` print them.
    pub(super) fn before_number(self, kind: &str, owner: &str) -> String {
        let kind = self.kind.then(|| format!("$({kind})/"));
        let owner = self.owner.then(|| format!("$({owner})/"));
        kind.into_iter().chain(owner).collect()
    }
}

/// Patterns for what [`NAME`] prints. `/proc` adds to a worker's name what it works on, after `-` or `+`, and has the longer names of kernel
/// threads whole.
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
