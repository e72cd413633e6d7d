//! Facts: what lines of evidence say, without interpretation.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use unstarve_model::{CpuId, Nanos, Policy, SchedPolicy};

use crate::jiffies::Hertz;
use crate::settings::SettingFile;

/// Maximum facts of a kind that are kept. More distinct ones come from damage or malice.
const MAX_FACTS: usize = 4096;

/// A line of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// The file's name, as it was given.
    pub(crate) file: Arc<str>,
    /// The line's number; the first is 1.
    pub(crate) line: u64,
    /// What it says, without the logger's columns.
    pub(crate) text: String,
}

/// A moment of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Moment {
    /// The file, by its place among all.
    pub(crate) file: u32,
    /// The boot within the file.
    pub(crate) boot: u32,
    /// The line.
    pub(crate) line: u64,
    /// Since the boot, where the line says it.
    pub(crate) uptime: Option<Nanos>,
    /// By the logger's wall clock, from a beginning of its own.
    pub(crate) wall: Option<Nanos>,
}

/// What belongs together is reported within a minute.
pub(crate) const NEAR: u64 = 60_000_000_000;

impl Moment {
    /// A moment of which only the line is known, in a list or a dump.
    pub(crate) fn of_line(file: u32, line: u64) -> Moment {
        Moment { file, boot: 0, line, uptime: None, wall: None }
    }

    /// Both moments by a clock that both have.
    pub(crate) fn by_one_clock(&self, other: &Moment) -> Option<(Nanos, Nanos)> {
        let uptimes = self.uptime.zip(other.uptime);
        uptimes.or_else(|| self.wall.zip(other.wall))
    }

    /// Whether no clock shows that they are apart.
    pub(crate) fn is_near(&self, other: &Moment) -> bool {
        self.by_one_clock(other).is_none_or(|(one, other)| one.0.abs_diff(other.0) <= NEAR)
    }

    /// Whether no clock says when it was.
    pub(crate) fn is_timeless(&self) -> bool {
        self.uptime.is_none() && self.wall.is_none()
    }

    /// Whether both are of the same boot of one host.
    pub(crate) fn is_same_boot(&self, other: &Moment) -> bool {
        (self.file, self.boot) == (other.file, other.boot)
    }
}

/// A thread, as far as a line names it.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Thread {
    /// Its name.
    pub(crate) comm: String,
    /// Its id.
    pub(crate) pid: Option<u32>,
}

impl Thread {
    /// Whether it is the idle task of a CPU.
    pub(crate) fn is_idle(&self) -> bool {
        // The thread 1 has this name until it starts init.
        self.pid == Some(0) || self.pid.is_none() && self.comm.starts_with("swapper")
    }

    /// Whether both may be the same thread: the ids decide, where both have one.
    pub(crate) fn may_be(&self, other: &Thread) -> bool {
        match (self.pid, other.pid) {
            (Some(one), Some(other)) => one == other,
            _ => self.comm == other.comm,
        }
    }
}

/// What kind of report it is: which part of the kernel, or which tool, complains.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Sign {
    /// `BUG: workqueue lockup`: a pool has work and starts none.
    PoolStuck,
    /// `kthread starved for N jiffies` of a runnable thread of RCU; `rcuc=N jiffies(starved)`.
    RcuThreadStarved,
    /// The same of one that sleeps: its timer was late.
    RcuTimerLate,
    /// A CPU does not let RCU's grace period end.
    RcuStall,
    /// `soft lockup`: kernel code keeps a CPU.
    SoftLockup,
    /// `hard LOCKUP`: a CPU does not even take interrupts.
    HardLockup,
    /// `need_resched set for > N ns`: a CPU should have switched, and did not.
    NoReschedule,
    /// `csd: … non-responsive`: a CPU did not answer another one.
    CallNotAnswered,
    /// `hogged CPU for >10000us`: a work item keeps its CPU.
    SlowWork,
    /// `INFO: task … blocked for more than`.
    TaskBlocked,
    /// `sched: RT throttling activated`.
    RealTimeLimit,
    /// `sched: DL replenish lagged too much`.
    DeadlineLate,
    /// `NOHZ tick-stop error: local softirq work is pending`.
    SoftirqPending,
    /// `perf: interrupt took too long`, `hrtimer: interrupt took`, `NMI handler … took too long`.
    SlowInterrupt,
    /// The hypervisor took the CPUs' time.
    Steal,
    /// A clock ran away from another, or the machine stood still.
    ClockJumped,
    /// `sched_ext: … runnable task stall`.
    SchedExtStall,
    /// A tool or a dump saw a thread that could run and did not: stalld, `sched_debug`, SysRq, `perf sched latency`.
    SeenWaiting,
    /// A device or a server did not answer in time.
    DeviceLate,
    /// A tool's thread woke late: its timer, or the CPU for it, was late.
    LateWakeup,
    /// A cgroup used up its limit of CPU time.
    GroupThrottled,
    /// One interrupt or softirq came often on one CPU.
    InterruptsCame,
    /// A hang that the text does not say more about.
    Hang,
    /// Trouble that is none of the scheduler's: memory, errors of devices, heat.
    Remark,
}

/// Who did not get on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Waiting {
    /// The workers of a pool that is bound to one CPU; `high`: the pool of nice −20.
    BoundPool { cpu: u32, high: bool },
    /// The workers of a pool without a CPU of its own.
    UnboundPool { cpus: String },
    /// A thread.
    Thread(Thread),
    /// Softirqs, by their names.
    Softirq(String),
    /// Whatever is bound to the CPU.
    All,
    /// Nobody is named.
    Nobody,
}

/// How long at least.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Lasted {
    /// The text has it.
    AtLeast(Nanos),
    /// In ticks of the kernel, whose length the text does not have.
    Jiffies(u64),
    /// Not said.
    Unknown,
}

impl Lasted {
    /// A number of ticks. One that ran over, because the clock was set back meanwhile, says nothing.
    pub(crate) fn of_jiffies(jiffies: u64) -> Lasted {
        const HALF: u64 = 1 << 63;
        /// 32-bit kernels count so far; 3 days before it at 1000 Hz.
        const NEAR_2_32: std::ops::Range<u64> = (1 << 32) - (1 << 28)..1 << 32;
        if jiffies >= HALF || NEAR_2_32.contains(&jiffies) { Lasted::Unknown } else { Lasted::Jiffies(jiffies) }
    }
}

/// Something did not get on.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stuck {
    pub(crate) sign: Sign,
    pub(crate) who: Waiting,
    /// The CPUs concerned.
    pub(crate) cpus: Vec<u32>,
    /// The longest of all lines about it.
    pub(crate) lasted: Lasted,
    /// What the last line says.
    pub(crate) last_lasted: Lasted,
    /// What had the CPU, or owns the lock, if the report itself names it.
    pub(crate) holder: Option<Holder>,
    /// Work items that wait, or functions of the stack that say what a blocked thread waits for.
    pub(crate) works: Vec<String>,
    /// Works that the pool's own workers were busy with, and which worker.
    pub(crate) in_flight: Vec<(u32, String)>,
    /// A worker of the pool that could run and was not running: its stack ends in the scheduler.
    pub(crate) runnable: Option<Thread>,
    /// Which interrupts took the CPU, and how much of it.
    pub(crate) interrupts: Option<InterruptShare>,
    /// RCU waits for a CPU that was idle or in user code.
    pub(crate) is_quiescent: bool,
    /// The CPUs that RCU waits for had their timer interrupts for most of the time.
    pub(crate) has_ticks: bool,
    /// A name beside: the BPF scheduler, the device.
    pub(crate) detail: Option<String>,
    /// The first line about it, and the last.
    pub(crate) first: Spot,
    pub(crate) last: Spot,
    pub(crate) at: Moment,
    /// When it was said last.
    pub(crate) until: Moment,
    /// Lines about it.
    pub(crate) count: u64,
}

/// Interrupts that took most of a CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InterruptShare {
    pub(crate) is_softirq: bool,
    /// `10410 of 10558 ms in softirqs`.
    pub(crate) words: String,
}

/// A thread named by a report as the one in the way.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Holder {
    pub(crate) thread: Thread,
    /// Whether the report shows that it ran, and does not merely suspect it.
    pub(crate) is_certain: bool,
}

/// How a line shows that a CPU ran a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// Another CPU, a timer or a watchdog asked what it runs: a sample.
    Sampled,
    /// The thread itself ran into something and printed it (a warning, an oops, out of memory): no sample of the CPU.
    Printed,
    /// A dump of the scheduler's run queues.
    RunQueue,
}

/// A CPU ran a thread.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ran {
    pub(crate) cpu: u32,
    pub(crate) thread: Thread,
    pub(crate) how: How,
    pub(crate) policy: Option<Policy>,
    /// The work item, if it was a worker.
    pub(crate) work: Option<String>,
    /// Whether it was in user code; `None` if not said.
    pub(crate) in_user_code: Option<bool>,
    /// The kernel's function that it was in.
    pub(crate) function: Option<String>,
    /// The functions that called it, innermost first, as far as they were printed.
    pub(crate) callers: Vec<String>,
    pub(crate) spot: Spot,
    pub(crate) at: Moment,
}

/// What a row of a list counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowOf {
    /// One thread: its CPU and its share are its own.
    Thread,
    /// A process that has several threads, or may have: the share is that of all of them, and the CPU that of the first.
    Process,
}

/// A thread in a list.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Seen {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) policy: Option<SchedPolicy>,
    pub(crate) rt_priority: Option<u32>,
    pub(crate) nice: Option<i32>,
    /// Where it ran last.
    pub(crate) cpu: Option<u32>,
    /// The first letter of its state.
    pub(crate) state: Option<char>,
    /// Its share of one CPU, in percent.
    pub(crate) percent: Option<f64>,
    pub(crate) of: RowOf,
    /// The file.
    pub(crate) file_name: Arc<str>,
    pub(crate) line: u64,
}

impl Seen {
    /// A thread of which no more is known than where it stands.
    pub(crate) fn at(spot: &Spot) -> Seen {
        Seen {
            pid: 0,
            comm: String::new(),
            policy: None,
            rt_priority: None,
            nice: None,
            cpu: None,
            state: None,
            percent: None,
            of: RowOf::Thread,
            file_name: Arc::clone(&spot.file),
            line: spot.line,
        }
    }
}

/// How long a thread has waited for CPUs since it began.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct WaitSum {
    pub(crate) thread: Thread,
    /// The longest wait.
    pub(crate) longest: Option<Nanos>,
    pub(crate) sum: Option<Nanos>,
    pub(crate) count: Option<u64>,
}

impl WaitSum {
    /// The mean length of the waits since an earlier look. One of them lasted at least so long.
    fn mean_since(&self, before: &WaitSum) -> Option<Nanos> {
        let grown = self.sum?.0.checked_sub(before.sum?.0)?;
        let waits = self.count?.checked_sub(before.count?)?;
        grown.checked_div(waits).map(Nanos)
    }
}

/// How often each interrupt, or softirq, has come on each CPU.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct InterruptLook {
    /// By name, counts by CPU.
    pub(crate) rows: Vec<(String, Vec<(u32, u64)>)>,
    pub(crate) spot: Spot,
    pub(crate) file: u32,
}

impl InterruptLook {
    /// What came most often since an earlier look, on which CPU, how often, and all that came. Interrupts that the kernel sends itself
    /// and softirqs of its clock are not counted.
    fn most_since(&self, before: &InterruptLook) -> Option<(&str, u32, u64, u64)> {
        const OWN: [&str; 4] = ["TIMER", "SCHED", "RCU", "HRTIMER"];
        let is_softirqs = self.rows.iter().any(|(name, _)| name == "NET_RX");
        let counts = |name: &str| if is_softirqs { !OWN.contains(&name) } else { name.starts_with("interrupt ") };
        let before: HashMap<&str, &[(u32, u64)]> =
            before.rows.iter().map(|(name, counts)| (name.as_str(), counts.as_slice())).collect();
        let mut most: Option<(&str, u32, u64)> = None;
        let mut all = 0u64;
        for (name, row) in self.rows.iter().filter(|(name, _)| counts(name)) {
            let earlier: HashMap<u32, u64> = before.get(name.as_str())?.iter().copied().collect();
            for (cpu, now) in row {
                // Another boot, or another host.
                let came = now.checked_sub(*earlier.get(cpu)?)?;
                all = all.saturating_add(came);
                if most.is_none_or(|(_, _, known)| came > known) {
                    most = Some((name, *cpu, came));
                }
            }
        }
        most.map(|(name, cpu, came)| (name, cpu, came, all))
    }

    fn is_of_same_kind(&self, other: &InterruptLook) -> bool {
        let of_softirqs = |look: &InterruptLook| look.rows.iter().any(|(name, _)| name == "NET_RX");
        of_softirqs(self) == of_softirqs(other)
    }
}

/// What a tool measured where nothing was late.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Measured {
    pub(crate) tool: &'static str,
    pub(crate) threads: u64,
    /// The longest delay.
    pub(crate) latest: Nanos,
}

/// All facts about one host.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    pub(crate) stuck: Vec<Stuck>,
    pub(crate) ran: Vec<Ran>,
    /// Where a boot begins in a text.
    pub(crate) begun: Vec<(Moment, Spot)>,
    pub(crate) seen: Vec<Seen>,
    /// `6.12.0-160000.37-default`.
    pub(crate) kernel: Option<String>,
    /// `#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)`.
    pub(crate) kernel_version: Option<String>,
    pub(crate) command_line: Option<String>,
    /// The host's name, where loggers print it.
    pub(crate) host: Option<String>,
    /// Signs that it is a virtual machine.
    pub(crate) hypervisor: Option<String>,
    /// How long threads have waited since they began, as `/proc/PID/sched` says.
    pub(crate) wait_sums: Vec<WaitSum>,
    /// Counts of interrupts, in the order in which they were read.
    pub(crate) interrupts: Vec<InterruptLook>,
    /// Tools that measured, and found nothing late.
    pub(crate) measured: Vec<Measured>,
    /// Settings: `kernel.sched_rt_runtime_us` → `950000`.
    pub(crate) settings: BTreeMap<String, String>,
    /// Files of settings, by their path on the host.
    pub(crate) files: BTreeMap<String, SettingFile>,
    /// The kernel's tick.
    pub(crate) hertz: Option<Hertz>,
    /// The highest CPU named.
    pub(crate) max_cpu: Option<u32>,
    /// Facts that were left out, because there were too many.
    pub(crate) left_out: u64,
}

impl Stuck {
    /// A report of which the line says no more than that.
    pub(crate) fn new(sign: Sign, who: Waiting, cpus: Vec<u32>, lasted: Lasted, spot: Spot, at: Moment) -> Stuck {
        Stuck {
            sign,
            who,
            cpus,
            lasted,
            last_lasted: lasted,
            holder: None,
            works: Vec::new(),
            in_flight: Vec::new(),
            runnable: None,
            interrupts: None,
            is_quiescent: false,
            has_ticks: false,
            detail: None,
            first: spot.clone(),
            last: spot,
            at,
            until: at,
            count: 1,
        }
    }
}

impl Facts {
    /// Adds a report, or counts it with the one about the same.
    pub(crate) fn stuck(&mut self, new: Stuck) {
        if self.stuck.len() >= MAX_FACTS {
            self.left_out += 1;
            return;
        }
        self.note_cpus(&new.cpus);
        let same = |known: &&mut Stuck| {
            known.sign == new.sign
                && known.who == new.who
                && (known.at.file, known.at.boot) == (new.at.file, new.at.boot)
                && known.cpus == new.cpus
                && (!is_named(new.sign) || known.detail == new.detail)
                // A CPU that hung in one thread, and later in another.
                && (new.sign != Sign::SoftLockup || is_same_holder(known, &new))
        };
        if let Some(known) = self.stuck.iter_mut().find(same) {
            known.count = known.count.saturating_add(new.count);
            known.lasted = longer(known.lasted, new.lasted);
            // Of a file that was rotated away, which may be read after the newer one.
            let is_before = new.until.by_one_clock(&known.at).is_some_and(|(new, known)| new < known);
            if is_before {
                (known.first, known.at) = (new.first, new.at);
            } else {
                (known.last, known.until, known.last_lasted) = (new.last, new.until, new.last_lasted);
            }
            known.holder = known.holder.take().or(new.holder);
            known.runnable = known.runnable.take().or(new.runnable);
            known.interrupts = known.interrupts.take().or(new.interrupts);
            let fresh: Vec<String> = new.works.into_iter().filter(|work| !known.works.contains(work)).collect();
            known.works.extend(fresh);
            known.works.truncate(MAX_WORKS);
            let fresh: Vec<(u32, String)> =
                new.in_flight.into_iter().filter(|item| !known.in_flight.contains(item)).collect();
            known.in_flight.extend(fresh);
            known.in_flight.truncate(MAX_WORKS);
            return;
        }
        self.stuck.push(new);
    }

    /// Adds a moment at which a CPU ran a thread.
    pub(crate) fn ran(&mut self, new: Ran) {
        self.note_cpus(&[new.cpu]);
        if self.ran.len() < MAX_FACTS { self.ran.push(new) } else { self.left_out += 1 }
    }

    /// Adds how long a thread has waited; a second look also says how long it waited in between.
    pub(crate) fn waited(&mut self, new: WaitSum, spot: Spot, at: Moment) {
        const MIN_WAIT: Nanos = Nanos(1_000_000);
        let before = self.wait_sums.iter().rev().find(|known| known.thread == new.thread);
        let longest = new.longest.max(before.and_then(|before| new.mean_since(before)));
        if let Some(longest) = longest.filter(|longest| *longest >= MIN_WAIT) {
            let who = Waiting::Thread(new.thread.clone());
            self.stuck(Stuck::new(Sign::SeenWaiting, who, Vec::new(), Lasted::AtLeast(longest), spot, at));
        }
        if self.wait_sums.len() < MAX_FACTS { self.wait_sums.push(new) } else { self.left_out += 1 }
    }

    /// Adds counts of interrupts; a second look also says what came in between.
    pub(crate) fn looked_at_interrupts(&mut self, new: InterruptLook) {
        const MIN_CAME: u64 = 100_000;
        const MAX_LOOKS: usize = 64;
        if self.interrupts.len() >= MAX_LOOKS {
            self.left_out += 1;
            return;
        }
        let before = self.interrupts.iter().rev().find(|known| known.is_of_same_kind(&new));
        let most = before.and_then(|before| new.most_since(before));
        if let Some((name, cpu, came, all)) =
            most.filter(|(_, _, came, all)| *came >= MIN_CAME && *came > all.saturating_sub(*came))
        {
            let detail = format!(
                "{name}: {} on CPU {cpu}, {} % of all between two looks",
                unstarve_model::grouped(came),
                u128::from(came) * 100 / u128::from(all.max(1))
            );
            let at = Moment::of_line(new.file, new.spot.line);
            let spot = new.spot.clone();
            let mut stuck = Stuck::new(Sign::InterruptsCame, Waiting::Nobody, vec![cpu], Lasted::Unknown, spot, at);
            stuck.detail = Some(detail);
            self.stuck(stuck);
        }
        self.interrupts.push(new);
    }

    /// Whether interrupts were counted once alone: since the boot.
    pub(crate) fn has_single_look(&self) -> bool {
        let is_single =
            |look: &InterruptLook| self.interrupts.iter().filter(|one| one.is_of_same_kind(look)).count() == 1;
        !self.interrupts.is_empty() && self.interrupts.iter().all(is_single)
    }

    /// Adds a thread of a list.
    pub(crate) fn seen(&mut self, new: Seen) {
        if self.seen.len() < MAX_SEEN { self.seen.push(new) } else { self.left_out += 1 }
    }

    /// Whether no list has each thread with its CPU.
    pub(crate) fn lacks_threads(&self) -> bool {
        self.seen.is_empty() || self.seen.iter().any(|seen| seen.of == RowOf::Process)
    }

    /// Whether nothing was found that could be concluded from.
    pub fn is_empty(&self) -> bool {
        self.stuck.is_empty()
            && self.ran.is_empty()
            && self.seen.is_empty()
            && self.interrupts.is_empty()
            && self.measured.is_empty()
    }

    /// Whether settings of the host are known.
    pub(crate) fn has_settings(&self) -> bool {
        !self.files.is_empty() || !self.settings.is_empty()
    }

    fn note_cpus(&mut self, cpus: &[u32]) {
        self.max_cpu = self.max_cpu.max(cpus.iter().copied().filter(|cpu| *cpu < CpuId::LIMIT).max());
    }
}

fn is_same_holder(one: &Stuck, other: &Stuck) -> bool {
    match (&one.holder, &other.holder) {
        (Some(one), Some(other)) => one.thread.may_be(&other.thread),
        _ => true,
    }
}

/// Signs of which the name beside says what is in trouble.
fn is_named(sign: Sign) -> bool {
    matches!(
        sign,
        Sign::GroupThrottled
            | Sign::DeviceLate
            | Sign::SlowWork
            | Sign::SlowInterrupt
            | Sign::InterruptsCame
            | Sign::Remark
    )
}

/// Work items kept with a report.
const MAX_WORKS: usize = 16;
/// Threads kept of lists: a large host has tens of thousands.
const MAX_SEEN: usize = 1 << 17;

/// The longer of two.
pub(crate) fn longer(one: Lasted, other: Lasted) -> Lasted {
    match (one, other) {
        (Lasted::AtLeast(one), Lasted::AtLeast(other)) => Lasted::AtLeast(one.max(other)),
        (Lasted::Jiffies(one), Lasted::Jiffies(other)) => Lasted::Jiffies(one.max(other)),
        (Lasted::Unknown, known) | (known, _) => known,
    }
}
