//! Messages of a kernel's log to facts: which lines belong to one report of the kernel.

use unstarve_model::Nanos;
use unstarve_sched::KernelThread;

use crate::fact::{Facts, Holder, How, InterruptShare, Lasted, Moment, Ran, Sign, Spot, Stuck, Thread, Waiting};
use crate::jiffies::Hertz;
use crate::message::Message;

/// A clock that goes back by more than this has started again: another boot. Lines of several CPUs are out of order by less.
const BACK_TO_BOOT: Nanos = Nanos(30_000_000_000);

/// Boots of one text whose beginning is kept.
const MAX_BOOTS: usize = 1024;

/// A year without a leap day, of which dates without a year are.
pub const YEAR: u64 = 365 * 86_400 * 1_000_000_000;
const HALF_A_YEAR: u64 = YEAR / 2;

/// Works or functions kept of one report.
const MAX_FRAMES: usize = 24;

/// The softirqs, by their bit (`include/linux/interrupt.h`).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// A line with a message.
pub struct Line {
    pub spot: Spot,
    pub number: u64,
    pub uptime: Option<Nanos>,
    pub wall: Option<Nanos>,
    /// Who printed it: `T123`, a thread, or `C3`, a CPU's interrupt.
    pub caller: Option<String>,
}

/// Functions of a look's stack that are kept: those of instrumented kernels, and who called them.
const MAX_CALLERS: usize = 24;

/// Lines within which the backtrace follows that a report asked for.
const SAMPLED_WITHIN: u64 = 90;

/// Reports of so many callers are open at once.
const MAX_CALLERS_AT_ONCE: usize = 64;

/// A kernel's log, while it is read.
#[derive(Default)]
pub struct KernelLog {
    file: u32,
    boot: u32,
    any: bool,
    uptime: Option<Nanos>,
    last_wall: Option<Nanos>,
    /// How often a new year began, in a log whose dates have none.
    years: u64,
    /// The logger's name for the boot.
    boot_name: Option<String>,
    /// The last length of a stall, and when it was printed.
    stalled: Option<(u64, Nanos)>,
    /// CPUs that were asked what they run, and the line that says so.
    asked: Vec<(u32, u64)>,
    /// The BPF scheduler.
    bpf_scheduler: Option<String>,
    /// Who printed the last line, where lines say so, and what of its is open.
    caller: Option<String>,
    open: OpenReport,
    /// The same of others, whose lines stand between: CPUs print at once.
    others: Vec<(Option<String>, OpenReport)>,
}

/// What is open of one caller's reports.
#[derive(Default)]
struct OpenReport {
    /// A pool of workers whose works are being listed.
    pool: Option<(String, i32)>,
    /// A stall of RCU whose CPUs are being listed.
    stall: Option<Stall>,
    /// The stall of RCU's tasks among the facts whose threads are being listed.
    rcu_tasks: Option<usize>,
    /// Threads that keep RCU from going on because they were preempted.
    rcu_readers: Vec<u32>,
    /// The CPU that noticed a stall.
    detector: Option<u32>,
    /// The CPU whose timer was late.
    timer_cpu: Option<u32>,
    /// The last `CPU: … PID: … Comm: …` among the facts.
    current: Option<usize>,
    /// The same, if it is the beginning of a dump: an idle CPU has none.
    begun: Option<usize>,
    /// The dump begun before, if neither a line that says where it was nor a stack followed: the next such line may be of either.
    without_code: Option<usize>,
    /// Whether functions of a stack followed the last one.
    has_stack: bool,
    /// The last blocked task among the facts, whose stack follows.
    blocked: Option<usize>,
    /// A thread of RCU that was starved, until the line with its state.
    starved: Option<Stuck>,
    /// Whether the workers of stalled pools are being listed, and the last one.
    lists_workers: bool,
    worker: Option<Thread>,
    /// The last starved thread of RCU among the facts, whose stack follows.
    thread_of_rcu: Option<usize>,
    /// The CPU whose run queue is being listed.
    run_queue: Option<u32>,
    /// The last report of a lock that was not got.
    lock: Option<usize>,
    /// The CPU whose own task is dumped next.
    dump_of: Option<u32>,
    /// Whether threads that used up the limit on real-time threads are being listed.
    lists_limit_users: bool,
    /// Whether blocked threads are being listed.
    lists_blocked: bool,
}

struct Stall {
    flavor: String,
    cpus: Vec<u32>,
    idle: Vec<u32>,
    /// How many ticks a CPU has had meanwhile.
    ticks: Vec<(u32, u64)>,
    /// CPUs whose `rcuc` thread did not run, for how many jiffies, and where it says so.
    rcuc_starved: Vec<(u32, u64, Spot)>,
    interrupts: Option<InterruptShare>,
    jiffies: Option<u64>,
    spot: Spot,
    at: Moment,
}

impl KernelLog {
    /// The log of one file, by its place among all.
    pub fn new(file: u32) -> KernelLog {
        KernelLog { file, ..KernelLog::default() }
    }

    fn at(&self, line: &Line) -> Moment {
        let uptime = line.uptime.or(self.uptime);
        Moment { file: self.file, boot: self.boot, line: line.number, uptime, wall: line.wall }
    }

    /// Notes a line's time, and the logger's name for the boot.
    pub fn time(&mut self, uptime: Option<Nanos>, wall: Option<Nanos>, boot: Option<&str>, facts: &mut Facts) {
        if boot.is_some() && boot != self.boot_name.as_deref() {
            if self.boot_name.is_some() {
                self.next_boot(facts);
            }
            self.boot_name = boot.map(str::to_owned);
        }
        if let Some(wall) = wall {
            // A date without a year: after December comes January.
            let is_next_year = self.last_wall.is_some_and(|last| last.0.saturating_sub(wall.0) > HALF_A_YEAR);
            self.years += u64::from(is_next_year && wall.0 < YEAR);
            self.last_wall = Some(wall);
        }
        let Some(uptime) = uptime else { return };
        if self.uptime.is_some_and(|before| uptime.0.saturating_add(BACK_TO_BOOT.0) < before.0) {
            self.next_boot(facts);
        }
        self.uptime = Some(uptime);
    }

    fn next_boot(&mut self, facts: &mut Facts) {
        self.finish(facts);
        if self.any {
            self.boot += 1;
        }
        let (file, boot, years, last_wall) = (self.file, self.boot, self.years, self.last_wall);
        let boot_name = self.boot_name.take();
        *self = KernelLog { file, boot, years, last_wall, boot_name, ..KernelLog::default() };
    }

    /// A wall clock's time, with the years that the log did not write.
    pub fn wall(&self, wall: Option<Nanos>) -> Option<Nanos> {
        wall.map(|wall| Nanos(wall.0.saturating_add(self.years.saturating_mul(YEAR))))
    }

    /// Takes a message.
    pub fn message(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        self.turn_to(line.caller.as_deref(), facts);
        if !matches!(message, Message::Frame { .. } | Message::Task { .. } | Message::CurrentWork { .. }) {
            (self.open.blocked, self.open.worker, self.open.lists_workers) = (None, None, false);
        }
        self.open.lists_blocked &= matches!(
            message,
            Message::Frame { .. } | Message::Task { .. } | Message::CurrentWork { .. } | Message::UserCode
        );
        if !matches!(message, Message::RcuState { .. }) {
            self.close_starved(None, facts);
        }
        if !matches!(message, Message::RcuAllSeen | Message::Task { .. } | Message::RcuCpuTime { .. }) {
            self.open.dump_of = None;
        }
        if !matches!(message, Message::Frame { .. } | Message::Task { .. } | Message::CurrentWork { .. }) {
            self.open.rcu_tasks = None;
        }
        self.open.lists_limit_users &= matches!(message, Message::LimitUser { .. });
        let goes_on = matches!(
            message,
            Message::RcuCpu { .. }
                | Message::RcuLength { .. }
                | Message::RcuCpuTime { .. }
                | Message::RcuReaders { .. }
        );
        if !goes_on {
            self.close_stall(facts);
        }
        self.any |= !matches!(message, Message::NextBoot | Message::Boot { .. } | Message::CommandLine { .. });
        match message {
            Message::NextBoot | Message::Boot { .. } | Message::CommandLine { .. } | Message::Hypervisor { .. } => {
                self.machine(message, line, facts);
            }
            Message::PoolLockup { .. }
            | Message::Workqueue
            | Message::PoolWork { .. }
            | Message::InFlight { .. }
            | Message::Pending { .. }
            | Message::StalledWorkers
            | Message::SlowWork { .. } => self.workqueue(message, line, facts),
            Message::RcuStall { .. }
            | Message::RcuTasksStall { .. }
            | Message::RcuCpu { .. }
            | Message::RcuLength { .. }
            | Message::RcuStarved { .. }
            | Message::RcuState { .. }
            | Message::RcuAllSeen
            | Message::RcuCpuTime { .. }
            | Message::RcuReaders { .. }
            | Message::RcuTimer { .. }
            | Message::RcuTimerCpu { .. } => self.rcu(message, line, facts),
            Message::BacktraceOf { .. }
            | Message::TaskDumpOf { .. }
            | Message::Current { .. }
            | Message::CurrentWork { .. }
            | Message::UserCode
            | Message::KernelCode { .. }
            | Message::Frame { .. }
            | Message::Task { .. } => self.backtrace(message, line, facts),
            Message::SchedExtDisabled { .. }
            | Message::SchedExtStall { .. }
            | Message::SchedExtWatchdog { .. }
            | Message::RunQueue { .. }
            | Message::RunQueueCurrent { .. }
            | Message::RunQueueTask { .. } => self.sched_ext(message, line, facts),
            _ => self.single(message, line, facts),
        }
    }

    /// Takes up what is open of a caller. A line that names none goes on with the one before.
    fn turn_to(&mut self, caller: Option<&str>, facts: &mut Facts) {
        if caller.is_none() || caller == self.caller.as_deref() {
            return;
        }
        let known = self.others.iter().position(|(of, _)| of.as_deref() == caller);
        let next = known.map(|index| self.others.remove(index).1).unwrap_or_default();
        if self.others.len() == MAX_CALLERS_AT_ONCE
            && let Some((_, oldest)) = self.others.pop()
        {
            self.end(oldest, facts);
        }
        let before = (self.caller.take(), std::mem::replace(&mut self.open, next));
        self.others.insert(0, before);
        self.caller = caller.map(str::to_owned);
    }

    /// Ends what is open.
    pub fn finish(&mut self, facts: &mut Facts) {
        let open = std::mem::take(&mut self.open);
        self.end(open, facts);
        for (_, open) in std::mem::take(&mut self.others) {
            self.end(open, facts);
        }
    }

    fn end(&mut self, report: OpenReport, facts: &mut Facts) {
        let open = std::mem::replace(&mut self.open, report);
        self.close_starved(None, facts);
        self.close_stall(facts);
        self.open = open;
    }

    fn machine(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        match message {
            Message::Boot { release, version } => {
                self.next_boot(facts);
                if facts.begun.len() < MAX_BOOTS {
                    facts.begun.push((self.at(line), line.spot.clone()));
                }
                (facts.kernel, facts.kernel_version) = (Some(release), version);
            }
            Message::NextBoot => self.next_boot(facts),
            Message::CommandLine { text } => facts.command_line = Some(text),
            Message::Hypervisor { name } => facts.hypervisor = Some(name),
            _ => {}
        }
    }

    fn report(&self, sign: Sign, who: Waiting, cpus: Vec<u32>, lasted: Lasted, line: &Line) -> Stuck {
        Stuck::new(sign, who, cpus, lasted, line.spot.clone(), self.at(line))
    }

    fn workqueue(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        match message {
            Message::PoolLockup { cpus, unbound, nice, stuck } => {
                let (who, list) = pool(&cpus, unbound, nice);
                facts.stuck(self.report(Sign::PoolStuck, who, list, Lasted::AtLeast(stuck), line));
                self.open.pool = None;
            }
            Message::Workqueue => self.open.pool = None,
            Message::StalledWorkers => self.open.lists_workers = true,
            Message::PoolWork { cpus, nice } => self.open.pool = Some((cpus, nice)),
            Message::InFlight { items } => {
                if let Some(stuck) = self.listed_pool(facts) {
                    stuck.in_flight.extend(items);
                    stuck.in_flight.truncate(MAX_FRAMES);
                }
            }
            Message::Pending { works } => {
                if let Some(stuck) = self.listed_pool(facts) {
                    let fresh: Vec<String> = works.into_iter().filter(|work| !stuck.works.contains(work)).collect();
                    stuck.works.extend(fresh);
                    stuck.works.truncate(MAX_FRAMES);
                }
            }
            Message::SlowWork { function, limit } => {
                let mut stuck = self.report(Sign::SlowWork, Waiting::All, Vec::new(), Lasted::AtLeast(limit), line);
                stuck.works.push(function.clone());
                stuck.detail = Some(function);
                facts.stuck(stuck);
            }
            _ => {}
        }
    }

    /// The stuck pool whose works are being listed.
    fn listed_pool<'a>(&self, facts: &'a mut Facts) -> Option<&'a mut Stuck> {
        let (cpus, nice) = self.open.pool.as_ref()?;
        let is_it = |who: &Waiting| *who == pool(cpus, false, *nice).0 || *who == pool(cpus, true, *nice).0;
        let boot = self.boot;
        facts.stuck.iter_mut().rev().find(|stuck| {
            stuck.sign == Sign::PoolStuck && stuck.at.boot == boot && stuck.at.file == self.file && is_it(&stuck.who)
        })
    }

    fn rcu(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        match message {
            Message::RcuStall { flavor, cpus, jiffies, .. } => {
                self.ask(&cpus, line.number);
                let at = self.at(line);
                self.open.stall = Some(Stall {
                    flavor,
                    cpus,
                    idle: Vec::new(),
                    ticks: Vec::new(),
                    rcuc_starved: Vec::new(),
                    interrupts: None,
                    jiffies,
                    spot: line.spot.clone(),
                    at,
                });
                if let Some(jiffies) = jiffies {
                    self.tick(jiffies, line, facts);
                }
            }
            Message::RcuTasksStall { flavor } => {
                let who = rcu_thread(&flavor);
                facts.stuck(self.report(Sign::RcuStall, who.clone(), Vec::new(), Lasted::Unknown, line));
                self.open.rcu_tasks =
                    facts.stuck.iter().rposition(|known| known.sign == Sign::RcuStall && known.who == who);
            }
            Message::RcuCpu { cpu, ticks, idle, rcuc_starved } => {
                self.ask(&[cpu], line.number);
                if let Some(stall) = &mut self.open.stall {
                    stall.cpus.push(cpu);
                    stall.idle.extend(idle.then_some(cpu));
                    stall.ticks.extend(ticks.map(|ticks| (cpu, ticks)));
                    stall.rcuc_starved.extend(rcuc_starved.map(|jiffies| (cpu, jiffies, line.spot.clone())));
                }
            }
            Message::RcuLength { jiffies, detector } => {
                self.tick(jiffies, line, facts);
                self.open.detector = detector;
                if let Some(stall) = &mut self.open.stall {
                    stall.jiffies = Some(jiffies);
                }
            }
            Message::RcuStarved { flavor, jiffies, runnable, cpu } => {
                let cpus = cpu.into_iter().collect();
                let who = rcu_thread(&flavor);
                let report = self.report(Sign::RcuThreadStarved, who, cpus, Lasted::of_jiffies(jiffies), line);
                self.open.starved = Some(report);
                if runnable.is_some() {
                    self.close_starved(runnable, facts);
                }
            }
            Message::RcuState { runnable, cpu } => {
                if let Some(starved) = &mut self.open.starved {
                    starved.cpus.extend(cpu);
                }
                self.close_starved(runnable, facts);
            }
            Message::RcuCpuTime { hard_interrupts, softirqs, all } => {
                if let Some(stall) = &mut self.open.stall {
                    let most = |part: u64, is_softirq| {
                        let name = if is_softirq { "softirqs" } else { "interrupts" };
                        let words = format!("{part} of {all} ms in {name}");
                        (part > all / 2).then_some(InterruptShare { is_softirq, words })
                    };
                    stall.interrupts = most(softirqs, true).or_else(|| most(hard_interrupts, false));
                }
            }
            Message::RcuAllSeen => self.open.dump_of = self.open.detector,
            // The line that says so belongs to a stall, unless the text was cut.
            Message::RcuTimer { .. } => {
                facts.stuck(self.report(Sign::Hang, Waiting::Nobody, Vec::new(), Lasted::Unknown, line))
            }
            Message::RcuTimerCpu { cpu } => self.open.timer_cpu = Some(cpu),
            Message::RcuReaders { tids } => self.open.rcu_readers = tids,
            _ => {}
        }
    }

    /// Adds the report about RCU's thread, once it is known whether that could run.
    fn close_starved(&mut self, runnable: Option<bool>, facts: &mut Facts) {
        let Some(mut report) = self.open.starved.take() else { return };
        if runnable == Some(false) {
            report.sign = Sign::RcuTimerLate;
            // The CPU on which the timer is, not the one that the thread ran on.
            report.cpus = self.open.timer_cpu.take().map_or(report.cpus, |cpu| vec![cpu]);
        }
        self.ask(&report.cpus.clone(), report.at.line);
        let (sign, who) = (report.sign, report.who.clone());
        facts.stuck(report);
        self.open.thread_of_rcu =
            facts.stuck.iter().rposition(|known| known.sign == sign && known.who == who && known.works.is_empty());
    }

    /// Learns the length of the kernel's tick from a stall.
    fn tick(&mut self, jiffies: u64, line: &Line, facts: &mut Facts) {
        let before = self.stalled;
        if let Some(now) = line.uptime {
            self.stalled = Some((jiffies, now));
        }
        let progress = || {
            let ((before, then), now) = (before?, line.uptime?);
            Hertz::of_progress(jiffies.checked_sub(before)?, now.saturating_sub(then))
        };
        let timeout = facts.command_line.as_deref().and_then(stall_timeout);
        facts.hertz = facts.hertz.or_else(progress).or_else(|| Hertz::of_first_stall(jiffies, timeout, line.uptime));
    }

    fn close_stall(&mut self, facts: &mut Facts) {
        let Some(stall) = self.open.stall.take() else { return };
        let lasted = stall.jiffies.map_or(Lasted::Unknown, Lasted::of_jiffies);
        let mut cpus = stall.cpus;
        cpus.sort_unstable();
        cpus.dedup();
        // Such a CPU lets RCU go on, with PREEMPT_RT or `rcutree.use_softirq=0`, once its thread runs.
        for (cpu, jiffies, spot) in stall.rcuc_starved {
            let who = rcu_thread(&format!("rcuc/{cpu}"));
            let lasted = Lasted::Jiffies(jiffies);
            facts.stuck(Stuck::new(Sign::RcuThreadStarved, who, vec![cpu], lasted, spot, stall.at));
        }
        let who = rcu_thread(&stall.flavor);
        let report = |cpus: Vec<u32>| {
            let is_quiescent = !cpus.is_empty() && cpus.iter().all(|cpu| stall.idle.contains(cpu));
            let most = stall.jiffies.map(|jiffies| jiffies / 2);
            let had_most = |cpu: &u32| stall.ticks.iter().any(|(of, ticks)| of == cpu && Some(*ticks) >= most);
            let has_ticks = most.is_some() && !cpus.is_empty() && cpus.iter().all(had_most);
            let report = Stuck::new(Sign::RcuStall, who.clone(), cpus, lasted, stall.spot.clone(), stall.at);
            Stuck { interrupts: stall.interrupts.clone(), is_quiescent, has_ticks, ..report }
        };
        // Each CPU has a backtrace of its own. On hundreds at once it is the machine.
        match cpus.len() {
            2..=MAX_CPUS_APART => cpus.into_iter().for_each(|cpu| facts.stuck(report(vec![cpu]))),
            _ => facts.stuck(report(cpus)),
        }
    }

    /// Notes CPUs of which the report prints what they run.
    fn ask(&mut self, cpus: &[u32], line: u64) {
        self.asked.retain(|(_, asked)| asked.abs_diff(line) <= SAMPLED_WITHIN);
        self.asked.extend(cpus.iter().map(|cpu| (*cpu, line)));
    }

    fn how(&self, cpu: u32, line: u64) -> How {
        let is_asked = self.asked.iter().any(|(asked, at)| *asked == cpu && at.abs_diff(line) <= SAMPLED_WITHIN);
        if is_asked { How::Sampled } else { How::Printed }
    }

    fn backtrace(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        match message {
            Message::BacktraceOf { cpu, idle: true } => {
                let thread = Thread { comm: "swapper".to_owned(), pid: Some(0) };
                self.ran(cpu, thread, How::Sampled, line, facts);
            }
            Message::BacktraceOf { cpu, idle: false } => self.ask(&[cpu], line.number),
            Message::TaskDumpOf { cpu } => self.open.dump_of = Some(cpu),
            Message::Current { cpu, thread, release } => {
                facts.kernel = facts.kernel.take().or(release);
                let how = self.how(cpu, line.number);
                // What the CPU prints next is its own: a warning of another thread is no look.
                self.asked.retain(|(asked, _)| *asked != cpu);
                let before = self.open.begun.and_then(|index| Some((index, facts.ran.get(index)?)));
                let may_go_on = !std::mem::take(&mut self.open.has_stack);
                let without_code = before.filter(|(_, ran)| may_go_on && ran.cpu != cpu && ran.in_user_code.is_none());
                let without_code = without_code.map(|(index, _)| index);
                self.ran(cpu, thread, how, line, facts);
                (self.open.begun, self.open.without_code) = (self.open.current, without_code);
            }
            Message::CurrentWork { function } if self.open.worker.is_some() => {
                let pid = self.open.worker.as_ref().and_then(|worker| worker.pid);
                if let (Some(stuck), Some(pid)) = (self.open.blocked.and_then(|index| facts.stuck.get_mut(index)), pid)
                    && !stuck.in_flight.iter().any(|(known, _)| *known == pid)
                {
                    stuck.in_flight.push((pid, function));
                    stuck.in_flight.truncate(MAX_FRAMES);
                }
            }
            Message::CurrentWork { function } => {
                if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index))
                    && is_of_one_dump(ran.at.uptime, line.uptime)
                {
                    ran.work = Some(function);
                }
            }
            // Below a stack the registers of its program are printed, too.
            Message::UserCode | Message::KernelCode { .. }
                if self.is_of_either(facts) && !(self.open.has_stack && matches!(message, Message::UserCode)) =>
            {
                let either = [self.open.current.take(), self.open.without_code.take()];
                for index in either.into_iter().flatten() {
                    if let Some(ran) = facts.ran.get_mut(index) {
                        (ran.how, ran.in_user_code, ran.function) = (How::Printed, None, None);
                        ran.callers.clear();
                    }
                }
            }
            Message::UserCode => {
                // Below the kernel's registers those of the program are printed, too.
                if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index)) {
                    ran.in_user_code = ran.in_user_code.or(Some(true));
                }
            }
            Message::KernelCode { function } => {
                if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index)) {
                    ran.in_user_code = ran.in_user_code.or(Some(false));
                    ran.function = ran.function.take().or(Some(function));
                }
            }
            Message::Task { thread, state: 'R', .. } if self.open.lists_workers && self.open.rcu_tasks.is_none() => {
                self.stalled_worker(thread, line, facts)
            }
            Message::Task { thread, state: 'D', .. } if self.open.lists_blocked => {
                let who = Waiting::Thread(thread);
                facts.stuck(self.report(Sign::TaskBlocked, who.clone(), Vec::new(), Lasted::Unknown, line));
                let is_it =
                    |known: &Stuck| known.sign == Sign::TaskBlocked && known.who == who && known.works.is_empty();
                self.open.blocked = facts.stuck.iter().rposition(is_it);
            }
            Message::Task { thread, .. } if self.open.rcu_tasks.is_some() => {
                let stall = self.open.rcu_tasks.and_then(|index| facts.stuck.get_mut(index));
                if let Some(stall) = stall.filter(|stall| stall.detail.is_none()) {
                    stall.detail = Some(format!("{}[{}]", thread.comm, thread.pid.unwrap_or_default()));
                    stall.last = line.spot.clone();
                }
            }
            Message::Task { thread, .. } => {
                // What follows is about this thread.
                self.open.current = None;
                let of_rcu = self.open.thread_of_rcu.filter(|index| is_of(facts, *index, &thread));
                self.open.blocked = of_rcu.or(self.open.blocked.filter(|index| is_of(facts, *index, &thread)));
                self.open.thread_of_rcu = None;
                if let Some(cpu) = self.open.dump_of.take() {
                    self.ran(cpu, thread, How::Sampled, line, facts);
                } else if let Some(stall) = reader_of(facts, &self.open.rcu_readers, &thread) {
                    stall.detail = Some(format!("{}[{}]", thread.comm, thread.pid.unwrap_or_default()));
                }
            }
            Message::Frame { function } if self.open.worker.is_some() => {
                // The first function of the stack says whether the worker runs.
                let worker = self.open.worker.take();
                if let Some(stuck) = self.open.blocked.and_then(|index| facts.stuck.get_mut(index)) {
                    stuck.runnable = worker.filter(|_| crate::words::is_switched_out(&function));
                }
                self.open.blocked = None;
            }
            Message::Frame { function } if ASKERS.contains(&function.as_str()) => {
                // Who asks all CPUs prints what its own CPU runs: itself.
                if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index)) {
                    ran.how = How::Printed;
                }
            }
            Message::Frame { function } => {
                self.open.has_stack = true;
                if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index))
                    && ran.function.is_some()
                    && ran.in_user_code == Some(false)
                    && ran.callers.len() < MAX_CALLERS
                {
                    ran.callers.push(function.clone());
                }
                if let Some(stuck) = self.open.blocked.and_then(|index| facts.stuck.get_mut(index))
                    && stuck.works.len() < MAX_FRAMES
                {
                    stuck.works.push(function);
                }
            }
            _ => {}
        }
    }

    /// Whether a line that says where a CPU was may be of either of two: both had begun to print, and the first such line was given
    /// to the later one.
    fn is_of_either(&self, facts: &Facts) -> bool {
        let ran = self.open.current.and_then(|index| facts.ran.get(index));
        self.open.without_code.is_some() && ran.is_some_and(|ran| ran.in_user_code.is_some())
    }

    /// A worker of a stalled pool that could run, or runs: its stack follows.
    fn stalled_worker(&mut self, thread: Thread, line: &Line, facts: &mut Facts) {
        let Some(KernelThread::BoundWorker { cpu, high }) = KernelThread::of(&thread.comm.as_str().into()) else {
            return;
        };
        let who = Waiting::BoundPool { cpu, high };
        let boot = self.boot;
        let is_it = |known: &Stuck| known.sign == Sign::PoolStuck && known.who == who && known.at.boot == boot;
        if !facts.stuck.iter().any(is_it) {
            facts.stuck(self.report(Sign::PoolStuck, who.clone(), vec![cpu], Lasted::Unknown, line));
        }
        self.open.blocked = facts.stuck.iter().rposition(is_it);
        self.open.worker = Some(thread);
    }

    fn ran(&mut self, cpu: u32, thread: Thread, how: How, line: &Line, facts: &mut Facts) {
        let at = self.at(line);
        let known = facts.ran.len();
        facts.ran(Ran {
            cpu,
            thread,
            how,
            policy: None,
            work: None,
            in_user_code: None,
            function: None,
            callers: Vec::new(),
            spot: line.spot.clone(),
            at,
        });
        self.open.current = (facts.ran.len() > known).then_some(known);
        (self.open.begun, self.open.without_code) = (None, None);
    }

    fn sched_ext(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        match message {
            Message::SchedExtDisabled { name, is_stall } => {
                self.bpf_scheduler = Some(name);
                let at = self.at(line);
                let is_known = |known: &Stuck| known.sign == Sign::SchedExtStall && known.at.is_same_boot(&at);
                if is_stall && !facts.stuck.iter().any(is_known) {
                    self.unnamed_stall(Lasted::Unknown, line, facts);
                }
            }
            Message::SchedExtWatchdog { name, lasted } => {
                self.bpf_scheduler.get_or_insert(name);
                self.unnamed_stall(Lasted::AtLeast(lasted), line, facts);
            }
            Message::SchedExtStall { thread, lasted } => {
                let who = Waiting::Thread(thread);
                // The log and the dump of the scheduler's program say the same.
                let boot = self.at(line);
                let is_same = |known: &&mut Stuck| {
                    known.sign == Sign::SchedExtStall && known.who == who && known.at.is_same_boot(&boot)
                };
                if let Some(known) = facts.stuck.iter_mut().rfind(is_same) {
                    known.last = line.spot.clone();
                    known.detail = known.detail.take().or_else(|| self.bpf_scheduler.clone());
                    return;
                }
                // The line before may have said that there is a stall, without the thread.
                let is_unnamed = |known: &&mut Stuck| {
                    known.sign == Sign::SchedExtStall
                        && known.who == Waiting::Nobody
                        && known.at.is_same_boot(&boot)
                        && known.until.is_near(&boot)
                };
                if let Some(known) = facts.stuck.iter_mut().rfind(is_unnamed) {
                    (known.who, known.last) = (who, line.spot.clone());
                    (known.lasted, known.last_lasted) = (Lasted::AtLeast(lasted), Lasted::AtLeast(lasted));
                    (known.until, known.detail) = (boot, known.detail.take().or_else(|| self.bpf_scheduler.clone()));
                    return;
                }
                let mut stuck = self.report(Sign::SchedExtStall, who, Vec::new(), Lasted::AtLeast(lasted), line);
                stuck.detail.clone_from(&self.bpf_scheduler);
                facts.stuck(stuck);
            }
            Message::RunQueue { cpu } => self.open.run_queue = Some(cpu),
            Message::RunQueueCurrent { thread, policy } => {
                if let Some(cpu) = self.open.run_queue {
                    self.ran(cpu, thread, How::RunQueue, line, facts);
                    if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index)) {
                        ran.policy = policy;
                    }
                }
            }
            Message::RunQueueTask { thread, current: false, .. } => {
                let Some(cpu) = self.open.run_queue else { return };
                let is_victim = |known: &&mut Stuck| {
                    known.sign == Sign::SchedExtStall
                        && matches!(&known.who, Waiting::Thread(victim) if victim.may_be(&thread))
                };
                if let Some(stuck) = facts.stuck.iter_mut().rfind(is_victim).filter(|stuck| stuck.cpus.is_empty()) {
                    stuck.cpus = vec![cpu];
                }
            }
            _ => {}
        }
    }

    /// A stall under a BPF scheduler of which no thread is named.
    fn unnamed_stall(&mut self, lasted: Lasted, line: &Line, facts: &mut Facts) {
        let at = self.at(line);
        let is_known = |known: &&mut Stuck| {
            known.sign == Sign::SchedExtStall
                && known.who == Waiting::Nobody
                && known.at.is_same_boot(&at)
                && known.until.is_near(&at)
        };
        if let Some(known) = facts.stuck.iter_mut().rfind(is_known) {
            (known.lasted, known.last_lasted, known.until, known.last) = (lasted, lasted, at, line.spot.clone());
            return;
        }
        let mut stuck = self.report(Sign::SchedExtStall, Waiting::Nobody, Vec::new(), lasted, line);
        stuck.detail.clone_from(&self.bpf_scheduler);
        facts.stuck(stuck);
    }

    /// Messages that stand alone.
    fn single(&mut self, message: Message, line: &Line, facts: &mut Facts) {
        use Lasted::{AtLeast, Unknown};
        let stuck = match message {
            Message::SoftLockup { cpu, stuck, thread } => {
                self.ask(&[cpu], line.number);
                let mut report = self.report(Sign::SoftLockup, Waiting::All, vec![cpu], AtLeast(stuck), line);
                let holder = thread.filter(|thread| !thread.is_idle());
                report.holder = holder.map(|thread| Holder { thread, is_certain: true });
                report
            }
            Message::Utilization { softirqs, hard_interrupts } => {
                let lockup = facts.stuck.iter_mut().rfind(|known| known.sign == Sign::SoftLockup);
                let words = |part: u32, name: &str| format!("{part} % of the time in {name}");
                let share = match (softirqs, hard_interrupts) {
                    (softirqs, _) if softirqs > 50 => Some((true, words(softirqs, "softirqs"))),
                    (_, hard) if hard > 50 => Some((false, words(hard, "interrupts"))),
                    _ => None,
                };
                if let (Some(lockup), Some((is_softirq, words))) = (lockup, share) {
                    lockup.interrupts = Some(InterruptShare { is_softirq, words });
                }
                return;
            }
            Message::HardLockup { cpus } => {
                self.ask(&cpus, line.number);
                // It is noticed after `kernel.watchdog_thresh`, which the message does not have.
                for cpu in cpus {
                    facts.stuck(self.report(Sign::HardLockup, Waiting::All, vec![cpu], Unknown, line));
                }
                return;
            }
            Message::LockNotGot { cpu, thread } => {
                facts.stuck(self.report(Sign::HardLockup, Waiting::All, vec![cpu], Unknown, line));
                self.open.lock =
                    facts.stuck.iter().rposition(|known| known.sign == Sign::HardLockup && known.cpus == [cpu]);
                if let Some(thread) = thread {
                    // The message is of the loop that waits for the lock (kernel/locking/spinlock_debug.c).
                    self.ran(cpu, thread, How::Sampled, line, facts);
                    if let Some(ran) = self.open.current.and_then(|index| facts.ran.get_mut(index)) {
                        (ran.in_user_code, ran.function) = (Some(false), Some("do_raw_spin_lock".to_owned()));
                    }
                }
                return;
            }
            Message::LockOwner { cpu, thread } => {
                if let Some(stuck) = self.open.lock.take().and_then(|index| facts.stuck.get_mut(index)) {
                    stuck.detail = Some(format!("{} on CPU {cpu}", crate::words::thread(&thread)));
                }
                return;
            }
            Message::Blocked { thread, lasted } => {
                let who = Waiting::Thread(thread);
                let report = self.report(Sign::TaskBlocked, who.clone(), Vec::new(), AtLeast(lasted), line);
                facts.stuck(report);
                let is_it = |known: &Stuck| known.sign == Sign::TaskBlocked && known.who == who;
                self.open.blocked =
                    facts.stuck.iter().rposition(is_it).filter(|index| facts.stuck[*index].works.is_empty());
                return;
            }
            Message::BlockedOn { thread, owner, .. } => {
                let is_it = |known: &&mut Stuck| {
                    known.sign == Sign::TaskBlocked
                        && matches!(&known.who, Waiting::Thread(victim) if victim.may_be(&thread))
                };
                if let (Some(known), Some(owner)) = (facts.stuck.iter_mut().rfind(is_it), owner) {
                    known.holder = Some(Holder { thread: owner, is_certain: false });
                }
                return;
            }
            Message::RealTimeLimit { cpu } => {
                self.report(Sign::RealTimeLimit, Waiting::Nobody, cpu.into_iter().collect(), Unknown, line)
            }
            Message::LimitUsers => {
                self.open.lists_limit_users = true;
                return;
            }
            Message::LimitUser { thread } => {
                let limit = facts.stuck.last_mut().filter(|stuck| stuck.sign == Sign::RealTimeLimit);
                if let Some(limit) = limit.filter(|_| self.open.lists_limit_users) {
                    limit.works.push(format!("{}[{}]", thread.comm, thread.pid.unwrap_or_default()));
                    // One of several may be anyone's.
                    limit.holder = (limit.works.len() == 1).then_some(Holder { thread, is_certain: true });
                }
                return;
            }
            Message::DeadlineLate => self.report(Sign::DeadlineLate, Waiting::Nobody, Vec::new(), Unknown, line),
            Message::SoftirqPending { mask } => {
                let names: Vec<&str> = SOFTIRQS
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| mask & 1 << bit != 0)
                    .map(|(_, name)| *name)
                    .collect();
                self.report(Sign::SoftirqPending, Waiting::Softirq(names.join(", ")), Vec::new(), Unknown, line)
            }
            Message::SlowInterrupt { what, took } => {
                let mut report = self.report(Sign::SlowInterrupt, Waiting::Nobody, Vec::new(), AtLeast(took), line);
                report.detail = Some(what.to_owned());
                report
            }
            Message::Steal { percent } if percent >= MUCH_STOLEN => {
                let mut report = self.report(Sign::Steal, Waiting::Nobody, Vec::new(), Unknown, line);
                report.detail = Some(format!("{percent} %"));
                report
            }
            Message::ClockJumped { cpu } => {
                self.report(Sign::ClockJumped, Waiting::Nobody, cpu.into_iter().collect(), Unknown, line)
            }
            Message::NoReschedule { cpu, lasted } => {
                self.report(Sign::NoReschedule, Waiting::All, vec![cpu], AtLeast(lasted), line)
            }
            Message::CallNotAnswered { cpu, lasted } => {
                self.report(Sign::CallNotAnswered, Waiting::All, vec![cpu], AtLeast(lasted), line)
            }
            Message::Stalld { thread, cpu, lasted } => {
                let cpus = cpu.into_iter().collect();
                self.report(Sign::SeenWaiting, Waiting::Thread(thread), cpus, AtLeast(lasted), line)
            }
            Message::NotScheduled { thread, lasted } => {
                self.report(Sign::LateWakeup, Waiting::Thread(thread), Vec::new(), AtLeast(lasted), line)
            }
            Message::StalldBoost { thread, cpu } => {
                // What it had seen before, on the same CPU.
                let who = Waiting::Thread(thread);
                let is_it = |known: &&Stuck| known.sign == Sign::SeenWaiting && known.who == who;
                let cpus = match cpu {
                    Some(cpu) => vec![cpu],
                    None => facts.stuck.iter().rev().find(is_it).map(|known| known.cpus.clone()).unwrap_or_default(),
                };
                self.report(Sign::SeenWaiting, who, cpus, Unknown, line)
            }
            Message::ShowBlocked => {
                self.open.lists_blocked = true;
                return;
            }
            Message::Hang => self.report(Sign::Hang, Waiting::Nobody, Vec::new(), Unknown, line),
            Message::Remark { about } => {
                let mut report = self.report(Sign::Remark, Waiting::Nobody, Vec::new(), Unknown, line);
                report.detail = Some(about.to_owned());
                report
            }
            Message::DeviceLate { device } => {
                let mut report = self.report(Sign::DeviceLate, Waiting::Nobody, Vec::new(), Unknown, line);
                report.detail = Some(device);
                report
            }
            _ => return,
        };
        facts.stuck(stuck);
    }
}

/// Functions of threads that ask all CPUs what they run (drivers/tty/sysrq.c, kernel/hung_task.c).
const ASKERS: [&str; 3] = ["write_sysrq_trigger", "__handle_sysrq", "check_hung_uninterruptible_tasks"];

/// Reports of so many CPUs are told apart.
const MAX_CPUS_APART: usize = 16;

/// Below this share of all CPUs' time, in percent, nobody notices what a hypervisor takes.
const MUCH_STOLEN: f64 = 10.0;

/// The workers of a pool with these CPUs. Before 4.10 a bound pool is printed like an unbound one of a single CPU.
fn pool(cpus: &str, unbound: bool, nice: i32) -> (Waiting, Vec<u32>) {
    match cpus.parse() {
        Ok(cpu) if !unbound => (Waiting::BoundPool { cpu, high: nice < 0 }, vec![cpu]),
        _ => (Waiting::UnboundPool { cpus: cpus.to_owned() }, Vec::new()),
    }
}

/// The stall for which a thread is one of the preempted readers.
fn reader_of<'a>(facts: &'a mut Facts, readers: &[u32], thread: &Thread) -> Option<&'a mut Stuck> {
    let is_reader = thread.pid.is_some_and(|pid| readers.contains(&pid));
    facts.stuck.iter_mut().rfind(|stuck| is_reader && stuck.sign == Sign::RcuStall && stuck.detail.is_none())
}

/// Whether a report is about this thread.
fn is_of(facts: &Facts, index: usize, thread: &Thread) -> bool {
    let who = facts.stuck.get(index).map(|stuck| &stuck.who);
    matches!(who, Some(Waiting::Thread(victim)) if victim.may_be(thread) || victim.comm == thread.comm)
}

/// `rcupdate.rcu_cpu_stall_timeout=15` of the command line, in seconds.
fn stall_timeout(command_line: &str) -> Option<u32> {
    let value = |word: &str| word.strip_prefix("rcupdate.rcu_cpu_stall_timeout=")?.parse().ok();
    command_line.split_whitespace().rev().find_map(value)
}

fn rcu_thread(flavor: &str) -> Waiting {
    Waiting::Thread(Thread { comm: flavor.to_owned(), pid: None })
}
/// Whether two lines were printed so near each other that they may be about one thread.
fn is_of_one_dump(one: Option<Nanos>, other: Option<Nanos>) -> bool {
    const ONE_DUMP_NS: u64 = 1_000_000_000;
    one.zip(other).is_none_or(|(one, other)| one.0.abs_diff(other.0) <= ONE_DUMP_NS)
}
