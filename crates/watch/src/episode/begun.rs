//! An episode that begins, as far as the counters show it.

use std::sync::Arc;

use unstarve_model::{ClockPair, Nanos, Time};
use unstarve_sched::Rule;

use super::trigger::Trigger;
use crate::engine::reading::{Role, TaskId};

/// An episode that begins, as the counters show it.
#[derive(Clone, PartialEq, Debug)]
pub struct Begun {
    /// Its number among the episodes of its detector, from 1.
    pub number: u64,
    /// The number of the episode that goes on as this one: it has become worse, or its trace could not be kept.
    pub continues: Option<u64>,
    /// When it was noticed, on both clocks.
    pub at: ClockPair,
    /// The condition that was met.
    pub trigger: Trigger,
    /// The earliest time at which its waits can have begun, on the clock of readings.
    pub since: Time,
    /// The role that waits.
    pub victim: Role,
    /// The group of that role that its own quota throttles, if that is the condition.
    pub group: Option<Arc<str>>,
    /// The waiting task; or a task of the role that waits now for such a reason.
    pub victim_task: Option<TaskId>,
    /// The role that was preferred most.
    pub culprit: Option<Role>,
    /// The task that has had the CPU for most of that wait.
    pub culprit_task: Option<TaskId>,
    /// The rule by which it had the CPU.
    pub rule: Option<Rule>,
    /// How long the victim waited for this reason recently.
    pub ns: Nanos,
    /// The longest recent wait of the role, if the condition is about many waits; of a single wait what counts for the rule.
    pub longest: Nanos,
}
