//! Thresholds by role.

use std::time::Duration;

use unstarve_model::Nanos;

use super::{Fraction, Length, RoleThresholds, Thresholds};
use crate::engine::reading::RoleKind;

/// Upper bound of what is negligible, whatever the thresholds.
const NEGLIGIBLE: Duration = Duration::from_millis(10);

impl Thresholds {
    /// The thresholds of a role: those configured for it, else the defaults for kernel threads, else those for all roles.
    pub fn of(&self, role: &str) -> RoleThresholds {
        let own = self.role.get(role).copied().unwrap_or_default();
        let usual = usual(role);
        RoleThresholds {
            wait: own.wait.or(usual.wait).or(self.wait),
            share: own.share.or(usual.share).or(self.share),
            oldest: own.oldest.or(usual.oldest).or(self.oldest),
            stalled: own.stalled.or(self.stalled),
            stopped: own.stopped.or(self.stopped),
            stuck: own.stuck.or(usual.stuck).or(self.stuck),
            not_preempted: own.not_preempted.or(usual.not_preempted).or(self.not_preempted),
            idle: own.idle.or(usual.idle).or(self.idle),
            verdict: own.verdict.or((!self.verdict).then_some(false)),
            ignore: own.ignore,
        }
    }

    /// The same thresholds with those of each role written out, except for groups that are not configured.
    #[must_use]
    pub fn in_full(&self) -> Thresholds {
        let written = self.role.keys().cloned();
        let names = known_roles().map(str::to_owned).chain(written);
        Thresholds { role: names.map(|name| (name.clone(), self.of(&name))).collect(), ..self.clone() }
    }

    /// A role that waited less than this, in `time` or longer, has not reached half of any threshold.
    pub(crate) fn negligible(&self, time: Duration) -> Nanos {
        let of_time = |part: Fraction| time.mul_f64(part.0.clamp(0.0, 1.0));
        let least = |limits: RoleThresholds| {
            // `not-preempted` is left out: such a wait is in the sums of the next reading, at most a second later.
            let lengths =
                [limits.wait, limits.oldest, limits.stuck, limits.idle].into_iter().flatten().map(|length| length.0);
            lengths.chain([limits.share, limits.stalled].into_iter().flatten().map(of_time)).min()
        };
        let mut names: Vec<&str> = known_roles().collect();
        names.extend(self.role.keys().map(String::as_str));
        // Groups without an entry have the general thresholds.
        names.push("/");
        let least = names.into_iter().filter_map(|name| least(self.of(name))).min().unwrap_or(NEGLIGIBLE);
        Nanos((least / 2).min(NEGLIGIBLE).as_nanos() as u64)
    }

    /// The first name that is not a role, and why.
    pub(crate) fn unknown_role(&self) -> Option<(&str, String)> {
        self.role.keys().find_map(|name| Some((name.as_str(), distrust(name)?)))
    }
}

/// Roles that can wait, except groups.
fn known_roles() -> impl Iterator<Item = &'static str> {
    RoleKind::FIXED.into_iter().filter(|kind| kind.can_wait()).map(RoleKind::word)
}

/// Why a name is not a role; `None` if it is one.
fn distrust(name: &str) -> Option<String> {
    let known: Vec<&str> = known_roles().collect();
    let expected =
        format!("expected one of {}, or the path of a top-level cgroup such as /system.slice", known.join(", "));
    match name.strip_prefix('/') {
        Some(group) if group.is_empty() || group.contains('/') => {
            Some(format!("`{name}` is no top-level cgroup, and only those are counted by themselves; {expected}"))
        }
        Some(group) if group.len() > 255 => Some(format!("a name of {} bytes; {expected}", group.len())),
        Some(_) => None,
        None if known.contains(&name) => None,
        None => Some(format!("`{name}` is no role; {expected}")),
    }
}

/// Defaults for the kernel's own threads.
fn usual(role: &str) -> RoleThresholds {
    let kernel = ["ksoftirqd", "direct-io", "kworker", "rcu", "storage", "nfsd", "kernel", "real-time"];
    if !kernel.contains(&role) {
        return RoleThresholds::default();
    }
    // What the table of verdicts calls a warning (docs/verdict.md).
    let millis = |count| Some(Length(Duration::from_millis(count)));
    let of_kernel = RoleThresholds {
        wait: millis(50),
        share: Some(Fraction(0.3)),
        oldest: millis(50),
        stuck: millis(200),
        idle: millis(24),
        ..RoleThresholds::default()
    };
    match role == RoleKind::RealTime.word() {
        true => RoleThresholds {
            wait: millis(24),
            oldest: millis(24),
            stuck: millis(120),
            not_preempted: millis(5),
            ..of_kernel
        },
        false => of_kernel,
    }
}
