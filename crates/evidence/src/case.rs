//! Joins the facts: which thread had the CPU for which another waited.

use std::collections::HashMap;

use unstarve_model::{Nanos, Policy, SchedPolicy};
use unstarve_sched::KernelThread;

use crate::fact::{Facts, How, InterruptShare, Lasted, Moment, Ran, RowOf, Seen, Sign, Spot, Stuck, Thread, Waiting};
use crate::jiffies::Hertz;

/// Backtraces that a report asks for come within this time of it: the kernel waits 10 s for the answer of a CPU that does not take
/// interrupts (`nmi_trigger_cpumask_backtrace` in lib/nmi_backtrace.c).
const ANSWERED_WITHIN: Nanos = Nanos(15_000_000_000);
/// After another report nothing belongs to it but what is printed with it. Wall clocks have seconds.
const PRINTED_WITHIN: Nanos = Nanos(1_000_000_000);
/// Lines around a report, where no line has a time.
const LINES_AROUND: u64 = 200;
/// More than one thread can use of one CPU, in percent, with what ps and top round.
const ONE_CPU: f64 = 115.0;
/// A thread that uses so much of a CPU leaves hardly anything to others, in percent.
const BUSY: f64 = 80.0;

/// Rows of lists that are quoted without a place.
const MAX_UNPLACED: usize = 4;

/// The facts of one host.
pub struct Case<'a> {
    facts: &'a Facts,
    /// The last row of each thread in lists.
    rows: HashMap<u32, &'a Seen>,
    /// Who keeps each CPU busy, by lists.
    busy: HashMap<u32, Vec<User<'a>>>,
}

/// What had a CPU while somebody waited for it, as far as the facts say.
#[derive(Clone, PartialEq, Debug)]
pub enum InTheWay {
    /// Each look at the CPU within the wait showed this thread.
    Proved(Held),
    /// No look at the CPU within the wait, but a list of threads shows one that keeps the CPU busy.
    Likely(Held),
    /// Each look showed this thread, which spins until another CPU answers or gives up a lock: it is held up itself.
    Spins(Held),
    /// Looks at the CPU showed several threads.
    Several(Vec<Thread>),
    /// Other CPUs are in the same trouble at the same time, in other threads.
    Shared,
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
    /// The functions that called it.
    pub callers: Vec<String>,
    /// How many looks showed it.
    pub looks: u32,
    pub spot: Spot,
    /// The line of the list that has its policy.
    pub listed: Option<Spot>,
}

impl Held {
    /// Whether it waits there until another CPU answers or gives up a lock. The stopper thread of a CPU never does anything else for
    /// long: it waits for the stoppers of other CPUs (`multi_cpu_stop` in kernel/stop_machine.c) or for a lock.
    fn waits_for_cpu(&self) -> bool {
        self.innermost().is_some_and(is_wait_loop) || self.thread.comm.starts_with("migration/")
    }

    /// The interrupt that it was in, and did not cause: an interrupt's handler, or softirqs at the end of one (kernel/softirq.c,
    /// kernel/irq). ksoftirqd and threads of interrupts do such work as their own, and a thread that ends a section without bottom
    /// halves does that which it raised.
    pub fn interrupt(&self) -> Option<InterruptShare> {
        const INTERRUPT_HANDLERS: [&str; 9] = [
            "handle_irq_event",
            "__handle_irq_event_percpu",
            "handle_edge_irq",
            "handle_fasteoi_irq",
            "generic_handle_irq",
            "generic_handle_domain_irq",
            "__handle_domain_irq",
            "do_IRQ",
            "__common_interrupt",
        ];
        let name = |function: &String| function.split('.').next().unwrap_or_default().to_owned();
        let stack: Vec<String> = self.function.iter().chain(&self.callers).map(name).collect();
        let place = |names: &[&str]| stack.iter().position(|function| names.contains(&function.as_str()));
        let is_own =
            ["ksoftirqd/", "irq/", "napi/", "ktimers/", "rcuc/"].iter().any(|name| self.thread.comm.starts_with(name));
        if is_own || place(&["__local_bh_enable_ip", "run_ksoftirqd", "irq_thread"]).is_some() {
            return None;
        }
        let softirqs = place(&["__do_softirq", "handle_softirqs", "do_softirq"]);
        let ends = place(&["irq_exit", "irq_exit_rcu", "__irq_exit_rcu", "invoke_softirq"]);
        let innermost = self.innermost().unwrap_or_default();
        let words = |what: &str| format!("a look shows {what}, in {innermost}, and not {}", self.thread_name());
        match (softirqs, ends) {
            (Some(softirqs), Some(ends)) if softirqs < ends => {
                Some(InterruptShare { is_softirq: true, words: words("softirqs") })
            }
            _ => place(&INTERRUPT_HANDLERS)
                .map(|_| InterruptShare { is_softirq: false, words: words("an interrupt's handler") }),
        }
    }

    fn thread_name(&self) -> String {
        format!("{}[{}]", self.thread.comm, self.thread.pid.unwrap_or_default())
    }

    /// The innermost of its functions that says what it does.
    pub fn innermost(&self) -> Option<&str> {
        let stack = self.function.iter().chain(&self.callers);
        stack.map(String::as_str).find(|function| !is_instrument(function)).or(self.function.as_deref())
    }
}

/// Whether a function is one of the kernel's loops that end when another CPU answers or gives up a lock (kernel/smp.c,
/// kernel/stop_machine.c, kernel/locking, arch/*/lib/spinlock.c).
fn is_wait_loop(function: &str) -> bool {
    const WAIT_LOOPS: [&str; 15] = [
        "smp_call_function",
        "csd_lock_wait",
        "__csd_lock_wait",
        "multi_cpu_stop",
        "stop_machine",
        "__smp_call",
        "on_each_cpu",
        "osq_lock",
        "pv_wait",
        "_raw_spin_lock",
        "do_raw_spin_lock",
        "arch_spin_lock",
        "__pv_queued_spin_lock",
        "queued_spin_lock",
        "wait_for_csd",
    ];
    WAIT_LOOPS.iter().any(|name| function.starts_with(name)) || function.contains("_lock_slowpath")
}

/// Whether a function says nothing about what runs: it belongs to an instrumented kernel (KCOV, KASAN, KMSAN, KCSAN, lockdep), is a
/// pause within a loop, or serves the interrupt that asked.
fn is_instrument(function: &str) -> bool {
    const INSTRUMENT_PREFIXES: [&str; 26] = [
        "__sanitizer_cov",
        "write_comp_data",
        "check_kcov_mode",
        "kasan_",
        "__kasan",
        "__asan",
        "kmsan_",
        "__msan",
        "msan_",
        "kcsan_",
        "__kcsan",
        "__tsan",
        "lock_acquire",
        "lock_release",
        "lock_is_held",
        "lockdep_",
        "delay_",
        "__delay",
        "__const_udelay",
        "__udelay",
        "cpu_relax",
        "native_safe_halt",
        "rep_nop",
        "__x86_return_thunk",
        "__fentry__",
        "asm_sysvec_",
    ];
    INSTRUMENT_PREFIXES.iter().any(|start| function.starts_with(start))
}

impl<'a> Case<'a> {
    /// The case of these facts.
    pub fn of(facts: &'a Facts) -> Case<'a> {
        let rows = facts.seen.iter().map(|seen| (seen.pid, seen)).collect();
        Case { facts, rows, busy: busy_users(&facts.seen) }
    }

    /// How long at least.
    pub fn lasted(&self, stuck: &Stuck) -> Option<Nanos> {
        self.length(stuck.lasted)
    }

    fn length(&self, lasted: Lasted) -> Option<Nanos> {
        match lasted {
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
        self.rows.get(&pid).copied().filter(|seen| same_name(&seen.comm, &thread.comm))
    }

    /// What had the CPU while the victim of this report waited.
    pub fn in_the_way(&self, stuck: &Stuck) -> InTheWay {
        let Some(cpu) = self.cpu(stuck) else { return InTheWay::Unknown };
        let is_victim = |thread: &Thread| matches!(&stuck.who, Waiting::Thread(victim) if victim.may_be(thread));
        let looks: Vec<&Ran> = self
            .facts
            .ran
            .iter()
            .filter(|ran| ran.cpu == cpu && ran.how != How::Printed && self.is_within(&ran.at, stuck))
            .filter(|ran| !is_victim(&ran.thread))
            .filter(|ran| ran.how != How::RunQueue || !is_reader(&ran.thread.comm))
            .collect();
        let (idle, busy): (Vec<&Ran>, Vec<&Ran>) =
            looks.into_iter().partition(|ran| ran.thread.is_idle() && !self.is_interrupted(ran, stuck.sign));
        if let Some(first) = busy.first() {
            if busy.iter().all(|ran| ran.thread.may_be(&first.thread)) && idle.is_empty() {
                let mut held = self.held(first, busy.len());
                // Each look adds what it says.
                for ran in &busy[1..] {
                    held.work = held.work.take().or_else(|| ran.work.clone());
                    if held.function.is_none() {
                        (held.function, held.callers) = (ran.function.clone(), ran.callers.clone());
                    }
                    held.in_user_code = held.in_user_code.or(ran.in_user_code);
                }
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

    /// Whether a look at the idle task shows that it is not idle: it waits for a lock or for another CPU, or an interrupt's handler
    /// does not end.
    fn is_interrupted(&self, ran: &Ran, sign: Sign) -> bool {
        let held = self.held(ran, 1);
        held.waits_for_cpu() || matches!(sign, Sign::HardLockup | Sign::SoftLockup) && held.interrupt().is_some()
    }

    /// The only thread, or real-time threads of one name, that a list shows to keep the CPU busy.
    fn likely(&self, cpu: u32, stuck: &Stuck) -> InTheWay {
        let is_victim = |user: &User<'_>| matches!(&stuck.who, Waiting::Thread(victim) if user.threads == 1 && victim.pid == Some(user.first.pid));
        // A dump of the run queues in another file of the ticket.
        let dumped = self.facts.ran.iter().find(|ran| {
            ran.cpu == cpu && ran.how == How::RunQueue && !self.is_within(&ran.at, stuck) && !ran.thread.is_idle()
        });
        if let Some(ran) = dumped.filter(|ran| !is_reader(&ran.thread.comm)) {
            return InTheWay::Likely(self.held(ran, 1));
        }
        let busy: Vec<&User<'_>> = self.busy.get(&cpu).into_iter().flatten().filter(|user| !is_victim(user)).collect();
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
                    callers: Vec::new(),
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

    /// Who uses a whole CPU, by lists that do not say which CPU, or not which of its threads.
    pub fn unplaced(&self) -> Vec<Spot> {
        let is_unplaced = |row: &&Seen| {
            let is_busy = row.percent.is_some_and(|percent| percent >= BUSY);
            is_busy && (row.cpu.is_none() || row.of == RowOf::Process) && !is_lister(&row.comm)
        };
        let spot = |row: &Seen| {
            let what = match row.of {
                RowOf::Thread => "the list does not say on which CPU",
                RowOf::Process => "all its threads together, on CPUs that the list does not say",
            };
            let text = format!("{}[{}]: {:.1} % of a CPU, {what}", row.comm, row.pid, row.percent.unwrap_or_default());
            Spot { file: row.file_name.clone(), line: row.line, text }
        };
        let mut rows: Vec<&Seen> = self.rows.values().copied().filter(is_unplaced).collect();
        rows.sort_by_key(|row| row.line);
        rows.truncate(MAX_UNPLACED);
        rows.into_iter().map(spot).collect()
    }

    /// A thread that a report names itself.
    pub fn named(&self, thread: &Thread, spot: &Spot) -> InTheWay {
        let listed = self.listed(thread);
        let held = Held {
            thread: thread.clone(),
            policy: listed.and_then(|seen| seen.policy?.class()),
            sched_policy: listed.and_then(|seen| seen.policy),
            rt_priority: listed.and_then(|seen| seen.rt_priority),
            nice: listed.and_then(|seen| seen.nice),
            work: None,
            in_user_code: None,
            function: None,
            callers: Vec::new(),
            looks: 1,
            spot: spot.clone(),
            listed: listed.map(|seen| User::of(seen).spot()),
        };
        if held.waits_for_cpu() { InTheWay::Spins(held) } else { InTheWay::Proved(held) }
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
            callers: ran.callers.clone(),
            looks: looks as u32,
            spot: ran.spot.clone(),
            listed: listed.map(|seen| User::of(seen).spot()),
        }
    }

    /// Whether a moment lies within the wait that a report is about, or just after it.
    fn is_within(&self, at: &Moment, stuck: &Stuck) -> bool {
        let last = &stuck.until;
        if !at.is_same_boot(last) {
            return false;
        }
        let asks = matches!(
            stuck.sign,
            Sign::RcuStall | Sign::RcuThreadStarved | Sign::RcuTimerLate | Sign::SoftLockup | Sign::HardLockup
        );
        match at.by_one_clock(last) {
            Some((at, last)) => {
                // The wait that was reported last: an earlier one may have had another reason.
                let lasted = self.length(stuck.last_lasted).unwrap_or(Nanos::ZERO);
                let begin = last.0.saturating_sub(lasted.0);
                let after = if asks { ANSWERED_WITHIN } else { PRINTED_WITHIN };
                (begin..=last.0.saturating_add(after.0)).contains(&at.0)
            }
            None if at.is_timeless() && last.is_timeless() => {
                let begin = stuck.at.line.saturating_sub(LINES_AROUND / 4);
                (begin..=last.line + LINES_AROUND).contains(&at.line)
            }
            None => false,
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

/// Whether a thread has the name of one that makes a list: it has used nearly all of its short life.
fn is_lister(comm: &str) -> bool {
    matches!(comm, "ps" | "top") || comm.starts_with("unstarve")
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
        Some(SchedPolicy::Fifo | SchedPolicy::Rr) => 100 + seen.rt_priority.unwrap_or(1).min(99),
        _ => 0,
    }
}

/// Who keeps each CPU busy.
fn busy_users(seen: &[Seen]) -> HashMap<u32, Vec<User<'_>>> {
    // Real-time threads of one name count together, others alone.
    let mut users: HashMap<(u32, &str, u32), User<'_>> = HashMap::new();
    let mut counted: HashMap<u32, f64> = HashMap::new();
    for row in seen.iter().filter(|row| !is_lister(&row.comm)) {
        let (Some(cpu), Some(percent)) = (row.cpu, row.percent) else { continue };
        // A process of several threads uses several CPUs, and its row has the CPU of one.
        if row.of == RowOf::Process {
            continue;
        }
        // Of less weight than a kernel thread, it does not keep one waiting.
        if rank(row) == 0 && (row.policy == Some(SchedPolicy::Idle) || row.nice.is_some_and(|nice| nice > 0)) {
            continue;
        }
        // A second list has the same threads again.
        if percent <= 0.0 || percent > ONE_CPU || counted.insert(row.pid, percent).is_some() {
            continue;
        }
        let key = if rank(row) > 0 { (cpu, row.comm.as_str(), 0) } else { (cpu, row.comm.as_str(), row.pid) };
        users
            .entry(key)
            .and_modify(|user| {
                user.threads += 1;
                user.percent += percent;
            })
            .or_insert_with(|| User::of(row));
    }
    let runs = |user: &User<'_>| user.threads > 1 || user.first.state.is_none_or(|state| state == 'R');
    let mut busy: HashMap<u32, Vec<User<'_>>> = HashMap::new();
    for ((cpu, ..), user) in users.into_iter().filter(|(_, user)| user.percent >= BUSY && runs(user)) {
        busy.entry(cpu).or_default().push(user);
    }
    busy.values_mut().for_each(|users| users.sort_by_key(|user| user.first.line));
    busy
}

/// Adds what a list of threads shows by itself: kernel threads that are bound to a CPU and ready to run, while real-time threads that
/// go before them keep the CPU busy.
pub fn add_listed_waits(facts: &mut Facts) {
    let is_bound = |seen: &&Seen| {
        let kind = KernelThread::of(&seen.comm.as_str().into());
        kind.is_some_and(|kind| kind.bound_cpu().is_some() || matches!(kind, KernelThread::Rcu | KernelThread::Ktimers))
    };
    let busy = busy_users(&facts.seen);
    let mut found = Vec::new();
    for victim in facts.seen.iter().filter(|seen| seen.state == Some('R')).filter(is_bound) {
        let Some(cpu) = victim.cpu else { continue };
        let goes_before = |user: &User<'_>| rank(user.first) > rank(victim);
        if busy.get(&cpu).into_iter().flatten().any(goes_before) {
            let who = Waiting::Thread(Thread { comm: victim.comm.clone(), pid: Some(victim.pid) });
            let text = format!("{}[{}] is ready to run (state R)", victim.comm, victim.pid);
            let spot = Spot { file: victim.file_name.clone(), line: victim.line, text };
            // A list has no time, and belongs to no boot of a log.
            let at = Moment::of_line(u32::MAX, victim.line);
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
