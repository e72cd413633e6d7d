use std::str::FromStr;

use thiserror::Error;
use unstarve_model::{Comm, CpuId, CpuSet, Tid, Time};

use crate::Moment;

/// What part of a trace is asked for; the default is all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// These tasks; all if empty.
    pub tasks: Vec<TaskPattern>,
    /// These CPUs.
    pub cpus: Option<CpuSet>,
    /// From here on.
    pub from: Option<Moment>,
    /// Up to here.
    pub to: Option<Moment>,
}

impl Selection {
    /// Whether it has this task.
    pub fn has_task(&self, comm: &Comm, tid: Tid) -> bool {
        self.tasks.is_empty() || self.tasks.iter().any(|pattern| pattern.matches(comm, tid))
    }

    /// Whether it has this CPU.
    pub fn has_cpu(&self, cpu: CpuId) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }

    /// Whether something from `start` to `end` reaches into it, in a trace that begins at `zero`.
    pub fn has_span(&self, start: Time, end: Time, zero: Time) -> bool {
        self.from.is_none_or(|from| from.on(zero) <= end) && self.to.is_none_or(|to| start <= to.on(zero))
    }
}

/// Tasks by id, or by name with `*` for anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskPattern {
    /// The thread of this id.
    Tid(Tid),
    /// All threads whose name fits.
    Name(String),
}

/// An empty text where a task was expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a task is missing; expected its id or its name")]
pub struct NoTask;

impl FromStr for TaskPattern {
    type Err = NoTask;

    /// A number is a thread's id, everything else a name.
    fn from_str(text: &str) -> Result<TaskPattern, NoTask> {
        if text.is_empty() {
            return Err(NoTask);
        }
        Ok(text.parse().map_or_else(|_| TaskPattern::Name(text.to_owned()), |tid| TaskPattern::Tid(Tid(tid))))
    }
}

impl TaskPattern {
    /// Whether this is such a task.
    pub fn matches(&self, comm: &Comm, tid: Tid) -> bool {
        match self {
            TaskPattern::Tid(wanted) => tid == *wanted,
            TaskPattern::Name(pattern) => matches(pattern.as_bytes(), comm.as_bytes()),
        }
    }
}

/// `*` stands for anything, everything else for itself. A star is tried with nothing first and grows when the rest does
/// not fit, which takes at most pattern × name steps.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p) == Some(&name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            (p, n) = (at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let cases = [
            ("fio", "fio", true),
            ("fio", "fio2", false),
            ("kworker/*", "kworker/0:2", true),
            ("*/1", "ksoftirqd/1", true),
            ("*o*o*", "kworker/0:2", false),
            ("*o*k*", "kworker/0:2", true),
            ("*", "", true),
            ("", "x", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} on {name}");
        }
    }
}
