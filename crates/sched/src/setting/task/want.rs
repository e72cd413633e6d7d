//! What a rule of a guard's policy wants a task to have.

use std::ops::RangeInclusive;

use unstarve_model::SchedPolicy;

use crate::setting::{Aspect, Value};

/// A key of a rule's `set` table.
#[derive(Debug)]
pub struct RuleKey {
    /// Its name.
    pub name: &'static str,
    /// A description for the schema.
    pub about: &'static str,
    /// The type of its value.
    pub takes: Takes,
    /// What a value of that type means.
    pub(super) want: fn(&Given) -> Result<Want, String>,
}

/// The type of a key's value.
#[derive(Debug)]
pub enum Takes {
    /// A number from the first to the second.
    Number(i64, i64),
    /// A text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `true` or `false`.
    Flag,
}

/// The value of a key, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Given {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
}

/// A value that a rule sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    /// Exactly this value.
    Value(Value),
    /// Utilisation clamps; a `None` leaves that clamp as it is.
    Uclamp {
        /// The minimum.
        min: Option<u32>,
        /// The maximum.
        max: Option<u32>,
    },
    /// A real-time priority. The task keeps its policy if that is real-time, else it gets FIFO.
    Priority(u32),
}

impl RuleKey {
    /// What the value means.
    ///
    /// # Errors
    /// If the key does not take it.
    pub fn want(&self, given: &Given) -> Result<Want, String> {
        (self.want)(given)
    }
}

/// A number in a range that fits into `u32`.
pub(super) fn within(name: &str, given: &Given, least: u32, greatest: u32) -> Result<u32, String> {
    let Given::Number(number) = given else { return Err(format!("{name}; expected a number")) };
    let wrong = || format!("{name} = {number}; expected {least} to {greatest}");
    u32::try_from(*number).ok().filter(|number| (least..=greatest).contains(number)).ok_or_else(wrong)
}

/// The text of a value that is one.
pub(super) fn text(given: &Given) -> &str {
    match given {
        Given::Text(text) => text,
        _ => "",
    }
}

/// A duration of whole units in ns, such as `3ms`.
pub(super) fn duration(name: &str, given: &Given, range: RangeInclusive<u64>, takes: &str) -> Result<u64, String> {
    let written = text(given).trim();
    let (number, unit) = written.split_at(written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len()));
    let scale = match unit.trim() {
        "ns" => Some(1),
        "us" | "µs" => Some(1000),
        "ms" => Some(1_000_000),
        _ => None,
    };
    let ns = scale.and_then(|scale: u64| number.parse::<u64>().ok()?.checked_mul(scale));
    let wrong = || format!("{name} = \"{}\"; expected {takes}", text(given));
    ns.filter(|ns| range.contains(ns)).ok_or_else(wrong)
}

impl Want {
    /// The aspect that the value sets. Policy and priority are one aspect.
    pub fn aspect(&self) -> Aspect {
        match self {
            Want::Value(value) => value.aspect(),
            Want::Uclamp { .. } => Aspect::Uclamp,
            Want::Priority(_) => Aspect::Class,
        }
    }

    /// Whether the value makes a task real-time.
    pub fn is_realtime(&self) -> bool {
        self.rt_priority() > 0
    }

    /// The real-time priority; 0 without one.
    pub fn rt_priority(&self) -> u32 {
        match self {
            Want::Value(value) => value.rt_priority(),
            Want::Priority(priority) => *priority,
            Want::Uclamp { .. } => 0,
        }
    }

    /// Whether it raises tasks above the defaults.
    pub fn raises(&self) -> bool {
        match self {
            Want::Value(value) => value.is_privileged(),
            Want::Uclamp { min, .. } => min.is_some_and(|min| min > 0),
            Want::Priority(_) => true,
        }
    }

    /// The value to set for a task that has this one now.
    pub fn value_for(&self, now: Option<&Value>) -> Value {
        match self {
            Want::Value(value) => value.clone(),
            Want::Uclamp { min, max } => {
                let (old_min, old_max) = match now {
                    Some(Value::Uclamp { min, max }) => (*min, *max),
                    _ => (0, 1024),
                };
                // A rule that sets one clamp must not push it past the other.
                let max = max.unwrap_or(old_max.max(min.unwrap_or(0)));
                Value::Uclamp { min: min.unwrap_or(old_min.min(max)), max }
            }
            Want::Priority(priority) => {
                let policy = match now {
                    Some(Value::Class { policy: SchedPolicy::Rr, .. }) => SchedPolicy::Rr,
                    _ => SchedPolicy::Fifo,
                };
                Value::Class { policy, rt_priority: *priority, slice: None }
            }
        }
    }
}
