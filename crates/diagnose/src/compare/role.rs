//! Roles: what a thread is called in both recordings, independent of ids.

use std::fmt;

use serde::{Deserialize, Serialize};
use unstarve_model::Comm;
use unstarve_sched::KernelThread;
use unstarve_timeline::{Actor, ActorKind};

use crate::report::VictimKind;

/// What two recordings have in common where ids differ: a kind of thread and its name without numbers that only count.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Role {
    /// `kworker`, `ksoftirqd`, …; `task` for everything that is no kernel thread by its name.
    pub kind: String,
    /// `kworker/*:*`, `nfsd`, `worker-*`.
    pub name: String,
}

impl Role {
    /// The role of an actor; `None` if it is not a task.
    pub(super) fn of(actor: &Actor) -> Option<Role> {
        let ActorKind::Tasks { comm, .. } = actor.kind else { return None };
        Some(Role::named(&comm))
    }

    /// The role of tasks with this name.
    pub(super) fn named(comm: &Comm) -> Role {
        let kind = VictimKind::from(KernelThread::of(comm));
        Role { kind: kind.to_string(), name: without_counters(comm) }
    }

    /// The role that stands for all tasks together.
    pub(super) fn everyone() -> Role {
        Role { kind: "all".to_owned(), name: "all tasks".to_owned() }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

/// Replaces numbers that only count with `*`: `kworker/0:2H` becomes `kworker/*:*H`, `rcuop/13` becomes `rcuop/*`. `md0_raid1`
/// and `python3` stay.
fn without_counters(comm: &Comm) -> String {
    let name = comm.to_string();
    let mut out = String::with_capacity(name.len());
    let mut rest = name.as_str();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let before = rest[..start].chars().next_back();
        out.push_str(&rest[..start]);
        // The number of an unbound pool follows a `u`: `kworker/u8:3`.
        let counts = before.is_some_and(|c| "/:-_#. ".contains(c)) || out.ends_with("kworker/u");
        out.push_str(if counts { "*" } else { &rest[start..start + digits] });
        rest = &rest[start + digits..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_count_go_and_those_of_names_stay() {
        let cases = [
            ("kworker/0:2", "kworker/*:*"),
            ("kworker/11:1H", "kworker/*:*H"),
            ("kworker/u8:3", "kworker/u*:*"),
            ("ksoftirqd/1", "ksoftirqd/*"),
            ("worker-12", "worker-*"),
            ("python3", "python3"),
            ("md0_raid1", "md0_raid1"),
            ("irq/33-nvme0q1", "irq/*-nvme0q1"),
            ("fio", "fio"),
            ("", "<...>"),
        ];
        for (comm, role) in cases {
            assert_eq!(without_counters(&Comm::from(comm)), role);
        }
    }
}
