//! Rule `busy-poller-beside-bound-work`: a thread that never sleeps, on a CPU that the kernel needs, too.

use std::collections::BTreeMap;

use unstarve_facts::{Holds, Poller, TaskFacts};
use unstarve_model::{CpuId, CpuSet, SchedPolicy};
use unstarve_sched::{load_weight_of_nice, share_against};

use super::{MENTIONED_WEIGHT, Rule, STARVED_SHARE, WORKER_WEIGHT};
use crate::case::{AuditInput, common, counted, cpus, is_above_fair, own_use_of_cpu, without};
use crate::cpu_mask;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};
use crate::interrupts::Device;

pub(super) const RULE: Rule = Rule {
    id: "busy-poller-beside-bound-work",
    title: "A thread that polls all the time is pinned to a CPU that is not isolated",
    about: "Workers, timers, RCU callbacks and softirqs of a CPU cannot run elsewhere. Beside a thread that never sleeps they get \
            what the scheduler leaves: nothing beside a real-time one, a small share beside a heavy group. Whoever waits for \
            them waits anywhere on the host: workqueue lockups, RCU stalls, flushes that do not end.",
    source: "github.com/longhorn/longhorn/issues/14035 and 14036; github.com/spdk/spdk/issues/3938; \
             github.com/harvester/harvester/issues/11054; Documentation/core-api/workqueue.rst; data/pollers.tsv",
    check,
    upgrade: None,
};

/// A thread that used at least this much of a CPU over its life does not sleep.
const NEVER_SLEEPS: f64 = 0.9;

/// The pollers of one process, with the same class.
struct Pollers<'a> {
    poller: Option<Poller>,
    tasks: Vec<&'a TaskFacts>,
    cpus: CpuSet,
}

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    let mut groups: BTreeMap<_, Pollers<'_>> = BTreeMap::new();
    for task in &case.snapshot.tasks {
        let Some((poller, cpu)) = polls(case, task) else { continue };
        let process = task.tgid.unwrap_or(task.tid);
        let key = (process, task.policy.word(), task.rt_priority, task.nice);
        let group = groups.entry(key).or_insert_with(|| Pollers { poller, tasks: Vec::new(), cpus: CpuSet::default() });
        group.tasks.push(task);
        group.cpus = group.cpus.iter().chain([cpu]).collect();
    }
    let hits = groups.values().filter_map(|group| hit(case, group));
    super::quiet_together(&RULE, "keep CPUs busy that are not isolated", hits)
}

/// The CPU that a task keeps busy, if it is bound to one that is not isolated.
fn polls(case: &AuditInput<'_>, task: &TaskFacts) -> Option<(Option<Poller>, CpuId)> {
    let poller = Poller::of_thread(&task.comm, |name| case.has_task(name));
    let is_program = !task.kernel_thread || poller.is_some();
    if !is_program || matches!(task.policy, SchedPolicy::Idle | SchedPolicy::Deadline) {
        return None;
    }
    let cpu = task.allowed.as_ref().filter(|allowed| allowed.len() == 1)?.iter().next()?;
    let isolated = case.snapshot.cpus.isolated.as_ref().is_some_and(|isolated| isolated.contains(cpu));
    if isolated || !case.online.contains(cpu) {
        return None;
    }
    match own_use_of_cpu(case.snapshot, task) {
        Some(part) => part >= NEVER_SLEEPS,
        None => poller.is_some_and(Poller::always_polls),
    }
    .then_some((poller, cpu))
}

fn hit(case: &AuditInput<'_>, group: &Pollers<'_>) -> Option<Hit> {
    let first = group.tasks.first()?;
    let lives: Vec<String> = group.cpus.iter().take(2).flat_map(|cpu| lives_on(case, cpu)).collect();
    if lives.is_empty() {
        return None;
    }
    let on = cpus(&group.cpus);
    let who = who(group)?;
    let verb = if group.tasks.len() == 1 { "keeps" } else { "keep" };
    Some(
        Draft::new(RULE.id, severity(case, group, first), format!("{} on {}", first.comm, group.cpus))
            .says(format!("{who} {verb} {on} busy all the time, where work waits that cannot run elsewhere."))
            .brief(format!("{} busy beside bound work", on))
            .because_of(evidence_of_use(case, group))
            .because(competes(case, first))
            .because_of(lives)
            .would(consequence(case, first))
            .priced(
                "A storage node with SPDK reactors on CPUs 0 and 1, its default: CPU 0 was 99.5 % busy and workqueue lockups recurred; \
                 with the reactors on CPUs 2 and 3 it was 6.9 % busy and there were none (Longhorn, Linux 6.12, 2026). On another \
                 node a worker of a reactor's CPU waited for 264 s (SPDK with AIO disks, 2026).",
            )
            .fix(advice(group, &on))
            .fix(isolate(case, group))
            .fix(spare_from_workqueues(case, group))
            .fix(interrupts_elsewhere(case, group))
            .fix(no_real_time(first))
            .done(),
    )
}

/// `reactor_0[4000] (SPDK reactor)`, `2 threads of reactor_0[4000] (SPDK reactor)`.
fn who(group: &Pollers<'_>) -> Option<String> {
    let first = group.tasks.first()?;
    let is_a = group.poller.map(|poller| format!(" ({})", poller.what())).unwrap_or_default();
    Some(match group.tasks.as_slice() {
        [task] => format!("{}[{}]{is_a}", task.comm, task.tid),
        tasks => format!("{} threads like {}[{}]{is_a}", tasks.len(), first.comm, first.tid),
    })
}

fn evidence_of_use(case: &AuditInput<'_>, group: &Pollers<'_>) -> Vec<String> {
    let of_task = |task: &TaskFacts| {
        let part = own_use_of_cpu(case.snapshot, task)? * 100.0;
        Some(format!("{} is bound to CPU {} and used {part:.0} % of it so far", task.comm, task.allowed.as_ref()?))
    };
    let mut all: Vec<String> = group.tasks.iter().take(2).filter_map(|task| of_task(task)).collect();
    let times = case.snapshot.cpu_times.as_ref();
    let busy = |cpu: CpuId| {
        let used = times?.get(&cpu.0)?.used()? * 100.0;
        Some(format!("CPU {cpu} was busy for {used:.1} % of the time since boot"))
    };
    all.extend(group.cpus.iter().take(2).filter_map(busy));
    if all.is_empty() {
        let by_name = "it is too young to show its CPU time; such threads poll all the time";
        all.push(by_name.to_owned());
    }
    all
}

/// What of the kernel lives on a CPU and cannot run elsewhere.
fn lives_on(case: &AuditInput<'_>, cpu: CpuId) -> Vec<String> {
    let mut all = Vec::new();
    let workers = case.workers(cpu);
    if let Some(first) = workers.first() {
        let more = workers.len() - 1;
        let others = if more > 0 { format!(" and {}", counted(more as u64, "more worker")) } else { String::new() };
        all.push(format!("{}{others} can run on CPU {cpu} alone", first.comm));
    }
    let waits = |task: &&&TaskFacts| task.seen.is_some_and(|seen| seen.is_runnable());
    let bound = workers.iter().chain(case.ksoftirqd(cpu).as_ref()).copied().collect::<Vec<_>>();
    all.extend(bound.iter().filter(waits).map(|task| format!("{} was runnable when this was read", task.comm)));
    all.extend([Device::Net, Device::Block].into_iter().filter_map(|device| case.interrupts.evidence(device, cpu)));
    for kind in ["TIMER", "RCU"] {
        if let Some(rate) = case.softirqs_a_second(kind, cpu).filter(|rate| *rate >= 1.0) {
            all.push(format!("CPU {cpu} ran {rate:.0} {kind} softirqs a second since boot"));
        }
    }
    all
}

fn severity(case: &AuditInput<'_>, group: &Pollers<'_>, first: &TaskFacts) -> Severity {
    if is_above_fair(first.policy) {
        return Severity::Critical;
    }
    match weight(case, first) {
        weight if share_against(WORKER_WEIGHT, weight) < STARVED_SHARE => Severity::Critical,
        weight if weight > MENTIONED_WEIGHT => Severity::Warning,
        _ if group.poller.is_some() || loses_count(case) => Severity::Warning,
        _ => Severity::Info,
    }
}

/// The weight with which it competes with kernel threads: that of its top-level group, or its own.
fn weight(case: &AuditInput<'_>, task: &TaskFacts) -> u32 {
    case.snapshot.weight_of_top_cgroup(task.tid).unwrap_or_else(|| load_weight_of_nice(task.nice))
}

/// Whether the kernel has a bug that long runs without a switch set off.
fn loses_count(case: &AuditInput<'_>) -> bool {
    case.facts.vruntime_stands_still() == Holds::Yes
}

fn competes(case: &AuditInput<'_>, task: &TaskFacts) -> String {
    if is_above_fair(task.policy) {
        return format!(
            "it is {} {}: nothing of normal priority runs before it sleeps",
            task.policy.word(),
            task.rt_priority
        );
    }
    let share = share_against(WORKER_WEIGHT, weight(case, task)) * 100.0;
    match case.snapshot.top_cgroup_of(task.tid).and_then(|group| Some((group, group.load_weight()?))) {
        Some((group, weight)) => {
            format!("its group {} has load weight {weight}: a worker (1024) gets {share:.1} % of the CPU", group.path)
        }
        None => format!("it has nice {}: a worker of nice 0 gets {share:.1} % of the CPU", task.nice),
    }
}

fn consequence(case: &AuditInput<'_>, task: &TaskFacts) -> String {
    let limit = if is_above_fair(task.policy) {
        format!(" {}", super::rt_on_interrupt_cpu::limit(case))
    } else if loses_count(case) {
        format!(
            " {} moreover loses track of whose turn it is while one task runs uninterrupted (zero-vruntime): a worker may then wait \
             for minutes.",
            case.facts.name()
        )
    } else {
        String::new()
    };
    format!(
        "Work queued on these CPUs waits, and with it everything that needs an answer of every CPU: flushes of workqueues \
         (lru_add_drain_all, vmstat), RCU grace periods, module loading.{limit} Raising kworkers alone does not end it: they are \
         born with nice 0, and timers, softirqs and RCU callbacks are no workers."
    )
}

/// What its product says, or for a program that is not known the general form of it.
fn advice(group: &Pollers<'_>, on: &str) -> Fix {
    match group.poller {
        Some(poller) => {
            let notes = FixNotes {
                text: &format!("{} Its CPUs are set by {}.", poller.advice(), poller.set_by()),
                risk: "Its new CPUs have bound work, too, if less than CPUs 0 and 1; isolate them.",
                valid_on: "all kernels",
            };
            Fix { source: poller.source().to_owned(), ..Fix::advice(notes) }
        }
        None => Fix::advice(FixNotes {
            text: &format!(
                "Pin it elsewhere than to {on}: CPUs 0 and 1 and those of interrupts have most of the kernel's work."
            ),
            risk: "Its new CPU has bound work, too, if less; isolate it.",
            valid_on: "all kernels",
        }),
    }
}

/// At boot. The first CPU cannot be isolated wholly, and some CPU must stay.
fn isolate(case: &AuditInput<'_>, group: &Pollers<'_>) -> Fix {
    const RISK_OF_ISOLATION: &str = "Nothing else runs there unless it is pinned, and no load balancing. Work that the poller itself causes by \
                        system calls (AIO, for example) still runs on its CPU.";
    const AT_RUN_TIME: &str = "At run time a cpuset partition does the first half of it: echo isolated > cpuset.cpus.partition in a \
                               group with these CPUs (6.7 and later).";
    let set = &group.cpus;
    if set.contains(CpuId(0)) || without(&case.online, set).is_empty() {
        return Fix::advice(FixNotes {
            text: &format!(
                "Isolate its new CPUs: boot with isolcpus=managed_irq,domain,CPUS nohz_full=CPUS rcu_nocbs=CPUS. CPU 0 keeps the \
                 kernel's housekeeping. {AT_RUN_TIME}"
            ),
            risk: RISK_OF_ISOLATION,
            valid_on: "managed_irq from 5.6 on; nohz_full and rcu_nocbs where the kernel was built with them",
        });
    }
    Fix::boot(
        FixNotes {
            text: &format!("Isolate {}: no balancing, no tick, RCU callbacks elsewhere. {AT_RUN_TIME}", cpus(set)),
            risk: RISK_OF_ISOLATION,
            valid_on: "managed_irq from 5.6 on; nohz_full and rcu_nocbs where the kernel was built with them",
        },
        &format!("isolcpus=managed_irq,domain,{set} nohz_full={set} rcu_nocbs={set}"),
    )
}

const UNBOUND_CPUS: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Unbound workqueues can leave.
fn spare_from_workqueues(case: &AuditInput<'_>, group: &Pollers<'_>) -> Option<Fix> {
    let now = case.snapshot.settings.get(UNBOUND_CPUS)?;
    let allowed = cpu_mask::parse(now)?;
    let others = without(&allowed, &pinned_by_pollers(case, group));
    if others.is_empty() || common(&allowed, &group.cpus).is_empty() {
        return None;
    }
    Some(Fix::advice(FixNotes {
        text: &format!(
            "Keep unbound workqueues off the CPUs of pollers: echo {} > {UNBOUND_CPUS} (now {}).",
            cpu_mask::print(&others),
            now.trim()
        ),
        risk: "The other CPUs get their work. Bound work stays where it is; after a reboot the mask is what it was.",
        valid_on: "4.3 and later",
    }))
}

/// The CPUs of all pollers of the host: fixes of one page must agree.
fn pinned_by_pollers(case: &AuditInput<'_>, group: &Pollers<'_>) -> CpuSet {
    let all = case.snapshot.tasks.iter().filter_map(|task| polls(case, task)).map(|(_, cpu)| cpu);
    all.chain(group.cpus.iter()).collect()
}

fn interrupts_elsewhere(case: &AuditInput<'_>, group: &Pollers<'_>) -> Option<Fix> {
    let served = [Device::Net, Device::Block]
        .into_iter()
        .flat_map(|device| case.interrupts.cpus(device).iter().collect::<Vec<_>>());
    let here: CpuSet = served.filter(|cpu| group.cpus.contains(*cpu)).collect();
    if here.is_empty() {
        return None;
    }
    let set = &group.cpus;
    Some(Fix::advice(FixNotes {
        text: &format!(
            "Serve interrupts elsewhere: irqbalance spares the CPUs in IRQBALANCE_BANNED_CPULIST={set} (/etc/default/irqbalance); \
             packets that software spreads (RPS) need another rps_cpus mask."
        ),
        risk: "The other CPUs serve them. Queues of NVMe devices are managed by the kernel and refuse.",
        valid_on: "all kernels",
    }))
}

fn no_real_time(task: &TaskFacts) -> Option<Fix> {
    is_above_fair(task.policy).then(|| {
        Fix::advice(FixNotes {
            text: "Run it as SCHED_OTHER: a poller that has its CPU alone gains nothing from a real-time priority, and then a worker \
                   that must run there gets its turn.",
            risk: "On a CPU that is not its own it shares.",
            valid_on: "all kernels",
        })
    })
}
