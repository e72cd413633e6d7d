use serde::{Deserialize, Serialize};
use unstarve_model::{KernelThread, Tid};

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
    /// Its name. Tasks choose it themselves, so it is for people alone and never part of a command.
    pub comm: String,
    /// Whether its children begin as ordinary tasks: chrt(1) clears that flag unless it is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_fork: Option<bool>,
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
    /// A cgroup's weight, 100 being normal: `cpu.weight`, or `cpu.shares` on the older hierarchy.
    Weight(u32),
    /// A deadline task's runtime, in per cent of what it has.
    RuntimePercent(u32),
}

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

impl Change {
    /// A change to this value.
    pub fn of(target: Target, to: Value) -> Change {
        Change { target, to: Some(To::Value(to)), was: None }
    }

    /// A change to something that depends on what is there.
    pub fn relative(target: Target, to: Relative) -> Change {
        Change { target, to: Some(To::Relative(to)), was: None }
    }

    /// A change of a file's text.
    pub fn file(path: impl Into<String>, text: impl Into<String>) -> Change {
        Change::of(Target::File { path: path.into() }, Value::Text(text.into()))
    }

    /// A feature bit, on or off.
    pub fn feature(name: &str, state: FeatureState) -> Change {
        Change::of(Target::Feature { name: name.to_owned() }, Value::Text(state.word(name)))
    }

    /// What only a person can do.
    pub fn advice() -> Change {
        Change { target: Target::Advice, to: None, was: None }
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
            To::Relative(Relative::Weight(_)) => Some(Aspect::Text),
            To::Relative(Relative::RuntimePercent(_)) => Some(Aspect::Class),
        }
    }

    /// Whether a program can make it.
    pub fn is_for_a_program(&self) -> bool {
        !matches!(self.target, Target::Advice | Target::Boot { .. })
    }
}

impl Thread {
    /// A thread of which no more is known.
    pub fn known_by(tid: Tid, comm: impl Into<String>) -> Thread {
        Thread { tid, start: None, comm: comm.into(), reset_on_fork: None }
    }
}

/// Of a feature bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureState {
    /// Set.
    On,
    /// Not set.
    Off,
}

impl FeatureState {
    /// What the features file takes and shows: `WA_WEIGHT` or `NO_WA_WEIGHT`.
    pub fn word(self, name: &str) -> String {
        match self {
            FeatureState::On => name.to_owned(),
            FeatureState::Off => format!("NO_{name}"),
        }
    }
}
