//! Policies: reads, checks and compiles the policy file.

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
pub use unstarve_sched::setting::Want;

/// A checked policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Settings that are not about tasks.
    pub settings: Vec<Setting>,
    /// Limits that hold for every rule.
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
    /// The tasks that the rule matches.
    pub selector: Selector,
    /// Whether it has only names of kernel threads, so that `kind = "kthread"` is implied.
    pub implied_kthread: bool,
    /// Wanted values, at most one for each aspect. A clamp that the rule does not set is `None`.
    pub set: Vec<Want>,
    /// Whether the rule also lowers tasks that already have more.
    pub lower: bool,
    /// What to do when another program changes a value.
    pub on_drift: OnDrift,
}

/// A setting that is not about tasks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The name used in messages and the journal.
    pub name: String,
    /// `policy.toml:12`.
    pub place: String,
    /// The setting and its value.
    pub what: SettingKind,
}

/// See [`Setting`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingKind {
    /// A setting of cgroups.
    Cgroup {
        /// The cgroups.
        path: Glob,
        /// The setting's [`unstarve_sched::setting::PolicyKey`].
        key: &'static str,
        /// The value as written.
        value: String,
    },
    /// The affinity of interrupts.
    IrqAffinity {
        /// The name of a handler of the interrupt.
        action: Glob,
        /// The CPUs that may serve it.
        cpus: CpuSet,
    },
    /// A tunable.
    Tunable {
        /// The name as written.
        name: String,
        /// The value to write.
        value: String,
    },
    /// A scheduler feature.
    Feature {
        /// The name without `NO_`.
        name: String,
        /// On or off.
        on: bool,
    },
}

/// Limits that hold for every rule.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The highest real-time priority that a rule may give.
    pub rt_priority: u32,
    /// Names that no rule touches.
    pub deny: Vec<Glob>,
    /// CPU time that tasks made real-time by rules may use per second, in per cent of a CPU.
    pub rt_budget: u32,
    /// Seconds of silence after which the dead-man process reverts everything.
    pub dead_man: u32,
    /// Corrections of one task per minute.
    pub corrections: u32,
}

impl Limits {
    /// Below the threads that serve interrupts (FIFO 50, kernel/irq/manage.c).
    pub const DEFAULT_RT_PRIORITY: u32 = 49;
    /// The guard (+1) and its dead-man (+2) need room above, below watchdogs and migration (99).
    pub const MOST_RT_PRIORITY: u32 = 90;
}

impl Policy {
    /// Reads and checks a file whose rules will be carried out. Only root and the caller may be able to write it and the files
    /// that it includes.
    ///
    /// # Errors
    /// If it cannot be read, is not trusted, or is not a policy.
    pub fn load(path: &Path) -> Result<Policy, PolicyError> {
        compile::load(path, Trust::Required)
    }

    /// Reads and checks a file that is only inspected.
    ///
    /// # Errors
    /// If it cannot be read, or is not a policy.
    pub fn look_at(path: &Path) -> Result<Policy, PolicyError> {
        compile::load(path, Trust::NotNeeded)
    }

    /// Checks a text; `name` is the file name in messages. Includes are relative to its directory.
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

    /// The rules that may match a task, in their order: a superset, to be checked with [`Selector::matches`].
    pub fn candidates(&self, comm: &str) -> impl Iterator<Item = usize> {
        self.index.candidates(comm)
    }

    /// The files of `/proc` that the selectors need.
    pub fn wanted(&self) -> Wanted {
        let is_file = |want: &Want| want.aspect().of_task().is_some_and(|setting| setting.file.is_some());
        let settings = self.rules.iter().flat_map(|rule| &rule.set).any(is_file);
        self.rules.iter().fold(Wanted { settings, ..Wanted::default() }, |wanted, rule| rule.selector.wanted(wanted))
    }

    /// The highest real-time priority that a rule sets.
    pub fn highest_rt_priority(&self) -> Option<u32> {
        let wants = self.rules.iter().flat_map(|rule| &rule.set);
        wants.map(Want::rt_priority).max().filter(|&priority| priority > 0)
    }
}
