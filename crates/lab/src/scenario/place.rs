//! Parses `policy`, `nice` and `cpus` of a load or a step.

use unstarve_change::Value;
use unstarve_model::{CpuSet, SchedPolicy};

/// The parsed values in the order in which they must be set: the kernel refuses to change a deadline task's affinity.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement(pub Vec<Value>);

impl Placement {
    /// Parses the three fields; the error names the wrong one and what is expected.
    pub fn read(policy: Option<&str>, nice: Option<i32>, cpus: Option<&str>) -> Result<Placement, String> {
        let policy = policy.map(read_policy).transpose()?;
        if let Some(nice) = nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(format!("nice = {nice}: expected -20 to 19"));
        }
        if matches!(policy, Some(Value::Deadline { .. })) && cpus.is_some() {
            return Err("cpus: the kernel refuses an affinity of a deadline task; name none".to_owned());
        }
        let affinity = cpus.map(read_cpus).transpose()?.map(Value::Affinity);
        Ok(Placement([affinity, policy, nice.map(Value::Nice)].into_iter().flatten().collect()))
    }

    pub(super) fn fits(self, cpus: u32) -> Result<(), String> {
        let named = self.0.iter().find_map(|value| match value {
            Value::Affinity(named) => named.last(),
            _ => None,
        });
        match named {
            Some(last) if last.0 >= cpus => Err(format!("cpus: there is no CPU {last}, the guest has {cpus}")),
            _ => Ok(()),
        }
    }
}

fn read_policy(text: &str) -> Result<Value, String> {
    let class = |policy, rt_priority| Value::Class { policy, rt_priority, slice: None };
    let read = match text.split_once(':') {
        None => match text {
            "other" => Some(class(SchedPolicy::Other, 0)),
            "batch" => Some(class(SchedPolicy::Batch, 0)),
            "idle" => Some(class(SchedPolicy::Idle, 0)),
            _ => None,
        },
        Some(("fifo", priority)) => real_time(priority).map(|priority| class(SchedPolicy::Fifo, priority)),
        Some(("rr", priority)) => real_time(priority).map(|priority| class(SchedPolicy::Rr, priority)),
        Some(("deadline", times)) => deadline(times),
        Some(_) => None,
    };
    read.ok_or_else(|| {
        format!(
            "policy = \"{text}\": expected `fifo:1`…`fifo:99`, `rr:…`, `deadline:RUNTIME/PERIOD` or \
             `deadline:RUNTIME/DEADLINE/PERIOD` in microseconds, `batch`, `idle` or `other`"
        )
    })
}

fn real_time(priority: &str) -> Option<u32> {
    priority.parse().ok().filter(|priority| (1..=99).contains(priority))
}

fn deadline(times: &str) -> Option<Value> {
    let ns = |time: &str| time.parse::<u64>().ok()?.checked_mul(1_000);
    let times: Vec<u64> = times.split('/').map(ns).collect::<Option<_>>()?;
    let (runtime, deadline, period) = match times[..] {
        [runtime, period] => (runtime, period, period),
        [runtime, deadline, period] => (runtime, deadline, period),
        _ => return None,
    };
    let ordered = 0 < runtime && runtime <= deadline && deadline <= period;
    ordered.then_some(Value::Deadline { runtime, deadline, period })
}

fn read_cpus(text: &str) -> Result<CpuSet, String> {
    let cpus: Option<CpuSet> = text.parse().ok();
    // The kernel's list format permits an empty list; a scenario's does not.
    cpus.filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| format!("cpus = \"{text}\": expected a list such as `0` or `2-7,9`"))
}

#[cfg(test)]
mod tests {
    use unstarve_model::CpuId;

    use super::*;

    #[test]
    fn policies_are_read() {
        let read = |text: &str| read_policy(text).ok();
        let class = |policy, rt_priority| Some(Value::Class { policy, rt_priority, slice: None });
        assert_eq!(read("idle"), class(SchedPolicy::Idle, 0));
        assert_eq!(read("rr:10"), class(SchedPolicy::Rr, 10));
        let deadline = |runtime, deadline, period| Some(Value::Deadline { runtime, deadline, period });
        assert_eq!(read("deadline:2000/10000"), deadline(2_000_000, 10_000_000, 10_000_000));
        assert_eq!(read("deadline:2000/5000/10000"), deadline(2_000_000, 5_000_000, 10_000_000));
        let much = format!("deadline:1/{}", u64::MAX);
        for wrong in
            ["", "fifo", "fifo:0", "rr:100", "idle:1", "deadline", "deadline:1", "deadline:5/2", "deadline:0/1", &much]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_affinity_comes_before_a_policy_and_names_cpus_of_the_guest() {
        let placement = Placement::read(Some("batch"), Some(5), Some("0-1,3")).expect("all of it is right");
        let cpus: CpuSet = [0, 1, 3].map(CpuId).into_iter().collect();
        let class = Value::Class { policy: SchedPolicy::Batch, rt_priority: 0, slice: None };
        assert_eq!(placement.0, [Value::Affinity(cpus), class, Value::Nice(5)]);
        assert_eq!(placement.clone().fits(4), Ok(()));
        assert_eq!(placement.fits(3), Err("cpus: there is no CPU 3, the guest has 3".to_owned()));
        for wrong in ["", "x", "3-1", "0,", "(null)"] {
            assert!(Placement::read(None, None, Some(wrong)).is_err(), "{wrong}");
        }
    }
}
