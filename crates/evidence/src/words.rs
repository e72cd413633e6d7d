//! The words of what evidence proves. Nowhere else is text for people made.

use unstarve_facts::Poller;
use unstarve_model::{Policy, counted};
use unstarve_sched::{KernelThread, Rule};

use crate::case::{Held, InTheWay};
use crate::conclude::{Judged, Trouble, is_worker_of, quote};
use crate::fact::{Facts, Lasted, Measured, Sign, Stuck, Thread, Waiting};
use crate::scan::Source;

/// `reactor_0[2219] FIFO 50`.
pub fn held(held: &Held) -> String {
    let name = thread(&held.thread);
    match (held.sched_policy, held.rt_priority, held.policy) {
        (Some(policy), Some(priority), _) => format!("{name} {} {priority}", policy.word()),
        (_, _, Some(unstarve_model::Policy::Rt)) => format!("{name} (real-time)"),
        (_, _, Some(unstarve_model::Policy::Deadline)) => format!("{name} (deadline)"),
        _ => name,
    }
}

/// `reactor_0[2219]`.
pub fn thread(thread: &Thread) -> String {
    match thread.pid {
        Some(pid) => format!("{}[{pid}]", thread.comm),
        None => thread.comm.clone(),
    }
}

/// `CPU 3`, `CPUs 2, 4 and 7`.
pub fn cpus(cpus: &[u32]) -> String {
    const SHOWN: usize = 8;
    match cpus {
        [] => "a CPU".to_owned(),
        [cpu] => format!("CPU {cpu}"),
        [first @ .., last] if cpus.len() <= SHOWN => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("CPUs {} and {last}", first.join(", "))
        }
        _ => {
            let shown: Vec<String> = cpus.iter().take(SHOWN).map(u32::to_string).collect();
            format!("CPUs {} and {} more", shown.join(", "), cpus.len() - SHOWN)
        }
    }
}

/// `everything bound to CPU 3`.
pub fn bound_to(list: &[u32]) -> String {
    format!("everything bound to {}", cpus(list))
}

/// The victim, and whether it is one.
fn victim(judged: &Judged<'_>) -> (String, bool) {
    match &judged.who() {
        Waiting::BoundPool { high, .. } => {
            let kind = if *high { "high-priority kworkers" } else { "kworkers" };
            (format!("{kind} of {}", cpus(&judged.cpus())), false)
        }
        Waiting::UnboundPool { cpus } => (format!("unbound kworkers (CPUs {cpus})"), false),
        Waiting::Thread(victim) => (thread(victim), true),
        Waiting::Softirq(name) => (format!("softirq {name}"), true),
        Waiting::All => (bound_to(&judged.cpus()), true),
        Waiting::Nobody => ("a thread".to_owned(), true),
    }
}

/// What happened, without numbers.
pub fn headline(judged: &Judged<'_>) -> String {
    let (who, is_one) = victim(judged);
    let (is, makes) = if is_one { ("is", "makes") } else { ("are", "make") };
    let cpu = judged.cpu.map(|cpu| format!("CPU {cpu}")).unwrap_or_else(|| cpus(&judged.cpus()));
    let by = judged.held().map(held);
    match (judged.trouble, &judged.way) {
        (Trouble::Starved | Trouble::BpfScheduler | Trouble::SeenRunnable, InTheWay::Proved(_))
            if judged.cell.finding != "sched-ext-stall" && judged.trouble != Trouble::SeenRunnable =>
        {
            format!("{who} {is} starved by {} on {cpu}", by.unwrap_or_default())
        }
        (Trouble::Starved, InTheWay::Likely(_)) => {
            format!("{who} {is} starved, most likely by {} on {cpu}", by.unwrap_or_default())
        }
        (_, InTheWay::Shared) if judged.cell.finding == "cpu-stopped" => {
            format!("{} hung: the machine stood still, or something that all CPUs need", cpus(&judged.cpus()))
        }
        (_, InTheWay::Shared) => match judged.cpus().as_slice() {
            [_] => format!("{cpu} hung, as others did in other threads: look for a cause that they share"),
            all => format!("{} hung, in threads that differ: look for a cause that they share", cpus(all)),
        },
        (Trouble::Starved, InTheWay::Idle(_)) => format!("{who} did not run although {cpu} was idle"),
        (Trouble::Starved, InTheWay::Several(threads)) => {
            let names: Vec<String> = threads.iter().take(3).map(thread).collect();
            format!("{who} {makes} no progress; {cpu} was seen running {}", names.join(", "))
        }
        (Trouble::CpuHeld | Trouble::Starved, InTheWay::Spins(held)) => {
            let function = held.innermost().unwrap_or("the kernel");
            let owner = judged.stuck.detail.as_ref().filter(|_| judged.stuck.sign == Sign::HardLockup);
            let owner = owner.map(|owner| format!("; {owner} has the lock")).unwrap_or_default();
            format!("{cpu} hangs: {} waits there for another CPU or a lock, in {function}{owner}", thread(&held.thread))
        }
        (Trouble::Starved, InTheWay::Unknown) if !judged.stuck.in_flight.is_empty() => {
            format!("{who} {makes} no progress: {}; the text does not say what ran there", in_flight(judged.stuck))
        }
        (Trouble::Starved, _) => format!("{who} {makes} no progress; the text does not say what ran there"),
        (Trouble::SeenRunnable, _) => match by {
            Some(by) => format!("{who}{} waited for {cpu} while {by} ran there", others(judged)),
            None if judged.lasted.is_some() => format!("{who}{} waited for {cpu}", others(judged)),
            None => format!("{who}{} waited for {cpu} at that moment", others(judged)),
        },
        (Trouble::CpuHeld, InTheWay::Proved(_) | InTheWay::Likely(_)) => {
            cpu_held(judged, &cpu, &by.unwrap_or_default())
        }
        (Trouble::CpuHeld | Trouble::TimerLate, InTheWay::Idle(_)) => {
            format!("{cpu} was idle and did not answer: a timer or an interrupt of it was late")
        }
        (Trouble::CpuHeld, InTheWay::Several(threads)) => {
            let names: Vec<String> = threads.iter().take(3).map(thread).collect();
            format!("Kernel code holds {cpu}: seen there were {}", names.join(", "))
        }
        (Trouble::CpuHeld, InTheWay::Unknown) => match judged.stuck.sign {
            Sign::SlowWork => {
                format!("The work item {} keeps its CPU for long", judged.stuck.detail.as_deref().unwrap_or("?"))
            }
            Sign::RcuStall if is_rcu_tasks(judged.stuck) => match &judged.stuck.detail {
                Some(holdout) => format!("{who} waits for {holdout}, which has not given up its CPU by itself"),
                None => format!("{who} waits for threads that the text does not name"),
            },
            Sign::RcuStall if judged.stuck.detail.is_some() => {
                let reader = judged.stuck.detail.as_deref().unwrap_or_default();
                format!("RCU waits for {reader}, which was preempted where it reads")
            }
            Sign::RcuStall if judged.cpus().is_empty() => {
                "RCU waits for a CPU or a thread that the text does not name".to_owned()
            }
            _ => format!("Kernel code holds {}; the text does not say in which thread", cpus(&judged.cpus())),
        },
        (Trouble::UserHeld, _) => match by {
            Some(by) => {
                format!("{cpu} did not run its watchdog, though {by} was in its own code: look at the hypervisor")
            }
            None => format!("{cpu} did not run its watchdog"),
        },
        (Trouble::TimerLate, _) if judged.stuck.is_quiescent => {
            format!("RCU waited for {cpu}, which was idle or in a program: its report was late")
        }
        (Trouble::TimerLate, _) => match &judged.stuck.who {
            Waiting::Softirq(name) => format!("softirq {name} was still pending when a CPU went idle"),
            _ => match by {
                Some(by) => format!("{who} waited for a timer of {cpu}, which was late; {by} ran there"),
                None => format!("{who} waited for a timer of {cpu}, which was late"),
            },
        },
        (Trouble::Blocked, _) => {
            format!("{who}{} is blocked, not starved: it waits for {}", others(judged), blocked_on(judged.stuck))
        }
        (Trouble::BpfScheduler, _) if judged.stuck.who == Waiting::Nobody => {
            let name = judged.stuck.detail.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("The BPF scheduler{name} did not run a thread, or the kernel's own watchdog")
        }
        (Trouble::BpfScheduler, _) => {
            let name = judged.stuck.detail.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            format!("The BPF scheduler{name} did not run {who}")
        }
        (Trouble::RealTimeLimit, InTheWay::Proved(held)) => {
            format!("{} used up the limit of real-time threads on {cpu}", thread(&held.thread))
        }
        (Trouble::RealTimeLimit, _) => "Real-time threads used up their limit of CPU time".to_owned(),
        (Trouble::Deadline, _) => "A deadline task fell behind its periods".to_owned(),
        (Trouble::InterruptLoad, _) => {
            format!("Interrupts took {cpu}: {}", judged.interrupts.as_ref().map_or("", |share| share.words.as_str()))
        }
        (Trouble::Machine, _) if judged.stuck.sign == Sign::Steal => {
            format!("The hypervisor took {} of the CPUs' time", judged.stuck.detail.as_deref().unwrap_or_default())
        }
        (Trouble::Interrupts, _) if judged.stuck.sign == Sign::InterruptsCame => {
            format!("Most interrupts came on one CPU: {}", judged.stuck.detail.as_deref().unwrap_or_default())
        }
        (Trouble::Interrupts, _) => "Interrupt handlers take long".to_owned(),
        (Trouble::Machine, _) => "The machine's clock jumped or the machine stood still".to_owned(),
        (Trouble::LateWakeup, InTheWay::Proved(_)) => {
            format!("{who} woke late on {cpu}: {} had it", by.unwrap_or_default())
        }
        (Trouble::LateWakeup, _) => format!("{who} woke late; the text does not say why"),
        (Trouble::GroupLimit, _) => {
            format!("The CPU limit of {} stopped its threads", judged.stuck.detail.as_deref().unwrap_or("a cgroup"))
        }
        (Trouble::Hang, _) => "The kernel reports a hang; the text does not say of what".to_owned(),
        (Trouble::Remark, _) => {
            format!("The log also says: {}", judged.stuck.detail.as_deref().unwrap_or("trouble"))
        }
        (Trouble::Device, _) => {
            format!("{} did not answer in time", judged.stuck.detail.as_deref().unwrap_or("a device"))
        }
    }
}

/// Whether RCU waits for threads, and not for CPUs: those of `rcu_tasks` end a grace period when they leave their CPU by themselves.
fn is_rcu_tasks(stuck: &Stuck) -> bool {
    matches!(&stuck.who, Waiting::Thread(thread) if thread.comm.starts_with("rcu_tasks"))
}

/// Further threads in the same trouble: ` (and 3 others)`.
fn others(judged: &Judged<'_>) -> String {
    match judged.also.len() as u64 {
        0 => String::new(),
        others => format!(" (and {})", counted(others, "other")),
    }
}

/// `worker 2990528 is in output_poll_execute, ready to run and not running`.
fn in_flight(stuck: &Stuck) -> String {
    let ready = stuck.runnable.as_ref().and_then(|worker| worker.pid);
    let of_ready = stuck.in_flight.iter().find(|(pid, _)| Some(*pid) == ready);
    match of_ready.or_else(|| stuck.in_flight.first()) {
        Some((pid, function)) if Some(*pid) == ready => {
            format!("worker {pid} is in {function}, ready to run and not running")
        }
        Some((pid, function)) => format!("worker {pid} is in {function}"),
        None => String::new(),
    }
}

/// Whether a worker of the stuck pool itself is what runs.
fn is_own_worker(judged: &Judged<'_>) -> bool {
    judged.stuck.sign == Sign::PoolStuck
        && judged.held().is_some_and(|held| is_worker_of(&judged.stuck.who, &held.thread))
}

fn cpu_held(judged: &Judged<'_>, cpu: &str, by: &str) -> String {
    if judged.stuck.sign == Sign::RcuThreadStarved {
        let function = judged.stuck.works.first().map_or("?", String::as_str);
        return format!("{by} runs on {cpu} and does not go on, in {function}");
    }
    let work = judged.held().and_then(|held| held.work.as_deref());
    if work.is_none() && is_own_worker(judged) {
        return format!("kworkers of {cpu} wait: their own worker {by} does not finish its work");
    }
    match (judged.stuck.sign, work) {
        (Sign::PoolStuck, Some(work)) => {
            format!("kworkers of {cpu} wait: the work item {work} of {by} does not leave the CPU")
        }
        (Sign::RcuStall, Some(work)) => format!("RCU cannot go on: the work item {work} of {by} holds {cpu}"),
        (Sign::RcuStall, _) => format!("RCU cannot go on: {by} holds {cpu}"),
        (Sign::PoolStuck | Sign::RcuThreadStarved, None) => {
            format!(
                "{} {}: kernel code of {by} holds {cpu}",
                victim(judged).0,
                if victim(judged).1 { "waits" } else { "wait" }
            )
        }
        (_, Some(work)) => format!("Kernel code holds {cpu}: the work item {work} of {by}"),
        _ => format!("Kernel code holds {cpu}, in the thread {by}"),
    }
}

/// The number of the interrupt that came often, if it is one of a device.
pub fn interrupt(stuck: &Stuck) -> Option<u32> {
    let number = stuck.detail.as_deref()?.strip_prefix("interrupt ")?.split(' ').next()?;
    number.trim_end_matches(':').parse().ok()
}

/// The headline with its numbers.
pub fn sentence(judged: &Judged<'_>, headline: &str) -> String {
    let length = match (judged.lasted, judged.is_jiffies) {
        (None, _) => return format!("{headline}."),
        (Some(lasted), Some(jiffies)) => format!("at least {lasted} ({jiffies} jiffies)"),
        (Some(lasted), None) => format!("at least {lasted}"),
    };
    let times = if judged.stuck.count > 1 { format!(", reported {} times", judged.stuck.count) } else { String::new() };
    format!("{headline}: {length}{times}.")
}

/// The reason.
pub fn why(judged: &Judged<'_>) -> Option<String> {
    let rule = judged.cell.rule;
    let text = match (judged.trouble, &judged.way) {
        (Trouble::Starved, InTheWay::Proved(_) | InTheWay::Likely(_)) if rule == Rule::Unranked => {
            "not known: the text has no policy and no priority of it".to_owned()
        }
        (Trouble::Starved, InTheWay::Proved(_) | InTheWay::Likely(_)) => {
            format!("{} (rule: {rule})", rule.meaning())
        }
        (Trouble::Starved, InTheWay::Idle(_)) => {
            "no thread kept it off: a wakeup, a timer or the virtual CPU itself was late".to_owned()
        }
        (Trouble::CpuHeld, InTheWay::Proved(held)) if held.in_user_code == Some(true) => {
            "the thread was in its own code: the CPU did not get its timer interrupt".to_owned()
        }
        (Trouble::CpuHeld, _) if is_own_worker(judged) => {
            "a pool of kworkers starts no other work on its CPU while one of its own workers runs".to_owned()
        }
        (Trouble::CpuHeld, _) => "kernel code runs until it leaves by itself or is preempted".to_owned(),
        (Trouble::TimerLate, _) => {
            "the thread sleeps until a timer; interrupts were off there, or the virtual CPU was not run".to_owned()
        }
        (Trouble::Blocked, _) => match awaited(&judged.stuck.works) {
            Some(Awaited::Worker | Awaited::Rcu) => {
                "what it waits for may be starved itself: the log does not say; a recording does".to_owned()
            }
            Some(Awaited::Device | Awaited::Journal) => {
                "the device, or the kworker that completes its requests, is late: a recording tells which".to_owned()
            }
            _ => "a blocked thread does not compete for a CPU; no weight or priority of its own helps it".to_owned(),
        },
        (Trouble::BpfScheduler, _) if rule == Rule::Class => {
            "real-time threads run before the BPF scheduler's threads".to_owned()
        }
        (Trouble::BpfScheduler, _) => {
            "the BPF scheduler, not the kernel's own, decides when its threads run".to_owned()
        }
        (Trouble::RealTimeLimit, _) => {
            "they ran for 95 % of a second; the kernel then let normal threads run (said once a boot)".to_owned()
        }
        _ => return None,
    };
    Some(text)
}

/// The lines that prove it.
pub fn evidence(judged: &Judged<'_>) -> Vec<String> {
    let stuck = judged.stuck;
    let mut lines = vec![quote(&stuck.first)];
    if stuck.last.line != stuck.first.line {
        lines.push(quote(&stuck.last));
    }
    if let Some(held) = judged.held() {
        lines.push(quote(&held.spot));
        lines.extend(held.listed.as_ref().map(quote));
    }
    if let InTheWay::Spins(held) = &judged.way {
        lines.push(quote(&held.spot));
    }
    if let InTheWay::Idle(spot) = &judged.way {
        lines.push(quote(spot));
    }
    if stuck.sign == Sign::PoolStuck && !stuck.works.is_empty() {
        lines.push(format!("waiting work: {}", stuck.works.join(", ")));
    }
    if !stuck.in_flight.is_empty() {
        let items: Vec<String> =
            stuck.in_flight.iter().take(4).map(|(pid, function)| format!("{function} of kworker[{pid}]")).collect();
        lines.push(format!("begun and not done: {}", items.join(", ")));
    }
    if let Some(worker) = &stuck.runnable {
        lines.push(format!("could run, and did not: {}, whose stack ends in the scheduler", thread(worker)));
    }
    lines.extend(judged.also.iter().take(8).map(|also| quote(&also.last)));
    lines.extend(judged.blocked.iter().take(4).map(|blocked| quote(&blocked.first)));
    lines.extend(judged.unplaced.iter().map(quote));
    lines.dedup();
    lines
}

/// What a blocked thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    Worker,
    Rcu,
    Journal,
    Device,
    Server,
    FuseProgram,
    Lock,
    Memory,
    Another,
}

/// Functions of a blocked thread's stack, by what it waits for. The first function of the stack that is in a row decides, rows
/// above before rows below.
const AWAITED: [(Awaited, &[&str]); 9] = [
    (
        Awaited::Worker,
        &["flush_work", "__flush_work", "__flush_workqueue", "flush_workqueue", "drain_workqueue", "cancel_work_sync"],
    ),
    (
        Awaited::Rcu,
        &["synchronize_rcu", "wait_rcu_gp", "__wait_rcu_gp", "rcu_barrier", "synchronize_srcu", "synchronize_net"],
    ),
    (
        Awaited::Journal,
        &[
            "jbd2_log_wait_commit",
            "wait_transaction_locked",
            "jbd2_journal_commit_transaction",
            "xlog_",
            "xfs_log_force",
        ],
    ),
    (Awaited::Server, &["rpc_wait_bit_killable", "nfs_wait_bit_killable", "nfs4_", "cifs_", "ceph_"]),
    (Awaited::FuseProgram, &["fuse_", "request_wait_answer"]),
    (
        Awaited::Lock,
        &[
            "__mutex_lock",
            "mutex_lock",
            "rwsem_down",
            "down_read",
            "down_write",
            "__down",
            "__down_read",
            "__down_write",
            "__rt_mutex",
            "rt_mutex_slowlock",
            "percpu_rwsem_wait",
            "__percpu_down_read",
        ],
    ),
    (Awaited::Memory, &["congestion_wait", "balance_dirty_pages", "shrink_", "reclaim_throttle"]),
    (
        Awaited::Device,
        &[
            "io_schedule",
            "blk_",
            "submit_bio_wait",
            "bio_await",
            "dio_await",
            "iomap_dio",
            "__iomap_dio",
            "wait_on_page_bit",
            "folio_wait",
            "rq_qos_wait",
            "wbt_wait",
            "do_blockdev_direct_IO",
            "bit_wait_io",
            "__wait_on_buffer",
        ],
    ),
    (Awaited::Another, &["wait_for_completion", "__wait_for_common", "schedule_timeout"]),
];

/// What the functions of a stack wait for.
pub fn awaited(functions: &[String]) -> Option<Awaited> {
    let is_in = |names: &[&str]| {
        functions.iter().any(|function| {
            names.iter().any(|name| {
                if name.ends_with('_') {
                    function.starts_with(name)
                } else {
                    function.split('.').next() == Some(name) || function.starts_with(name) && name.len() > 8
                }
            })
        })
    };
    AWAITED.iter().find(|(_, names)| is_in(names)).map(|(awaited, _)| *awaited)
}

fn blocked_on(stuck: &Stuck) -> String {
    if let Some(holder) = &stuck.holder {
        return format!("a lock that {} likely holds", thread(&holder.thread));
    }
    match awaited(&stuck.works) {
        Some(Awaited::Worker) => "a kworker's work",
        Some(Awaited::Rcu) => "a grace period of RCU",
        Some(Awaited::Journal) => "the file system's journal",
        Some(Awaited::Device) => "a block device, or the worker that completes its requests",
        Some(Awaited::Server) => "a network file server",
        Some(Awaited::FuseProgram) => "the program of a FUSE file system",
        Some(Awaited::Lock) => "a lock",
        Some(Awaited::Memory) => "memory or writeback",
        Some(Awaited::Another) => "another thread",
        None => match stuck.works.iter().find(|function| !is_switched_out(function)) {
            Some(function) => return format!("something, in {function}"),
            None => "something that its stack would name",
        },
    }
    .to_owned()
}

/// Whether a stack that begins with this function is one of a thread that left its CPU.
pub fn is_switched_out(function: &str) -> bool {
    const SCHEDULER: [&str; 7] = [
        "__schedule",
        "schedule",
        "__switch_to",
        "context_switch",
        "__cond_resched",
        "_cond_resched",
        "preempt_schedule",
    ];
    SCHEDULER.iter().any(|name| function.split('.').next() == Some(name))
        || ["preempt_schedule", "schedule_"].iter().any(|start| function.starts_with(start))
}

type Advice = (&'static str, String, &'static str);

/// What to do.
pub fn remedies(judged: &Judged<'_>) -> Vec<Advice> {
    let cpu = judged.cpu.map_or_else(|| "that CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let Some(held) = judged.held() else { return Vec::new() };
    let by = thread(&held.thread);
    // A kernel thread cannot be moved, and stays for what it was given to do.
    let is_kernel = KernelThread::of(&held.thread.comm.as_str().into()).is_some() && held.policy != Some(Policy::Rt);
    // Of a program that polls it is known where it is told its CPUs, and that raising workers does not end it.
    let poller = Poller::of_thread(&held.thread.comm, |_| false).filter(|_| judged.trouble == Trouble::Starved);
    if let Some(poller) = poller {
        return vec![
            (
                "move-poller",
                format!("Keep {by} ({}) off {cpu}: {}", poller.what(), poller.advice()),
                "It has one CPU less",
            ),
            (
                "isolate-poller",
                format!("Or keep the kernel's work off {cpu}: isolate it"),
                "Its interrupts and timers go elsewhere",
            ),
        ];
    }
    match (judged.trouble, judged.cell.rule) {
        (Trouble::Starved | Trouble::BpfScheduler, Rule::Class) => vec![
            ("move-intruder", format!("Keep {by} off {cpu}"), "Its load moves to other CPUs"),
            (
                "intruder-to-fair",
                format!("Take {by} out of the real-time class"),
                "Its own latency then depends on the load",
            ),
        ],
        (Trouble::Starved, _) if is_kernel => vec![(
            "update-kernel",
            format!("Report the kernel code that {by} was in, or update the kernel or its driver"),
            "",
        )],
        (Trouble::Starved, _) => vec![(
            "move-occupant",
            format!("Keep {by} off {cpu}, or keep the kernel's work off {cpu}"),
            "Its load moves to other CPUs",
        )],
        // Where the text does not show its code, nothing says that it is the kernel's.
        (Trouble::CpuHeld | Trouble::TimerLate, _) if !shows_kernel_code(judged) => Vec::new(),
        (Trouble::CpuHeld | Trouble::TimerLate, _) => {
            vec![(
                "update-kernel",
                format!("Report the kernel code that {by} was in, or update the kernel or its driver"),
                "",
            )]
        }
        _ => Vec::new(),
    }
}

fn shows_kernel_code(judged: &Judged<'_>) -> bool {
    let function = judged.held().and_then(|held| held.function.as_deref());
    function.is_some_and(|function| !is_switched_out(function))
}

/// The answer where nothing is wrong, or nothing could be concluded.
pub fn nothing(facts: &Facts, sources: &[Source]) -> String {
    let lines: u64 = sources.iter().map(|source| source.lines).sum();
    let measured: Vec<String> = facts.measured.iter().map(measured).collect();
    if !measured.is_empty() {
        return format!("Nothing was late: {}.", measured.join("; "));
    }
    if facts.has_single_look() && facts.seen.is_empty() && facts.ran.is_empty() {
        return "One look at the interrupts counts since the boot, and says nothing of now; a second look does."
            .to_owned();
    }
    match (facts.seen.len() as u64, facts.ran.len() as u64) {
        (0, 0) => format!("Nothing in {} says that a thread is starved.", counted(lines, "line")),
        (0, looks) => {
            format!("{} of CPUs say what ran, and nothing says that a thread is starved.", counted(looks, "backtrace"))
        }
        (threads, _) => {
            format!(
                "A list of {} says who may be in the way, and nothing says that a thread is starved.",
                counted(threads, "thread")
            )
        }
    }
}

/// `cyclictest: 4 threads woke at most 21 µs late`.
fn measured(measured: &Measured) -> String {
    let Measured { tool, threads, latest } = measured;
    format!("{tool}: {} woke at most {latest} late", counted(*threads, "thread"))
}

/// What was read: `kernel log`, `kernel log, list of threads (ps)`.
pub fn format(sources: &[Source]) -> String {
    let mut kinds: Vec<&str> = sources.iter().flat_map(|source| source.kinds.iter().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    if kinds.is_empty() { "text".to_owned() } else { kinds.join(", ") }
}

/// What the text cannot say.
pub fn losses(facts: &Facts, sources: &[Source]) -> Vec<String> {
    let mut losses = Vec::new();
    let jiffies = facts.stuck.iter().any(|stuck| matches!(stuck.lasted, Lasted::Jiffies(_)));
    if jiffies && facts.hertz.is_none() {
        losses.push("the text does not say how long a jiffy is: 1 ms is assumed, 10 ms is possible".to_owned());
    }
    let long: u64 = sources.iter().map(|source| source.too_long).sum();
    if long > 0 {
        losses.push(format!("{} left out: longer than any message", counted(long, "line")));
    }
    for source in sources.iter().filter(|source| source.is_cut) {
        losses.push(format!(
            "{} is in reverse order and long: only its newest part was read; print it in order",
            source.name
        ));
    }
    if facts.left_out > 0 {
        losses.push(format!("{} left out: too many", counted(facts.left_out, "fact")));
    }
    losses
}
