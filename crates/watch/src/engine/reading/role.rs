//! Roles: the groups of tasks by which waits are summed up.

use std::fmt;

use serde::Serialize;

/// Index of a [`Role`] in [`crate::engine::reading::Reading::roles`]. The id of a removed group is reused; the name is stable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct RoleId(pub u8);

impl RoleId {
    /// Maximum number of roles.
    pub const LIMIT: usize = 32;

    /// Index into tables.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Kinds of roles.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoleKind {
    /// The task is unknown. Only used for occupants.
    Unknown,
    /// The CPU was idle. Only used for occupants.
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
    /// Sums of groups that were removed. Grows by a whole group's sums at once: unsuitable for rates.
    Gone,
}

impl RoleKind {
    /// The roles in every reading, in the order of their ids. Groups follow.
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

    /// The role of a worker that executes this work function, if it is not a plain worker.
    ///
    /// Sources: fs/iomap/direct-io.c, fs/direct-io.c, fs/fs-writeback.c, 5.10 to 7.2.
    pub(crate) fn of_work(function: &str) -> Option<RoleKind> {
        match function {
            "iomap_dio_complete_work" | "dio_aio_complete_work" => Some(RoleKind::DirectIo),
            "wb_workfn" => Some(RoleKind::Storage),
            _ => None,
        }
    }

    /// The kind with this word; groups have none of their own.
    pub fn named(word: &str) -> Option<RoleKind> {
        RoleKind::FIXED.into_iter().find(|kind| kind.word() == word)
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

    /// One line for people: which tasks belong to the role.
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

    /// The id of a role that is in every reading; `None` for groups.
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

    /// Whether tasks of the role can wait; otherwise it is used only for occupants or old sums.
    pub fn can_wait(self) -> bool {
        !matches!(self, RoleKind::Unknown | RoleKind::Idle | RoleKind::Gone)
    }
}

/// Classes of victims with separate episodes: any user can make programs starve, which must not hide that kernel threads do.
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
    /// All classes.
    pub const ALL: [VictimClass; 3] = [VictimClass::Kernel, VictimClass::RealTime, VictimClass::Programs];

    /// The class of a role.
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

/// A set of tasks whose waits are summed up together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Role {
    /// What the tasks are.
    pub kind: RoleKind,
    /// For a group, the cgroup's path below the root of its hierarchy (`/system.slice`), as the kernel returns it: it can contain control
    /// characters and quotes, see [`Role::name`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The group's weight relative to other groups (`cpu.weight`; nice 0 is 100), if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// For a group, its number among all groups that the engine has seen, from 1; 0 for roles in every reading. A group that was
    /// created again under the same name has another number, and its sums start at 0.
    #[serde(skip)]
    pub generation: u64,
}

impl Role {
    /// A role that is in every reading.
    pub fn fixed(kind: RoleKind) -> Role {
        Role { kind, cgroup: None, weight: None, generation: 0 }
    }

    /// A stable name for labels and people: the kind's word, or the cgroup's path. Control characters are escaped; quotes and
    /// backslashes must be escaped by the output format.
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
