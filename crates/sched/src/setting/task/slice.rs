//! The custom slice of a fair task.

use std::ops::RangeInclusive;

use super::{RuleKey, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

/// The kernel clamps slices to these (`__setparam_fair()` in kernel/sched/fair.c, 6.12 and later).
const SLICES_NS: RangeInclusive<u64> = 100_000..=100_000_000;

pub(super) const SLICE: TaskSetting = TaskSetting {
    aspect: Aspect::Slice,
    name: "slice",
    show: |value| format!("slice {}", unstarve_model::Nanos(of(value))),
    describe: |_| "a slice".to_owned(),
    missing: "this kernel has no slices of tasks (6.12 has)",
    of_fair_tasks: Some("only a fair task has a slice, and this one is not, or will not be"),
    in_rule: |value| SLICES_NS.contains(&of(value)).then(|| vec![format!("slice = \"{}ns\"", of(value))]),
    rule_keys: &[RuleKey {
        name: "slice",
        about: "The length of a turn, `100us` to `100ms` (Linux 6.12 and later).",
        takes: Takes::Duration(SLICES_NS, "100us to 100ms, such as \"3ms\"", |ns| Want::Value(Value::Slice(ns))),
    }],
    ..TaskSetting::PLAIN
};

fn of(value: &Value) -> u64 {
    match value {
        Value::Slice(ns) => *ns,
        _ => 0,
    }
}
