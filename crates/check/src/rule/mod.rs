//! One module for each rule: a pure function from a host and the facts about its kernel to what it found.

mod rt_on_interrupt_cpu;

use crate::case::Case;
use crate::hit::Hit;

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its id, in kebab-case; never given to another.
    pub id: &'static str,
    /// What it finds, in one line.
    pub title: &'static str,
    /// Why that is trouble.
    pub about: &'static str,
    /// Where that is known from.
    pub source: &'static str,
    pub(crate) check: fn(&Case<'_>) -> Vec<Hit>,
}

/// All rules about one host, in the order of the documentation.
pub const RULES: [Rule; 1] = [rt_on_interrupt_cpu::RULE];
