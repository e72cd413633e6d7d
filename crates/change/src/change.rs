//! A change: one setting of one thing, and its new value.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Tid, clean_bytes};
use unstarve_sched::KernelThread;
use unstarve_sched::setting::cgroup::GroupFile;
use unstarve_sched::setting::feature::FeatureState;

use crate::{Aspect, Value};

/// One setting of one thing, and its new value.
///
/// It names things as a recording or a snapshot does. What exists on the host and its current value is determined when the change
/// is applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// What is changed.
    pub target: Target,
    /// The new value; absent for advice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<To>,
    /// The old value, if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<Value>,
    /// For an interrupt: the names of its handlers when it was recorded. After a reboot its number may belong to another
    /// interrupt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<String>,
}

/// The thing that is changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Target {
    /// One thread.
    Thread(Thread),
    /// All threads that match at the time of applying.
    Threads(Selector),
    /// A kernel file: of a cgroup, an interrupt, a network queue, a sysctl, debugfs, a module parameter.
    File {
        /// Its absolute path.
        path: String,
    },
    /// The nice value of a thread's session (autogroup), by which it competes with other sessions and cgroups.
    Session(Thread),
    /// The weight of a thread's top-level cgroup, if the recording does not say which one that is.
    GroupWeightOf(Thread),
    /// A scheduler feature bit; the file differs between kernels.
    Feature {
        /// Its name, without `NO_`.
        name: String,
    },
    /// A kernel command line parameter, effective from the next boot.
    Boot {
        /// The parameter as written on the command line.
        parameter: String,
    },
    /// Something that only a person can do, in a program or on a machine.
    Advice,
}

/// A thread as recorded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Creation time in ticks since boot: with `tid` it identifies one thread even if the id is reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Its name, safe to print: terminal control characters and bytes that are not UTF-8 are escaped. Tasks choose their names
    /// themselves, so it never becomes part of a command.
    pub comm: String,
    /// The name as the kernel has it, if `comm` differs from that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_bytes: Option<Vec<u8>>,
    /// Whether its children start as ordinary tasks (SCHED_RESET_ON_FORK): chrt(1) clears that flag unless it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_fork: Option<bool>,
    /// Whether it is a kernel thread, if more than its name shows it. Like all fields only a claim of a recording: it is compared
    /// with the thread before anything is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_thread: Option<bool>,
    /// The real user of a program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// Selects threads.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Selector {
    /// All threads of a process.
    Process(Thread),
    /// Kernel threads whose names begin with a prefix.
    KernelThreads {
        /// `napi/eth0-`.
        prefix: String,
    },
    /// Workers of the normal-priority pools that are bound to a CPU: `kworker/0:1`, but neither `kworker/0:1H` nor
    /// `kworker/u8:1`.
    Workers {
        /// Only of these CPUs; of all if empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cpus: Vec<u32>,
    },
}

/// The new value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum To {
    /// This value.
    Value(Value),
    /// A value that depends on the current one.
    Relative(Relative),
}

/// A value that depends on the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Relative {
    /// Reduces a cgroup's weight to this, 100 being the default: `cpu.weight`, or `cpu.shares` in v1. A lighter group stays as it
    /// is.
    WeightAtMost(u32),
    /// A deadline task's runtime as a percentage of its current one.
    RuntimePercent(u32),
}

fn stem(comm: &str) -> &str {
    match comm.strip_prefix("kworker/").and_then(|rest| rest.find(['-', '+'])) {
        Some(at) => &comm[.."kworker/".len() + at],
        None => comm,
    }
}

/// Whether the recording may have truncated the name.
pub(crate) fn is_cut(name: &[u8]) -> bool {
    name.len() >= LONGEST_NAME
}

/// `TASK_COMM_LEN` without the NUL.
const LONGEST_NAME: usize = 15;

impl Selector {
    /// Whether it selects a kernel thread with this name. Processes are not selected by name.
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

    /// A change to a value that depends on the current one.
    pub fn relative(target: Target, to: Relative) -> Change {
        Change { target, to: Some(To::Relative(to)), was: None, handlers: Vec::new() }
    }

    /// A change of a setting's file.
    pub fn file(path: impl Into<String>, to: impl fmt::Display) -> Change {
        Change::of(Target::File { path: path.into() }, Value::content(to))
    }

    /// A change of a setting of the cgroup in this directory.
    pub fn of_group(directory: &str, (file, to): GroupFile) -> Change {
        Change::file(format!("{directory}/{file}"), to)
    }

    /// Turns a feature bit on or off.
    pub fn feature(name: &str, state: FeatureState) -> Change {
        Change::of(Target::Feature { name: name.to_owned() }, Value::content(state.word(name)))
    }

    /// Something that only a person can do.
    pub fn advice() -> Change {
        Change { target: Target::Advice, to: None, was: None, handlers: Vec::new() }
    }

    /// A kernel command line parameter.
    pub fn at_boot(parameter: impl Into<String>) -> Change {
        Change { target: Target::Boot { parameter: parameter.into() }, to: None, was: None, handlers: Vec::new() }
    }

    /// The CPUs that serve an interrupt; its handlers had these names when it was recorded.
    pub fn of_interrupt(irq: u32, cpus: &CpuSet, handlers: impl IntoIterator<Item = String>) -> Change {
        let path = format!("/proc/irq/{irq}/smp_affinity_list");
        Change { handlers: handlers.into_iter().collect(), ..Change::file(path, cpus) }
    }

    /// The same with the old value.
    pub fn from(mut self, was: impl Into<Option<Value>>) -> Change {
        self.was = was.into();
        self
    }

    /// The new value, if it does not depend on the current one.
    pub fn value(&self) -> Option<&Value> {
        match &self.to {
            Some(To::Value(value)) => Some(value),
            _ => None,
        }
    }

    /// The aspect of the new value; `None` for advice and boot parameters.
    pub fn aspect(&self) -> Option<Aspect> {
        match self.to.as_ref()? {
            To::Value(value) => Some(value.aspect()),
            To::Relative(Relative::WeightAtMost(_)) => Some(Aspect::Content),
            To::Relative(Relative::RuntimePercent(_)) => Some(Aspect::Class),
        }
    }

    /// Whether a program can apply it.
    pub fn is_for_a_program(&self) -> bool {
        !matches!(self.target, Target::Advice | Target::Boot { .. })
    }
}

impl Thread {
    /// A thread of which only its id and the name in the kernel are known.
    pub fn known_by(tid: Tid, name: impl AsRef<[u8]>) -> Thread {
        let name = name.as_ref();
        let comm = clean_bytes(name);
        let comm_bytes = (comm.as_bytes() != name).then(|| name.to_vec());
        Thread { tid, start: None, comm, comm_bytes, reset_on_fork: None, kernel_thread: None, user: None }
    }

    /// The exact name in the kernel as text, if known: `None` for bytes that are not UTF-8, and for `<...>`, which stands for a
    /// name that the recorder did not know.
    pub fn exact_name(&self) -> Option<&str> {
        let name = match &self.comm_bytes {
            Some(bytes) => std::str::from_utf8(bytes).ok()?,
            None => &self.comm,
        };
        let is_known = !matches!(name, "" | "<...>") && !name.contains(char::REPLACEMENT_CHARACTER);
        is_known.then_some(name)
    }

    /// The exact name in the kernel, if known.
    pub fn name_bytes(&self) -> Option<&[u8]> {
        match &self.comm_bytes {
            Some(bytes) => Some(bytes),
            None => self.exact_name().map(str::as_bytes),
        }
    }

    /// Whether a thread with this name in `/proc` may be this one. For workers, `/proc` appends what they work on, which changes.
    /// For kernel threads it has the full name (5.17 and later), while a recording has the first 15 bytes.
    pub fn is_called(&self, comm: &str) -> bool {
        let name = match &self.comm_bytes {
            Some(bytes) => String::from_utf8_lossy(bytes),
            None => Cow::Borrowed(self.comm.as_str()),
        };
        stem(&name) == stem(comm) || is_cut(name.as_bytes()) && comm.starts_with(&*name)
    }
}
