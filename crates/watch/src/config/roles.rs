//! Thresholds by role.

use std::time::Duration;

use super::{Fraction, Length, RoleThresholds, Thresholds};
use crate::RoleKind;

impl Thresholds {
    /// What holds for a role: what is written for it, what is right for the kernel's own threads, what holds for all.
    pub fn of(&self, role: &str) -> RoleThresholds {
        let own = self.role.get(role).copied().unwrap_or_default();
        let usual = usual(role);
        RoleThresholds {
            wait: own.wait.or(usual.wait).or(self.wait),
            share: own.share.or(usual.share).or(self.share),
            oldest: own.oldest.or(usual.oldest).or(self.oldest),
            stalled: own.stalled.or(self.stalled),
            stopped: own.stopped.or(self.stopped),
            ignore: own.ignore,
        }
    }

    /// The same thresholds with all that holds for each role written out, but for groups of which nothing is written.
    #[must_use]
    pub fn in_full(&self) -> Thresholds {
        let written = self.role.keys().cloned();
        let names = known_roles().map(str::to_owned).chain(written);
        Thresholds { role: names.map(|name| (name.clone(), self.of(&name))).collect(), ..self.clone() }
    }

    /// The first name that is no role's, and why.
    pub(super) fn unknown_role(&self) -> Option<(&str, String)> {
        self.role.keys().find_map(|name| Some((name.as_str(), distrust(name)?)))
    }
}

/// Roles that can wait, but for groups.
fn known_roles() -> impl Iterator<Item = &'static str> {
    RoleKind::FIXED.into_iter().filter(|kind| kind.can_wait()).map(RoleKind::word)
}

/// Why there is no role of this name.
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

/// What the kernel's own threads may be expected to bear.
fn usual(role: &str) -> RoleThresholds {
    let kernel = ["ksoftirqd", "direct-io", "kworker", "rcu", "storage", "nfsd", "kernel", "real-time"];
    if !kernel.contains(&role) {
        return RoleThresholds::default();
    }
    RoleThresholds {
        wait: Some(Length(Duration::from_millis(50))),
        share: Some(Fraction(0.3)),
        oldest: Some(Length(Duration::from_millis(200))),
        ..RoleThresholds::default()
    }
}
