use unstarve_facts::{CgroupFacts, CgroupVersion};
use unstarve_model::Tid;
use unstarve_timeline::ActorId;

use super::{Draft, kind};
use crate::case::Case;
use crate::report::Remedy;

/// Prints the weight of the top-level group in which a task sits.
pub(crate) fn read_weight_command(case: &Case<'_>, actor: ActorId) -> String {
    match case.first_tid(actor) {
        Some(tid) => {
            let (group, file) = (find_top_group(case, tid), weight_file(version(case)).0);
            format!("cat \"{group}/{file}\"")
        }
        None => "cat /sys/fs/cgroup/*/cpu.weight".into(),
    }
}

/// The version of the hierarchy with the CPU controller; v2 where nothing tells.
fn version(case: &Case<'_>) -> CgroupVersion {
    case.snapshot.and_then(|snapshot| snapshot.hierarchy.as_ref()).map_or(CgroupVersion::V2, |known| known.version)
}

/// The directory of the top-level group in which a task sits, for a shell to find.
fn find_top_group(case: &Case<'_>, tid: Tid) -> String {
    let known = case.snapshot.and_then(|snapshot| snapshot.hierarchy.as_ref());
    let mount = known.and_then(|known| shell_path(known.mount.trim_end_matches('/')));
    match version(case) {
        CgroupVersion::V2 => {
            let mount = mount.unwrap_or_else(|| "/sys/fs/cgroup".into());
            format!("{mount}/$(sed -n 's|^0::/\\([^/]*\\).*|\\1|p' /proc/{tid}/cgroup)")
        }
        CgroupVersion::V1 => {
            // One line for each hierarchy: `3:cpu,cpuacct:/path`.
            let mount = mount.unwrap_or_else(|| "/sys/fs/cgroup/cpu".into());
            format!("{mount}/$(sed -nE 's|^[0-9]+:([^:]*,)?cpu(,[^:]*)?:/([^/]*).*|\\3|p' /proc/{tid}/cgroup)")
        }
    }
}

/// The file with a group's weight, and what it holds if nobody changes it.
fn weight_file(version: CgroupVersion) -> (&'static str, u32) {
    match version {
        CgroupVersion::V2 => ("cpu.weight", 100),
        CgroupVersion::V1 => ("cpu.shares", 1024),
    }
}

/// A path for a command line; `None` if it holds anything that a shell or a terminal could take otherwise.
fn shell_path(path: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+,=".contains(c);
    if path.chars().all(plain) {
        return Some(path.to_owned());
    }
    let quotable = path.chars().all(|c| !unstarve_model::is_harmful(c) && c != '\'');
    quotable.then(|| format!("'{path}'"))
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

/// The occupant's group weighs no more than the victim's, or than a task by itself.
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
    let (file, normal) = weight_file(heavy.version);
    let old = heavy.weight()?;
    let of_light = light.as_ref().and_then(Place::weight);
    // Down to what is normal, but not below the other; what is below it by choice stays, and the other comes up to it.
    let target = if old > normal { of_light.unwrap_or(normal).max(normal) } else { old };
    let mut changes = Vec::new();
    if old > target {
        changes.push((&heavy, old));
    }
    if let Some((light, weight)) = light.as_ref().zip(of_light).filter(|(_, weight)| *weight < target) {
        changes.push((light, weight));
    }
    let commands = |value: fn(u32, u32) -> u32| {
        let each = changes.iter().map(|(place, old)| {
            let path = shell_path(&format!("{}/{file}", place.directory))?;
            Some(format!("echo {} > {path}", value(target, *old)))
        });
        each.collect::<Option<Vec<_>>>().map(|all| all.join("; ")).filter(|all| !all.is_empty())
    };
    let beside = match (&light, of_light) {
        (Some(light), Some(weight)) => {
            format!("{} with that of {} ({weight}).", case.name(victim), light.group.path.escape_debug())
        }
        _ if case.is_kernel_thread(victim) => format!("kernel threads in the root group weigh {normal}."),
        _ => format!("{} by itself, as {normal} does.", case.name(victim)),
    };
    Some(
        Draft {
            id: if old > target { kind::LOWER_GROUP_WEIGHT } else { kind::RAISE_GROUP_WEIGHT },
            text: format!(
                "{} competes with the weight of {} ({file} {old}); {beside}",
                case.name(occupant),
                heavy.group.path.escape_debug()
            ),
            apply: commands(|target, _| target)?,
            undo: commands(|_, old| old)?,
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: "all kernels; make it last with systemctl set-property UNIT CPUWeight=100 where systemd owns the group"
                .into(),
        }
        .done(),
    )
}

impl Place<'_> {
    fn weight(&self) -> Option<u32> {
        match self.version {
            CgroupVersion::V2 => self.group.weight,
            CgroupVersion::V1 => self.group.shares,
        }
    }
}

fn lower_unknown_weight(case: &Case<'_>, occupant: ActorId) -> Option<Remedy> {
    let tid = case.first_tid(occupant)?;
    if case.is_kernel_worker(occupant) {
        return None;
    }
    let (group, version) = (find_top_group(case, tid), version(case));
    let (file, normal) = weight_file(version);
    Some(
        Draft {
            id: kind::LOWER_GROUP_WEIGHT,
            text: format!(
                "If the top-level cgroup of {} has a {file} above {normal} (the command shows it first): bring it down to \
                 what kernel threads weigh.",
                case.name(occupant)
            ),
            apply: format!("g={group}; cat \"$g/{file}\"; echo {normal} > \"$g/{file}\""),
            undo: format!("echo OLD > \"$g/{file}\"  # the number that was shown"),
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: match version {
                CgroupVersion::V2 => "cgroup v2; the weight was not recorded in this trace".into(),
                CgroupVersion::V1 => "cgroup v1; the weight was not recorded in this trace".into(),
            },
        }
        .done(),
    )
}

/// How to read a limit that was not recorded.
pub(super) fn read_limit(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    let tid = case.first_tid(victim)?;
    Some(
        Draft {
            id: kind::RAISE_LIMIT,
            text: "The limit was not recorded. Read cpu.max of the task's group and those above it; `max` is no limit."
                .into(),
            apply: format!(
                "g=$(sed -n 's|^0::||p' /proc/{tid}/cgroup); while [ \"$g\" ]; do grep -H . \"/sys/fs/cgroup$g/cpu.max\"; \
                 g=${{g%/*}}; done"
            ),
            undo: String::new(),
            risk: "It only reads.",
            valid_on: "cgroup v2".into(),
        }
        .done(),
    )
}

/// More CPU time for a limited group.
pub(super) fn raise_limit(case: &Case<'_>, path: &str) -> Option<Remedy> {
    let place = place(case, case.snapshot?.cgroup(path))?;
    let limit = place.group.limit?;
    let quota = limit.quota_us.saturating_mul(2);
    let (apply, undo) = match place.version {
        CgroupVersion::V2 => {
            let path = shell_path(&format!("{}/cpu.max", place.directory))?;
            (
                format!("echo \"{quota} {}\" > {path}", limit.period_us),
                format!("echo \"{} {}\" > {path}", limit.quota_us, limit.period_us),
            )
        }
        CgroupVersion::V1 => {
            let path = shell_path(&format!("{}/cpu.cfs_quota_us", place.directory))?;
            (format!("echo {quota} > {path}"), format!("echo {} > {path}", limit.quota_us))
        }
    };
    Some(
        Draft {
            id: kind::RAISE_LIMIT,
            text: format!(
                "{} may use {} µs of each {} µs; twice that, or no limit, stops the throttling.",
                place.group.path.escape_debug(),
                limit.quota_us,
                limit.period_us
            ),
            apply,
            undo,
            risk: "The group may take more CPU from its neighbours; a container manager writes its own value again.",
            valid_on:
                "all kernels with this cgroup version; 4.18 to 5.3 throttled groups below their limit (fixed in 5.4)"
                    .into(),
        }
        .done(),
    )
}
