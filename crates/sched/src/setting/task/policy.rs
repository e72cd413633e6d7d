//! The policy with its real-time priority, which the kernel sets together; the deadline policy with its three parameters.

use unstarve_model::{Nanos, SchedPolicy};

use super::{RuleKey, ShellSaved, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

pub(super) const POLICY: TaskSetting = TaskSetting {
    aspect: Aspect::Class,
    name: "policy",
    show,
    describe: |value| match value {
        Value::Deadline { .. } => "a deadline".to_owned(),
        _ => format!("the policy {value}"),
    },
    // The slice is only kept for restoring.
    same: |value, other| match (of(value), of(other)) {
        (Some(value), Some(other)) => value == other,
        _ => value == other,
    },
    rank: |value| Some(of(value)?.1.into()),
    raises: |old, new| match (of(old), of(new)) {
        (None, _) => false,
        (_, None) => true,
        (Some((SchedPolicy::Idle, _)), Some((policy, _))) => policy != SchedPolicy::Idle,
        (Some((_, old)), Some((_, new))) => new > old,
    },
    is_privileged: Value::is_above_all_ordinary,
    in_stat: |value| {
        let (policy, rt_priority) = of(value)?;
        Some(("38,39", format!("{rt_priority} {}", policy.number()?)))
    },
    shell,
    saved: Some(CHRT),
    shell_after_saving: |value| {
        let (policy, rt_priority) = of(value)?;
        let word = chrt_word(policy)?;
        Some(format!("chrt $(echo \"$c\" | grep -o -e --reset-on-fork || :) {word} --pid {rt_priority} $t"))
    },
    systemd: |value| {
        let (policy, rt_priority) = settable(value)?;
        let priority = (rt_priority > 0).then(|| format!("CPUSchedulingPriority={rt_priority}"));
        Some([format!("CPUSchedulingPolicy={}", policy.name())].into_iter().chain(priority).collect())
    },
    tuned: |value| {
        Some(match of(value)? {
            (SchedPolicy::Fifo, rt_priority) => ('f', rt_priority),
            (SchedPolicy::Rr, rt_priority) => ('r', rt_priority),
            (SchedPolicy::Other, _) => ('o', 0),
            (SchedPolicy::Batch, _) => ('b', 0),
            _ => return None,
        })
    },
    in_rule: |value| {
        let (policy, rt_priority) = settable(value)?;
        let priority = (rt_priority > 0).then(|| format!("rt-priority = {rt_priority}"));
        Some([format!("policy = \"{}\"", policy.name())].into_iter().chain(priority).collect())
    },
    rule_keys: &[
        RuleKey {
            name: "policy",
            about: "The policy.",
            takes: Takes::Word(&["other", "batch", "idle", "fifo", "rr"], |word| {
                let policy = SETTABLE.into_iter().find(|policy| policy.name() == word).unwrap_or(SchedPolicy::Other);
                Want::Value(Value::Class { policy, rt_priority: 0, slice: None })
            }),
        },
        RuleKey {
            name: "rt-priority",
            about: "1 to 99, with `fifo` or `rr`.",
            takes: Takes::Number(1..=99, "1 to 99", |priority| Want::Priority(priority as u32)),
        },
    ],
    combine,
    ..TaskSetting::PLAIN
};

/// The policies that units and rules may set.
const SETTABLE: [SchedPolicy; 5] =
    [SchedPolicy::Other, SchedPolicy::Batch, SchedPolicy::Idle, SchedPolicy::Fifo, SchedPolicy::Rr];

/// chrt(1) prints and sets the policy, priority and flag.
pub(super) const CHRT: ShellSaved = ShellSaved {
    variable: 'c',
    read: r#"LC_ALL=C chrt -p $t | awk -F': ' '/policy/ { n = split(tolower(substr($2, 7)), a, "|"); p = (n > 1 ? "--reset-on-fork " : "") "--" a[1] } /priority/ { q = $2 } /period/ { split($2, d, "/"); p = p " --sched-runtime " d[1] " --sched-deadline " d[2] " --sched-period " d[3] } END { print p, "--pid", q }'"#,
    or_continue: "case $c in --*) ;; *) continue ;; esac",
    restore: "chrt $c $t",
};

/// `None` for the deadline policy with its parameters.
fn of(value: &Value) -> Option<(SchedPolicy, u32)> {
    match value {
        Value::Class { policy, rt_priority, .. } => Some((*policy, *rt_priority)),
        _ => None,
    }
}

fn settable(value: &Value) -> Option<(SchedPolicy, u32)> {
    of(value).filter(|(policy, _)| SETTABLE.contains(policy))
}

fn show(value: &Value) -> String {
    match value {
        Value::Class { policy, rt_priority: 0, .. } => policy.name().to_owned(),
        Value::Class { policy, rt_priority, .. } => format!("{} {rt_priority}", policy.name()),
        Value::Deadline { runtime, deadline, period } => {
            let time = |ns: &u64| Nanos(*ns).to_string();
            format!("deadline {}/{}/{}", time(runtime), time(deadline), time(period))
        }
        _ => String::new(),
    }
}

/// chrt(1) either sets or clears the flag, so it must be known.
fn shell(value: &Value, reset_on_fork: Option<bool>) -> Option<String> {
    match value {
        Value::Class { policy, rt_priority, .. } => {
            let flag = if reset_on_fork? { "--reset-on-fork " } else { "" };
            Some(format!("chrt {flag}{} --pid {rt_priority} $t", chrt_word(*policy)?))
        }
        Value::Deadline { runtime, deadline, period } => Some(format!(
            "chrt --deadline --sched-runtime {runtime} --sched-deadline {deadline} --sched-period {period} --pid 0 $t"
        )),
        _ => None,
    }
}

fn chrt_word(policy: SchedPolicy) -> Option<String> {
    (policy != SchedPolicy::Unknown).then(|| format!("--{}", policy.name()))
}

fn combine(wants: Vec<Want>) -> Result<Want, String> {
    let priority = wants.iter().map(Want::rt_priority).max().unwrap_or(0);
    let Some(policy) = wants.iter().find_map(|want| if let Want::Value(value) = want { of(value) } else { None })
    else {
        return Ok(Want::Priority(priority));
    };
    match (policy.0, priority) {
        (SchedPolicy::Fifo | SchedPolicy::Rr, 0) => {
            Err("a real-time policy needs rt-priority (1 is the lowest)".to_owned())
        }
        (policy @ (SchedPolicy::Fifo | SchedPolicy::Rr), rt_priority) | (policy, rt_priority @ 0) => {
            Ok(Want::Value(Value::Class { policy, rt_priority, slice: None }))
        }
        _ => Err("rt-priority goes with policy \"fifo\" or \"rr\" alone".to_owned()),
    }
}
