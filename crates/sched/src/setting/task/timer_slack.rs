//! How late a timer of a fair task may expire, so that several can share an interrupt: added to each of its sleeps and timeouts.
//!
//! Source: `proc_pid_set_timerslack_ns_operations` in fs/proc/base.c (4.6 and later; for other tasks CAP_SYS_NICE). 0 stands for the
//! default, which is what the parent had at the fork. Real-time tasks have none; from 6.12 on they read 0, and get their default when
//! they become fair again (`__setscheduler_params()` in kernel/sched/syscalls.c).

use std::ops::RangeInclusive;

use super::{RuleKey, ShellSaved, Takes, TaskFile, TaskSetting, Want};
use crate::setting::{Aspect, Value};

/// The kernel takes any number: with a longer slack each sleep of a task could last for minutes.
const SLACKS_NS: RangeInclusive<u64> = 1..=100_000_000;

pub(super) const TIMER_SLACK: TaskSetting = TaskSetting {
    aspect: Aspect::TimerSlack,
    name: "timer slack",
    show: |value| format!("timer slack {}", unstarve_model::Nanos(of(value))),
    of_fair_tasks: Some("only a fair task has timer slack, and this one is not, or will not be"),
    file: Some(TaskFile {
        name: "timerslack_ns",
        parse: |text| Some(Value::TimerSlack(text.parse().ok()?)),
        format: |value| Some(of(value).to_string()),
    }),
    shell: |value, _| Some(write(value)),
    saved: Some(ShellSaved {
        variable: 'n',
        read: "cat /proc/$t/timerslack_ns",
        or_continue: "[ \"$n\" ] || continue",
        restore: "echo $n > /proc/$t/timerslack_ns",
    }),
    shell_after_saving: |value| Some(write(value)),
    systemd: |value| Some(vec![format!("TimerSlackNSec={}", of(value))]),
    in_rule: |value| SLACKS_NS.contains(&of(value)).then(|| vec![format!("timer-slack = \"{}ns\"", of(value))]),
    rule_keys: &[RuleKey {
        name: "timer-slack",
        about: "How late its timers may expire, `1ns` to `100ms`; the kernel's default is `50us`.",
        takes: Takes::Duration(SLACKS_NS, "1ns to 100ms, such as \"10us\"", |ns| Want::Value(Value::TimerSlack(ns))),
    }],
    ..TaskSetting::PLAIN
};

fn of(value: &Value) -> u64 {
    match value {
        Value::TimerSlack(ns) => *ns,
        _ => 0,
    }
}

fn write(value: &Value) -> String {
    format!("echo {} > /proc/$t/timerslack_ns", of(value))
}

#[cfg(test)]
mod tests {
    use super::super::Given;
    use super::*;

    #[test]
    fn a_rule_takes_a_duration_of_up_to_100_ms() {
        let want = |text: &str| TIMER_SLACK.rule_keys[0].want(&Given::Text(text.to_owned()));
        for (text, ns) in [("1ns", 1), ("10us", 10_000), ("100ms", 100_000_000)] {
            let value = Value::TimerSlack(ns);
            assert_eq!(want(text), Ok(Want::Value(value.clone())), "{text}");
            assert_eq!((TIMER_SLACK.in_rule)(&value), Some(vec![format!("timer-slack = \"{ns}ns\"")]), "{text}");
        }
        for text in ["0ns", "101ms", "1s", "50", "-1ns", "18446744073709551616ns"] {
            let expected = format!("timer-slack = \"{text}\"; expected 1ns to 100ms, such as \"10us\"");
            assert_eq!(want(text), Err(expected));
        }
    }

    #[test]
    fn a_shell_sets_and_restores_it() {
        let value = Value::TimerSlack(1000);
        assert_eq!((TIMER_SLACK.shell)(&value, None).as_deref(), Some("echo 1000 > /proc/$t/timerslack_ns"));
        assert_eq!(serde_json::to_string(&value).expect("JSON"), r#"{"timer-slack":1000}"#);
        let file = TIMER_SLACK.file.as_ref().expect("a file");
        assert_eq!((file.parse)("50000"), Some(Value::TimerSlack(50_000)));
        assert_eq!((file.format)(&value).as_deref(), Some("1000"));
    }
}
