//! Joins the facts: which thread had the CPU for which another waited.

use unstarve_model::{Nanos, Policy, SchedPolicy};
use unstarve_sched::KernelThread;

use crate::fact::{Facts, How, Lasted, Moment, Ran, Seen, Spot, Stuck, Thread, Waiting};
use crate::jiffies::Hertz;

/// Backtraces belong to a report within this time of it: the kernel waits 10 s for the answer of a CPU that does not take
/// interrupts (`nmi_trigger_cpumask_backtrace` in lib/nmi_backtrace.c).
const AROUND: Nanos = Nanos(15_000_000_000);
/// The same in lines, where they have no time.
const LINES_AROUND: u64 = 200;
/// A thread that uses so much of a CPU leaves hardly anything to others, in percent.
const BUSY: f64 = 80.0;

/// The facts of one host.
pub struct Case<'a> {
    facts: &'a Facts,
}

/// What had a CPU while somebody waited for it, as far as the facts say.
#[derive(Clone, PartialEq, Debug)]
pub enum InTheWay {
    /// Each look at the CPU within the wait showed this thread.
    Proved(Held),
    /// No look at the CPU within the wait, but a list of threads shows one that keeps the CPU busy.
    Likely(Held),
    /// Looks at the CPU showed several threads.
    Several(Vec<Thread>),
    /// Looks at the CPU showed that it was idle.
    Idle(Spot),
    /// Nothing shows what ran there.
    Unknown,
}

/// A thread that had the CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Held {
    pub thread: Thread,
    pub policy: Option<Policy>,
    pub sched_policy: Option<SchedPolicy>,
    /// Its priority by chrt's scale, if it is real-time.
    pub rt_priority: Option<u32>,
    pub nice: Option<i32>,
    /// The work item, if it is a worker.
    pub work: Option<String>,
    pub in_user_code: Option<bool>,
    /// How many looks showed it.
    pub looks: u32,
    pub spot: Spot,
    /// The line of the list that has its policy.
    pub listed: Option<Spot>,
}

impl<'a> Case<'a> {
    /// The case of these facts.
    pub fn of(facts: &'a Facts) -> Case<'a> {
        Case { facts }
    }

    /// How long at least.
    pub fn lasted(&self, stuck: &Stuck) -> Option<Nanos> {
        match stuck.lasted {
            Lasted::AtLeast(length) => Some(length),
            // The shortest tick there is, where it is not known.
            Lasted::Jiffies(jiffies) => Some(self.facts.hertz.unwrap_or(Hertz(1000)).length(jiffies)),
            Lasted::Unknown => None,
        }
    }

    /// The CPU for which the victim waited, if there is one: that of the report, or the one that the thread is bound to.
    pub fn cpu(&self, stuck: &Stuck) -> Option<u32> {
        match (stuck.cpus.as_slice(), &stuck.who) {
            ([cpu], _) => Some(*cpu),
            ([], Waiting::Thread(thread)) => {
                let bound = KernelThread::of(&thread.comm.as_str().into()).and_then(KernelThread::bound_cpu);
                bound.or_else(|| self.listed(thread)?.cpu.filter(|_| thread.pid.is_some()))
            }
            _ => None,
        }
    }

    /// The row of a thread in a list.
    pub fn listed(&self, thread: &Thread) -> Option<&'a Seen> {
        let pid = thread.pid?;
        self.facts.seen.iter().rev().find(|seen| seen.pid == pid && same_name(&seen.comm, &thread.comm))
    }

    /// What had the CPU while the victim of this report waited.
    pub fn in_the_way(&self, stuck: &Stuck) -> InTheWay {
        let Some(cpu) = self.cpu(stuck) else { return InTheWay::Unknown };
        let is_victim = |thread: &Thread| match &stuck.who {
            Waiting::Thread(victim) => victim.may_be(thread),
            Waiting::BoundPool { .. } => false,
            _ => false,
        };
        let looks: Vec<&Ran> = self
            .facts
            .ran
            .iter()
            .filter(|ran| ran.cpu == cpu && ran.how != How::List && self.is_within(&ran.at, stuck))
            .filter(|ran| !is_victim(&ran.thread))
            .collect();
        let (idle, busy): (Vec<&Ran>, Vec<&Ran>) = looks.into_iter().partition(|ran| ran.thread.is_idle());
        if let Some(first) = busy.first() {
            if busy.iter().all(|ran| ran.thread.may_be(&first.thread)) && idle.is_empty() {
                return InTheWay::Proved(self.held(first, busy.len()));
            }
            let mut threads: Vec<Thread> = Vec::new();
            for ran in &busy {
                if !threads.iter().any(|known| known.may_be(&ran.thread)) {
                    threads.push(ran.thread.clone());
                }
            }
            return InTheWay::Several(threads);
        }
        if let Some(first) = idle.first() {
            return InTheWay::Idle(first.spot.clone());
        }
        self.likely(cpu, stuck)
    }

    /// The only thread that a list shows running on the CPU and keeping it busy.
    fn likely(&self, cpu: u32, stuck: &Stuck) -> InTheWay {
        let is_victim = |seen: &Seen| match &stuck.who {
            Waiting::Thread(victim) => victim.pid == Some(seen.pid),
            _ => false,
        };
        let is_busy = |seen: &&Seen| {
            seen.cpu == Some(cpu)
                && seen.percent.is_some_and(|percent| percent >= BUSY)
                && seen.state.is_none_or(|state| state == 'R')
                && !is_victim(seen)
        };
        let mut busy: Vec<&Seen> = self.facts.seen.iter().filter(is_busy).collect();
        busy.dedup_by_key(|seen| seen.pid);
        match busy.as_slice() {
            [only] => InTheWay::Likely(Held {
                thread: Thread { comm: only.comm.clone(), pid: Some(only.pid) },
                policy: only.policy.and_then(SchedPolicy::class),
                sched_policy: only.policy,
                rt_priority: only.rt_priority,
                nice: only.nice,
                work: None,
                in_user_code: None,
                looks: 1,
                spot: self.spot_of(only),
                listed: None,
            }),
            [] => InTheWay::Unknown,
            several => InTheWay::Several(
                several.iter().map(|seen| Thread { comm: seen.comm.clone(), pid: Some(seen.pid) }).collect(),
            ),
        }
    }

    /// A thread that a report names itself.
    pub fn named(&self, thread: &Thread, spot: &Spot) -> InTheWay {
        let listed = self.listed(thread);
        InTheWay::Proved(Held {
            thread: thread.clone(),
            policy: listed.and_then(|seen| seen.policy?.class()),
            sched_policy: listed.and_then(|seen| seen.policy),
            rt_priority: listed.and_then(|seen| seen.rt_priority),
            nice: listed.and_then(|seen| seen.nice),
            work: None,
            in_user_code: None,
            looks: 1,
            spot: spot.clone(),
            listed: listed.map(|seen| self.spot_of(seen)),
        })
    }

    fn spot_of(&self, seen: &Seen) -> Spot {
        let percent = seen.percent.map(|percent| format!(", {percent} % of a CPU")).unwrap_or_default();
        let cpu = seen.cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
        Spot {
            file: seen.file_name.clone(),
            line: seen.line,
            text: format!("{}[{}]{cpu}{percent}", seen.comm, seen.pid),
        }
    }

    fn held(&self, ran: &Ran, looks: usize) -> Held {
        let listed = self.listed(&ran.thread);
        Held {
            thread: ran.thread.clone(),
            policy: ran.policy.or_else(|| listed?.policy?.class()),
            sched_policy: listed.and_then(|seen| seen.policy),
            rt_priority: listed.and_then(|seen| seen.rt_priority),
            nice: listed.and_then(|seen| seen.nice),
            work: ran.work.clone(),
            in_user_code: ran.in_user_code,
            looks: looks as u32,
            spot: ran.spot.clone(),
            listed: listed.map(|seen| self.spot_of(seen)),
        }
    }

    /// Whether a moment lies within the wait that a report is about, or just after it.
    fn is_within(&self, at: &Moment, stuck: &Stuck) -> bool {
        let last = &stuck.until;
        if (at.file, at.boot) != (last.file, last.boot) {
            return false;
        }
        match (at.uptime, last.uptime) {
            (Some(at), Some(last)) => {
                let lasted = self.lasted(stuck).unwrap_or(Nanos::ZERO);
                let begin = last.0.saturating_sub(lasted.0);
                (begin..=last.0.saturating_add(AROUND.0)).contains(&at.0)
            }
            _ => {
                let begin = stuck.at.line.saturating_sub(LINES_AROUND / 4);
                (begin..=last.line + LINES_AROUND).contains(&at.line)
            }
        }
    }
}

/// Whether both may name the same thread: lists append a worker's item, and cut names.
fn same_name(one: &str, other: &str) -> bool {
    let stem = |name: &str| name.split(['-', '+']).next().unwrap_or(name).to_owned();
    one == other || stem(one) == stem(other) || one.starts_with(other) || other.starts_with(one)
}
