//! Checks the values in a rule's `set` table.

use std::ops::RangeInclusive;

use toml::Spanned;
use unstarve_change::Value;
use unstarve_model::SchedPolicy;

use super::compile::{cpus, within};
use super::error::{PolicyError, Source};
use super::file::SetTable;
use super::{Limits, Want};

pub(super) fn wants(source: &Source, at: usize, table: &SetTable, limits: &Limits) -> Result<Vec<Want>, PolicyError> {
    let mut wants = Vec::new();
    wants.extend(class(source, at, table, limits)?);
    if let Some(nice) = &table.nice {
        wants.push(Want::Value(Value::Nice(nice_of(source, nice)?)));
    }
    if let Some(text) = &table.slice {
        wants.push(Want::Value(Value::Slice(slice(source, text)?)));
    }
    if let Some(text) = &table.affinity {
        wants.push(Want::Value(Value::Affinity(cpus(source, text)?)));
    }
    let clamp = |value: &Option<Spanned<i64>>, what| {
        value.as_ref().map(|value| within(source, value, what, 0..=1024)).transpose()
    };
    let (min, max) = (clamp(&table.uclamp_min, "uclamp-min")?, clamp(&table.uclamp_max, "uclamp-max")?);
    if let (Some(least), Some(most)) = (min, max)
        && least > most
    {
        return Err(source.wrong(at, format!("uclamp-min {least} is above uclamp-max {most}")));
    }
    if min.is_some() || max.is_some() {
        wants.push(Want::Uclamp { min, max });
    }
    if let Some(on) = table.reset_on_fork {
        wants.push(Want::Value(Value::ResetOnFork(on)));
    }
    if wants.is_empty() {
        return Err(source.wrong(at, "`set` names nothing; expected policy, nice, affinity or another setting"));
    }
    Ok(wants)
}

fn class(source: &Source, at: usize, table: &SetTable, limits: &Limits) -> Result<Option<Want>, PolicyError> {
    let priority = match &table.rt_priority {
        None => None,
        Some(value) => {
            let priority = within(source, value, "rt-priority", 1..=99)?;
            if priority > limits.rt_priority {
                let message = format!(
                    "rt-priority = {priority} is above the limit {}; a higher one needs rt-priority in [limits] \
                     (at most {}) and a reason",
                    limits.rt_priority,
                    Limits::MOST_RT_PRIORITY
                );
                return Err(source.wrong(value.span().start, message));
            }
            Some(priority)
        }
    };
    let class = |policy, rt_priority| Ok(Some(Want::Value(Value::Class { policy, rt_priority, slice: None })));
    let Some(policy) = table.policy else { return Ok(priority.map(Want::Priority)) };
    match (policy, priority) {
        (SchedPolicy::Fifo | SchedPolicy::Rr, None) => {
            Err(source.wrong(at, "a real-time policy needs rt-priority (1 is the lowest)"))
        }
        (SchedPolicy::Fifo | SchedPolicy::Rr, Some(priority)) => class(policy, priority),
        (_, Some(_)) => Err(source.wrong(at, "rt-priority goes with policy \"fifo\" or \"rr\" alone")),
        (_, None) => class(policy, 0),
    }
}

fn nice_of(source: &Source, nice: &Spanned<i64>) -> Result<i32, PolicyError> {
    let value = *nice.get_ref();
    let wrong = || source.wrong(nice.span().start, format!("nice = {value}; expected -20 (heaviest) to 19"));
    i32::try_from(value).ok().filter(|value| (-20..=19).contains(value)).ok_or_else(wrong)
}

/// The kernel clamps slices to these (`__setparam_fair()` in kernel/sched/fair.c, 6.12 and later).
const SLICES_NS: RangeInclusive<u64> = 100_000..=100_000_000;

fn slice(source: &Source, text: &Spanned<String>) -> Result<u64, PolicyError> {
    let wrong = || {
        let message = format!("slice = \"{}\"; expected 100us to 100ms, such as \"3ms\"", text.get_ref());
        source.wrong(text.span().start, message)
    };
    let written = text.get_ref().trim();
    let (number, unit) = written.split_at(written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len()));
    let scale: u64 = match unit.trim() {
        "ns" => 1,
        "us" | "µs" => 1000,
        "ms" => 1_000_000,
        _ => return Err(wrong()),
    };
    let ns = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong)?;
    if SLICES_NS.contains(&ns) { Ok(ns) } else { Err(wrong()) }
}
