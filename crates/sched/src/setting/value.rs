//! Values of settings.

use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, SchedPolicy};

use super::{Content, TaskSetting};

/// A value of one aspect. The variant is the aspect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Policy and real-time priority, which the kernel sets together.
    Class {
        /// The policy.
        policy: SchedPolicy,
        /// 1 to 99, or 0 for the fair policies.
        rt_priority: u32,
        /// The slice that the task had under a fair policy: needed to restore it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slice: Option<u64>,
    },
    /// The deadline policy with its three parameters, in ns.
    Deadline {
        /// CPU time per period.
        runtime: u64,
        /// Relative deadline for that CPU time.
        deadline: u64,
        /// Period.
        period: u64,
    },
    /// Nice.
    Nice(i32),
    /// The custom slice, in ns.
    Slice(u64),
    /// The CPUs on which the task may run.
    Affinity(CpuSet),
    /// Utilisation clamps.
    Uclamp {
        /// Minimum, 0 to 1024.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// Whether children start as ordinary tasks.
    ResetOnFork(bool),
    /// The timer slack, in ns.
    TimerSlack(u64),
    /// The content of a setting's file.
    #[serde(rename = "text")]
    Content(Content),
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// See [`Value::Class`].
    Class,
    /// See [`Value::Nice`].
    Nice,
    /// See [`Value::Slice`].
    Slice,
    /// See [`Value::Affinity`].
    Affinity,
    /// See [`Value::Uclamp`].
    Uclamp,
    /// See [`Value::ResetOnFork`].
    ResetOnFork,
    /// See [`Value::TimerSlack`].
    TimerSlack,
    /// See [`Value::Content`].
    #[serde(rename = "text")]
    Content,
}

impl Value {
    /// The content of a setting's file: a number, a list of CPUs, a word.
    pub fn content(value: impl fmt::Display) -> Value {
        Value::Content(Content::of(value))
    }

    /// The content, if this is one.
    pub fn as_content(&self) -> Option<&Content> {
        match self {
            Value::Content(content) => Some(content),
            _ => None,
        }
    }

    /// The kind of this value.
    pub fn aspect(&self) -> Aspect {
        match self {
            Value::Class { .. } | Value::Deadline { .. } => Aspect::Class,
            Value::Nice(_) => Aspect::Nice,
            Value::Slice(_) => Aspect::Slice,
            Value::Affinity(_) => Aspect::Affinity,
            Value::Uclamp { .. } => Aspect::Uclamp,
            Value::ResetOnFork(_) => Aspect::ResetOnFork,
            Value::TimerSlack(_) => Aspect::TimerSlack,
            Value::Content(_) => Aspect::Content,
        }
    }

    /// The setting of a task that it is a value of; `None` for the content of a file.
    pub fn of_task(&self) -> Option<&'static TaskSetting> {
        self.aspect().of_task()
    }

    /// The rows' answer on two values of one setting of tasks.
    fn ask<T>(&self, other: &Value, answer: impl Fn(&TaskSetting) -> Option<T>) -> Option<T> {
        self.of_task().filter(|_| self.aspect() == other.aspect()).and_then(answer)
    }

    /// Whether both are the same state.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Content(content), Value::Content(other)) => content.same(other),
            _ => self.ask(other, |row| Some((row.same)(self, other))).unwrap_or_default(),
        }
    }

    /// Whether this value gives a task precedence over more tasks than `old` does.
    pub fn raises(&self, old: &Value) -> bool {
        self.ask(old, |row| Some((row.raises)(old, self))).unwrap_or_default()
    }

    /// Whether it gives a task precedence over all ordinary tasks: a real-time or deadline policy.
    pub fn is_above_all_ordinary(&self) -> bool {
        matches!(self, Value::Deadline { .. }) || self.is_realtime()
    }

    /// Whether it gives a task precedence over others of its kind: real-time, deadline, or a nice below 0. Only a privileged user
    /// may set it (`CAP_SYS_NICE`). Independent of the old value, which a recording may forge.
    pub fn is_privileged(&self) -> bool {
        self.of_task().is_some_and(|row| (row.is_privileged)(self))
    }

    /// Whether a task with this value is stronger than with `wanted`, if `wanted` is stronger than the default: a real-time
    /// priority, or a nice below 0. A value weaker than the default (nice 10, SCHED_IDLE) is always set as wanted, and slices,
    /// affinities and flags have no order.
    pub fn is_stronger_than(&self, wanted: &Value) -> bool {
        wanted.is_privileged() && self.raises(wanted)
    }

    /// The value to set without lowering a minimum clamp above the default. The maximum clamp is set as given.
    pub fn without_lowering(self, old: &Value) -> Value {
        match (self, old) {
            (Value::Uclamp { min, max }, Value::Uclamp { min: has, .. }) if min > 0 => {
                Value::Uclamp { min: min.max(*has).min(max), max }
            }
            (value, _) => value,
        }
    }

    /// Whether it lies between `old` and the stronger `new`: a raised task may lower itself step by step without privileges, and
    /// still has a part of the raise. Such a value counts as set by us, like `new`.
    pub fn is_step_down(&self, old: &Value, new: &Value) -> bool {
        let rank = |value: &Value| value.ask(self, |row| (row.rank)(value));
        match (rank(old), rank(new), rank(self)) {
            (Some(old), Some(new), Some(now)) => old < now && now <= new,
            _ => false,
        }
    }

    /// Whether it gives more than an ordinary task has, as far as the setting has an order.
    pub fn is_more_than_ordinary(&self) -> bool {
        self.of_task().and_then(|row| (row.rank)(self)).is_none_or(|rank| rank > 0)
    }

    /// Whether these CPUs are a subset of the other's.
    pub fn is_part_of(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Affinity(some), Value::Affinity(all)) => {
                !some.is_empty() && some.iter().all(|cpu| all.contains(cpu))
            }
            _ => false,
        }
    }

    /// The real-time priority; 0 without one.
    pub fn rt_priority(&self) -> u32 {
        match self {
            Value::Class { rt_priority, .. } => *rt_priority,
            _ => 0,
        }
    }

    /// Whether it makes the task real-time.
    pub fn is_realtime(&self) -> bool {
        matches!(self, Value::Class { policy: SchedPolicy::Fifo | SchedPolicy::Rr, .. })
    }
}

impl Aspect {
    /// The setting of a task; `None` for the content of a file.
    pub fn of_task(self) -> Option<&'static TaskSetting> {
        super::TASK_SETTINGS.into_iter().find(|setting| setting.aspect == self)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.of_task()) {
            (Value::Content(content), _) => write!(f, "`{content}`"),
            (_, row) => f.write_str(&row.map(|row| (row.show)(self)).unwrap_or_default()),
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of_task().map_or("value", |row| row.name))
    }
}
