//! Remedies that change cgroup weights and quotas.

use unstarve_change::{Change, Relative, Target, Value};
use unstarve_facts::{CgroupFacts, CgroupVersion};
use unstarve_model::Tid;
use unstarve_sched::setting::cgroup::{self, GroupFile};
use unstarve_timeline::ActorId;

use super::threads::{Members, members};
use super::{Draft, advice, kind};
use crate::case::Case;
use crate::report::Remedy;
use crate::words;

/// A command that prints the weight of the top-level group of a task.
pub(crate) fn read_weight_command(case: &Case<'_>, actor: ActorId) -> String {
    match case.first_tid(actor) {
        Some(tid) => {
            let (group, file) = (find_top_group(case, tid), cgroup::weight_file(version(case)));
            format!("cat \"{group}/{file}\"")
        }
        None => "cat /sys/fs/cgroup/*/cpu.weight".into(),
    }
}

/// The cgroup version with the CPU controller; v2 if unknown.
fn version(case: &Case<'_>) -> CgroupVersion {
    case.snapshot.and_then(|snapshot| snapshot.hierarchy.as_ref()).map_or(CgroupVersion::V2, |known| known.version)
}

/// A shell expression for the directory of a task's top-level group.
fn find_top_group(case: &Case<'_>, tid: Tid) -> String {
    let known = case.snapshot.and_then(|snapshot| snapshot.hierarchy.as_ref());
    // For use between double quotes, where a shell would still expand a part of an odd path as a command.
    let mount = known.and_then(|known| unstarve_change::quoted(known.mount.trim_end_matches('/')));
    let mount = mount.filter(|mount| !mount.starts_with('\''));
    match version(case) {
        CgroupVersion::V2 => {
            let mount = mount.unwrap_or_else(|| "/sys/fs/cgroup".into());
            format!("{mount}/$(sed -n 's|^0::/\\([^/]*\\).*|\\1|p' /proc/{tid}/cgroup)")
        }
        CgroupVersion::V1 => {
            // One line per hierarchy: `3:cpu,cpuacct:/path`.
            let mount = mount.unwrap_or_else(|| "/sys/fs/cgroup/cpu".into());
            format!("{mount}/$(sed -nE 's|^[0-9]+:([^:]*,)?cpu(,[^:]*)?:/([^/]*).*|\\3|p' /proc/{tid}/cgroup)")
        }
    }
}

/// Services of a Kubernetes node beside its pods: kubelet can give their group a weight by what is reserved for them.
pub(super) fn reserve_for_system(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    let top = |id: ActorId| Some(case.snapshot?.top_cgroup_of(case.first_tid(id)?)?.path.as_str());
    if top(victim)? != "/system.slice" || !top(occupant)?.starts_with("/kubepods") {
        return None;
    }
    let draft = Draft {
        id: kind::RESERVE_FOR_SYSTEM,
        text: "Let kubelet keep a weight for system.slice: systemReserved with cpu, systemReservedCgroup: /system.slice, and \
               system-reserved-compressible in enforceNodeAllocatable of its configuration (a kubelet that does not know the word has \
               system-reserved, which also limits memory)."
            .into(),
        changes: advice(),
        risk: "Pods may request less CPU. Kernel threads are in the root group and gain nothing; a weight that is written by hand \
               lasts until kubelet or systemd next reconcile.",
        valid_on: "Kubernetes nodes".into(),
    };
    Some(draft.done())
}

struct Place<'a> {
    group: &'a CgroupFacts,
    directory: String,
    version: CgroupVersion,
}

fn place<'a>(case: &Case<'a>, group: Option<&'a CgroupFacts>) -> Option<Place<'a>> {
    let hierarchy = case.snapshot?.hierarchy.as_ref()?;
    let group = group?;
    let directory = format!("{}{}", hierarchy.mount.trim_end_matches('/'), group.path);
    Some(Place { group, directory, version: hierarchy.version })
}

/// Reduces the weight of the occupant's group to the victim's, or to that of a single task.
pub(super) fn even_weights(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    let known = case.snapshot.zip(case.first_tid(occupant)).filter(|_| case.knows_group(occupant));
    let Some((snapshot, tid)) = known else { return lower_unknown_weight(case, occupant) };
    let (light, heavy) = match case.rivals(victim, occupant) {
        Some(rivals) => (rivals.victim, rivals.occupant),
        None if case.knows_group(victim) => return None,
        None => (None, snapshot.top_cgroup_of(tid)),
    };
    let heavy = place(case, heavy)?;
    let light = place(case, light);
    let (file, normal) = (cgroup::weight_file(heavy.version), cgroup::normal_weight(heavy.version));
    let old = heavy.weight()?;
    let of_light = light.as_ref().and_then(Place::weight);
    // Reduce to the default, but not below the lighter group. If the heavier one is not above the default, raise the lighter one
    // instead.
    let target = if old > normal { of_light.unwrap_or(normal).max(normal) } else { old };
    let mut changes = Vec::new();
    if old > target {
        changes.push(heavy.change(|weight| cgroup::weight(heavy.version, weight), old, target));
    }
    if let Some((light, weight)) = light.as_ref().zip(of_light).filter(|(_, weight)| *weight < target) {
        changes.push(match light.group.idle {
            // The weight of an idle group cannot be written; it becomes the default when idle is cleared
            // (sched_group_set_idle()).
            true => light.change(cgroup::idle, true, false),
            false => light.change(|weight| cgroup::weight(light.version, weight), weight, target),
        });
    }
    if changes.is_empty() {
        return None;
    }
    let what = match &light {
        Some(light) if old <= target => format!("Raise the weight of {}", words::place(&light.group.path)),
        _ => format!("Lower the weight of {}", words::place(&heavy.group.path)),
    };
    let beside = match (&light, of_light) {
        (Some(light), Some(weight)) => {
            let weight = if light.group.idle { "cpu.idle 1".to_owned() } else { weight.to_string() };
            format!("{} with that of {} ({weight}).", case.name(victim), words::place(&light.group.path))
        }
        _ if case.is_kernel_thread(victim) => format!("kernel threads in the root group weigh {normal}."),
        _ => format!("{} by itself, as {normal} does.", case.name(victim)),
    };
    Some(
        Draft {
            id: if old > target { kind::LOWER_GROUP_WEIGHT } else { kind::RAISE_GROUP_WEIGHT },
            text: format!("{what}: {} competes with {file} {old}, {beside}", case.name(occupant)),
            changes,
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: "all kernels; make it last with systemctl set-property UNIT CPUWeight=100 where systemd owns the group"
                .into(),
        }
        .done(),
    )
}

impl Place<'_> {
    /// Changes a setting of this group from one value to another.
    fn change<T>(&self, setting: impl Fn(T) -> GroupFile, was: T, to: T) -> Change {
        Change::of_group(&self.directory, setting(to)).from(Value::Content(setting(was).1))
    }

    fn weight(&self) -> Option<u32> {
        match self.version {
            CgroupVersion::V2 => self.group.weight,
            CgroupVersion::V1 => self.group.shares,
        }
    }
}

fn lower_unknown_weight(case: &Case<'_>, occupant: ActorId) -> Option<Remedy> {
    if case.is_kernel_worker(occupant) {
        return None;
    }
    // Tasks of one name may be in several groups; the first stands for them.
    let Members::All(threads) = members(case, &[occupant]) else { return None };
    let first = case.first_tid(occupant)?;
    let (_, thread) = threads.into_iter().find(|(_, thread)| thread.tid == first)?;
    let (file, normal) = (cgroup::weight_file(version(case)), cgroup::normal_weight(version(case)));
    Some(
        Draft {
            id: kind::LOWER_GROUP_WEIGHT,
            text: format!(
                "Bring {file} of {}'s top-level cgroup down to {normal}, if it is above: kernel threads weigh {normal}.",
                case.name(occupant)
            ),
            changes: vec![Change::relative(Target::GroupWeightOf(thread), Relative::WeightAtMost(100))],
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: match version(case) {
                CgroupVersion::V2 => "cgroup v2; the weight was not recorded in this trace".into(),
                CgroupVersion::V1 => "cgroup v1; the weight was not recorded in this trace".into(),
            },
        }
        .done(),
    )
}

/// For a quota that was not recorded: the right value is unknown, so the remedy only reads it.
pub(super) fn read_limit(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    let tid = case.first_tid(victim)?;
    Some(
        Draft {
            id: kind::RAISE_LIMIT,
            text: format!(
                "Raise the CPU limit that is too low: it was not recorded. Read cpu.max (cpu.cfs_quota_us on cgroup v1) of the group \
                 that /proc/{tid}/cgroup names, and of those above it; `max` or -1 is no limit."
            ),
            changes: advice(),
            risk: "The group may take more CPU from its neighbours.",
            valid_on: "all kernels".into(),
        }
        .done(),
    )
}

/// Raises the quota of a group.
pub(super) fn raise_limit(case: &Case<'_>, path: &str) -> Option<Remedy> {
    let place = place(case, case.snapshot?.cgroup(path))?;
    let limit = place.group.limit?;
    let quota = limit.quota_us.saturating_mul(2);
    let of = |quota_us| cgroup::limit(place.version, quota_us, limit.period_us);
    let changes = vec![place.change(of, limit.quota_us, quota)];
    Some(
        Draft {
            id: kind::RAISE_LIMIT,
            text: format!(
                "Double the CPU limit of {} to {quota} µs of each {} µs: it is {} µs now.",
                words::place(&place.group.path),
                limit.period_us,
                limit.quota_us
            ),
            changes,
            risk: "The group may take more CPU from its neighbours; a container manager writes its own value again.",
            valid_on:
                "all kernels with this cgroup version; 4.18 to 5.3 throttled groups below their limit (fixed in 5.4)"
                    .into(),
        }
        .done(),
    )
}
