//! Nice.

use super::{RuleKey, ShellSaved, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

pub(super) const NICE: TaskSetting = TaskSetting {
    aspect: Aspect::Nice,
    name: "nice",
    show: |value| format!("nice {}", of(value)),
    rank: |value| Some(-i64::from(of(value))),
    raises: |old, new| of(new) < of(old),
    is_privileged: |value| of(value) < 0,
    in_stat: |value| Some(("17", of(value).to_string())),
    shell: |value, _| Some(renice(value)),
    saved: Some(ShellSaved {
        variable: 'n',
        read: "tr '\\n' ' ' < /proc/$t/stat | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 17",
        or_continue: "[ \"$n\" ] || continue",
        restore: "renice -n $n -p $t > /dev/null",
    }),
    shell_after_saving: |value| Some(renice(value)),
    systemd: |value| Some(vec![format!("Nice={}", of(value))]),
    in_rule: |value| Some(vec![format!("nice = {}", of(value))]),
    rule_keys: &[RuleKey {
        name: "nice",
        about: "−20 to 19.",
        takes: Takes::Number(-20..=19, "-20 (heaviest) to 19", |nice| Want::Value(Value::Nice(nice as i32))),
    }],
    ..TaskSetting::PLAIN
};

fn of(value: &Value) -> i32 {
    match value {
        Value::Nice(nice) => *nice,
        _ => 0,
    }
}

fn renice(value: &Value) -> String {
    format!("renice -n {} -p $t > /dev/null", of(value))
}
