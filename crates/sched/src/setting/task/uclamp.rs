//! Utilisation clamps of a task.

use super::{RuleKey, Takes, TaskSetting, Want};
use crate::setting::{Aspect, Value};

pub(super) const UCLAMP: TaskSetting = TaskSetting {
    aspect: Aspect::Uclamp,
    name: "uclamp",
    show: |value| format!("uclamp {}..{}", of(value).0, of(value).1),
    describe: |_| "utilization clamps".to_owned(),
    missing: "this kernel has no utilisation clamps (CONFIG_UCLAMP_TASK)",
    rank: |value| Some(of(value).0.into()),
    in_rule: |value| Some(vec![format!("uclamp-min = {}", of(value).0), format!("uclamp-max = {}", of(value).1)]),
    rule_keys: &[
        RuleKey {
            name: "uclamp-min",
            about: "The least utilisation to assume, 0 to 1024.",
            takes: Takes::Number(0..=1024, "0 to 1024", |min| Want::Uclamp { min: Some(min as u32), max: None }),
        },
        RuleKey {
            name: "uclamp-max",
            about: "The greatest utilisation to assume, 0 to 1024.",
            takes: Takes::Number(0..=1024, "0 to 1024", |max| Want::Uclamp { min: None, max: Some(max as u32) }),
        },
    ],
    combine,
    ..TaskSetting::PLAIN
};

fn of(value: &Value) -> (u32, u32) {
    match value {
        Value::Uclamp { min, max } => (*min, *max),
        _ => (0, 1024),
    }
}

fn combine(wants: Vec<Want>) -> Result<Want, String> {
    let (mut least, mut most) = (None, None);
    for want in wants {
        if let Want::Uclamp { min, max } = want {
            (least, most) = (least.or(min), most.or(max));
        }
    }
    match (least, most) {
        (Some(min), Some(max)) if min > max => Err(format!("uclamp-min {min} is above uclamp-max {max}")),
        (min, max) => Ok(Want::Uclamp { min, max }),
    }
}
