use std::fmt;

use serde::Serialize;

/// Index of a [`Role`] in [`crate::engine::reading::Reading::roles`]. The id of a group that has gone is used again; its name is what lasts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct RoleId(pub u8);

impl RoleId {
    /// There are never more roles than this.
    pub const LIMIT: usize = 32;

    /// As an index of a table.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What tasks are summed up as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleKind {
    /// Nobody knows who it was. Only ever an occupant.
    Unknown,
    /// The CPU was idle. Only ever an occupant.
    Idle,
    /// `ksoftirqd/N`.
    Ksoftirqd,
    /// Kernel workers that complete direct I/O (workqueue `dio/DEVICE`).
    DirectIo,
    /// All other kernel workers.
    Kworker,
    /// `rcu_preempt`, `rcuog/N`, `rcuop/N` and others of RCU.
    Rcu,
    /// Journals and writeback: `jbd2/…`, `xfsaild/…`, `kswapd…`, workers that write back.
    Storage,
    /// `nfsd`.
    Nfsd,
    /// All other kernel threads.
    Kernel,
    /// Programs with a real-time or deadline policy, whatever group they are in.
    RealTime,
    /// Programs of one top-level cgroup.
    Group,
    /// Programs in no cgroup, and those of groups for which there was no role left.
    Other,
    /// What was counted of groups that have gone since. It only ever grows by their sums at once: not for rates.
    Gone,
}

impl RoleKind {
    /// The roles that every reading has, in the order of their ids. Groups come after them.
    pub const FIXED: [RoleKind; 12] = [
        RoleKind::Unknown,
        RoleKind::Idle,
        RoleKind::Ksoftirqd,
        RoleKind::DirectIo,
        RoleKind::Kworker,
        RoleKind::Rcu,
        RoleKind::Storage,
        RoleKind::Nfsd,
        RoleKind::Kernel,
        RoleKind::RealTime,
        RoleKind::Other,
        RoleKind::Gone,
    ];

    /// What a worker is that was called with this function, if it is more than a worker.
    ///
    /// Sources: fs/iomap/direct-io.c, fs/direct-io.c, fs/fs-writeback.c, 5.10 to 7.2.
    pub(crate) fn of_work(function: &str) -> Option<RoleKind> {
        match function {
            "iomap_dio_complete_work" | "dio_aio_complete_work" => Some(RoleKind::DirectIo),
            "wb_workfn" => Some(RoleKind::Storage),
            _ => None,
        }
    }

    /// The word for labels and JSON: `direct-io`.
    pub fn word(self) -> &'static str {
        match self {
            RoleKind::Unknown => "unknown",
            RoleKind::Idle => "idle",
            RoleKind::Ksoftirqd => "ksoftirqd",
            RoleKind::DirectIo => "direct-io",
            RoleKind::Kworker => "kworker",
            RoleKind::Rcu => "rcu",
            RoleKind::Storage => "storage",
            RoleKind::Nfsd => "nfsd",
            RoleKind::Kernel => "kernel",
            RoleKind::RealTime => "real-time",
            RoleKind::Group => "group",
            RoleKind::Other => "other",
            RoleKind::Gone => "gone",
        }
    }

    /// Which tasks these are, in a line for people.
    pub fn meaning(self) -> &'static str {
        match self {
            RoleKind::Unknown => "nobody knows who it was",
            RoleKind::Idle => "the CPU was idle",
            RoleKind::Ksoftirqd => "the kernel's threads for softirqs: packets, timers, block completions",
            RoleKind::DirectIo => "kernel workers that complete direct I/O",
            RoleKind::Kworker => "all other kernel workers",
            RoleKind::Rcu => "threads of RCU, for which the kernel waits in many places",
            RoleKind::Storage => "journals and writeback of file systems: jbd2, xfsaild, kswapd, …",
            RoleKind::Nfsd => "threads of the NFS server",
            RoleKind::Kernel => "all other kernel threads",
            RoleKind::RealTime => "programs with a real-time or deadline policy, in any cgroup",
            RoleKind::Group => "programs of one top-level cgroup",
            RoleKind::Other => "programs in no cgroup, and of those for which there was no role left",
            RoleKind::Gone => "what was counted of cgroups that were removed since",
        }
    }

    /// The id of a role that every reading has; `None` for groups.
    pub fn fixed_id(self) -> Option<RoleId> {
        RoleKind::FIXED.iter().position(|kind| *kind == self).map(|index| RoleId(index as u8))
    }

    /// Whether its tasks are kernel threads.
    pub fn is_kernel(self) -> bool {
        match self {
            RoleKind::Ksoftirqd
            | RoleKind::DirectIo
            | RoleKind::Kworker
            | RoleKind::Rcu
            | RoleKind::Storage
            | RoleKind::Nfsd
            | RoleKind::Kernel => true,
            RoleKind::Unknown
            | RoleKind::Idle
            | RoleKind::RealTime
            | RoleKind::Group
            | RoleKind::Other
            | RoleKind::Gone => false,
        }
    }

    /// Whether tasks of the role can wait; else it is only ever an occupant, or holds old sums.
    pub fn can_wait(self) -> bool {
        !matches!(self, RoleKind::Unknown | RoleKind::Idle | RoleKind::Gone)
    }
}

/// Victims whose episodes are kept apart: programs, of which any user can have some starve, hide nobody of the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum VictimClass {
    /// Kernel threads.
    Kernel,
    /// Programs with a real-time or deadline policy.
    RealTime,
    /// All others.
    Programs,
}

impl VictimClass {
    /// All of them.
    pub const ALL: [VictimClass; 3] = [VictimClass::Kernel, VictimClass::RealTime, VictimClass::Programs];

    /// The one of a role's tasks.
    pub fn of(kind: RoleKind) -> VictimClass {
        match kind {
            RoleKind::RealTime => VictimClass::RealTime,
            kind if kind.is_kernel() => VictimClass::Kernel,
            _ => VictimClass::Programs,
        }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Tasks that are summed up together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Role {
    /// What they are.
    pub kind: RoleKind,
    /// The cgroup's path below the root of its hierarchy (`/system.slice`), for a group. As the kernel has it: control characters
    /// and quotes are possible, see [`Role::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The group's weight beside other groups (`cpu.weight`; nice 0 is 100), where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Of a group which of all that the engine has seen it is, from 1 on; 0 of a role that every reading has. A group of the same name
    /// that came again has another one, and counts from 0.
    #[serde(skip)]
    pub generation: u64,
}

impl Role {
    /// A role that every reading has.
    pub fn fixed(kind: RoleKind) -> Role {
        Role { kind, cgroup: None, weight: None, generation: 0 }
    }

    /// A name that lasts, for labels and people: the kind's word, or the cgroup's path. Harmless on a terminal; quotes and
    /// backslashes are left for the format it is written in.
    pub fn name(&self) -> String {
        match &self.cgroup {
            Some(path) => unstarve_model::clean(path).into_owned(),
            None => self.kind.word().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_roles_have_ids_and_leave_room_for_groups() {
        assert_eq!(RoleKind::Idle.fixed_id(), Some(RoleId(1)));
        assert_eq!(RoleKind::Group.fixed_id(), None);
        assert!(RoleKind::FIXED.len() + 16 <= RoleId::LIMIT);
    }

    #[test]
    fn a_groups_name_drives_no_terminal() {
        let role =
            Role { kind: RoleKind::Group, cgroup: Some("/a\u{1b}[31m\"b".to_owned()), weight: None, generation: 1 };
        assert_eq!(role.name(), "/a\\u{1b}[31m\"b");
        assert_eq!(Role::fixed(RoleKind::DirectIo).name(), "direct-io");
    }
}
