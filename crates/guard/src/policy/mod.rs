//! Policies: what the file says, checked and compiled.

mod breadth;
mod compile;
mod error;
mod file;
mod host_settings;
mod kernel_names;
mod launchers;
mod remark;
mod select;
mod wants;

use std::path::Path;

use unstarve_model::{CpuSet, Glob};

pub use error::PolicyError;
pub use file::OnDrift;
pub(crate) use host_settings::value_in;
pub use launchers::Starts;
pub use remark::Remark;
pub use select::{Index, Parent, Selector};

use compile::Trust;

use crate::scan::Wanted;
use unstarve_change::Value;

/// A checked policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The rules in their order.
    pub rules: Vec<Rule>,
    /// What is to be set beside tasks.
    pub settings: Vec<Setting>,
    /// What no rule can pass.
    pub limits: Limits,
    index: Index,
}

/// A checked rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// `policy.toml:12`.
    pub place: String,
    /// Which tasks.
    pub selector: Selector,
    /// Whether it says of kernel threads' names only, so that `kind = "kthread"` was implied.
    pub implied_kthread: bool,
    /// What they shall have: at most one value for each aspect. Clamps that are not named are `None` there.
    pub set: Vec<Want>,
    /// Whether it holds for tasks that are stronger already, too.
    pub lower: bool,
    /// What to do when somebody else changes it.
    pub on_drift: OnDrift,
}

/// What a task shall have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    /// Exactly this.
    Value(Value),
    /// Clamps, of which one may stay as it is.
    Uclamp {
        /// The least.
        min: Option<u32>,
        /// The greatest.
        max: Option<u32>,
    },
    /// A real-time priority with the policy that the task has, if that is real-time, else FIFO.
    Priority(u32),
}

/// Something to be set that is no task's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name, for messages and the journal.
    pub name: String,
    /// `policy.toml:12`.
    pub place: String,
    /// What.
    pub what: SettingKind,
}

/// See [`Setting`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingKind {
    /// A setting of cgroups.
    Cgroup {
        /// Which groups.
        path: Glob,
        /// Which setting: its [`unstarve_sched::setting::PolicyKey`].
        key: &'static str,
        /// As written.
        value: String,
    },
    /// The affinity of interrupts.
    IrqAffinity {
        /// By the name of a handler.
        action: Glob,
        /// Where they may be served.
        cpus: CpuSet,
    },
    /// A tunable.
    Tunable {
        /// As written.
        name: String,
        /// What to write.
        value: String,
    },
    /// A scheduler feature.
    Feature {
        /// Without `NO_`.
        name: String,
        /// Whether it shall be on.
        on: bool,
    },
}

/// What no rule can pass.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The highest real-time priority that a rule may give.
    pub rt_priority: u32,
    /// Names that no rule touches.
    pub deny: Vec<Glob>,
    /// The part of a CPU that tasks made real-time may take for a second, in per cent.
    pub rt_budget: u32,
    /// Seconds without a sign of life.
    pub dead_man: u32,
    /// Corrections of one task in a minute.
    pub corrections: u32,
}

impl Limits {
    /// Below the threads that serve interrupts (FIFO 50, kernel/irq/manage.c).
    pub const DEFAULT_RT_PRIORITY: u32 = 49;
    /// Above it there must be room for the guard (+1) and its dead-man (+2), below watchdogs and migration (99).
    pub const MOST_RT_PRIORITY: u32 = 90;
}

impl Policy {
    /// Reads and checks a file whose rules are to be carried out: it and what it includes must be such that nobody but root and
    /// the caller can have written them.
    ///
    /// # Errors
    /// If it cannot be read or believed, or is no policy.
    pub fn load(path: &Path) -> Result<Policy, PolicyError> {
        compile::load(path, Trust::Required)
    }

    /// Reads and checks a file that is only looked at.
    ///
    /// # Errors
    /// If it cannot be read, or is no policy.
    pub fn look_at(path: &Path) -> Result<Policy, PolicyError> {
        compile::load(path, Trust::NotNeeded)
    }

    /// Checks a text; `name` stands for the file in messages. Includes are relative to the directory of `name`.
    pub fn parse(name: &Path, text: &str) -> Result<Policy, PolicyError> {
        compile::parse(name, text)
    }

    /// The JSON schema of policy files.
    pub fn schema() -> String {
        let schema = schemars::schema_for!(file::PolicyFile);
        let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
        text.push('\n');
        text
    }

    /// The rules that may match a task, in their order: a superset, to be asked with [`Selector::matches`].
    pub fn candidates(&self, comm: &str) -> impl Iterator<Item = usize> {
        self.index.candidates(comm)
    }

    /// What must be read of tasks so that all selectors can be judged.
    pub fn wanted(&self) -> Wanted {
        self.rules.iter().fold(Wanted::default(), |wanted, rule| rule.selector.wanted(wanted))
    }

    /// The highest real-time priority that any rule gives.
    pub fn highest_rt_priority(&self) -> Option<u32> {
        let wants = self.rules.iter().flat_map(|rule| &rule.set);
        wants
            .filter_map(|want| match want {
                Want::Value(Value::Class { rt_priority, .. }) => Some(*rt_priority),
                Want::Priority(priority) => Some(*priority),
                _ => None,
            })
            .max()
            .filter(|&priority| priority > 0)
    }
}
