use std::sync::Arc;

use unstarve_model::{ClockPair, Nanos, Time};
use unstarve_sched::Rule;

use super::trigger::Trigger;
use crate::engine::reading::{Role, TaskId};

/// An episode, as the counters show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Begun {
    /// When, on both clocks.
    pub at: ClockPair,
    /// Why.
    pub trigger: Trigger,
    /// Since when its waits may have been, on the clock of readings.
    pub since: Time,
    /// Who waits.
    pub victim: Role,
    /// The group of that role that a limit of its own stops, where that is what began it.
    pub group: Option<Arc<str>>,
    /// Whose wait it is, or lasts now for such a reason.
    pub victim_task: Option<TaskId>,
    /// Who was preferred most.
    pub culprit: Option<Role>,
    /// Who has had the CPU for most of that wait.
    pub culprit_task: Option<TaskId>,
    /// By which rule.
    pub rule: Option<Rule>,
    /// For how long, lately.
    pub ns: Nanos,
    /// The longest wait of its role lately, where many are what began it.
    pub longest: Nanos,
}
