//! `/proc/sched_debug`, since 5.13 `/sys/kernel/debug/sched/debug`: of each CPU, which thread runs and which could.

use unstarve_model::{CpuId, Policy};

use super::{Kind, Section, Took};
use crate::fact::{Facts, How, Lasted, Moment, Ran, Sign, Spot, Stuck, Thread, Waiting};

pub(super) const KIND: Kind = Kind { triggers: &["cpu#", "runnable tasks:", "cfs_rq[", "rt_rq["], open };

/// Real-time tasks have a lower priority number (`MAX_RT_PRIO`).
const MAX_RT_PRIO: i32 = 100;

struct SchedDebug {
    file: u32,
    cpu: u32,
    /// The cgroup whose queue is being listed; empty for the root.
    group: String,
    current: Option<u32>,
    /// Whether `R` marks the thread that runs, as before 4.14: the head has no `S`.
    marks_current: bool,
    /// The place of `prio` among the words behind the id.
    prio: Option<usize>,
    tasks: Vec<Task>,
    spot: Option<Spot>,
    misses: u32,
}

struct Task {
    thread: Thread,
    is_current: bool,
    is_runnable: bool,
    prio: Option<i32>,
    spot: Spot,
}

fn open(text: &str, file: u32) -> Option<Box<dyn Section>> {
    let queue = queue(text);
    let cpu = cpu(text).or(queue.as_ref().map(|(cpu, _)| *cpu))?;
    let group = queue.map(|(_, group)| group).unwrap_or_default();
    Some(Box::new(SchedDebug {
        file,
        cpu,
        group,
        current: None,
        marks_current: false,
        prio: None,
        tasks: Vec::new(),
        spot: None,
        misses: 0,
    }))
}

/// `cpu#3, 2400.000 MHz`, `cpu#3`.
fn cpu(text: &str) -> Option<u32> {
    let rest = text.trim().strip_prefix("cpu#")?;
    rest.split([',', ' ']).next()?.parse().ok().filter(|cpu| *cpu < CpuId::LIMIT)
}

/// The CPU and the cgroup of `cfs_rq[0]:/a/b`, `rt_rq[0]:`; the root's group is empty.
fn queue(text: &str) -> Option<(u32, String)> {
    let rest = text.trim().strip_prefix("cfs_rq[").or_else(|| text.trim().strip_prefix("rt_rq["))?;
    let (cpu, group) = rest.split_once("]:")?;
    Some((cpu.parse().ok().filter(|cpu| *cpu < CpuId::LIMIT)?, group.trim_end_matches('/').to_owned()))
}

/// Name, id and the numbers behind, by the columns of the kernel (`print_task` in kernel/sched/debug.c): a name may have blanks and
/// numbers in it.
fn fixed_columns(text: &str) -> Option<(&str, u32, &str)> {
    const NAME: std::ops::Range<usize> = 3..18;
    let (name, rest) = (text.get(NAME)?, text.get(NAME.end..)?);
    let marks = text.as_bytes();
    if !matches!(marks[0], b' ' | b'>') || !marks[1].is_ascii_uppercase() || marks[2] != b' ' {
        return None;
    }
    let rest = rest.strip_prefix(' ')?.trim_start();
    let (pid, numbers) = rest.split_once(' ')?;
    Some((name.trim(), pid.parse().ok()?, numbers)).filter(|(name, ..)| !name.is_empty())
}

/// The same where blanks were lost on the way, or the kernel has other columns.
fn in_words(rest: &str) -> Option<(&str, u32, &str)> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let is_number = |word: &&str| word.contains('.') && word.trim_start_matches('-').parse::<f64>().is_ok();
    let first = words.iter().position(is_number)?;
    let id = *words.get(first.checked_sub(1)?)?;
    let at = |word: &str| word.as_ptr().addr() - rest.as_ptr().addr();
    let comm = rest.get(..at(id))?.trim();
    Some((comm, id.parse().ok()?, rest.get(at(words[first])..)?)).filter(|(comm, ..)| !comm.is_empty())
}

/// Lines of something else before the dump counts as over: messages of the kernel may stand in between.
const MAX_MISSES: u32 = 40;

impl Section for SchedDebug {
    fn name(&self) -> &'static str {
        "dump of the scheduler (sched_debug)"
    }

    fn line(&mut self, text: &str, spot: &Spot, facts: &mut Facts) -> Took {
        if let Some(next) = cpu(text) {
            self.flush(facts);
            (self.cpu, self.group) = (next, String::new());
            return Took::Line;
        }
        if let Some((cpu, group)) = queue(text) {
            if cpu != self.cpu {
                self.flush(facts);
            }
            (self.cpu, self.group) = (cpu, group);
            return Took::Line;
        }
        let trimmed = text.trim();
        if let Some((key, value)) = trimmed.split_once(':').filter(|(key, _)| key.starts_with('.')) {
            if key.trim() == ".rt_throttled" && value.trim() == "1" {
                self.throttled(spot, facts);
            }
            if key.trim() == ".curr->pid" {
                self.current = value.trim().parse().ok();
                self.spot = Some(spot.clone());
            }
            self.misses = 0;
            return Took::Line;
        }
        let words: Vec<&str> = trimmed.split_whitespace().collect();
        if let Some(id) = words.iter().position(|word| *word == "PID").filter(|_| words.contains(&"task")) {
            self.marks_current = words.first() != Some(&"S");
            let numbers = words[id + 1..].iter().filter(|word| **word != "eligible");
            self.prio = numbers.into_iter().position(|word| *word == "prio");
            return Took::Line;
        }
        if let Some(task) = self.task(text, spot) {
            self.tasks.push(task);
            self.misses = 0;
            return Took::Line;
        }
        self.misses += 1;
        if self.misses < MAX_MISSES { Took::Nothing } else { Took::End }
    }

    fn finish(&mut self, facts: &mut Facts) {
        self.flush(facts);
    }
}

impl SchedDebug {
    /// Real-time threads of the root or of a group used up their limit.
    fn throttled(&self, spot: &Spot, facts: &mut Facts) {
        let at = Moment::of_line(self.file, spot.line);
        let sign = if self.group.is_empty() { Sign::RealTimeLimit } else { Sign::GroupThrottled };
        let mut stuck = Stuck::new(sign, Waiting::Nobody, vec![self.cpu], Lasted::Unknown, spot.clone(), at);
        stuck.detail = (!self.group.is_empty()).then(|| format!("real-time threads in the cgroup {}", self.group));
        facts.stuck(stuck);
    }

    /// `>R         poller   900      1234.567890 …`; before 4.14 `R         poller   900 …`, where `R` marks the one that runs.
    fn task(&self, text: &str, spot: &Spot) -> Option<Task> {
        let (mark, rest) = (text.starts_with('>'), text.trim_start_matches('>').trim_start());
        let (state, rest) = rest.split_once(char::is_whitespace)?;
        let has_state = state.len() == 1 && state.starts_with(|c: char| c.is_ascii_uppercase());
        let rest = if has_state { rest } else { text };
        // Beside the numbers there is a letter where the thread may run (6.6), and one where it has a slice of its own (6.12).
        let is_letter = |word: &&str| word.len() == 1 && word.starts_with(|c: char| c.is_ascii_uppercase());
        let (comm, pid, numbers) = fixed_columns(text).or_else(|| in_words(rest))?;
        let words: Vec<&str> = numbers.split_whitespace().filter(|word| !is_letter(word)).collect();
        let prio = self.prio.and_then(|place| words.get(place)?.parse().ok());
        Some(Task {
            thread: Thread { comm: comm.to_owned(), pid: Some(pid) },
            is_current: mark || self.current == Some(pid) || self.marks_current && has_state,
            is_runnable: !self.marks_current && has_state && state == "R",
            prio,
            spot: spot.clone(),
        })
    }

    fn flush(&mut self, facts: &mut Facts) {
        let at = |line| Moment::of_line(self.file, line);
        let tasks = std::mem::take(&mut self.tasks);
        let cpu = self.cpu;
        let current = tasks.iter().find(|task| task.is_current);
        let ran = |thread: Thread, policy, spot: &Spot| Ran {
            cpu,
            thread,
            how: How::RunQueue,
            policy,
            work: None,
            in_user_code: None,
            function: None,
            callers: Vec::new(),
            spot: spot.clone(),
            at: at(spot.line),
        };
        match (current, self.current, &self.spot) {
            (Some(task), ..) => {
                let policy = task.prio.map(|prio| if prio < MAX_RT_PRIO { Policy::Rt } else { Policy::Fair });
                facts.ran(ran(task.thread.clone(), policy, &task.spot));
            }
            (None, Some(0), Some(spot)) => {
                facts.ran(ran(Thread { comm: "swapper".to_owned(), pid: Some(0) }, Some(Policy::Idle), spot));
            }
            _ => {}
        }
        for task in tasks.iter().filter(|task| task.is_runnable && !task.is_current) {
            let who = Waiting::Thread(task.thread.clone());
            let spot = task.spot.clone();
            let moment = at(spot.line);
            facts.stuck(Stuck::new(Sign::SeenWaiting, who, vec![cpu], Lasted::Unknown, spot, moment));
        }
        (self.current, self.spot) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_runs_and_who_could() {
        let text = "cpu#3, 2400.000 MHz
  .nr_running                    : 2
  .curr->pid                     : 900

cfs_rq[3]:/
  .nr_running                    : 1

runnable tasks:
 S            task   PID         tree-key  switches  prio     wait-time             sum-exec        sum-sleep
-------------------------------------------------------------------------------------------------------------
 S      migration/3    28       -11.928921         9     0         0.000000         0.063000         0.000000 0 0 /
>R         poller 7   900         0.000000       120    49         0.000000      2000.000000         0.000000 0 0 /
 R      kworker/3:1    52        80.123456       312   120      1950.000000        12.000000         0.000000 0 0 /

cpu#4
  .curr->pid                     : 0
";
        let mut facts = Facts::default();
        let mut lines = text.lines();
        let mut section = open(lines.next().expect("a line"), 0).expect("a dump");
        for (number, line) in lines.enumerate() {
            section.line(line, &Spot { file: "d".into(), line: number as u64, text: line.into() }, &mut facts);
        }
        section.finish(&mut facts);
        let ran: Vec<_> =
            facts.ran.iter().map(|ran| (ran.cpu, ran.thread.comm.as_str(), ran.thread.pid, ran.policy)).collect();
        assert_eq!(ran, [(3, "poller 7", Some(900), Some(Policy::Rt)), (4, "swapper", Some(0), Some(Policy::Idle))]);
        let waits: Vec<_> = facts.stuck.iter().map(|stuck| (&stuck.who, stuck.cpus.as_slice())).collect();
        let worker = Waiting::Thread(Thread { comm: "kworker/3:1".into(), pid: Some(52) });
        assert_eq!(waits, [(&worker, &[3][..])]);
    }

    #[test]
    fn old_kernels_mark_the_thread_that_runs() {
        let dump = "cfs_rq[0]:/\n  .nr_running : 1\n\nrunnable tasks:\n            task   PID         tree-key  switches  prio\n------\n";
        let rows = "     rcu_kthread     6         0.000000     24701    98\nR         poller 20302      7884.303335         0   120\n";
        let mut facts = Facts::default();
        crate::scan::scan(format!("{dump}{rows}").as_bytes(), "x", 0, &mut facts).expect("a dump");
        assert!(facts.stuck.is_empty(), "{:?}", facts.stuck);
        assert_eq!(facts.ran.len(), 1);
        assert_eq!(facts.ran[0].thread.comm, "poller");
    }

    #[test]
    fn a_limit_on_real_time_threads_that_is_used_up() {
        let dump = "rt_rq[0]:\n  .rt_nr_running                 : 2\n  .rt_throttled                  : 1\n";
        let facts = super::super::tests::facts_of;
        assert_eq!(facts(dump), "RealTimeLimit nobody cpus [0] Unknown line 3");
        let group = dump.replace("rt_rq[0]:", "cpu#2\n  .nr_running  : 1\nrt_rq[2]:/a");
        assert_eq!(facts(&group), "GroupThrottled nobody cpus [2] Unknown real-time threads in the cgroup /a line 5");
        assert_eq!(facts(&dump.replace(": 1\n", ": 0\n")), "");
    }
}
