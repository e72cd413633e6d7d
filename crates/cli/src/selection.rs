use std::str::FromStr;

use clap::Args;
use unstarve_model::{CpuId, Time};
use unstarve_report::Select;
use unstarve_timeline::{CpuSet, Task};

use crate::moment::Moment;

/// What part of a recording to look at, as typed.
#[derive(Args)]
pub struct LowSelection {
    /// Only tasks of this id or name; * stands for anything, as in 'kworker/*'
    #[arg(long, value_name = "TID|NAME", value_delimiter = ',')]
    pub task: Vec<TaskPattern>,
    /// Only these CPUs, as in 0,2-3
    #[arg(long, value_name = "LIST")]
    pub cpu: Option<CpuList>,
    /// From here on: 812.5 (as in the trace), +1.2s or 1200ms (from its start)
    #[arg(long, value_name = "TIME")]
    pub from: Option<Moment>,
    /// Up to here
    #[arg(long, value_name = "TIME")]
    pub to: Option<Moment>,
}

impl LowSelection {
    /// For the timeline: which lines to show.
    pub fn select(self) -> Select {
        Box::new(move |world, task, cpu, at| self.has_task(task) && self.has_cpu(cpu) && self.has_time(at, world.start))
    }

    fn has_task(&self, task: &Task) -> bool {
        self.task.is_empty() || self.task.iter().any(|pattern| pattern.matches(task))
    }

    fn has_cpu(&self, cpu: CpuId) -> bool {
        self.cpu.as_ref().is_none_or(|list| list.0.contains(cpu))
    }

    fn has_time(&self, at: Time, start: Time) -> bool {
        self.from.is_none_or(|from| from.on(start) <= at) && self.to.is_none_or(|to| at <= to.on(start))
    }
}

/// Tasks by id, or by name with `*` for anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskPattern {
    Tid(u32),
    Name(String),
}

impl FromStr for TaskPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<TaskPattern, String> {
        if text.is_empty() {
            return Err("a task is missing; expected its id or its name".to_owned());
        }
        Ok(text.parse().map_or_else(|_| TaskPattern::Name(text.to_owned()), TaskPattern::Tid))
    }
}

impl TaskPattern {
    fn matches(&self, task: &Task) -> bool {
        match self {
            TaskPattern::Tid(tid) => task.tid.0 == *tid,
            TaskPattern::Name(pattern) => matches(pattern.as_bytes(), task.comm.as_bytes()),
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

/// CPUs as typed: `0,2-3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuList(pub CpuSet);

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuList, String> {
        let wrong = || format!("{text:?} is not a list of CPUs; expected one like 0,2-3");
        let mut cpus = CpuSet::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
            if first > last || last >= CpuId::LIMIT {
                return Err(wrong());
            }
            (first..=last).for_each(|cpu| cpus.insert(CpuId(cpu)));
        }
        Ok(CpuList(cpus))
    }
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

    #[test]
    fn cpu_lists_are_read_as_the_kernel_prints_them() {
        let cpus = "0,2-3".parse::<CpuList>().unwrap().0;
        assert_eq!((0..5).filter(|cpu| cpus.contains(CpuId(*cpu))).collect::<Vec<_>>(), [0, 2, 3]);
        for text in ["", "a", "3-2", "0-", "0,,1", "0-99999999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
