//! What the facts prove: one table, by what kind of trouble it is and what had the CPU.

use unstarve_diagnose::only_watches;
use unstarve_diagnose::report::{
    Culprit, Evidence, EvidenceSource, Finding, FindingId, Instance, PricePaid, Remedy, Report, SCHEMA, Severity,
    TraceSummary, Verdict, Victim, VictimKind, Waits, Work,
};
use unstarve_model::{Nanos, Policy, Tid};
use unstarve_sched::{KernelThread, Rule};

use crate::case::{Case, Held, InTheWay};
use crate::fact::{Facts, InterruptShare, Lasted, NEAR, Sign, Spot, Stuck, Thread, Waiting};
use crate::scan::Source;
use crate::{next, words};

/// A kind of finding that only evidence has; the others are those of recordings.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its id.
    pub id: &'static str,
    /// What it is, in one line.
    pub title: &'static str,
}

/// Findings of evidence beside those of recordings.
pub const KINDS: [Kind; 6] = [
    Kind { id: "kernel-holds-cpu", title: "kernel code keeps a CPU, and everything bound to it waits" },
    Kind {
        id: "blocked-task",
        title: "a thread is blocked: it waits for a lock, a device or another thread, not for a CPU",
    },
    Kind { id: "sched-ext-stall", title: "a BPF scheduler did not run a thread that could run" },
    Kind { id: "late-device", title: "a device or a server did not answer in time" },
    Kind { id: "reported-hang", title: "the kernel reports a hang, and the text does not say of what" },
    Kind { id: "other-trouble", title: "memory, errors of devices, heat: trouble that is none of the scheduler's" },
];

/// The kind of trouble that a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// A thread can run and gets no CPU.
    Starved,
    /// A thread was runnable at one moment; for how long is not known.
    SeenRunnable,
    /// A CPU does not leave what it does.
    CpuHeld,
    /// A CPU in user code did not run the watchdog.
    UserHeld,
    /// A timer of a CPU was late.
    TimerLate,
    /// A thread sleeps until something comes.
    Blocked,
    /// The BPF scheduler left a thread out.
    BpfScheduler,
    /// The limit on real-time threads.
    RealTimeLimit,
    /// A deadline task fell behind.
    Deadline,
    /// Interrupt handlers take long.
    Interrupts,
    /// Interrupts or softirqs take most of a CPU.
    InterruptLoad,
    /// The machine, or its clock, stood still.
    Machine,
    /// A device is late.
    Device,
    /// A thread of a measuring tool woke late.
    LateWakeup,
    /// A cgroup used up its limit.
    GroupLimit,
    /// A hang that the text says no more about.
    Hang,
    /// Trouble that is none of the scheduler's.
    Remark,
}

impl Trouble {
    fn of(sign: Sign) -> Trouble {
        match sign {
            Sign::PoolStuck | Sign::RcuThreadStarved => Trouble::Starved,
            Sign::SeenWaiting => Trouble::SeenRunnable,
            Sign::SoftLockup
            | Sign::HardLockup
            | Sign::RcuStall
            | Sign::NoReschedule
            | Sign::CallNotAnswered
            | Sign::SlowWork => Trouble::CpuHeld,
            Sign::RcuTimerLate | Sign::SoftirqPending => Trouble::TimerLate,
            Sign::TaskBlocked => Trouble::Blocked,
            Sign::SchedExtStall => Trouble::BpfScheduler,
            Sign::RealTimeLimit => Trouble::RealTimeLimit,
            Sign::DeadlineLate => Trouble::Deadline,
            Sign::SlowInterrupt | Sign::InterruptsCame => Trouble::Interrupts,
            Sign::ClockJumped | Sign::Steal => Trouble::Machine,
            Sign::DeviceLate => Trouble::Device,
            Sign::LateWakeup => Trouble::LateWakeup,
            Sign::GroupThrottled => Trouble::GroupLimit,
            Sign::Hang => Trouble::Hang,
            Sign::Remark => Trouble::Remark,
        }
    }
}

/// What had the CPU, as far as it decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Two looks or more, or the kernel's own word, show one thread.
    Sure(Class),
    /// One look shows it.
    Once(Class),
    /// A list of threads suggests it.
    Likely(Class),
    Several,
    Idle,
    Unknown,
}

/// The class of the thread in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    RealTime,
    Fair,
    Unknown,
}

/// A cell of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cell {
    pub finding: &'static str,
    pub severity: Severity,
    pub confidence: f64,
    pub rule: Rule,
}

const fn cell(finding: &'static str, severity: Severity, confidence: f64, rule: Rule) -> Cell {
    Cell { finding, severity, confidence, rule }
}

/// The table. Nothing with less than 75 % confidence is critical.
pub fn decide(trouble: Trouble, way: Way) -> Cell {
    use Class::{Fair, RealTime};
    use Severity::{Critical, Info, Warning};
    use Way::{Idle, Likely, Once, Several, Sure};
    match (trouble, way) {
        (Trouble::Starved, Sure(RealTime)) => cell("rt-starvation", Critical, 0.9, Rule::Class),
        (Trouble::Starved, Once(RealTime)) => cell("rt-starvation", Critical, 0.8, Rule::Class),
        (Trouble::Starved, Likely(RealTime)) => cell("rt-starvation", Warning, 0.7, Rule::Class),
        (Trouble::Starved, Sure(Fair)) => cell("stuck-equal", Critical, 0.85, Rule::Fair),
        (Trouble::Starved, Once(Fair)) => cell("stuck-equal", Critical, 0.75, Rule::Fair),
        (Trouble::Starved, Likely(Fair)) => cell("stuck-equal", Warning, 0.65, Rule::Fair),
        (Trouble::Starved, Sure(Class::Unknown)) => cell("long-wait", Critical, 0.85, Rule::Unranked),
        (Trouble::Starved, Once(Class::Unknown)) => cell("long-wait", Critical, 0.75, Rule::Unranked),
        (Trouble::Starved, Likely(Class::Unknown)) => cell("long-wait", Warning, 0.55, Rule::Unranked),
        // The victim is certain, the culprit is not named.
        (Trouble::Starved, Several | Way::Unknown) => cell("long-wait", Critical, 0.8, Rule::Unknown),
        (Trouble::Starved, Idle) => cell("cpu-stopped", Warning, 0.5, Rule::Unknown),
        (Trouble::SeenRunnable, Sure(RealTime) | Once(RealTime)) => cell("rt-starvation", Warning, 0.6, Rule::Class),
        (Trouble::SeenRunnable, Likely(RealTime)) => cell("rt-starvation", Warning, 0.5, Rule::Class),
        (Trouble::SeenRunnable, _) => cell("long-wait", Info, 0.3, Rule::Unknown),
        (Trouble::CpuHeld, Sure(_)) => cell("kernel-holds-cpu", Critical, 0.85, Rule::NotPreempted),
        (Trouble::UserHeld, _) => cell("cpu-stopped", Warning, 0.6, Rule::Unknown),
        (Trouble::CpuHeld, Once(_)) => cell("kernel-holds-cpu", Critical, 0.75, Rule::NotPreempted),
        (Trouble::CpuHeld, Likely(_)) => cell("kernel-holds-cpu", Warning, 0.5, Rule::NotPreempted),
        (Trouble::CpuHeld, Several | Way::Unknown) => cell("kernel-holds-cpu", Warning, 0.7, Rule::Unknown),
        (Trouble::CpuHeld | Trouble::TimerLate, Idle) => cell("cpu-stopped", Warning, 0.6, Rule::Unknown),
        (Trouble::TimerLate, Sure(_) | Once(_)) => cell("long-wait", Warning, 0.6, Rule::Unranked),
        (Trouble::TimerLate, _) => cell("cpu-stopped", Warning, 0.5, Rule::Unknown),
        (Trouble::Blocked, _) => cell("blocked-task", Warning, 0.9, Rule::Unknown),
        (Trouble::BpfScheduler, Sure(RealTime) | Once(RealTime)) => cell("rt-starvation", Critical, 0.75, Rule::Class),
        (Trouble::BpfScheduler, _) => cell("sched-ext-stall", Critical, 0.85, Rule::Unknown),
        (Trouble::RealTimeLimit, _) => cell("throttled", Warning, 0.7, Rule::Throttled),
        (Trouble::Deadline, _) => cell("deadline-overrun", Warning, 0.7, Rule::Unknown),
        (Trouble::Interrupts, _) => cell("irq-interference", Info, 0.5, Rule::Irq),
        (Trouble::InterruptLoad, _) => cell("irq-interference", Warning, 0.8, Rule::Irq),
        (Trouble::Machine, _) => cell("cpu-stopped", Info, 0.4, Rule::Unknown),
        (Trouble::Device, _) => cell("late-device", Warning, 0.8, Rule::Unknown),
        // The tool's thread is real-time: what runs in its place cannot be preempted, or goes before it.
        (Trouble::LateWakeup, Sure(RealTime) | Once(RealTime)) => cell("long-wait", Warning, 0.7, Rule::Unranked),
        (Trouble::LateWakeup, Sure(_) | Once(_)) => cell("kernel-holds-cpu", Warning, 0.6, Rule::NotPreempted),
        (Trouble::LateWakeup, _) => cell("long-wait", Warning, 0.5, Rule::Unknown),
        (Trouble::GroupLimit, _) => cell("throttled", Warning, 0.6, Rule::Throttled),
        (Trouble::Hang, _) => cell("reported-hang", Warning, 0.6, Rule::Unknown),
        (Trouble::Remark, _) => cell("other-trouble", Info, 0.5, Rule::Unknown),
    }
}

/// A report with what had the CPU.
pub struct Judged<'a> {
    pub stuck: &'a Stuck,
    /// Further reports of the same trouble: other CPUs, without a culprit.
    pub also: Vec<&'a Stuck>,
    pub trouble: Trouble,
    pub way: InTheWay,
    pub cell: Cell,
    pub cpu: Option<u32>,
    pub lasted: Option<Nanos>,
    pub is_jiffies: Option<u64>,
    /// The interrupts that took the CPU.
    pub interrupts: Option<InterruptShare>,
    /// Threads that are blocked behind it.
    pub blocked: Vec<&'a Stuck>,
    /// Who uses a whole CPU, where nothing shows whether it is this one.
    pub unplaced: Vec<Spot>,
}

impl Judged<'_> {
    /// The thread in the way, where one is named.
    pub fn held(&self) -> Option<&Held> {
        match &self.way {
            InTheWay::Proved(held) | InTheWay::Likely(held) => Some(held),
            _ => None,
        }
    }

    /// Who waits: where RCU's softirq does not run, the thread that runs it.
    pub fn who(&self) -> Waiting {
        match (self.trouble, self.stuck.sign, self.cpu) {
            (Trouble::Starved, Sign::RcuStall, Some(cpu)) => {
                Waiting::Thread(Thread { comm: format!("ksoftirqd/{cpu}"), pid: None })
            }
            _ => self.stuck.who.clone(),
        }
    }

    /// The CPUs of all.
    pub fn cpus(&self) -> Vec<u32> {
        let all = std::iter::once(self.stuck).chain(self.also.iter().copied());
        let mut cpus: Vec<u32> = all.flat_map(|stuck| stuck.cpus.iter().copied()).chain(self.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

fn way(way: &InTheWay, sign: Sign) -> Way {
    let class = |held: &Held| match held.policy {
        Some(Policy::Rt | Policy::Deadline) => Class::RealTime,
        Some(Policy::Fair) => Class::Fair,
        _ => Class::Unknown,
    };
    match way {
        // The kernel says of a soft lockup that the thread had the CPU for all of the time.
        InTheWay::Proved(held) if held.looks > 1 || sign == Sign::SoftLockup => Way::Sure(class(held)),
        InTheWay::Proved(held) => Way::Once(class(held)),
        InTheWay::Likely(held) => Way::Likely(class(held)),
        InTheWay::Several(_) | InTheWay::Shared => Way::Several,
        InTheWay::Idle(_) => Way::Idle,
        InTheWay::Spins(_) | InTheWay::Unknown => Way::Unknown,
    }
}

/// Everything that is wrong, worst first.
pub fn judge<'a>(case: &Case<'_>, facts: &'a Facts) -> Vec<Judged<'a>> {
    let mut judged: Vec<Judged<'a>> = facts.stuck.iter().map(|stuck| one(case, stuck)).collect();
    fold_rcu(&mut judged);
    kernel_keeps(&mut judged);
    share_cause(&mut judged);
    fold_cpus(&mut judged);
    fold_blocked(&mut judged);
    // A line that says no more than that something hangs adds nothing to one that does.
    if judged.iter().any(|one| one.trouble != Trouble::Hang && one.cell.severity > Severity::Info) {
        judged.retain(|one| one.trouble != Trouble::Hang);
    }
    judged.sort_by(|one, other| {
        let key = |judged: &Judged<'_>| (judged.cell.severity, judged.cell.confidence, judged.lasted);
        key(other).partial_cmp(&key(one)).unwrap_or(std::cmp::Ordering::Equal)
    });
    judged
}

fn one<'a>(case: &Case<'_>, stuck: &'a Stuck) -> Judged<'a> {
    let mut in_way = case.in_the_way(stuck);
    let mut trouble = Trouble::of(stuck.sign);
    let lasted = case.lasted(stuck);
    if trouble == Trouble::SeenRunnable && lasted.is_some_and(|lasted| lasted >= STARVED) {
        trouble = Trouble::Starved;
    }
    if let Some(holder) = stuck.holder.as_ref().filter(|holder| holder.is_certain)
        && !matches!(in_way, InTheWay::Proved(_) | InTheWay::Spins(_))
    {
        in_way = case.named(&holder.thread, &stuck.last);
    }
    // A recorder's thread that one look finds in its own code is there for a moment; what it records is there for longer.
    if let InTheWay::Proved(held) = &in_way
        && held.looks == 1
        && held.in_user_code == Some(true)
        && only_watches(None, Tid(held.thread.pid.unwrap_or_default()), held.thread.comm.as_str().into())
    {
        in_way = InTheWay::Unknown;
    }
    // A pool's own worker at work is not what keeps the pool's other workers from running: the work item is.
    if let (Sign::PoolStuck, InTheWay::Proved(held)) = (stuck.sign, &in_way) {
        let own = stuck.in_flight.iter().any(|(pid, _)| held.thread.pid == Some(*pid));
        if own || held.work.is_some() {
            trouble = Trouble::CpuHeld;
        }
    }
    // The same where a list shows it: the pool starts no other worker while one of its own runs.
    if let (Sign::PoolStuck, InTheWay::Proved(held) | InTheWay::Likely(held)) = (stuck.sign, &in_way)
        && is_worker_of(&stuck.who, &held.thread)
    {
        trouble = Trouble::CpuHeld;
    }
    // A thread whose stack does not end in the scheduler is not waiting: it runs.
    if stuck.sign == Sign::RcuThreadStarved && stuck.works.first().is_some_and(|top| !words::is_switched_out(top)) {
        let Waiting::Thread(thread) = &stuck.who else { unreachable!("a thread of RCU") };
        (trouble, in_way) = (Trouble::CpuHeld, case.named(thread, &stuck.last));
    }
    let is_user = matches!(&in_way, InTheWay::Proved(held) if held.in_user_code == Some(true));
    if stuck.sign == Sign::SoftLockup && is_user {
        trouble = Trouble::UserHeld;
    }
    // Ticks that find user code are what RCU waits for. It does not learn of them where its softirq is left to a thread that does not run.
    if stuck.sign == Sign::RcuStall && stuck.has_ticks && is_user {
        trouble = Trouble::Starved;
    }
    if stuck.is_quiescent && !matches!(in_way, InTheWay::Proved(_) | InTheWay::Spins(_)) {
        trouble = Trouble::TimerLate;
    }
    // Nobody's thread is the reason: the interrupted one least of all.
    let mut interrupts = stuck.interrupts.clone();
    if let (None, Trouble::CpuHeld | Trouble::Starved, InTheWay::Proved(held)) = (&interrupts, trouble, &in_way) {
        interrupts = held.interrupt();
    }
    if interrupts.is_some() {
        (trouble, in_way) = (Trouble::InterruptLoad, InTheWay::Unknown);
    }
    // Who ran when the limit was reached may be anybody, unless it is listed.
    if trouble == Trouble::RealTimeLimit && stuck.holder.is_none() {
        in_way = InTheWay::Unknown;
    }
    let mut cell = decide(trouble, way(&in_way, stuck.sign));
    if interrupts.as_ref().is_some_and(|share| share.is_softirq) {
        cell.rule = Rule::Softirq;
    }
    if stuck.sign == Sign::SlowWork {
        cell.severity = Severity::Info;
    }
    // A CPU that is held for less than a second hurts, and nothing hangs.
    if trouble == Trouble::CpuHeld && lasted.is_some_and(|lasted| lasted < STARVED) {
        cell.severity = cell.severity.min(Severity::Warning);
    }
    // What a thread has waited at most since it began may be of any day.
    if stuck.sign == Sign::SeenWaiting && stuck.at.is_timeless() {
        cell.severity = cell.severity.min(Severity::Warning);
        cell.confidence = cell.confidence.min(UNDATED);
    }
    if stuck.runnable.is_some() && !matches!(in_way, InTheWay::Likely(_)) {
        cell.confidence = cell.confidence.max(READY_TO_RUN);
    }
    let is_jiffies = match stuck.lasted {
        Lasted::Jiffies(jiffies) => Some(jiffies),
        _ => None,
    };
    let cpu = case.cpu(stuck);
    let is_open = matches!(trouble, Trouble::Starved | Trouble::SeenRunnable) && in_way == InTheWay::Unknown;
    let unplaced = if is_open { case.unplaced() } else { Vec::new() };
    Judged {
        stuck,
        also: Vec::new(),
        trouble,
        way: in_way,
        cell,
        cpu,
        lasted,
        is_jiffies,
        interrupts,
        blocked: Vec::new(),
        unplaced,
    }
}

/// Whether a thread is one of the pool's own workers.
pub fn is_worker_of(pool: &Waiting, thread: &Thread) -> bool {
    match (KernelThread::of(&thread.comm.as_str().into()), pool) {
        (Some(KernelThread::BoundWorker { cpu, high }), pool) => *pool == Waiting::BoundPool { cpu, high },
        _ => false,
    }
}

/// The most that is believed of a wait whose time is not known.
const UNDATED: f64 = 0.7;

/// The confidence where a worker of the pool is seen ready to run.
const READY_TO_RUN: f64 = 0.85;

/// A thread that could run and did not for so long is starved, whatever the load.
const STARVED: Nanos = Nanos(1_000_000_000);

/// Reports of one stall of RCU are one trouble: that of its thread where that is starved, of the CPU where that is held, else of the
/// late timer. None of them goes unless another stays.
fn fold_rcu(judged: &mut Vec<Judged<'_>>) {
    let rank = |one: &Judged<'_>| match one.stuck.sign {
        Sign::RcuThreadStarved => Some(0),
        Sign::RcuStall if one.held().is_some() || one.interrupts.is_some() => Some(1),
        Sign::RcuTimerLate => Some(2),
        Sign::RcuStall => Some(3),
        _ => None,
    };
    let of_rcu: Vec<(u32, Boot, Option<u32>)> =
        judged.iter().filter_map(|one| Some((rank(one)?, boot_of(one.stuck), one.cpu))).collect();
    judged.retain(|one| {
        let Some(rank) = rank(one) else { return true };
        // A stall that names no CPU belongs to any of its boot.
        let explains = |(other, boot, cpu): &(u32, Boot, Option<u32>)| {
            *other < rank && *boot == boot_of(one.stuck) && (one.cpu.is_none() || *cpu == one.cpu)
        };
        !of_rcu.iter().any(explains)
    });
}

/// Where kernel code keeps a CPU from RCU or the watchdog, the same thread does not starve the CPU's workers by its priority: the kernel
/// cannot switch.
fn kernel_keeps(judged: &mut [Judged<'_>]) {
    let place = |one: &Judged<'_>| Some((boot_of(one.stuck), one.cpu?, one.held()?.thread.clone()));
    let is_user = |one: &Judged<'_>| one.held().is_some_and(|held| held.in_user_code == Some(true));
    let kept: Vec<(Boot, u32, Thread)> =
        judged.iter().filter(|one| one.trouble == Trouble::CpuHeld && !is_user(one)).filter_map(place).collect();
    for one in judged.iter_mut().filter(|one| one.trouble == Trouble::Starved) {
        if place(one).is_some_and(|place| kept.contains(&place)) {
            one.trouble = Trouble::CpuHeld;
            one.cell = decide(one.trouble, way(&one.way, one.stuck.sign));
        }
    }
}

/// Soft lockups of so many CPUs, in as many threads, have a cause that none of these threads is.
const SHARED_CAUSE: usize = 3;

/// Of so many CPUs also if threads are among them twice, on one CPU after the other.
const SHARED_CPUS: usize = 4;

/// Several CPUs that are held by different threads: the hypervisor, the memory, a lock that all want.
fn share_cause(judged: &mut [Judged<'_>]) {
    let is_one = |one: &Judged<'_>| one.stuck.sign == Sign::SoftLockup;
    let mut boots: Vec<Boot> = judged.iter().filter(|one| is_one(one)).map(|one| boot_of(one.stuck)).collect();
    boots.sort_unstable();
    boots.dedup();
    for boot in boots {
        let mine = |one: &Judged<'_>| is_one(one) && boot_of(one.stuck) == boot;
        let mut threads: Vec<Thread> = Vec::new();
        for held in judged.iter().filter(|one| mine(one)).filter_map(Judged::held) {
            if !threads.iter().any(|known| known.may_be(&held.thread)) {
                threads.push(held.thread.clone());
            }
        }
        let mut cpus: Vec<u32> = judged.iter().filter(|one| mine(one)).filter_map(|one| one.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        // The idle task holds no CPU, and a clock that jumped at the time says that the machine stood still.
        let lockups: Vec<&Stuck> = judged.iter().filter(|one| mine(one)).map(|one| one.stuck).collect();
        let stood_still = judged.iter().any(|one| {
            let is_near = |lockup: &&Stuck| {
                lockup.until.by_one_clock(&one.stuck.at).is_some_and(|(lockup, jump)| lockup.0.abs_diff(jump.0) <= NEAR)
            };
            (one.stuck.sign == Sign::ClockJumped && lockups.iter().any(is_near))
                || mine(one) && matches!(one.way, InTheWay::Idle(_))
        });
        let is_shared = threads.len() >= SHARED_CAUSE || cpus.len() >= SHARED_CPUS && threads.len() > 1;
        if !is_shared && (!stood_still || threads.is_empty()) {
            continue;
        }
        for one in judged.iter_mut().filter(|one| mine(one)) {
            one.way = InTheWay::Shared;
            one.cell = decide(if stood_still { Trouble::TimerLate } else { one.trouble }, Way::Several);
        }
    }
}

/// Reports of the same trouble on several CPUs at once, none with a culprit, are one.
fn fold_cpus(judged: &mut Vec<Judged<'_>>) {
    let mut folded: Vec<Judged<'_>> = Vec::new();
    for one in judged.drain(..) {
        let is_same = |known: &&mut Judged<'_>| {
            let nobody = known.held().is_none() && one.held().is_none();
            known.stuck.sign == one.stuck.sign
                && boot_of(known.stuck) == boot_of(one.stuck)
                && match one.stuck.sign {
                    // The kernel does not say how long it lasted.
                    Sign::HardLockup => nobody && known.way == one.way && is_near(known.stuck, one.stuck),
                    Sign::PoolStuck | Sign::SoftLockup | Sign::CallNotAnswered => {
                        nobody && is_as_long(known.lasted, one.lasted)
                    }
                    // Of one moment.
                    Sign::SeenWaiting => {
                        known.cpu == one.cpu && known.held() == one.held() && known.lasted == one.lasted
                    }
                    _ => false,
                }
        };
        match folded.iter_mut().find(is_same) {
            Some(known) => {
                known.lasted = known.lasted.max(one.lasted);
                known.also.push(one.stuck);
                known.also.extend(one.also);
            }
            None => folded.push(one),
        }
    }
    *judged = folded;
}

/// Whether both were reported within a minute, as far as the text says when.
pub fn is_near(one: &Stuck, other: &Stuck) -> bool {
    one.until.is_near(&other.until)
}

/// Whether both began at about the same time: reports of one trouble are some seconds apart.
fn is_as_long(one: Option<Nanos>, other: Option<Nanos>) -> bool {
    const APART: u64 = 10_000_000_000;
    match (one, other) {
        (Some(one), Some(other)) => one.0.abs_diff(other.0) <= APART.max(one.0 / 10),
        (one, other) => one == other,
    }
}

/// A thread that is blocked behind a starved worker or RCU is a cost of that, not a trouble of its own.
fn fold_blocked(judged: &mut Vec<Judged<'_>>) {
    let victim = |one: &Judged<'_>, stuck: &Stuck| match (&one.trouble, &stuck.who) {
        (Trouble::Starved | Trouble::CpuHeld, Waiting::BoundPool { .. } | Waiting::UnboundPool { .. }) => {
            Some(words::Awaited::Worker)
        }
        (Trouble::Starved | Trouble::CpuHeld, Waiting::Thread(thread)) if is_rcu(thread) => Some(words::Awaited::Rcu),
        // Seen waiting, while somebody waits for its work: so it has waited for as long.
        (Trouble::SeenRunnable, Waiting::Thread(thread)) if one.held().is_some() && is_worker(thread) => {
            Some(words::Awaited::Worker)
        }
        (Trouble::SeenRunnable, Waiting::Thread(thread)) if one.held().is_some() && is_rcu(thread) => {
            Some(words::Awaited::Rcu)
        }
        (Trouble::Device, _) => Some(words::Awaited::Device),
        _ => None,
    };
    let (blocked, mut others): (Vec<Judged<'_>>, Vec<Judged<'_>>) =
        judged.drain(..).partition(|one| one.trouble == Trouble::Blocked);
    let mut alone: Vec<Judged<'_>> = Vec::new();
    for one in blocked {
        let awaited = words::awaited(&one.stuck.works);
        let behind = others.iter_mut().filter(|other| is_same_time(other.stuck, one.stuck)).find_map(|other| {
            let mut waiting = std::iter::once(other.stuck).chain(other.also.iter().copied());
            let index = waiting.position(|stuck| victim(other, stuck).is_some_and(|v| Some(v) == awaited))?;
            Some((other, index))
        });
        match behind {
            Some((behind, index)) => {
                // The one whose work is awaited is the victim; the others wait with it.
                if let Some(also) = index.checked_sub(1).and_then(|place| behind.also.get_mut(place)) {
                    std::mem::swap(&mut behind.stuck, also);
                }
                // A list shows who keeps the CPU busy for long; a dump of one moment does not.
                if behind.trouble == Trouble::SeenRunnable && matches!(behind.way, InTheWay::Likely(_)) {
                    behind.trouble = Trouble::Starved;
                    behind.cell = decide(Trouble::Starved, way(&behind.way, behind.stuck.sign));
                }
                behind.blocked.push(one.stuck);
            }
            None => alone.push(one),
        }
    }
    // The other blocked threads of a boot are one trouble, named after the one that is blocked longest and waits for no lock of another.
    alone.sort_by_key(|one| {
        let is_lock = one.stuck.holder.is_some() || words::awaited(&one.stuck.works) == Some(words::Awaited::Lock);
        (boot_of(one.stuck), is_lock, std::cmp::Reverse(one.lasted))
    });
    for one in alone {
        match others
            .iter_mut()
            .find(|other| other.trouble == Trouble::Blocked && boot_of(other.stuck) == boot_of(one.stuck))
        {
            Some(known) => known.also.push(one.stuck),
            None => others.push(one),
        }
    }
    *judged = others;
}

/// Whether a blocked thread may be blocked behind a starved one: in the log of one boot, or where a list or a dump shows the starved one.
fn is_same_time(starved: &Stuck, blocked: &Stuck) -> bool {
    boot_of(starved) == boot_of(blocked) || starved.sign == Sign::SeenWaiting
}

/// A boot of a host.
type Boot = (u32, u32);

fn boot_of(stuck: &Stuck) -> Boot {
    (stuck.at.file, stuck.at.boot)
}

fn is_worker(thread: &Thread) -> bool {
    KernelThread::of(&thread.comm.as_str().into()).is_some_and(KernelThread::is_worker)
}

fn is_rcu(thread: &Thread) -> bool {
    KernelThread::of(&thread.comm.as_str().into()) == Some(KernelThread::Rcu)
}

/// Maximum findings of a report, as for recordings.
const MAX_FINDINGS: usize = 64;

/// The report.
pub fn report(case: &Case<'_>, facts: &Facts, sources: &[Source]) -> Report {
    let judged = judge(case, facts);
    let mut findings: Vec<Finding> = judged.iter().map(finding).collect();
    let more = findings.len().saturating_sub(MAX_FINDINGS) as u64;
    findings.truncate(MAX_FINDINGS);
    let verdict = match findings.first() {
        Some(worst) if worst.severity > Severity::Info => {
            Verdict { severity: Some(worst.severity), text: worst.sentence.clone() }
        }
        _ => Verdict { severity: None, text: words::nothing(facts, sources) },
    };
    let source = |source: &Source| EvidenceSource {
        name: source.name.clone(),
        kinds: source.kinds.iter().map(|kind| (*kind).to_owned()).collect(),
        lines: source.lines,
    };
    Report {
        schema: SCHEMA.to_owned(),
        trace: TraceSummary {
            format: words::format(sources),
            cpus: facts.max_cpu.map_or(0, |cpu| cpu.saturating_add(1)),
            kernel: facts.kernel.clone(),
            host: facts.host.clone(),
            ..TraceSummary::default()
        },
        verdict,
        findings,
        more_findings: more,
        worst_waits: Vec::new(),
        losses: words::losses(facts, sources),
        missing: Vec::new(),
        selected: None,
        evidence: Some(Evidence {
            sources: sources.iter().map(source).collect(),
            next: next::steps(judged.first(), facts),
            others: Vec::new(),
        }),
    }
}

fn finding(judged: &Judged<'_>) -> Finding {
    let Judged { stuck, cell, .. } = judged;
    let length = judged.lasted.unwrap_or(Nanos::ZERO).0;
    // Where the thread that ran is not the reason, no rule says so.
    let by = judged.held().filter(|_| cell.rule != Rule::Unknown);
    let culprit: Vec<Culprit> = by.map(|held| culprit(held, cell.rule, length)).into_iter().collect();
    let headline = words::headline(judged);
    Finding {
        id: FindingId::from(cell.finding),
        severity: cell.severity,
        confidence: cell.confidence,
        sentence: words::sentence(judged, &headline),
        headline,
        why: words::why(judged),
        victim: victim(judged),
        blame: if culprit.is_empty() { unknown(length) } else { culprit.clone() },
        culprits: culprit,
        waits: Waits { count: stuck.count, total_ns: length, max_ns: length, p99_ns: length, owed_ns: 0 },
        cpus: judged.cpus(),
        period_ns: None,
        price: judged.blocked.iter().filter_map(|blocked| paid(blocked)).collect(),
        evidence: words::evidence(judged),
        worst: Vec::<Instance>::new(),
        lists_all: false,
        losses: Vec::new(),
        missing: Vec::new(),
        remedies: words::remedies(judged).into_iter().map(remedy).collect(),
        actors: Vec::new(),
        doubt: None,
        selected_as: None,
    }
}

fn unknown(ns: u64) -> Vec<Culprit> {
    if ns == 0 { Vec::new() } else { vec![Culprit { comm: "unknown".to_owned(), ns, ..Culprit::default() }] }
}

fn culprit(held: &Held, rule: Rule, ns: u64) -> Culprit {
    let Thread { comm, pid } = &held.thread;
    let is_kernel = held.work.is_some();
    Culprit {
        comm: comm.clone(),
        tids: pid.iter().copied().collect(),
        tasks: 1,
        policy: held.policy,
        // The kernel's scale: 99 − the priority of chrt.
        prio: held.rt_priority.and_then(|priority| 99i32.checked_sub_unsigned(priority)),
        rule,
        ns,
        kernel_thread: is_kernel.then_some(true),
        ..Culprit::default()
    }
}

fn victim(judged: &Judged<'_>) -> Victim {
    let work = judged.stuck.works.first().map(|function| Work { function: function.clone(), workqueue: None });
    let named = |comm: String, kind| Victim { kind, comm, tasks: 1, ..Victim::default() };
    match &judged.who() {
        Waiting::BoundPool { cpu, high } => {
            let suffix = if *high { ":H" } else { "" };
            Victim {
                work,
                tasks: 1 + judged.also.len() as u32,
                kernel_thread: Some(true),
                ..named(format!("kworker/{cpu}{suffix}"), VictimKind::Kworker)
            }
        }
        Waiting::UnboundPool { .. } => {
            Victim { work, kernel_thread: Some(true), ..named("kworker/u".to_owned(), VictimKind::Kworker) }
        }
        Waiting::Thread(thread) => {
            let kind = KernelThread::of(&thread.comm.as_str().into()).into();
            Victim { tids: thread.pid.iter().copied().collect(), ..named(thread.comm.clone(), kind) }
        }
        Waiting::Softirq(name) => named(format!("softirq {name}"), VictimKind::Ksoftirqd),
        Waiting::All => named(words::bound_to(&judged.cpus()), VictimKind::Task),
        Waiting::Nobody => Victim::default(),
    }
}

fn paid(blocked: &Stuck) -> Option<PricePaid> {
    let Waiting::Thread(thread) = &blocked.who else { return None };
    let ns = match blocked.lasted {
        Lasted::AtLeast(length) => length.0,
        _ => 0,
    };
    let tids = thread.pid.iter().copied().collect();
    Some(PricePaid { comm: thread.comm.clone(), tids, tasks: 1, ns, ..PricePaid::default() })
}

fn remedy((id, text, risk): (&'static str, String, &'static str)) -> Remedy {
    Remedy {
        id: id.into(),
        text,
        apply: String::new(),
        undo: String::new(),
        risk: risk.to_owned(),
        valid_on: String::new(),
        changes: Vec::new(),
        proved: Vec::new(),
        predicted: None,
    }
}

/// A line as evidence: `dmesg.txt:12: BUG: …`.
pub fn quote(spot: &Spot) -> String {
    format!("{}:{}: {}", spot.file, spot.line, spot.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TROUBLES: [Trouble; 17] = [
        Trouble::Starved,
        Trouble::SeenRunnable,
        Trouble::CpuHeld,
        Trouble::UserHeld,
        Trouble::TimerLate,
        Trouble::Blocked,
        Trouble::BpfScheduler,
        Trouble::RealTimeLimit,
        Trouble::Deadline,
        Trouble::Interrupts,
        Trouble::InterruptLoad,
        Trouble::Machine,
        Trouble::Device,
        Trouble::LateWakeup,
        Trouble::GroupLimit,
        Trouble::Hang,
        Trouble::Remark,
    ];

    fn ways() -> Vec<Way> {
        let classes = [Class::RealTime, Class::Fair, Class::Unknown];
        let named = classes.into_iter().flat_map(|class| [Way::Sure(class), Way::Once(class), Way::Likely(class)]);
        named.chain([Way::Several, Way::Idle, Way::Unknown]).collect()
    }

    #[test]
    fn every_cell_is_decided() {
        let row = |trouble: Trouble| {
            let cell = |way: Way| {
                let Cell { finding, severity, confidence, rule } = decide(trouble, way);
                format!("  {:<18} {finding} {} {confidence} {rule}", format!("{way:?}"), severity.word())
            };
            format!("{trouble:?}\n{}", ways().into_iter().map(cell).collect::<Vec<_>>().join("\n"))
        };
        insta::assert_snapshot!(TROUBLES.map(row).join("\n"));
    }

    #[test]
    fn what_is_unsure_is_never_critical() {
        for (trouble, way) in TROUBLES.into_iter().flat_map(|trouble| ways().into_iter().map(move |way| (trouble, way)))
        {
            let cell = decide(trouble, way);
            assert!(cell.confidence >= 0.75 || cell.severity < Severity::Critical, "{trouble:?} {way:?}");
        }
    }
}
