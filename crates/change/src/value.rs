//! Which values can be changed: the subject of a value, and the values themselves.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, SchedPolicy};
use unstarve_sched::setting::Content;

use crate::TaskKey;

/// The subject of a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A task.
    Task(TaskKey),
    /// An autogroup session, which competes as a whole with others. The kernel numbers sessions and uses each number once per
    /// boot (`autogroup_seq_nr` in kernel/sched/autogroup.c).
    Session {
        /// Its number in `/proc/PID/autogroup`.
        id: u64,
    },
    /// A file below /proc or /sys. The inode distinguishes a group or device that was created again from the original one.
    File {
        /// Its path.
        path: String,
        /// Its inode.
        inode: u64,
        /// The root directory of the path, unless `/`: for a host's files as seen from a container.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
    /// A scheduler feature.
    Feature {
        /// The file with all of them.
        path: String,
        /// Its name.
        name: String,
        /// Like `root` of a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        root: Option<String>,
    },
}

/// A value of one aspect. The variant is the aspect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
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
    /// The content of a setting's file.
    #[serde(rename = "text")]
    Content(Content),
}

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
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
            Value::Content(_) => Aspect::Content,
        }
    }

    /// Whether both are the same state. The slice of a class is ignored: it is only kept for restoring.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (
                Value::Class { policy, rt_priority, .. },
                Value::Class { policy: other_policy, rt_priority: other_priority, .. },
            ) => (policy, rt_priority) == (other_policy, other_priority),
            (Value::Content(content), Value::Content(other)) => content.same(other),
            _ => self == other,
        }
    }

    /// Whether this value gives a task precedence over more tasks than `old` does.
    pub fn raises(&self, old: &Value) -> bool {
        match (old, self) {
            (Value::Nice(old), Value::Nice(new)) => new < old,
            (Value::Deadline { .. }, _) => false,
            (_, Value::Deadline { .. }) => true,
            (Value::Class { policy: SchedPolicy::Idle, .. }, Value::Class { policy, .. }) => {
                *policy != SchedPolicy::Idle
            }
            (Value::Class { rt_priority: old, .. }, Value::Class { rt_priority: new, .. }) => new > old,
            _ => false,
        }
    }

    /// Whether it gives a task precedence over all ordinary tasks: a real-time or deadline policy.
    pub fn is_above_all_ordinary(&self) -> bool {
        matches!(self, Value::Deadline { .. }) || self.is_realtime()
    }

    /// Whether only a privileged user may set it (`CAP_SYS_NICE`): a policy above all ordinary ones, or a nice below 0.
    /// Independent of the old value, which a recording may forge.
    pub fn is_privileged(&self) -> bool {
        self.is_above_all_ordinary() || matches!(self, Value::Nice(nice) if *nice < 0)
    }

    /// Whether a task with this value is stronger than with `wanted`, if `wanted` is stronger than the default: a real-time
    /// priority, or a nice below 0. A value weaker than the default (nice 10, SCHED_IDLE) is always set as wanted, and slices,
    /// affinities and flags have no order.
    pub fn is_stronger_than(&self, wanted: &Value) -> bool {
        match (self, wanted) {
            (Value::Nice(has), Value::Nice(wanted)) => *wanted < 0 && has < wanted,
            (Value::Class { rt_priority: has, .. }, Value::Class { rt_priority, .. }) => {
                wanted.is_realtime() && has > rt_priority
            }
            _ => false,
        }
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
        match (old, new, self) {
            (Value::Nice(old), Value::Nice(new), Value::Nice(now)) => new < old && new <= now && now < old,
            (
                Value::Class { rt_priority: old, .. },
                Value::Class { rt_priority: new, .. },
                Value::Class { rt_priority: now, .. },
            ) => new > old && now > old && now <= new,
            (Value::Uclamp { min: old, .. }, Value::Uclamp { min: new, .. }, Value::Uclamp { min: now, .. }) => {
                new > old && now > old && now <= new
            }
            _ => false,
        }
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

    /// Whether it gives a task more CPU time than ordinary tasks get: real-time, deadline, or a nice below 0.
    pub fn is_above_ordinary(&self) -> bool {
        match self {
            Value::Deadline { .. } => true,
            Value::Nice(nice) => *nice < 0,
            class => class.is_realtime(),
        }
    }

    /// Whether it makes the task real-time.
    pub fn is_realtime(&self) -> bool {
        matches!(self, Value::Class { policy: SchedPolicy::Fifo | SchedPolicy::Rr, .. })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Class { policy, rt_priority: 0, .. } => write!(f, "{}", policy.name()),
            Value::Class { policy, rt_priority, .. } => write!(f, "{} {rt_priority}", policy.name()),
            Value::Deadline { runtime, deadline, period } => {
                let time = |ns: &u64| unstarve_model::Nanos(*ns).to_string();
                write!(f, "deadline {}/{}/{}", time(runtime), time(deadline), time(period))
            }
            Value::Nice(nice) => write!(f, "nice {nice}"),
            Value::Slice(ns) => write!(f, "slice {}", unstarve_model::Nanos(*ns)),
            Value::Affinity(cpus) => write!(f, "CPUs {cpus}"),
            Value::Uclamp { min, max } => write!(f, "uclamp {min}..{max}"),
            Value::ResetOnFork(on) => write!(f, "reset-on-fork {}", if *on { "on" } else { "off" }),
            Value::Content(content) => write!(f, "`{content}`"),
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Aspect::Class => "policy",
            Aspect::Nice => "nice",
            Aspect::Slice => "slice",
            Aspect::Affinity => "affinity",
            Aspect::Uclamp => "uclamp",
            Aspect::ResetOnFork => "reset-on-fork",
            Aspect::Content => "value",
        })
    }
}

impl Place {
    /// The directory that its path is relative to, unless `/`.
    pub fn root(&self) -> Option<&str> {
        match self {
            Place::File { root, .. } | Place::Feature { root, .. } => root.as_deref(),
            Place::Task(_) | Place::Session { .. } => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Task(key) => write!(f, "task {}", key.tid),
            Place::Session { id } => write!(f, "session autogroup-{id}"),
            Place::File { path, .. } => f.write_str(path),
            Place::Feature { name, .. } => write!(f, "feature {name}"),
        }
    }
}
