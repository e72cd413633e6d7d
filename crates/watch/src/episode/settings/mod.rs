//! Thresholds: the configuration of what counts as an episode.

mod by_role;
mod length;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::length::{Fraction, Length, parse_time};

/// What an episode is. How bad it is decides one table (docs/verdict.md).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Thresholds {
    /// A single wait longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Length>,
    /// Within a second, all tasks of a role together wait for more than this part of it while others are preferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Fraction>,
    /// A wait that has not ended and is longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Length>,
    /// Within a second, waits longer than 24 ms take more than this part of it, while real-time tasks have the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Fraction>,
    /// A group that may have less than one CPU is stopped by its limit for more than this part of the time for which it would have run,
    /// had it been let.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Fraction>,
    /// A wait that has not ended, behind a task of the same weight that has had the CPU for longer than this without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Length>,
    /// A wait of a real-time task longer than this behind tasks of a lower class, which the kernel does not preempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_preempted: Option<Length>,
    /// A wait that has not ended and is longer than this, while its CPU is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Length>,
    /// Waits that the table of verdicts (docs/verdict.md) calls an alarm begin an episode, whatever the other thresholds, as far as counters know:
    /// programs behind real-time tasks, and many short waits. Not of roles for which `wait` or `oldest` is written, unless it is written for them.
    pub verdict: bool,
    /// An episode is over when nothing is above its threshold for so long.
    pub calm: Length,
    /// Other thresholds for some roles.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub role: BTreeMap<String, RoleThresholds>,
}

/// Thresholds of one role; what is not given is as for all.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RoleThresholds {
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Fraction>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_preempted: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Length>,
    /// See the same key for all roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<bool>,
    /// Nothing that happens to it is an episode.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore: bool,
}

impl Default for Thresholds {
    /// Quiet on healthy machines. Kernel threads run briefly and must run soon: other tasks notice their waits. Programs of users are often
    /// meant to wait.
    fn default() -> Thresholds {
        Thresholds {
            wait: Some(Length::from_millis(1000)),
            share: None,
            oldest: Some(Length::from_millis(2000)),
            stalled: Some(Fraction(0.5)),
            stopped: Some(Fraction(0.65)),
            stuck: None,
            not_preempted: None,
            idle: Some(Length::from_millis(48)),
            verdict: true,
            calm: Length(Duration::from_secs(5)),
            role: BTreeMap::new(),
        }
    }
}
