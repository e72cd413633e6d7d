//! Selects a part of a trace: tasks, CPUs, time.

use std::str::FromStr;

use thiserror::Error;
use unstarve_model::{Comm, CpuId, CpuSet, Glob, Tid, Time};

use crate::Moment;

/// A selected part of a trace; the default is all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// These tasks; all if empty.
    pub tasks: Vec<TaskPattern>,
    /// These CPUs.
    pub cpus: Option<CpuSet>,
    /// From this moment on.
    pub from: Option<Moment>,
    /// Up to this moment.
    pub to: Option<Moment>,
}

impl Selection {
    /// Whether it contains this task.
    pub fn has_task(&self, comm: &Comm, tid: Tid) -> bool {
        self.tasks.is_empty() || self.tasks.iter().any(|pattern| pattern.matches(comm, tid))
    }

    /// Whether it contains this CPU.
    pub fn has_cpu(&self, cpu: CpuId) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }

    /// Whether the span from `start` to `end` overlaps it, in a trace that begins at `zero`.
    pub fn has_span(&self, start: Time, end: Time, zero: Time) -> bool {
        self.from.is_none_or(|from| from.on(zero) <= end) && self.to.is_none_or(|to| start <= to.on(zero))
    }
}

/// Tasks by id, or by name with `*` for anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskPattern {
    /// The thread with this tid.
    Tid(Tid),
    /// All threads with a matching name; only `*` is special.
    Name(Glob),
}

/// An empty text instead of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a task is missing; expected its id or its name")]
pub struct NoTask;

impl FromStr for TaskPattern {
    type Err = NoTask;

    /// A number is a tid, everything else a name.
    fn from_str(text: &str) -> Result<TaskPattern, NoTask> {
        if text.is_empty() {
            return Err(NoTask);
        }
        Ok(text.parse().map_or_else(|_| TaskPattern::Name(Glob::with_stars(text)), |tid| TaskPattern::Tid(Tid(tid))))
    }
}

impl TaskPattern {
    /// Whether the pattern matches this task.
    pub fn matches(&self, comm: &Comm, tid: Tid) -> bool {
        match self {
            TaskPattern::Tid(wanted) => tid == *wanted,
            TaskPattern::Name(pattern) => pattern.matches(&String::from_utf8_lossy(comm.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_thread_and_everything_else_a_name() {
        let is =
            |text: &str, comm: &[u8]| text.parse::<TaskPattern>().expect("a task").matches(&Comm::new(comm), Tid(47));
        assert!(is("47", b"x") && !is("48", b"x") && is("*", b"x") && is("x*", b"x"));
        // A name cut within a character.
        assert!(is("fi*", b"fi\xc3") && !is("fi", b"fi\xc3"));
        assert_eq!("".parse::<TaskPattern>(), Err(NoTask));
    }
}
