//! Under which policy, nice and affinity something runs: `policy`, `nice` and `cpus` as the file has them.

use std::str::FromStr;

/// A scheduling policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduling {
    /// As everybody else.
    Other,
    /// Ordinary, but never preempts on wakeup.
    Batch,
    /// Only what nobody else wants.
    Idle,
    /// First in, first out, with this real-time priority.
    Fifo(u32),
    /// Round robin, with this real-time priority.
    Rr(u32),
    /// Earliest deadline first.
    Deadline {
        /// What it may compute in each period, in µs.
        runtime_us: u64,
        /// By when after the period's beginning.
        deadline_us: u64,
        /// The period.
        period_us: u64,
    },
}

/// `policy`, `nice` and `cpus` of a load or a `threads` step, read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    /// The policy.
    pub policy: Option<Scheduling>,
    /// −20…19.
    pub nice: Option<i32>,
    /// CPU numbers.
    pub cpus: Option<Vec<u32>>,
}

impl FromStr for Scheduling {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheduling, String> {
        let read = match text.split_once(':') {
            None => match text {
                "other" => Some(Scheduling::Other),
                "batch" => Some(Scheduling::Batch),
                "idle" => Some(Scheduling::Idle),
                _ => None,
            },
            Some(("fifo", priority)) => real_time(priority).map(Scheduling::Fifo),
            Some(("rr", priority)) => real_time(priority).map(Scheduling::Rr),
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
}

fn real_time(priority: &str) -> Option<u32> {
    priority.parse().ok().filter(|priority| (1..=99).contains(priority))
}

fn deadline(times: &str) -> Option<Scheduling> {
    let times: Vec<u64> = times.split('/').map(|time| time.parse().ok()).collect::<Option<_>>()?;
    let (runtime_us, deadline_us, period_us) = match times[..] {
        [runtime, period] => (runtime, period, period),
        [runtime, deadline, period] => (runtime, deadline, period),
        _ => return None,
    };
    let ordered = 0 < runtime_us && runtime_us <= deadline_us && deadline_us <= period_us;
    ordered.then_some(Scheduling::Deadline { runtime_us, deadline_us, period_us })
}

impl Placement {
    /// Reads the three fields as the file has them; the error says which is wrong and what is expected.
    pub fn read(policy: Option<&str>, nice: Option<i32>, cpus: Option<&str>) -> Result<Placement, String> {
        let policy: Option<Scheduling> = policy.map(str::parse).transpose()?;
        if let Some(nice) = nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(format!("nice = {nice}: expected -20 to 19"));
        }
        if matches!(policy, Some(Scheduling::Deadline { .. })) && cpus.is_some() {
            return Err("cpus: the kernel refuses an affinity of a deadline task; name none".to_owned());
        }
        Ok(Placement { policy, nice, cpus: cpus.map(read_cpus).transpose()? })
    }

    pub(super) fn fits(self, cpus: u32) -> Result<(), String> {
        match self.cpus.iter().flatten().find(|&&cpu| cpu >= cpus) {
            Some(cpu) => Err(format!("cpus: there is no CPU {cpu}, the guest has {cpus}")),
            None => Ok(()),
        }
    }
}

fn read_cpus(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("cpus = \"{text}\": expected a list such as `0` or `2-7,9`");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) =
            (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
        if first > last || last >= unstarve_model::CpuId::LIMIT {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let read = |text: &str| text.parse::<Scheduling>().ok();
        assert_eq!(read("idle"), Some(Scheduling::Idle));
        assert_eq!(read("rr:10"), Some(Scheduling::Rr(10)));
        let deadline =
            |runtime_us, deadline_us, period_us| Some(Scheduling::Deadline { runtime_us, deadline_us, period_us });
        assert_eq!(read("deadline:2000/10000"), deadline(2_000, 10_000, 10_000));
        assert_eq!(read("deadline:2000/5000/10000"), deadline(2_000, 5_000, 10_000));
        for wrong in
            ["", "fifo", "fifo:0", "rr:100", "idle:1", "deadline", "deadline:1", "deadline:5/2", "deadline:0/1"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
