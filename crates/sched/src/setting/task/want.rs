//! What a rule of a guard's policy wants a task to have.

use std::ops::RangeInclusive;

use unstarve_model::{CpuSet, CpuSetError, SchedPolicy};

use crate::setting::{Aspect, Value};

/// A key of a rule's `set` table.
#[derive(Debug)]
pub struct RuleKey {
    /// Its name.
    pub name: &'static str,
    /// A description for the schema.
    pub about: &'static str,
    /// The type of its value, and what it means.
    pub takes: Takes,
}

/// The type of a key's value, and what a value means.
#[derive(Debug)]
pub enum Takes {
    /// A number of a range; the range in messages.
    Number(RangeInclusive<i64>, &'static str, fn(i64) -> Want),
    /// A duration in whole ns, us or ms of a range in ns; the range in messages.
    Duration(RangeInclusive<u64>, &'static str, fn(u64) -> Want),
    /// A list of CPUs that is not empty.
    Cpus(fn(CpuSet) -> Want),
    /// One of these words.
    Word(&'static [&'static str], fn(&str) -> Want),
    /// `true` or `false`.
    Flag(fn(bool) -> Want),
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
    /// What a value means.
    ///
    /// # Errors
    /// If the key does not take it.
    pub fn want(&self, given: &Given) -> Result<Want, String> {
        let name = self.name;
        match (&self.takes, given) {
            (Takes::Number(range, expected, want), Given::Number(number)) => {
                let wrong = || format!("{name} = {number}; expected {expected}");
                range.contains(number).then(|| want(*number)).ok_or_else(wrong)
            }
            (Takes::Duration(range, expected, want), Given::Text(text)) => {
                let wrong = || format!("{name} = \"{text}\"; expected {expected}");
                nanoseconds(text).filter(|ns| range.contains(ns)).map(want).ok_or_else(wrong)
            }
            (Takes::Cpus(want), Given::Text(text)) => cpus_of_rule(text).map(want),
            (Takes::Word(words, want), Given::Text(word)) if words.contains(&word.as_str()) => Ok(want(word)),
            (Takes::Flag(want), Given::Flag(on)) => Ok(want(*on)),
            _ => Err(format!("{name} takes no such value")),
        }
    }
}

/// A duration of whole units, such as `3ms`.
fn nanoseconds(text: &str) -> Option<u64> {
    let written = text.trim();
    let (number, unit) = written.split_at(written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len()));
    let scale = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

/// The CPUs of a rule or of an interrupt in a policy.
///
/// # Errors
/// If it is no list, or an empty one.
pub fn cpus_of_rule(text: &str) -> Result<CpuSet, String> {
    let cpus: CpuSet = text.parse().map_err(|error: CpuSetError| error.to_string())?;
    if cpus.is_empty() { Err("an empty list of CPUs; expected one such as 0-3,8".to_owned()) } else { Ok(cpus) }
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
