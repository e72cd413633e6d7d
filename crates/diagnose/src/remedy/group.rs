use unstarve_kernel::{CgroupFacts, CgroupVersion};
use unstarve_timeline::ActorId;

use super::Draft;
use crate::case::Case;
use crate::report::Remedy;

/// Prints the weight of the top-level group in which a task sits.
pub(crate) fn read_weight_command(case: &Case<'_>, actor: ActorId) -> String {
    match case.first_tid(actor) {
        Some(tid) => {
            format!("cat \"/sys/fs/cgroup/$(sed -n 's|^0::/\\([^/]*\\).*|\\1|p' /proc/{tid}/cgroup)/cpu.weight\"")
        }
        None => "cat /sys/fs/cgroup/*/cpu.weight".into(),
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

/// The occupant's top-level group weighs no more than a kernel thread.
pub(super) fn lower_weight(case: &Case<'_>, occupant: ActorId) -> Option<Remedy> {
    let known = case.snapshot.zip(case.first_tid(occupant));
    let Some((snapshot, tid)) = known else { return lower_unknown_weight(case, occupant) };
    let place = place(case, snapshot.top_cgroup_of(tid))?;
    let (file, old, normal) = match place.version {
        CgroupVersion::V2 => ("cpu.weight", place.group.weight?, 100),
        CgroupVersion::V1 => ("cpu.shares", place.group.shares?, 1024),
    };
    if old <= normal {
        return None;
    }
    let path = shell_path(&format!("{}/{file}", place.directory))?;
    Some(
        Draft {
            id: "lower-group-weight",
            text: format!(
                "{} competes with the weight of {} ({file} {old}); kernel threads in the root group weigh {normal}.",
                case.name(occupant),
                place.group.path.escape_debug()
            ),
            apply: format!("echo {normal} > {path}"),
            undo: format!("echo {old} > {path}"),
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: "all kernels; make it last with systemctl set-property UNIT CPUWeight=100 where systemd owns the group"
                .into(),
        }
        .done(),
    )
}

fn lower_unknown_weight(case: &Case<'_>, occupant: ActorId) -> Option<Remedy> {
    let tid = case.first_tid(occupant)?;
    if case.is_kernel_worker(occupant) {
        return None;
    }
    let group = format!("g=/sys/fs/cgroup/$(sed -n 's|^0::/\\([^/]*\\).*|\\1|p' /proc/{tid}/cgroup)");
    Some(
        Draft {
            id: "lower-group-weight",
            text: format!(
                "If the top-level cgroup of {} has a cpu.weight above 100 (the command shows it first): bring it down to \
                 what kernel threads weigh.",
                case.name(occupant)
            ),
            apply: format!("{group}; cat \"$g/cpu.weight\"; echo 100 > \"$g/cpu.weight\""),
            undo: "echo OLD > \"$g/cpu.weight\"  # the number that was shown".into(),
            risk: "The group also loses its advantage over other groups; Kubernetes and systemd write the value again when \
                   they next reconcile it.",
            valid_on: "cgroup v2; the weight was not recorded in this trace".into(),
        }
        .done(),
    )
}

/// More CPU time for a limited group.
pub(super) fn raise_limit(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    let tid = case.first_tid(victim)?;
    let known = case.snapshot.and_then(|snapshot| place(case, snapshot.limited_cgroup_of(tid)));
    let Some(place) = known else {
        return Some(
            Draft {
                id: "raise-limit",
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
        );
    };
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
            id: "raise-limit",
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
