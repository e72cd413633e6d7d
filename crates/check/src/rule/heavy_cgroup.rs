//! Rule `heavy-cgroup`: a top-level cgroup outweighs kernel threads.

use unstarve_change::{Change, Selector, Target, Value};
use unstarve_facts::{CgroupFacts, CgroupVersion, Configured, Holds, WeightFormula};
use unstarve_sched::setting::cgroup;
use unstarve_sched::{least_nice_that_equals, share_against};

use super::rt_beside_worker::{completing_mounts, described, seen_at_work};
use super::{MENTIONED_WEIGHT, Rule, STARVED_SHARE, WORKER_WEIGHT};
use crate::case::AuditInput;
use crate::fix;
use crate::hit::{Draft, Fix, FixNotes, Hit, Severity};

pub(super) const RULE: Rule = Rule {
    id: "heavy-cgroup",
    title: "A top-level cgroup outweighs the kernel's own threads, which compete in the root cgroup",
    about: "Kernel workers and ksoftirqd cannot leave the root cgroup, where each competes with the whole of every top-level \
            group. A group of ten times the weight leaves a worker a tenth of the CPU on which its load runs.",
    source: "calc_group_shares() in kernel/sched/fair.c, sched_weight_from_cgroup() in kernel/sched/sched.h, cgroup_migrate in \
             kernel/cgroup/cgroup.c (PF_NO_SETAFFINITY); case B: mail.spinics.net/lists/linux-fsdevel/msg271563.html (R03)",
    check,
    upgrade: None,
};

fn check(case: &AuditInput<'_>) -> Vec<Hit> {
    // Weights are rules of the fair class; a BPF scheduler that has all tasks may ignore them.
    if case.snapshot.ext_scheduler().is_some_and(|scheduler| scheduler.all_tasks) {
        return Vec::new();
    }
    let seen = heavy(case).filter_map(|(group, weight)| hit(case, group, weight));
    seen.chain(hidden(case)).collect()
}

/// In a container with a cgroup namespace of its own, what looks like the root is a group inside a group.
fn hidden(case: &AuditInput<'_>) -> Option<Hit> {
    case.snapshot.view.as_ref().filter(|view| view.all_cgroups == Some(false))?;
    Some(
        Draft::new(RULE.id, Severity::Info, "private cgroup namespace")
            .says("Inside a container with a cgroup namespace of its own the weight of the host's top-level group cannot be seen.")
            .brief("the host's top-level weights cannot be seen from here")
            .because("paths in /proc/PID/cgroup begin at the container's own group")
            .would(
                "Whether that group outweighs kernel workers is decided outside: on a Kubernetes node kubepods has a weight of about 39 \
                 for each CPU that its pods may request, so from 6 CPUs on it outweighs them two to one.",
            )
            .fix(Fix::advice(FixNotes {
                text: "Look on the node: cat /sys/fs/cgroup/kubepods*/cpu.weight; or run unstarve check there, or with the host's / \
                       mounted and --root.",
                risk: "None: it only reads.",
                valid_on: "cgroup v2; cpu.shares of kubepods in v1",
            }))
            .done(),
    )
}

/// The top-level groups that outweigh a worker, with their load weights.
fn heavy<'a>(case: &AuditInput<'a>) -> impl Iterator<Item = (&'a CgroupFacts, u32)> {
    let top = case.snapshot.cgroups.iter().filter(|group| group.path.rmatches('/').count() == 1);
    top.filter_map(|group| Some((group, group.load_weight().filter(|&weight| weight > MENTIONED_WEIGHT)?)))
}

fn hit(case: &AuditInput<'_>, group: &CgroupFacts, weight: u32) -> Option<Hit> {
    let threads = members(case, group);
    let cpus = group.cpus.as_ref().map_or(case.online.len(), unstarve_model::CpuSet::len).max(1);
    let alone = share_against(WORKER_WEIGHT, weight);
    let mounts = completing_mounts(case);
    let severity = match (threads.unwrap_or(1), alone < STARVED_SHARE && !mounts.is_empty()) {
        (0, _) => Severity::Info,
        (_, true) if case.facts.direct_overwrites_complete_inline() != Holds::Yes => Severity::Critical,
        _ => Severity::Warning,
    };
    let file = file_of(group);
    Some(
        Draft::new(RULE.id, severity, &group.path)
            .says(format!(
                "Tasks of {} ({file} {}) outweigh kernel workers {:.0} to 1 on a CPU.",
                group.path,
                own_value(group)?,
                f64::from(weight) / f64::from(WORKER_WEIGHT)
            ))
            .brief(format!(
                "{file} {} outweighs kernel workers {:.0} to 1",
                own_value(group)?,
                f64::from(weight) / f64::from(WORKER_WEIGHT)
            ))
            .because(arithmetic(weight, cpus))
            .because(nice(weight))
            .because_of(request(group))
            .because(match threads {
                Some(threads) => format!("{threads} threads are in it"),
                None => "which threads are in it was not collected".to_owned(),
            })
            .because_of((!mounts.is_empty()).then(|| format!("direct writes complete in such workers: {}", described(&mounts))))
            .because_of(seen_at_work(case))
            .would(consequence(case, alone))
            .priced(
                "fio on XFS, one CPU, Linux 6.1: 200,570 I/Os a second outside, 116,073 in a group of weight 1000, and twice the \
                 context switches (Redpanda, linux-fsdevel, 2024). In guests of the lab 50,400 outside and 33,100 inside with 6.1, \
                 49,400 and 35,300 with 6.12 (docs/numbers.md).",
            )
            .fix(lower(case, group))
            .fix(raise(case, weight))
            .set_at(set_by(case, group))
            .done(),
    )
}

/// What a weight of `kubepods` means: the kubelet writes it from the CPUs that pods may request, by the linear formula, whatever the
/// formula of the container runtime is.
fn request(group: &CgroupFacts) -> Option<String> {
    let weight = group.weight.filter(|_| group.path.trim_start_matches('/').starts_with("kubepods"))?;
    let cpus = WeightFormula::Linear.request(weight);
    Some(format!(
        "the kubelet writes such a weight for {cpus:.1} CPUs that pods may request; in a container it is a request of {:.1} CPUs with \
         runc 1.3.2 or crun 1.23 and later, of {cpus:.1} before",
        WeightFormula::Quadratic.request(weight)
    ))
}

/// The number of threads in the group and below it.
fn members(case: &AuditInput<'_>, group: &CgroupFacts) -> Option<usize> {
    let inside = |path: &str| {
        path.strip_prefix(group.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut groups = case.snapshot.tasks.iter().filter_map(|task| task.cgroup.as_deref()).peekable();
    groups.peek()?;
    Some(groups.filter(|path| inside(path)).count())
}

fn file_of(group: &CgroupFacts) -> &'static str {
    cgroup::weight_file(if group.shares.is_some() { CgroupVersion::V1 } else { CgroupVersion::V2 })
}

fn own_value(group: &CgroupFacts) -> Option<u32> {
    group.shares.or(group.weight)
}

/// The share of a permanently busy worker beside the group, on one CPU and if the group's load is spread.
fn arithmetic(weight: u32, cpus: usize) -> String {
    let alone = share_against(WORKER_WEIGHT, weight) * 100.0;
    if cpus <= 1 {
        return format!("load weight {weight}: a worker (1024) gets {alone:.1} % of the CPU");
    }
    let spread = weight / u32::try_from(cpus).unwrap_or(u32::MAX);
    let shared = share_against(WORKER_WEIGHT, spread.max(2)) * 100.0;
    format!(
        "load weight {weight}: a worker (1024) gets {alone:.1} % of a CPU on which all of the group's load runs, {shared:.0} % \
         when it is spread over {cpus} CPUs ({spread} on each)"
    )
}

fn nice(weight: u32) -> String {
    match least_nice_that_equals(weight) {
        Some(nice) => {
            format!("nice {nice} ({}) would make a worker equal on one CPU", unstarve_sched::load_weight_of_nice(nice))
        }
        None => "no nice would make a worker equal on one CPU: nice -20 weighs 88761".to_owned(),
    }
}

fn consequence(case: &AuditInput<'_>, alone: f64) -> String {
    let eevdf = match case.facts.eevdf() {
        Holds::Yes => {
            " EEVDF does not end that: in a guest with 6.12, weight 1000 and one CPU there were 1.09 context switches for each I/O, \
             and 0.11 at equal weights."
        }
        _ => "",
    };
    format!(
        "When both want the CPU, a worker gets {:.1} % of it; it completes one I/O, wakes its consumer, and is preempted by it at \
         once, over and over.{eevdf}",
        alone * 100.0
    )
}

fn lower(case: &AuditInput<'_>, group: &CgroupFacts) -> Option<Fix> {
    let normal = cgroup::normal_weight(case.snapshot.hierarchy.as_ref()?.version);
    let was = own_value(group)?;
    let change =
        fix::of_group(case.snapshot, group, |version| (cgroup::weight(version, was), cgroup::weight(version, normal)))?;
    Fix::of(
        FixNotes {
            text: &format!("Let the group weigh what a kernel thread weighs ({normal})."),
            risk: "The group loses its advantage over other groups, too. Kubernetes and systemd write the value again when they \
                   next reconcile it: change it there (systemctl set-property SLICE CPUWeight=…).",
            valid_on: "all kernels",
        },
        vec![change],
    )
}

/// One nice value for all workers, whichever group requires it: the one that equals the heaviest group that can be
/// equalled.
fn raise(case: &AuditInput<'_>, weight: u32) -> Option<Fix> {
    least_nice_that_equals(weight)?;
    let nice = heavy(case).filter_map(|(_, weight)| least_nice_that_equals(weight)).min()?;
    let workers = Target::Threads(Selector::Workers { cpus: Vec::new() });
    Fix::of(
        FixNotes {
            text: &format!("Or give the workers nice {nice}, which weighs at least as much."),
            risk: "Workers come and go within minutes and are born with nice 0, so this holds only for those that are there \
                   now; whatever they do next has the nice, too.",
            valid_on: "all kernels",
        },
        vec![Change::of(workers, Value::Nice(nice))],
    )
}

/// The unit's own setting, if a unit file has it.
fn set_by<'a>(case: &AuditInput<'a>, group: &CgroupFacts) -> Vec<&'a Configured> {
    let unit = group.path.trim_start_matches('/');
    let sets = |setting: &&Configured| {
        setting.owner.as_deref() == Some(unit) && matches!(setting.key.as_str(), "CPUWeight" | "CPUShares")
    };
    case.snapshot.configured.iter().filter(sets).collect()
}
