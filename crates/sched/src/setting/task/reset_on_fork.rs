//! Whether children start as ordinary tasks.

use super::policy::CHRT;
use super::{RuleKey, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

pub(super) const RESET_ON_FORK: TaskSetting = TaskSetting {
    aspect: Aspect::ResetOnFork,
    name: "reset-on-fork",
    show: |value| format!("reset-on-fork {}", if is_on(value) { "on" } else { "off" }),
    describe: |_| "the reset-on-fork flag".to_owned(),
    // Not from a recorded value: the flag is set together with a policy, which this value does not contain.
    saved: Some(CHRT),
    shell_after_saving: |value| {
        let flag = if is_on(value) { "--reset-on-fork " } else { "" };
        Some(format!("chrt {flag}${{c#--reset-on-fork }} $t"))
    },
    systemd: |value| Some(vec![format!("CPUSchedulingResetOnFork={}", if is_on(value) { "yes" } else { "no" })]),
    in_rule: |value| Some(vec![format!("reset-on-fork = {}", is_on(value))]),
    rule_keys: &[RuleKey {
        name: "reset-on-fork",
        about: "Whether its children start as ordinary tasks.",
        takes: Takes::Flag(|on| Want::Value(Value::ResetOnFork(on))),
    }],
    ..TaskSetting::PLAIN
};

fn is_on(value: &Value) -> bool {
    *value == Value::ResetOnFork(true)
}
