//! The CPUs on which a task may run.

use unstarve_model::CpuSet;

use super::{RuleKey, ShellSaved, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

pub(super) const AFFINITY: TaskSetting = TaskSetting {
    aspect: Aspect::Affinity,
    name: "affinity",
    show: |value| format!("CPUs {}", of(value)),
    describe: |value| format!("the CPUs {}", of(value)),
    // It drops CPUs that do not exist.
    may_differ_when_set: true,
    // Not from a recorded value: CPUs change without a user's action (a cpuset, CPU hotplug), so the ones at the time of applying
    // count.
    saved: Some(ShellSaved {
        variable: 'n',
        read: "LC_ALL=C sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$t/status",
        or_continue: "[ \"$n\" ] || continue",
        restore: "taskset -pc $n $t > /dev/null",
    }),
    shell_after_saving: |value| Some(format!("taskset -pc {} $t > /dev/null", of(value))),
    // An empty assignment first, because systemd combines the values of several files.
    systemd: |value| Some(vec!["CPUAffinity=".to_owned(), format!("CPUAffinity={}", of(value))]),
    in_rule: |value| Some(vec![format!("affinity = \"{}\"", of(value))]),
    rule_keys: &[RuleKey {
        name: "affinity",
        about: "The CPUs on which it may run: `0-3,8`.",
        takes: Takes::Cpus(|cpus| Want::Value(Value::Affinity(cpus))),
    }],
    ..TaskSetting::PLAIN
};

fn of(value: &Value) -> CpuSet {
    match value {
        Value::Affinity(cpus) => cpus.clone(),
        _ => CpuSet::default(),
    }
}
