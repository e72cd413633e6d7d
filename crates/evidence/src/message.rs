//! The kernel's messages that name a thread, a CPU, or how long something did not get on: a row each.
//!
//! Each row has the words by which its lines are found in a log, and a pattern for the message itself. Both are the kernel's own
//! format strings, of all versions since 4.9; where a version changed one, the pattern takes both.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexSet};
use unstarve_model::{CpuId, CpuSet, Nanos, Policy};

use crate::fact::Thread;

/// A message with its numbers and names.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    Boot { release: String, version: Option<String> },
    NextBoot,
    CommandLine { text: String },
    Hypervisor { name: String },
    PoolLockup { cpus: String, unbound: bool, nice: i32, stuck: Nanos },
    Workqueue,
    PoolWork { cpus: String, nice: i32 },
    InFlight { items: Vec<(u32, String)> },
    Pending { works: Vec<String> },
    StalledWorkers,
    SlowWork { function: String, limit: Nanos },
    RcuStall { flavor: String, cpus: Vec<u32>, itself: bool, jiffies: Option<u64> },
    RcuCpu { cpu: u32, ticks: Option<u64>, idle: bool, rcuc_starved: Option<u64> },
    RcuTasksStall { flavor: String },
    RcuLength { jiffies: u64, detector: Option<u32> },
    RcuAllSeen,
    RcuCpuTime { hard_interrupts: u64, softirqs: u64, all: u64 },
    Steal { percent: f64 },
    RcuStarved { flavor: String, jiffies: u64, runnable: Option<bool>, cpu: Option<u32> },
    RcuState { runnable: Option<bool>, cpu: Option<u32> },
    RcuTimer { flavor: String, jiffies: u64 },
    RcuTimerCpu { cpu: u32 },
    RcuReaders { tids: Vec<u32> },
    Utilization { softirqs: u32, hard_interrupts: u32 },
    BacktraceOf { cpu: u32, idle: bool },
    TaskDumpOf { cpu: u32 },
    Current { cpu: u32, thread: Thread, release: Option<String> },
    CurrentWork { function: String },
    UserCode,
    KernelCode { function: String },
    Task { thread: Thread, state: char, running: bool },
    SoftLockup { cpu: u32, stuck: Nanos, thread: Option<Thread> },
    HardLockup { cpus: Vec<u32> },
    LockNotGot { cpu: u32, thread: Option<Thread> },
    LockOwner { cpu: u32, thread: Thread },
    Blocked { thread: Thread, lasted: Nanos },
    BlockedOn { thread: Thread, owner: Option<Thread>, is_likely: bool },
    RealTimeLimit { cpu: Option<u32> },
    LimitUsers,
    LimitUser { thread: Thread },
    DeadlineLate,
    SoftirqPending { mask: u32 },
    SlowInterrupt { what: &'static str, took: Nanos },
    ClockJumped { cpu: Option<u32> },
    NoReschedule { cpu: u32, lasted: Nanos },
    CallNotAnswered { cpu: u32, lasted: Nanos },
    SchedExtDisabled { name: String, is_stall: bool },
    SchedExtWatchdog { name: String, lasted: Nanos },
    SchedExtStall { thread: Thread, lasted: Nanos },
    RunQueue { cpu: u32 },
    RunQueueCurrent { thread: Thread, policy: Option<Policy> },
    RunQueueTask { thread: Thread, current: bool, waited: Nanos },
    Stalld { thread: Thread, cpu: Option<u32>, lasted: Nanos },
    NotScheduled { thread: Thread, lasted: Nanos },
    StalldBoost { thread: Thread, cpu: Option<u32> },
    ShowBlocked,
    DeviceLate { device: String },
    Hang,
    Remark { about: &'static str },
    Frame { function: String },
}

/// A row: a name for tests and documents, the words by which lines are found, the pattern, and what it makes of a match.
struct Row {
    /// Parts of lines, any of which makes a line worth a look; empty for lines that only follow others.
    triggers: &'static [&'static str],
    pattern: &'static str,
    make: fn(&Captures<'_>) -> Option<Message>,
}

/// CPUs kept of one line.
const MAX_LISTED: usize = 64;

const ROWS: &[Row] = &[
    // init/version.c, init/main.c, arch/*/kernel
    Row {
        triggers: &["Linux version "],
        pattern: r"^Linux version (?<release>\d+\.\d+\S*)(?:.*? (?<version>#\d.*))?",
        make: |found| {
            let version = found.name("version").map(|version| version.as_str().trim().to_owned());
            Some(Message::Boot { release: text(found, "release"), version })
        },
    },
    // journalctl, between boots
    Row {
        triggers: &["-- Boot ", "-- Reboot --"],
        pattern: r"^-- (?:Boot [0-9a-f]{32}|Reboot) --$",
        make: |_| Some(Message::NextBoot),
    },
    Row {
        triggers: &["ommand line: "],
        pattern: r"^(?:Kernel c|C)ommand line: (?<text>.*)$",
        make: |found| Some(Message::CommandLine { text: text(found, "text") }),
    },
    Row {
        triggers: &["Hypervisor detected", "paravirtualized kernel on"],
        pattern: r"(?:Hypervisor detected: |Booting paravirtualized kernel on )(?<name>.+)$",
        make: |found| {
            Some(Message::Hypervisor { name: text(found, "name") }).filter(|_| !found["name"].contains("bare"))
        },
    },
    // kernel/workqueue.c: wq_watchdog_timer_fn, show_pwq, wq_cpu_intensive_report
    Row {
        triggers: &["workqueue lockup", "BUG: workqueue"],
        pattern: r"^BUG: workqueue lockup - pool(?: \d+:?)?(?: cpus=(?<cpus>[\d,-]+))?(?: node=-?\d+)?(?: flags=0x(?<flags>[0-9a-f]+))?(?: bh)?(?: nice=(?<nice>-?\d+))? stuck for (?<seconds>\d+)s",
        make: |found| {
            let flags = found.name("flags").and_then(|flags| u32::from_str_radix(flags.as_str(), 16).ok());
            Some(Message::PoolLockup {
                cpus: cpus(found)?,
                // POOL_DISASSOCIATED: the pool has no CPU, because it is unbound or its CPU is off.
                unbound: flags.is_some_and(|flags| flags & 4 != 0),
                nice: number(found, "nice").unwrap_or_default(),
                stuck: seconds(found, "seconds")?,
            })
        },
    },
    Row {
        triggers: &["Showing busy workqueues"],
        pattern: r"^\s*workqueue \S+: flags=0x",
        make: |_| Some(Message::Workqueue),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*pwq \d+:(?: cpus=(?<cpus>[\d,-]+))?(?: node=-?\d+)? flags=0x[0-9a-f]+ nice=(?<nice>-?\d+) active=",
        make: |found| Some(Message::PoolWork { cpus: cpus(found)?, nice: number(found, "nice")? }),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*in-flight: (?<list>.*)$",
        make: |found| Some(Message::InFlight { items: in_flight(&found["list"]) }),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*(?:pending|inactive): (?<list>.*)$",
        make: |found| Some(Message::Pending { works: works(&found["list"]) }),
    },
    Row {
        triggers: &["Showing backtraces of running workers"],
        pattern: r"Showing backtraces of running workers in stalled",
        make: |_| Some(Message::StalledWorkers),
    },
    Row {
        triggers: &["hogged CPU", "workqueue: "],
        pattern: r"(?<function>[\w.]+)(?: \[\w+\])? hogged CPU for >?(?<us>\d+)us",
        make: |found| {
            let limit = Nanos(number::<u64>(found, "us")?.saturating_mul(1_000));
            Some(Message::SlowWork { function: text(found, "function"), limit })
        },
    },
    // kernel/rcu/tree_stall.h, kernel/rcu/tree_exp.h
    Row {
        triggers: &["detected stalls on CPUs", "detected expedited stalls", "INFO: rcu"],
        pattern: r"^(?:rcu: )?INFO: (?<flavor>rcu\w*) detected (?:expedited )?stalls on CPUs/tasks:(?<rest>.*)$",
        make: |found| Some(stall(found, false)),
    },
    // kernel/rcu/tasks.h: the threads that it waits for follow
    Row {
        triggers: &["detected stalls on tasks"],
        pattern: r"^(?:rcu: )?INFO: (?<flavor>rcu_tasks\w*) detected stalls on tasks:",
        make: |found| Some(Message::RcuTasksStall { flavor: text(found, "flavor") }),
    },
    Row {
        triggers: &["self-detected stall on CPU"],
        pattern: r"^(?:rcu: )?INFO: (?<flavor>rcu\w*) self-detected stall on CPU(?<rest>.*)$",
        make: |found| Some(stall(found, true)),
    },
    // 2.6
    Row {
        triggers: &["detected stall on CPU", "RCU detected CPU"],
        pattern: r"^INFO: (?<flavor>rcu\w*|RCU)(?:_state)? detected (?:stall on )?CPU (?<cpu>\d+) (?:stall )?\(t=(?<jiffies>\d+) jiffies\)",
        make: |found| {
            let cpus = cpu(found, "cpu").into_iter().collect();
            let (flavor, jiffies) = (text(found, "flavor"), number(found, "jiffies"));
            Some(Message::RcuStall { flavor, cpus, itself: true, jiffies })
        },
    },
    Row {
        triggers: &[],
        pattern: r"^\s*(?:rcu:)?\s*(?<cpu>\d+)(?:-[^:\s]{3,4})?:? \((?:(?<ticks>\d+) ticks this GP|\d+ GPs behind)\)(?: idle=\w+/(?<nesting>\w+)/(?<nmi>\w+))?(?:.* rcuc=(?<rcuc>\d+) jiffies\(starved\))?",
        make: |found| {
            let is_zero = |name| found.name(name).is_some_and(|value| matches!(value.as_str(), "0" | "0x0"));
            let idle = is_zero("nesting") && is_zero("nmi");
            let [ticks, rcuc_starved] = ["ticks", "rcuc"].map(|name| number(found, name));
            Some(Message::RcuCpu { cpu: cpu(found, "cpu")?, ticks, idle, rcuc_starved })
        },
    },
    Row {
        triggers: &[],
        pattern: r"\((?:detected by (?<cpu>\d+), )?t=(?<jiffies>\d+) jiffies",
        make: |found| Some(Message::RcuLength { jiffies: number(found, "jiffies")?, detector: cpu(found, "cpu") }),
    },
    // The task dumped next is the one that the detecting CPU runs (before 5.2).
    Row { triggers: &[], pattern: r"All QSes seen, last rcu", make: |_| Some(Message::RcuAllSeen) },
    Row {
        triggers: &[],
        pattern: r"cputime:\s+(?<hard>\d+)\s+(?<soft>\d+)\s+(?<system>\d+)\s+==> (?<all>\d+)\(ms\)",
        make: |found| {
            Some(Message::RcuCpuTime {
                hard_interrupts: number(found, "hard")?,
                softirqs: number(found, "soft")?,
                all: number(found, "all")?,
            })
        },
    },
    Row {
        triggers: &["kthread starved for"],
        pattern: r"^(?:rcu: )?\s*(?<flavor>rcu\w*) kthread starved for (?<jiffies>\d+) jiffies!(?:.*->state=0x(?<state>[0-9a-f]+))?(?:.*->cpu=(?<cpu>\d+))?",
        make: |found| {
            Some(Message::RcuStarved {
                flavor: text(found, "flavor"),
                jiffies: number(found, "jiffies")?,
                runnable: is_runnable(found),
                cpu: cpu(found, "cpu"),
            })
        },
    },
    // The end of that message, where the line was broken.
    Row {
        triggers: &[],
        pattern: r"^\s*RCU_GP_\w+\(\d+\) ->state=0x(?<state>[0-9a-f]+)(?: ->cpu=(?<cpu>\d+))?",
        make: |found| Some(Message::RcuState { runnable: is_runnable(found), cpu: cpu(found, "cpu") }),
    },
    Row {
        triggers: &["kthread timer wakeup didn't happen"],
        pattern: r"^(?:rcu: )?\s*(?<flavor>rcu\w*) kthread timer wakeup didn't happen for (?<jiffies>\d+) jiffies",
        make: |found| Some(Message::RcuTimer { flavor: text(found, "flavor"), jiffies: number(found, "jiffies")? }),
    },
    Row {
        triggers: &[],
        pattern: r"Tasks blocked on level-\d+ rcu_node \(CPUs [^)]*\):(?<list>(?: P\d+(?:/\S+)?)+)",
        make: |found| {
            let tid = |word: &str| word.strip_prefix('P')?.split('/').next()?.parse().ok();
            Some(Message::RcuReaders { tids: found["list"].split_whitespace().filter_map(tid).collect() })
        },
    },
    Row {
        triggers: &[],
        pattern: r"Possible timer handling issue on cpu=(?<cpu>\d+)",
        make: |found| Some(Message::RcuTimerCpu { cpu: cpu(found, "cpu")? }),
    },
    // lib/nmi_backtrace.c
    Row {
        triggers: &["NMI backtrace for cpu"],
        pattern: r"^NMI backtrace for cpu (?<cpu>\d+)(?<idle> skipped: idling)?",
        make: |found| Some(Message::BacktraceOf { cpu: cpu(found, "cpu")?, idle: found.name("idle").is_some() }),
    },
    Row {
        triggers: &["Task dump for CPU"],
        pattern: r"^Task dump for CPU (?<cpu>\d+):",
        make: |found| Some(Message::TaskDumpOf { cpu: cpu(found, "cpu")? }),
    },
    // lib/dump_stack.c: dump_stack_print_info
    Row {
        triggers: &[" Comm: "],
        pattern: r"^\s*CPU: (?<cpu>\d+)(?: UID: \d+)? PID: (?<pid>\d+) Comm: (?<comm>.+?)(?: Kdump: loaded)? (?:Tainted:[A-Z\[\]()=, ]*|Not tainted ?)(?<release>\d+\.\d+\S*)?",
        make: current,
    },
    Row {
        triggers: &[],
        pattern: r"^\s*CPU: (?<cpu>\d+)(?: UID: \d+)? PID: (?<pid>\d+) Comm: (?<comm>\S+)(?: (?<release>\d+\.\d+\S*) #\d.*)?$",
        make: current,
    },
    Row {
        triggers: &[],
        pattern: r"^\s*Workqueue: \S+ (?<function>[\w.]+)(?: \[\w+\])?(?: \(.*\))?\s*$",
        make: |found| Some(Message::CurrentWork { function: text(found, "function") }),
    },
    // show_regs of x86, arm64, arm, powerpc, s390, MIPS, RISC-V, LoongArch
    Row {
        triggers: &[],
        pattern: r"^\s*(?:RIP: 0033:|EIP: 0073:|EIP: 0x[0-7b][0-9a-f]{7} |pc : \[?<?0000[0-9a-f]{12}\b|pc : \[<[0-9ab][0-9a-f]{7}>\]|NIP \[0000[0-9a-f]{12}\] 0x|NIP: +0000[0-9a-f]{12} LR|epc ?: 0000[0-9a-f]{12} ra|epc +: [0-7][0-9a-f]{7} 0x|User PSW :)",
        make: |_| Some(Message::UserCode),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*(?:RIP: (?:0010|e030):|EIP: (?:0060:)?|EIP is at |PC is at |pc : |ERA: |NIP |epc ?: |Krnl PSW : [0-9a-f]+ [0-9a-f]+ \()(?:\[?<?[0-9a-f]{8,16}>?\]?\s+)*(?<function>[A-Za-z_][\w.]*)\+0x",
        make: |found| Some(Message::KernelCode { function: text(found, "function") }),
    },
    // kernel/sched/core.c: sched_show_task, also by SysRq
    Row {
        triggers: &["task:"],
        pattern: r"^\s*task:(?<comm>.+?)\s+state:(?<state>[A-Z?])(?<running>\s+running task)?\s+stack:\s*\d+\s+pid:\s*(?<pid>\d+)",
        make: task,
    },
    Row {
        // 32-bit kernels say no more than `running`.
        triggers: &[" running task ", " R running "],
        pattern: r"^(?<comm>\S.*?)\s+(?<state>[RSDTtXZPI])(?<running>\s+running(?: task)?)?(?: on cpu\s+\d+)?\s+[0-9a-f]+\s+(?<pid>\d+)\s+\d+ 0x[0-9a-f]+(?: \d+)?$",
        make: task,
    },
    // kernel/watchdog.c
    Row {
        triggers: &["soft lockup - CPU#", "BUG: soft"],
        pattern: r"^(?:(?:NMI )?watchdog: )?BUG: soft lockup - CPU#(?<cpu>\d+) stuck for (?<seconds>\d+)s!(?: \[(?<comm>.*):\s*(?<pid>\d+)\])?",
        make: |found| {
            Some(Message::SoftLockup {
                cpu: cpu(found, "cpu")?,
                stuck: seconds(found, "seconds")?,
                thread: found.name("comm").and_then(|_| thread(found)),
            })
        },
    },
    // kernel/watchdog.c: print_cpustat, since 6.9
    Row {
        triggers: &[],
        pattern: r"^\s*#\d+:\s+\d+% system,\s*(?<soft>\d+)% softirq,\s*(?<hard>\d+)% hardirq",
        make: |found| {
            let (softirqs, hard_interrupts) = (number(found, "soft")?, number(found, "hard")?);
            Some(Message::Utilization { softirqs, hard_interrupts })
        },
    },
    Row {
        triggers: &["hard LOCKUP"],
        pattern: r"^(?:(?:NMI )?watchdog: )?(?:CPU ?\d+: )?(?:Kernel panic - not syncing: )?Watchdog detected hard LOCKUP on cpu (?<cpu>\d+)",
        make: |found| Some(Message::HardLockup { cpus: vec![cpu(found, "cpu")?] }),
    },
    // arch/powerpc/kernel/watchdog.c
    Row {
        triggers: &["Hard LOCKUP"],
        pattern: r"^(?:watchdog: |Watchdog )?CPU[ :](?<own>\d+) (?:self-detected hard LOCKUP|detected [Hh]ard LOCKUP (?:on )?other (?:CPUs |CPUS:)(?<cpus>[\d,-]+)|Hard LOCKUP)",
        make: |found| {
            let cpus = match found.name("cpus") {
                Some(list) => list.as_str().parse::<CpuSet>().ok()?.iter().map(|cpu| cpu.0).take(MAX_LISTED).collect(),
                None => vec![cpu(found, "own")?],
            };
            Some(Message::HardLockup { cpus })
        },
    },
    // kernel/locking/spinlock_debug.c: who waits for the lock is no culprit.
    Row {
        triggers: &["BUG: spinlock lockup", "BUG: rwlock"],
        pattern: r"^BUG: (?:spinlock|rwlock(?:-\w+)*) lockup(?: suspected)? on CPU#(?<cpu>\d+)(?:, (?<comm>.+)/(?<pid>\d+))?",
        make: |found| Some(Message::LockNotGot { cpu: cpu(found, "cpu")?, thread: thread(found) }),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*lock: .*, \.owner: (?<comm>.+)/(?<pid>\d+), \.owner_cpu: (?<cpu>\d+)",
        make: |found| Some(Message::LockOwner { cpu: cpu(found, "cpu")?, thread: thread(found)? }),
    },
    // kernel/hung_task.c
    Row {
        triggers: &["blocked for more than", "INFO: task "],
        // Kubernetes' node problem detector cuts the first word.
        pattern: r#"^(?:INFO: )?task "?(?<comm>.+?)"?:(?<pid>\d+) blocked(?: in I/O wait)? ?for more than (?<seconds>\d+) secon"#,
        make: |found| Some(Message::Blocked { thread: thread(found)?, lasted: seconds(found, "seconds")? }),
    },
    Row {
        triggers: &[" blocked on a"],
        pattern: r"^INFO: task (?<comm>.+):(?<pid>\d+)(?: <\w+>)?(?: is)? blocked on an? (?:mutex|semaphore|rw-semaphore)(?:,? but the owner is not found|(?: (?<likely>likely|maybe))?(?: last)? (?:held|owned) by task (?<owner>.+):(?<owner_pid>\d+))?",
        make: |found| {
            let owner = found
                .name("owner")
                .map(|comm| Thread { comm: comm.as_str().to_owned(), pid: number(found, "owner_pid") });
            Some(Message::BlockedOn { thread: thread(found)?, owner, is_likely: found.name("likely").is_some() })
        },
    },
    // kernel/sched/rt.c, kernel/sched/deadline.c, kernel/sched/core.c, kernel/time/tick-sched.c
    Row {
        triggers: &["RT throttling activated"],
        pattern: r"^(?:\[sched_delayed\] )?sched: RT throttling activated(?:.*\(cpu (?<cpu>\d+)\))?",
        make: |found| Some(Message::RealTimeLimit { cpu: cpu(found, "cpu") }),
    },
    // Vendors' kernels list who used the limit up.
    Row { triggers: &[], pattern: r"^\s*potential CPU hogs:", make: |_| Some(Message::LimitUsers) },
    Row {
        triggers: &[],
        pattern: r"^\s*\*{0,2}(?<comm>[^*\s].*) \((?<pid>\d+)\)$",
        make: |found| Some(Message::LimitUser { thread: thread(found)? }),
    },
    Row {
        triggers: &["DL replenish lagged"],
        pattern: r"^(?:\[sched_delayed\] )?sched: DL replenish lagged to+ much",
        make: |_| Some(Message::DeadlineLate),
    },
    Row {
        triggers: &["softirq work is pending", "local_softirq_pending"],
        pattern: r"^NOHZ.*(?:softirq work is pending, handler #|local_softirq_pending:? )(?<mask>[0-9a-fA-F]+)",
        make: |found| Some(Message::SoftirqPending { mask: u32::from_str_radix(&found["mask"], 16).ok()? }),
    },
    Row {
        triggers: &["need_resched set for >"],
        pattern: r"^sched: CPU (?<cpu>\d+) need_resched set for > (?<ns>\d+) ns",
        make: |found| Some(Message::NoReschedule { cpu: cpu(found, "cpu")?, lasted: Nanos(number(found, "ns")?) }),
    },
    // kernel/events/core.c, kernel/time/hrtimer.c, arch/x86/kernel/nmi.c
    Row {
        triggers: &["perf: interrupt took too long"],
        pattern: r"^perf: interrupt took too long \((?<ns>\d+) >",
        make: |found| Some(Message::SlowInterrupt { what: "perf", took: Nanos(number(found, "ns")?) }),
    },
    Row {
        triggers: &["hrtimer: interrupt took"],
        pattern: r"^hrtimer: interrupt took (?<ns>\d+) ns",
        make: |found| Some(Message::SlowInterrupt { what: "hrtimer", took: Nanos(number(found, "ns")?) }),
    },
    Row {
        triggers: &["took too long to run"],
        pattern: r"^INFO: NMI handler \(.*\) took too long to run: (?<ms>\d+)\.(?<us>\d{3}) msecs",
        make: |found| {
            let us = number::<u64>(found, "ms")?.saturating_mul(1_000).saturating_add(number(found, "us")?);
            Some(Message::SlowInterrupt { what: "NMI", took: Nanos(us.saturating_mul(1_000)) })
        },
    },
    // kernel/time/clocksource.c, kernel/smp.c
    Row {
        triggers: &["timekeeping watchdog on CPU", "Long readout interval"],
        pattern: r"^clocksource: (?:timekeeping watchdog on CPU(?<cpu>\d+)|Long readout interval)",
        make: |found| Some(Message::ClockJumped { cpu: cpu(found, "cpu") }),
    },
    Row {
        triggers: &["non-responsive CSD lock"],
        pattern: r"^(?:smp: )?csd: .*non-responsive CSD lock \(#\d+\) on CPU#\d+, waiting (?<ns>\d+) ns for CPU#(?<cpu>\d+)",
        make: |found| Some(Message::CallNotAnswered { cpu: cpu(found, "cpu")?, lasted: Nanos(number(found, "ns")?) }),
    },
    // top's summary
    Row {
        triggers: &["%Cpu", "%CPU(s)"],
        pattern: r"^%C(?:pu|PU)(?:\(s\)|\d+) *:.*[ ,](?<percent>\d+[.,]\d+)\s*%?st\b",
        make: |found| Some(Message::Steal { percent: found["percent"].replace(',', ".").parse().ok()? }),
    },
    // kernel/sched/ext.c
    Row {
        triggers: &["sched_ext: BPF scheduler"],
        pattern: r#"sched_ext: BPF scheduler "(?<name>[^"]+)" (?:disabled|errored)(?<stall>[ ,:(]+(?:runnable task stall|watchdog))?"#,
        make: |found| {
            Some(Message::SchedExtDisabled { name: text(found, "name"), is_stall: found.name("stall").is_some() })
        },
    },
    Row {
        triggers: &["watchdog failed to check in"],
        pattern: r"(?:^|sched_ext: )(?<name>[\w.-]+): watchdog failed to check in for (?<whole>\d+)\.(?<ms>\d{3})s",
        make: |found| {
            let ms = number::<u64>(found, "whole")?.saturating_mul(1_000).saturating_add(number(found, "ms")?);
            let lasted = Nanos(ms.saturating_mul(1_000_000));
            Some(Message::SchedExtWatchdog { name: text(found, "name"), lasted })
        },
    },
    Row {
        triggers: &["failed to run for"],
        pattern: r"(?:sched_ext: [\w.-]+: |\(|^\s*)(?<comm>[^(\[]+)\[(?<pid>\d+)\] failed to run for (?<whole>\d+)\.(?<ms>\d{3})s",
        make: |found| {
            let ms = number::<u64>(found, "whole")?.saturating_mul(1_000).saturating_add(number(found, "ms")?);
            Some(Message::SchedExtStall { thread: thread(found)?, lasted: Nanos(ms.saturating_mul(1_000_000)) })
        },
    },
    Row {
        triggers: &[],
        pattern: r"^\s*CPU (?<cpu>\d+)\s*: nr_run=",
        make: |found| Some(Message::RunQueue { cpu: cpu(found, "cpu")? }),
    },
    Row {
        triggers: &[],
        pattern: r"^\s*curr=(?<comm>.+)\[(?<pid>\d+)\] class=(?<class>\w+)",
        make: |found| {
            let policy = match &found["class"] {
                "rt_sched_class" => Some(Policy::Rt),
                "dl_sched_class" => Some(Policy::Deadline),
                "fair_sched_class" | "ext_sched_class" => Some(Policy::Fair),
                "idle_sched_class" => Some(Policy::Idle),
                _ => None,
            };
            Some(Message::RunQueueCurrent { thread: thread(found)?, policy })
        },
    },
    Row {
        triggers: &[],
        pattern: r"^\s*(?<current>\*)?\s*[A-Z] (?<comm>.+)\[(?<pid>\d+)\] (?<ms>[+-]\d+)ms$",
        make: |found| {
            let waited = number::<i64>(found, "ms")?.min(0).unsigned_abs();
            let current = found.name("current").is_some();
            Some(Message::RunQueueTask {
                thread: thread(found)?,
                current,
                waited: Nanos(waited.saturating_mul(1_000_000)),
            })
        },
    },
    // stalld: log_msg in src/stalld.c
    Row {
        triggers: &[" starved on CPU ", " might starve on CPU ", " starved for ", " might starve "],
        pattern: r"(?:stalld(?:\[\d+\])?: )?(?:\[[^\]]*\] )?(?<comm>\S.*)-(?<pid>\d+) (?:starved|might starve)(?: on CPU (?<cpu>\d+))? (?:for|\(waiting for) (?<seconds>\d+) seconds",
        make: |found| {
            Some(Message::Stalld { thread: thread(found)?, cpu: cpu(found, "cpu"), lasted: seconds(found, "seconds")? })
        },
    },
    // exec/main.c of Corosync: timer_function_scheduler_timeout
    Row {
        triggers: &["process was not scheduled"],
        pattern: r"(?<comm>[Cc]orosync) main process was not scheduled (?:\(@\d+\) )?for (?<ms>\d+)(?:\.(?<fraction>\d{1,6}))? ms",
        make: |found| {
            let fraction: u64 = format!("{:0<6}", text(found, "fraction")).parse().ok()?;
            let lasted = number::<u64>(found, "ms")?.saturating_mul(1_000_000).saturating_add(fraction);
            let thread = Thread { comm: text(found, "comm").to_lowercase(), pid: None };
            Some(Message::NotScheduled { thread, lasted: Nanos(lasted) })
        },
    },
    Row {
        triggers: &["boosted pid "],
        pattern: r"boosted pid (?<pid>\d+) \((?<comm>.+?)\)(?: \(cpu (?<cpu>\d+)\))? using SCHED_",
        make: |found| Some(Message::StalldBoost { thread: thread(found)?, cpu: cpu(found, "cpu") }),
    },
    // drivers/tty/sysrq.c: SysRq-w
    Row {
        triggers: &["Show Blocked State"],
        pattern: r"(?i)sysrq ?: show blocked state",
        make: |_| Some(Message::ShowBlocked),
    },
    // drivers/nvme/host, net/sched/sch_generic.c, fs/nfs, drivers/ata
    Row {
        triggers: &[
            "timed out",
            "timeout",
            "Timeout",
            "timing out",
            "not responding",
            "timeouts",
            "controller is down",
        ],
        pattern: r"^(?<device>nvme nvme\d+|nfs: server \S+|ata\d+(?:\.\d+)?|mmc\d+|sd \S+|scsi \S+)[: (].*(?:[tT]imeout|timed out|timing out|not responding|controller is down)",
        make: |found| {
            let device = text(found, "device");
            let bare = device.strip_prefix("nvme ").unwrap_or(&device).trim_end_matches(':');
            Some(Message::DeviceLate { device: bare.to_owned() })
        },
    },
    // net/sched/sch_generic.c: dev_watchdog
    Row {
        triggers: &["NETDEV WATCHDOG"],
        pattern: r"^(?:.*?(?<before>[\w.@-]+): )?NETDEV WATCHDOG: (?:(?<device>[\w.@-]+) \(|CPU: \d+: )?.*timed out",
        make: |found| {
            let device = found.name("device").or(found.name("before"));
            Some(Message::DeviceLate { device: device.map_or("a network device", |name| name.as_str()).to_owned() })
        },
    },
    // drivers/gpu/drm
    Row {
        triggers: &["GPU HANG", " timeout, signaled", "ring gfx timeout"],
        pattern: r"^(?:\[drm:\w+ \[(?<driver>\w+)\]\] \*ERROR\* ring \S+ timeout|(?<device>(?:amdgpu|i915|xe|nouveau|radeon) [\w:.]+): .*(?:GPU HANG|ring \S+ timeout))",
        make: |found| {
            let device = found.name("device").or(found.name("driver"))?;
            Some(Message::DeviceLate { device: device.as_str().to_owned() })
        },
    },
    // mm/oom_kill.c, mm/page_alloc.c, fs/xfs
    Row {
        triggers: &["ut of memory: Kill", "invoked oom-killer", "page allocation stalls", "memory allocation deadlock"],
        pattern: r"(?:ut of memory: Kill(?:ed)? process|invoked oom-killer: |: page allocation stalls for \d|^XFS.*: possible memory allocation deadlock|\bpossible memory allocation deadlock size)",
        make: |_| Some(Message::Remark { about: "memory ran out, and threads may have waited for memory" }),
    },
    // block/blk-core.c, fs/buffer.c
    Row {
        triggers: &["I/O error, dev "],
        pattern: r"^(?:blk_update_request: |print_req_error: |end_request: )?(?:critical \w+|I/O) error, dev \w",
        make: |_| Some(Message::Remark { about: "a disk had errors, and threads may have waited for it" }),
    },
    // kernel/irq/spurious.c
    Row {
        triggers: &["nobody cared", "Disabling IRQ #"],
        pattern: r"^(?:irq \d+: nobody cared|Disabling IRQ #\d)",
        make: |_| {
            Some(Message::Remark {
                about: "the kernel turned an interrupt off, and its device may not answer any more",
            })
        },
    },
    // arch/x86/kernel/cpu/mce, drivers/thermal/intel
    Row {
        triggers: &["cpu clock throttled"],
        pattern: r"temperature above threshold, cpu clock throttled",
        make: |_| Some(Message::Remark { about: "CPUs were slowed down by heat" }),
    },
    // kernel/events/core.c before 4.16
    Row {
        triggers: &["perf samples too long", "perf interrupt took too long"],
        pattern: r"^perf (?:samples|interrupt) (?:took )?too long \((?<ns>\d+) >",
        make: |found| Some(Message::SlowInterrupt { what: "perf", took: Nanos(number(found, "ns")?) }),
    },
    // kernel/time/clocksource.c, arch/x86/kernel/tsc.c
    Row {
        triggers: &["locksource tsc unstable", "TSC unstable due to clocksource"],
        pattern: r"^(?:Clocksource \w+ unstable \(delta|tsc: Marking TSC unstable due to clocksource watchdog)",
        make: |_| Some(Message::ClockJumped { cpu: None }),
    },
    // The kernel's words for a hang, in lines that no row above reads: of other versions, cut, or rewritten on the way.
    Row {
        triggers: &[
            "oft lockup",
            "oft LOCKUP",
            "oftlockup: ",
            "ard lockup",
            "ard LOCKUP",
            "lockup suspected",
            "queue lockup",
            "detected stall",
            "tasks rude stall",
            "RCU Stall",
            "rcu stall",
            "kthread starved",
            "timer wakeup didn't happen",
            "blocked for more than",
            "blocked for over",
            "hung_task: ",
            "hung task",
            "owner of a lock is",
            "likely owned by task",
            "stalled for ",
            "haven't responded to the NMI",
            "failed to run for",
            "runnable task stall",
            "failed to check in for",
            "hogged CPU",
            "hogged cpu",
            "throttling activated",
            "replenish lagged",
            "need_resched set",
            "non-responsive CSD",
            "softirq work is pending",
            "took too long",
            "transmit queue",
            "not responding to MCE",
            "bug: soft",
            "BUG: SOFT",
        ],
        pattern: r"(?i)^(?:(?:nmi )?watchdog:|bug:|info:|rcu:|srcu|smp:|csd:|sched:|sched_ext:|workqueue:|khungtaskd:|hung_task:|mce:|nohz|perf:|kernel panic - not syncing:|task \S+:\d+ |after \d+ seconds, these cpus ).*?(?:lockup\b.{0,12}|detected stall|tasks? rude stall|rcu stall|kthread starved|timer wakeup didn't|blocked (?:for (?:more than|over) \d|on an? [a-z-]+,? )|hung[ _]tasks?\b|stall(?:ed)? for \d|haven't responded to the nmi|failed to (?:run|check in) for|runnable task stall|hogged cpu|throttling activated|replenish lagged|need_resched set|non-responsive csd|softirq work is pending|took too long|transmit queue|not responding to mce|blocked tasks)",
        // Not what a kernel says of its detectors when it starts.
        make: |found| {
            Some(Message::Hang).filter(|_| !["etector", "isabled", "nabled"].iter().any(|word| found[0].contains(word)))
        },
    },
    Row {
        triggers: &["Kernel panic - not syncing"],
        pattern: r"^Kernel panic - not syncing: ",
        make: |_| Some(Message::Remark { about: "the kernel panicked" }),
    },
    // kernel/kallsyms.c: %pS and %pB
    Row {
        triggers: &[],
        pattern: r"^\s*(?:<(?:/?(?:IRQ|TASK|NMI|SOFTIRQ|#DF)|EOI)> +)*\(?(?:\[<?[0-9a-f]{8,16}>?\] ?){0,2}(?:\([^)]*\) )?(?:\? )?(?<function>[A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+",
        make: |found| Some(Message::Frame { function: text(found, "function") }).filter(|_| !found[0].contains("? ")),
    },
    // arch/arm/kernel/traps.c: dump_backtrace_entry
    Row {
        triggers: &[],
        pattern: r"^\s*(?:\[<[0-9a-f]{8}>\] )?\(?(?<function>[A-Za-z_][\w.]*)\)? from (?:\[<[0-9a-f]{8}>\] )?\(?[A-Za-z_][\w.]*\+0x",
        make: |found| Some(Message::Frame { function: text(found, "function") }),
    },
];

impl Message {
    /// Whether it begins a line by its words alone: no mailer's break makes such a line of the end of another one.
    pub fn is_line(&self) -> bool {
        matches!(
            self,
            Message::PoolLockup { .. }
                | Message::Workqueue
                | Message::PoolWork { .. }
                | Message::RcuStall { .. }
                | Message::RcuStarved { .. }
                | Message::BacktraceOf { .. }
                | Message::TaskDumpOf { .. }
                | Message::Current { .. }
                | Message::CurrentWork { .. }
                | Message::UserCode
                | Message::KernelCode { .. }
                | Message::Task { .. }
                | Message::SoftLockup { .. }
                | Message::HardLockup { .. }
                | Message::Blocked { .. }
        )
    }

    /// Whether others than the kernel print it: programs of BPF schedulers, and stalld. Anybody can have a logger print the kernel's
    /// words under a name of their own.
    pub fn is_of_programs(&self) -> bool {
        matches!(
            self,
            Message::SchedExtStall { .. }
                | Message::SchedExtWatchdog { .. }
                | Message::RunQueue { .. }
                | Message::RunQueueCurrent { .. }
                | Message::RunQueueTask { .. }
                | Message::Stalld { .. }
                | Message::NotScheduled { .. }
                | Message::StalldBoost { .. }
                | Message::Steal { .. }
                | Message::NextBoot
        )
    }
}

/// Words by which lines with messages are found.
pub fn triggers() -> impl Iterator<Item = &'static str> {
    ROWS.iter().flat_map(|row| row.triggers).copied()
}

static SET: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(ROWS.iter().map(|row| row.pattern)).expect("valid patterns"));
static PATTERNS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| ROWS.iter().map(|row| Regex::new(row.pattern).expect("a valid pattern")).collect());

// `mykernel: BUG: soft lockup …`: a word that a vendor's kernel puts before its messages.
pattern!(VENDOR = r"^[\w.-]{1,24}: (?<text>(?:(?:NMI )?watchdog: )?(?:BUG|INFO): .*)$");

/// The message of a line of the kernel, whatever word a vendor puts before it.
pub fn parse_of_vendor(text: &str) -> Option<Message> {
    parse(VENDOR.captures(text.trim_start())?.name("text")?.as_str())
}

/// The message of a line, without the logger's columns.
pub fn parse(text: &str) -> Option<Message> {
    let text = text.trim_start();
    SET.matches(text).iter().find_map(|index| (ROWS[index].make)(&PATTERNS[index].captures(text)?))
}

fn text(found: &Captures<'_>, name: &str) -> String {
    found.name(name).map_or_else(String::new, |part| part.as_str().trim().to_owned())
}

fn number<N: std::str::FromStr>(found: &Captures<'_>, name: &str) -> Option<N> {
    found.name(name)?.as_str().parse().ok()
}

fn cpu(found: &Captures<'_>, name: &str) -> Option<u32> {
    number(found, name).filter(|cpu| *cpu < CpuId::LIMIT)
}

/// A list of CPUs, empty if the line has none. No machine has the CPU 4294967295.
fn cpus(found: &Captures<'_>) -> Option<String> {
    let list = text(found, "cpus");
    let is_cpu = |number: &str| number.parse::<u32>().is_ok_and(|cpu| cpu < CpuId::LIMIT);
    list.split([',', '-']).all(|number| number.is_empty() || is_cpu(number)).then_some(list)
}

fn seconds(found: &Captures<'_>, name: &str) -> Option<Nanos> {
    number::<u64>(found, name).map(|seconds| Nanos(seconds.saturating_mul(1_000_000_000)))
}

fn thread(found: &Captures<'_>) -> Option<Thread> {
    Some(Thread { comm: text(found, "comm"), pid: Some(number(found, "pid")?) })
}

fn current(found: &Captures<'_>) -> Option<Message> {
    let release = found.name("release").map(|release| release.as_str().to_owned());
    Some(Message::Current { cpu: cpu(found, "cpu")?, thread: thread(found)?, release })
}

fn task(found: &Captures<'_>) -> Option<Message> {
    let state = found["state"].chars().next()?;
    Some(Message::Task { thread: thread(found)?, state, running: found.name("running").is_some() })
}

/// TASK_RUNNING, or TASK_WAKING (0x100 before 4.14): it was woken, and its CPU has not taken it. Others sleep until a timer, which
/// comes late.
fn is_runnable(found: &Captures<'_>) -> Option<bool> {
    let state = u32::from_str_radix(found.name("state")?.as_str(), 16).ok()?;
    Some(matches!(state, 0 | 0x100 | 0x200))
}

/// Old kernels print CPUs and length on the first line: `{ 1}  (t=5250 jiffies g=…`.
fn stall(found: &Captures<'_>, itself: bool) -> Message {
    let rest = &found["rest"];
    let inner = rest.split_once('{').and_then(|(_, list)| list.split_once('}')).map_or("", |(list, _)| list);
    let digits = |word: &str| word.split('-').next().and_then(|cpu| cpu.parse().ok());
    let cpus = inner.split_whitespace().filter_map(digits).filter(|cpu| *cpu < CpuId::LIMIT).collect();
    let before = |mark: &str| rest.split(mark).next().and_then(|text| text.rsplit([' ', '=']).next()?.parse().ok());
    let jiffies = rest.contains(" jiffies").then(|| before(" jiffies")).flatten();
    Message::RcuStall { flavor: text(found, "flavor"), cpus, itself, jiffies }
}

/// `14164:refill_work, 29532:refill_work`, `32(RESCUER):func`, `7:func BAR(9)`, `11:func [module] func [module]`.
fn in_flight(list: &str) -> Vec<(u32, String)> {
    list.split(", ")
        .filter_map(|item| {
            let (pid, function) = item.split_once(':')?;
            let pid = pid.split('(').next()?.trim().parse().ok()?;
            Some((pid, function.split_whitespace().next()?.to_owned()))
        })
        .collect()
}

/// `vmstat_update, lru_add_drain_per_cpu BAR(567)`, `2*vmstat_update`.
fn works(list: &str) -> Vec<String> {
    let name = |item: &str| {
        let word = item.split_whitespace().next()?;
        let word = word.split_once('*').map_or(word, |(_, name)| name);
        (!word.is_empty()).then(|| word.to_owned())
    };
    let mut works: Vec<String> = Vec::new();
    for work in list.split(',').filter_map(name) {
        if !works.contains(&work) {
            works.push(work);
        }
    }
    works
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_of_each_version() {
        let lines = [
            "Linux version 6.12.5-amd64 (builder@host) (gcc 14) #1 SMP",
            "-- Boot 0123456789abcdef0123456789abcdef --",
            "Kernel command line: BOOT_IMAGE=/vmlinuz isolcpus=2-3",
            "Booting paravirtualized kernel on KVM",
            "Booting paravirtualized kernel on bare hardware",
            "BUG: workqueue lockup - pool cpus=7 node=1 flags=0x0 nice=0 stuck for 95s!",
            "BUG: workqueue lockup - pool cpus=7 node=1 flags=0x1 nice=-20 stuck for 95s!",
            "BUG: workqueue lockup - pool cpus=0-3 flags=0x4 nice=0 stuck for 31s!",
            "workqueue mm_percpu_wq: flags=0x8",
            "  pwq 28: cpus=7 node=1 flags=0x0 nice=0 active=2/256 refcnt=3",
            "  pwq 28: cpus=7 node=1 flags=0x0 nice=0 active=2 refcnt=3",
            "    in-flight: 412:xfs_end_io [xfs] BAR(99), 87(RESCUER):wb_workfn",
            "    pending: vmstat_update, lru_add_drain_per_cpu BAR(567), 3*psi_avgs_work",
            "workqueue: fill_page_cache_func hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
            "workqueue: drm_fb_helper_damage_work [drm_kms_helper] hogged CPU for >10000us 16 times, consider …",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "INFO: rcu_sched detected stalls on CPUs/tasks: { 1 4} (detected by 0, t=5252 jiffies, g=1, c=0, q=0)",
            "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-...D } 5431 jiffies s: 57 root: 0x8/.",
            "INFO: rcu_sched self-detected stall on CPU { 2}  (t=2100 jiffies g=10 c=9 q=1)",
            "rcu: \t3-...!: (0 ticks this GP) idle=7a8/0/0x0 softirq=1/1 fqs=2  (false positive?)",
            "rcu: \t12-....: (5249 ticks this GP) idle=2d6/1/0x4000000000000000 softirq=9/9 fqs=1",
            "rcu: \t1-....: (1 GPs behind) idle=26b4/1/0x4000000000000000 softirq=0/0 fqs=411 rcuc=1001 jiffies(starved)",
            "\t1-...: (4 GPs behind) idle=aec/0/0 softirq=2209/2209 fqs=0",
            "rcu: \t(detected by 0, t=5252 jiffies, g=5, q=7 ncpus=4)",
            "rcu: rcu_preempt kthread starved for 5252 jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1",
            "rcu_sched kthread starved for 21003 jiffies! g5 c4 f0x0 RCU_GP_WAIT_FQS(3) ->state=0x402 ->cpu=1",
            "rcu: rcu_preempt kthread starved for 21002 jiffies! g12009 f0x2 RCU_GP_WAIT_FQS(5) ->state=0x200 ->cpu=4",
            "rcu: rcu_preempt kthread timer wakeup didn't happen for 5250 jiffies! g5 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x402",
            "NMI backtrace for cpu 3 skipped: idling at mwait_idle+0x80/0x90",
            "NMI backtrace for cpu 1",
            "CPU: 1 PID: 900 Comm: poller Not tainted 6.1.0-50-amd64 #1 Debian",
            "CPU: 1 UID: 0 PID: 900 Comm: my poller Kdump: loaded Tainted: G           OE      6.12.5 #1",
            "Workqueue: events_long fill_it [driver]",
            "RIP: 0033:0x7f30",
            "NIP:  00007fff8c2ad8dc LR: 00007fff8c2ad8a0 CTR: 0000000000000000",
            "epc : 0000000000cc9d6e ra : 0000000000d80428 sp : 0000003fffe6f8a0",
            "epc   : 77a9d3c4 0x77a9d3c4",
            "task:kworker/3:1     state:R  running task     stack:0     pid:52    tgid:52    ppid:2      flags:0x00004000",
            "rcu_sched       R  running task        0     9      2 0x80000000",
            "rcu_sched       R running      0     9      2 0x00000000",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [a b:c:900]",
            "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3",
            "INFO: task kworker/3:1:1234 blocked for more than 120 seconds.",
            "INFO: task cp:77 is blocked on a mutex likely owned by task tar:78.",
            "INFO: task cp:77 <reader> blocked on an rw-semaphore likely owned by task tar:78 <writer>",
            "sched: RT throttling activated",
            "sched: RT throttling activated for rt_rq 00000000 (cpu 1)",
            "sched: DL replenish lagged too much",
            "NOHZ tick-stop error: local softirq work is pending, handler #08!!!",
            "NOHZ: local_softirq_pending 202",
            "perf: interrupt took too long (2510 > 2500), lowering kernel.perf_event_max_sample_rate to 79500",
            "hrtimer: interrupt took 1400123 ns",
            "INFO: NMI handler (perf_event_nmi_handler) took too long to run: 12.345 msecs",
            "clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "sched: CPU 3 need_resched set for > 100000000 ns (25 ticks) without schedule",
            "smp: csd: Detected non-responsive CSD lock (#1) on CPU#0, waiting 5000000032 ns for CPU#03 func(0x0).",
            "sched_ext: BPF scheduler \"simple\" disabled (runnable task stall)",
            "sched_ext: simple: kworker/10:1[105] failed to run for 7.040s",
            "  runnable task stall (my task[105] failed to run for 5.314s)",
            "CPU 3   : nr_run=1 flags=0x1 cpu_rel=0 ops_qseq=1 pnt_seq=2",
            "          curr=audio[994] class=rt_sched_class",
            "  R kworker/3:0[106] -5037ms",
            " *R audio[994] +0ms",
            "stalld: ksoftirqd/3-40 starved on CPU 3 for 61 seconds",
            "ksoftirqd/3-40 might starve on CPU 3 (waiting for 31 seconds)",
            "boosted pid 40 (ksoftirqd/3) (cpu 3) using SCHED_DEADLINE",
            "boosted pid 40 (ksoftirqd/3) using SCHED_FIFO",
            "sysrq: Show Blocked State",
            "SysRq : Show Blocked State",
            "nvme nvme1: I/O 12 QID 3 timeout, aborting",
            "nfs: server files not responding, still trying",
            " __schedule+0x2c8/0x8d8",
            " ? schedule_timeout+0x21/0x90",
            "[<ffffffff81717294>] rcu_check_callbacks+0x61e/0xc77",
            "a word about a workqueue lockup that somebody had",
        ];
        let shown = |line: &str| match parse(line) {
            Some(message) => format!("{message:?}"),
            None => "-".to_owned(),
        };
        let shown: Vec<String> = lines.iter().map(|line| format!("{}\n  {}", line.trim(), shown(line))).collect();
        insta::assert_snapshot!(shown.join("\n"));
    }
}
