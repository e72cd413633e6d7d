//! Joins the facts: which thread had the CPU for which another waited.

use unstarve_model::{Nanos, Policy, SchedPolicy};
use unstarve_sched::KernelThread;

use crate::fact::{Facts, How, Lasted, Moment, Ran, Seen, Sign, Spot, Stuck, Thread, Waiting};
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
    /// Each look showed this thread, which spins until another CPU answers: it is held up itself.
    Spins(Held),
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
    /// The kernel's function that it was in.
    pub function: Option<String>,
    /// How many looks showed it.
    pub looks: u32,
    pub spot: Spot,
    /// The line of the list that has its policy.
    pub listed: Option<Spot>,
}

impl Held {
    /// Whether it is in one of the kernel's loops that end when another CPU answers (kernel/smp.c, kernel/stop_machine.c).
    fn waits_for_cpu(&self) -> bool {
        const LOOPS: [&str; 6] =
            ["smp_call_function", "csd_lock_wait", "__csd_lock_wait", "multi_cpu_stop", "stop_machine", "__smp_call"];
        self.function.as_deref().is_some_and(|function| LOOPS.iter().any(|name| function.starts_with(name)))
    }
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
            .filter(|ran| ran.how != How::RunQueue || !is_reader(&ran.thread.comm))
            .collect();
        let (idle, busy): (Vec<&Ran>, Vec<&Ran>) = looks.into_iter().partition(|ran| ran.thread.is_idle());
        if let Some(first) = busy.first() {
            if busy.iter().all(|ran| ran.thread.may_be(&first.thread)) && idle.is_empty() {
                let held = self.held(first, busy.len());
                return if held.waits_for_cpu() { InTheWay::Spins(held) } else { InTheWay::Proved(held) };
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

    /// The only thread, or real-time threads of one name, that a list shows to keep the CPU busy.
    fn likely(&self, cpu: u32, stuck: &Stuck) -> InTheWay {
        let is_victim = |user: &User<'_>| matches!(&stuck.who, Waiting::Thread(victim) if user.threads == 1 && victim.pid == Some(user.first.pid));
        // A dump of the run queues in another file of the ticket.
        let dumped = self.facts.ran.iter().find(|ran| {
            ran.cpu == cpu && ran.how == How::RunQueue && ran.at.file != stuck.at.file && !ran.thread.is_idle()
        });
        if let Some(ran) = dumped.filter(|ran| !is_reader(&ran.thread.comm)) {
            return InTheWay::Likely(self.held(ran, 1));
        }
        let busy: Vec<User<'_>> =
            busy_users(&self.facts.seen, cpu).into_iter().filter(|user| !is_victim(user)).collect();
        match busy.as_slice() {
            [only] => {
                let Seen { comm, pid, policy, rt_priority, nice, .. } = only.first;
                InTheWay::Likely(Held {
                    thread: Thread { comm: comm.clone(), pid: (only.threads == 1).then_some(*pid) },
                    policy: policy.and_then(SchedPolicy::class),
                    sched_policy: *policy,
                    rt_priority: rt_priority.filter(|_| only.threads == 1),
                    nice: *nice,
                    work: None,
                    in_user_code: None,
                    function: None,
                    looks: 1,
                    spot: only.spot(),
                    listed: None,
                })
            }
            [] => InTheWay::Unknown,
            several => InTheWay::Several(
                several
                    .iter()
                    .map(|user| Thread { comm: user.first.comm.clone(), pid: Some(user.first.pid) })
                    .collect(),
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
            function: None,
            looks: 1,
            spot: spot.clone(),
            listed: listed.map(|seen| User::of(seen).spot()),
        })
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
            function: ran.function.clone(),
            looks: looks as u32,
            spot: ran.spot.clone(),
            listed: listed.map(|seen| User::of(seen).spot()),
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

/// Whether a thread has the name of one that makes or reads the dump or the list: it runs on one of the CPUs that it asks about.
fn is_reader(comm: &str) -> bool {
    const READERS: [&str; 18] = [
        "ps",
        "top",
        "cat",
        "head",
        "tail",
        "less",
        "more",
        "grep",
        "awk",
        "cp",
        "dd",
        "tar",
        "tee",
        "bash",
        "sh",
        "sos",
        "sosreport",
        "python3",
    ];
    READERS.contains(&comm) || comm.starts_with("unstarve")
}

/// Who uses a CPU, by a list of threads: one thread, or several real-time threads of one name.
struct User<'a> {
    first: &'a Seen,
    threads: u32,
    percent: f64,
}

impl<'a> User<'a> {
    fn of(seen: &'a Seen) -> User<'a> {
        User { first: seen, threads: 1, percent: seen.percent.unwrap_or_default() }
    }

    /// `reactor_0[2219] on CPU 3, 99.9 % of a CPU`.
    fn spot(&self) -> Spot {
        let Seen { comm, pid, cpu, file_name, line, .. } = self.first;
        let name =
            if self.threads == 1 { format!("{comm}[{pid}]") } else { format!("{comm} ({} threads)", self.threads) };
        let cpu = cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
        let percent = if self.percent > 0.0 { format!(", {:.1} % of a CPU", self.percent) } else { String::new() };
        Spot { file: file_name.clone(), line: *line, text: format!("{name}{cpu}{percent}") }
    }
}

/// The place of a thread among those of a CPU: who is higher always runs first.
fn rank(seen: &Seen) -> u32 {
    match seen.policy {
        Some(SchedPolicy::Deadline) => 200,
        Some(SchedPolicy::Fifo | SchedPolicy::Rr) => 100 + seen.rt_priority.unwrap_or(1),
        _ => 0,
    }
}

/// Who keeps a CPU busy.
fn busy_users(seen: &[Seen], cpu: u32) -> Vec<User<'_>> {
    let mut users: Vec<User<'_>> = Vec::new();
    let is_on = |seen: &&Seen| seen.cpu == Some(cpu) && seen.percent.is_some_and(|percent| percent > 0.0);
    for seen in seen.iter().filter(is_on).filter(|seen| !is_reader(&seen.comm)) {
        let is_same = |user: &&mut User<'_>| {
            user.first.pid == seen.pid || rank(user.first) > 0 && rank(seen) > 0 && user.first.comm == seen.comm
        };
        match users.iter_mut().find(is_same) {
            // The same thread in a second list.
            Some(user) if user.first.pid == seen.pid => {
                user.percent = user.percent.max(seen.percent.unwrap_or_default())
            }
            Some(user) => {
                user.threads += 1;
                user.percent += seen.percent.unwrap_or_default();
            }
            None => users.push(User::of(seen)),
        }
    }
    let runs = |user: &User<'_>| user.threads > 1 || user.first.state.is_none_or(|state| state == 'R');
    users.retain(|user| user.percent >= BUSY && runs(user));
    users
}

/// Adds what a list of threads shows by itself: kernel threads that are bound to a CPU and ready to run, while real-time threads that
/// go before them keep the CPU busy.
pub fn add_listed_waits(facts: &mut Facts) {
    let is_bound = |seen: &&Seen| {
        let kind = KernelThread::of(&seen.comm.as_str().into());
        kind.is_some_and(|kind| kind.bound_cpu().is_some() || matches!(kind, KernelThread::Rcu | KernelThread::Ktimers))
    };
    let mut found = Vec::new();
    for victim in facts.seen.iter().filter(|seen| seen.state == Some('R')).filter(is_bound) {
        let Some(cpu) = victim.cpu else { continue };
        let goes_before = |user: &User<'_>| rank(user.first) > rank(victim);
        if busy_users(&facts.seen, cpu).iter().any(goes_before) {
            let who = Waiting::Thread(Thread { comm: victim.comm.clone(), pid: Some(victim.pid) });
            let text = format!("{}[{}] is ready to run (state R)", victim.comm, victim.pid);
            let spot = Spot { file: victim.file_name.clone(), line: victim.line, text };
            let at = Moment { file: 0, boot: 0, line: victim.line, uptime: None };
            found.push(Stuck::new(Sign::SeenWaiting, who, vec![cpu], Lasted::Unknown, spot, at));
        }
    }
    found.into_iter().for_each(|stuck| facts.stuck(stuck));
}

/// Whether both may name the same thread: lists append a worker's item, and cut names.
fn same_name(one: &str, other: &str) -> bool {
    let stem = |name: &str| name.split(['-', '+']).next().unwrap_or(name).to_owned();
    one == other || stem(one) == stem(other) || one.starts_with(other) || other.starts_with(one)
}
