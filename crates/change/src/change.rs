use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Tid, clean_bytes};
use unstarve_sched::KernelThread;
use unstarve_sched::setting::cgroup::GroupFile;
use unstarve_sched::setting::feature::FeatureState;

use crate::{Aspect, Value};

/// One setting of one thing, and what it shall be.
///
/// It names things as a recording or a snapshot knows them. What is there, and what it holds now, is found out when somebody
/// applies it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// Of what.
    pub target: Target,
    /// To what; absent of advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<To>,
    /// What it was, where that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Value>,
    /// Of an interrupt: the names of its handlers when it was recorded. Its number may be another's on the next boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
}

/// What is changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Target {
    /// One thread.
    Thread(Thread),
    /// All threads that match when it is applied.
    Threads(Selector),
    /// A file of the kernel's: of a cgroup, an interrupt, a network queue, a sysctl, debugfs, a module's parameter.
    File {
        /// Its absolute path.
        path: String,
    },
    /// The nice value of the session by which a thread competes with those of other sessions (its autogroup's).
    Session(Thread),
    /// The weight of the top-level cgroup in which a thread sits, where the recording does not say which that is.
    GroupWeightOf(Thread),
    /// A feature bit of the scheduler, wherever this kernel has the file.
    Feature {
        /// Its name, without `NO_`.
        name: String,
    },
    /// A parameter on the kernel's command line, from the next boot on.
    Boot {
        /// The word.
        parameter: String,
    },
    /// Something that only a person can do, in a program or on a machine.
    Advice,
}

/// A thread as it was seen.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub tid: Tid,
    /// When it was created, in ticks since boot: with `tid` one thread for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Its name, harmless: characters that control a terminal, and bytes that are no UTF-8, are escaped. Tasks choose it themselves,
    /// so it is never part of a command.
    pub comm: String,
    /// The name as the kernel has it, where `comm` is not that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_bytes: Option<Vec<u8>>,
    /// Whether its children begin as ordinary tasks: chrt(1) clears that flag unless it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_fork: Option<bool>,
    /// Whether it is a kernel thread, where more than its name says so. As all of this a claim of a recording: it is compared with the
    /// thread before anything is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_thread: Option<bool>,
    /// The user for whom a program runs (its real user).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// Which threads.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Selector {
    /// All of a process.
    Process(Thread),
    /// Kernel threads whose names begin so.
    KernelThreads {
        /// `napi/eth0-`.
        prefix: String,
    },
    /// Workers of the pools of normal priority that are bound to a CPU: `kworker/0:1`, neither `kworker/0:1H` nor
    /// `kworker/u8:1`.
    Workers {
        /// Of these CPUs; of all if there are none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cpus: Vec<u32>,
    },
}

/// What it shall be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum To {
    /// Exactly this.
    Value(Value),
    /// Something that depends on what is there.
    Relative(Relative),
}

/// A value that depends on what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Relative {
    /// A cgroup's weight brought down to this, 100 being normal: `cpu.weight`, or `cpu.shares` on the older hierarchy. A lighter
    /// group stays as it is.
    WeightAtMost(u32),
    /// A deadline task's runtime, in per cent of what it has.
    RuntimePercent(u32),
}

fn stem(comm: &str) -> &str {
    match comm.strip_prefix("kworker/").and_then(|rest| rest.find(['-', '+'])) {
        Some(at) => &comm[.."kworker/".len() + at],
        None => comm,
    }
}

/// Whether there may be more of a name than a recording has.
pub(crate) fn is_cut(name: &[u8]) -> bool {
    name.len() >= LONGEST_NAME
}

/// `TASK_COMM_LEN` without the NUL.
const LONGEST_NAME: usize = 15;

impl Selector {
    /// Whether a kernel thread of this name is one of them. A process is not selected by name.
    pub fn takes(&self, comm: &str) -> bool {
        match self {
            Selector::Process(_) => false,
            Selector::KernelThreads { prefix } => comm.starts_with(prefix),
            Selector::Workers { cpus } => match KernelThread::of(&comm.into()) {
                Some(KernelThread::BoundWorker { cpu, high: false }) => cpus.is_empty() || cpus.contains(&cpu),
                _ => false,
            },
        }
    }
}

impl Target {
    /// The thread that it names, or whose process, session or group it means.
    pub fn thread(&self) -> Option<&Thread> {
        match self {
            Target::Thread(thread)
            | Target::Threads(Selector::Process(thread))
            | Target::Session(thread)
            | Target::GroupWeightOf(thread) => Some(thread),
            _ => None,
        }
    }
}

impl Change {
    /// A change to this value.
    pub fn of(target: Target, to: Value) -> Change {
        Change { target, to: Some(To::Value(to)), was: None, handlers: Vec::new() }
    }

    /// A change to something that depends on what is there.
    pub fn relative(target: Target, to: Relative) -> Change {
        Change { target, to: Some(To::Relative(to)), was: None, handlers: Vec::new() }
    }

    /// A change of the file of a setting.
    pub fn file(path: impl Into<String>, to: impl fmt::Display) -> Change {
        Change::of(Target::File { path: path.into() }, Value::content(to))
    }

    /// A change of a setting of the cgroup with this directory.
    pub fn of_group(directory: &str, (file, to): GroupFile) -> Change {
        Change::file(format!("{directory}/{file}"), to)
    }

    /// A feature bit, on or off.
    pub fn feature(name: &str, state: FeatureState) -> Change {
        Change::of(Target::Feature { name: name.to_owned() }, Value::content(state.word(name)))
    }

    /// What only a person can do.
    pub fn advice() -> Change {
        Change { target: Target::Advice, to: None, was: None, handlers: Vec::new() }
    }

    /// A word for the kernel's command line.
    pub fn at_boot(parameter: impl Into<String>) -> Change {
        Change { target: Target::Boot { parameter: parameter.into() }, to: None, was: None, handlers: Vec::new() }
    }

    /// The CPUs that serve an interrupt, whose handlers had these names when it was recorded.
    pub fn of_interrupt(irq: u32, cpus: &CpuSet, handlers: impl IntoIterator<Item = String>) -> Change {
        let path = format!("/proc/irq/{irq}/smp_affinity_list");
        Change { handlers: handlers.into_iter().collect(), ..Change::file(path, cpus) }
    }

    /// The same, knowing what it was.
    pub fn from(mut self, was: impl Into<Option<Value>>) -> Change {
        self.was = was.into();
        self
    }

    /// The value to set, if it depends on nothing.
    pub fn value(&self) -> Option<&Value> {
        match &self.to {
            Some(To::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// What it is a value of; `None` of advice and boot parameters.
    pub fn aspect(&self) -> Option<Aspect> {
        match self.to.as_ref()? {
            To::Value(value) => Some(value.aspect()),
            To::Relative(Relative::WeightAtMost(_)) => Some(Aspect::Content),
            To::Relative(Relative::RuntimePercent(_)) => Some(Aspect::Class),
        }
    }

    /// Whether a program can make it.
    pub fn is_for_a_program(&self) -> bool {
        !matches!(self.target, Target::Advice | Target::Boot { .. })
    }
}

impl Thread {
    /// A thread of which no more is known than its id and its name as the kernel has it.
    pub fn known_by(tid: Tid, name: impl AsRef<[u8]>) -> Thread {
        let name = name.as_ref();
        let comm = clean_bytes(name);
        let comm_bytes = (comm.as_bytes() != name).then(|| name.to_vec());
        Thread { tid, start: None, comm, comm_bytes, reset_on_fork: None, kernel_thread: None, user: None }
    }

    /// Its name as the kernel has it, if that is a text and known to the byte: no text stands for bytes that are no UTF-8, and `<...>` for
    /// a name that the recorder did not know.
    pub fn exact_name(&self) -> Option<&str> {
        let name = match &self.comm_bytes {
            Some(bytes) => std::str::from_utf8(bytes).ok()?,
            None => &self.comm,
        };
        let is_known = !matches!(name, "" | "<...>") && !name.contains(char::REPLACEMENT_CHARACTER);
        is_known.then_some(name)
    }

    /// Its name as the kernel has it, if that is known to the byte.
    pub fn name_bytes(&self) -> Option<&[u8]> {
        match &self.comm_bytes {
            Some(bytes) => Some(bytes),
            None => self.exact_name().map(str::as_bytes),
        }
    }

    /// Whether a thread of this name, as a program reads it in `/proc`, may be this one. `/proc` adds to a worker's name what it works
    /// on, which changes, and has a kernel thread's name whole (5.17 and later) where a recording has its first 15 bytes.
    pub fn is_called(&self, comm: &str) -> bool {
        let name = match &self.comm_bytes {
            Some(bytes) => String::from_utf8_lossy(bytes),
            None => Cow::Borrowed(self.comm.as_str()),
        };
        stem(&name) == stem(comm) || is_cut(name.as_bytes()) && comm.starts_with(&*name)
    }
}
