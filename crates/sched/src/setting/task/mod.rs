//! Settings of tasks, one module for each; [`TASK_SETTINGS`] lists them all. A row says all that is special about its setting, and
//! no other code has a case for it. How the system calls read and set it is in the executor, unless it is a file.

mod affinity;
mod nice;
mod policy;
mod reset_on_fork;
mod slice;
mod timer_slack;
mod uclamp;
mod want;

use super::{Aspect, Value};
pub use want::{Given, RuleKey, Takes, Want, cpus_of_rule};

/// All settings of tasks, in the order in which a guard sets them; they are reverted in the opposite order. Reset-on-fork comes
/// first, so that it is in force whenever a child could inherit a real-time policy. Then the policy, because slice and nice depend
/// on it.
pub const TASK_SETTINGS: [&TaskSetting; 7] = [
    &reset_on_fork::RESET_ON_FORK,
    &policy::POLICY,
    &nice::NICE,
    &slice::SLICE,
    &affinity::AFFINITY,
    &uclamp::UCLAMP,
    &timer_slack::TIMER_SLACK,
];

/// The position of reset-on-fork in [`TASK_SETTINGS`].
pub const RESET_ON_FORK_POSITION: usize = 0;
/// That of the policy.
pub const POLICY_POSITION: usize = 1;

/// A setting of a task. The functions get values of its own aspect alone.
#[derive(Debug)]
pub struct TaskSetting {
    /// Which values are its.
    pub aspect: Aspect,
    /// Its name in messages.
    pub name: &'static str,
    /// The value in messages: `nice 5`.
    pub(super) show: fn(&Value) -> String,
    /// The value in messages of forms that cannot set it: `the CPUs 0-3`.
    pub describe: fn(&Value) -> String,
    /// Why a kernel may not have it.
    pub missing: &'static str,
    /// The message for tasks that are not fair, if only those have it.
    pub of_fair_tasks: Option<&'static str>,
    /// The kernel may set another value than requested: undo has to recognise the one that it set.
    pub may_differ_when_set: bool,
    /// Its file in `/proc/PID`, if no system call reads and sets it.
    pub file: Option<TaskFile>,
    /// Whether both are the same state.
    pub(super) same: fn(&Value, &Value) -> bool,
    /// How much a value gives a task; above 0 more than an ordinary one has. `None` for values without an order.
    pub(super) rank: fn(&Value) -> Option<i64>,
    /// Whether the second value gives a task precedence over more tasks than the first.
    pub(super) raises: fn(&Value, &Value) -> bool,
    /// Whether the value gives precedence over others of its kind.
    pub(super) is_privileged: fn(&Value) -> bool,
    /// The fields of proc_pid_stat(5) after the name that show the value, as arguments of cut(1), and their text.
    pub in_stat: fn(&Value) -> Option<(&'static str, String)>,
    /// The shell command that sets the value of thread `$t`, if its reset-on-fork flag is this.
    pub shell: fn(&Value, Option<bool>) -> Option<String>,
    /// How a shell saves the value that thread `$t` has.
    pub saved: Option<ShellSaved>,
    /// The shell command that sets the value of thread `$t` after the former one was saved.
    pub shell_after_saving: fn(&Value) -> Option<String>,
    /// The lines of systemd.exec(5).
    pub systemd: fn(&Value) -> Option<Vec<String>>,
    /// The letter and the priority of a policy in TuneD's scheduler plug-in.
    pub tuned: fn(&Value) -> Option<(char, u32)>,
    /// The keys and values of a rule's `set` table.
    pub in_rule: fn(&Value) -> Option<Vec<String>>,
    /// Its keys in a rule's `set` table.
    pub rule_keys: &'static [RuleKey],
    /// What a rule wants that has these of its keys.
    combine: fn(Vec<Want>) -> Result<Want, String>,
}

/// Shell commands about the value that thread `$t` has.
#[derive(Debug)]
pub struct ShellSaved {
    /// The variable that keeps it.
    pub variable: char,
    /// Prints it.
    pub read: &'static str,
    /// Goes on with the next thread if nothing was printed.
    pub or_continue: &'static str,
    /// Restores it from the variable.
    pub restore: &'static str,
}

/// A file in `/proc/PID` that reads and sets a setting.
#[derive(Debug)]
pub struct TaskFile {
    /// Its name.
    pub name: &'static str,
    /// The value of a content.
    pub parse: fn(&str) -> Option<Value>,
    /// The content of a value.
    pub format: fn(&Value) -> Option<String>,
}

impl TaskSetting {
    /// The defaults of all settings.
    const PLAIN: TaskSetting = TaskSetting {
        aspect: Aspect::Content,
        name: "",
        show: |_| String::new(),
        describe: |value| value.to_string(),
        missing: "this kernel does not have that",
        of_fair_tasks: None,
        may_differ_when_set: false,
        file: None,
        same: |value, other| value == other,
        rank: |_| None,
        raises: |_, _| false,
        is_privileged: |_| false,
        in_stat: |_| None,
        shell: |_, _| None,
        saved: None,
        shell_after_saving: |_| None,
        systemd: |_| None,
        tuned: |_| None,
        in_rule: |_| None,
        rule_keys: &[],
        combine: |mut wants| wants.pop().ok_or_else(String::new),
    };

    /// What a rule wants that has these of the keys: at least one, in their order.
    ///
    /// # Errors
    /// If the values do not go together.
    pub fn combine(&self, wants: Vec<Want>) -> Result<Want, String> {
        (self.combine)(wants)
    }
}

/// The keys of a rule's `set` table, in the order of messages: the flag last.
pub fn rule_keys() -> impl Iterator<Item = &'static RuleKey> {
    let [flag, others @ ..] = TASK_SETTINGS;
    others.into_iter().chain([flag]).flat_map(|setting| setting.rule_keys)
}
