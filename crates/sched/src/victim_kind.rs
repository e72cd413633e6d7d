//! Kinds of victims by name, in the words of reports and tables.

use std::fmt;
use std::str::FromStr;

use crate::KernelThread;
use serde::{Deserialize, Serialize};

/// What a victim is for, as far as its name says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VictimKind {
    /// A task that is not called like a kernel thread of the kinds below.
    #[default]
    Task,
    /// A cgroup of which no task is known.
    Cgroup,
    /// A worker of a workqueue's pool.
    Kworker,
    /// `ksoftirqd/C`.
    Ksoftirqd,
    /// `migration/C`.
    Migration,
    /// A thread of RCU.
    Rcu,
    /// `nfsd`.
    Nfsd,
    /// A threaded interrupt handler.
    IrqThread,
    /// `ktimers/C`.
    Ktimers,
    /// A kernel thread that I/O waits for.
    Storage,
}

impl VictimKind {
    const ALL: [VictimKind; 10] = [
        VictimKind::Task,
        VictimKind::Cgroup,
        VictimKind::Kworker,
        VictimKind::Ksoftirqd,
        VictimKind::Migration,
        VictimKind::Rcu,
        VictimKind::Nfsd,
        VictimKind::IrqThread,
        VictimKind::Ktimers,
        VictimKind::Storage,
    ];

    /// As reports and tables have it.
    pub fn word(self) -> &'static str {
        match self {
            VictimKind::Task => "task",
            VictimKind::Cgroup => "cgroup",
            VictimKind::Kworker => "kworker",
            VictimKind::Ksoftirqd => "ksoftirqd",
            VictimKind::Migration => "migration",
            VictimKind::Rcu => "rcu",
            VictimKind::Nfsd => "nfsd",
            VictimKind::IrqThread => "irq-thread",
            VictimKind::Ktimers => "ktimers",
            VictimKind::Storage => "storage",
        }
    }

    /// Whether its name is one of a kernel thread.
    pub fn is_named_as_kernel_thread(self) -> bool {
        !matches!(self, VictimKind::Task | VictimKind::Cgroup)
    }
}

impl From<Option<KernelThread>> for VictimKind {
    fn from(thread: Option<KernelThread>) -> VictimKind {
        match thread {
            None => VictimKind::Task,
            Some(KernelThread::BoundWorker { .. } | KernelThread::UnboundWorker | KernelThread::Rescuer) => {
                VictimKind::Kworker
            }
            Some(KernelThread::Ksoftirqd { .. }) => VictimKind::Ksoftirqd,
            Some(KernelThread::Migration) => VictimKind::Migration,
            Some(KernelThread::Rcu) => VictimKind::Rcu,
            Some(KernelThread::Nfsd) => VictimKind::Nfsd,
            Some(KernelThread::IrqThread) => VictimKind::IrqThread,
            Some(KernelThread::Ktimers) => VictimKind::Ktimers,
            Some(KernelThread::Storage) => VictimKind::Storage,
        }
    }
}

impl FromStr for VictimKind {
    type Err = ();

    fn from_str(word: &str) -> Result<VictimKind, ()> {
        VictimKind::ALL.into_iter().find(|kind| kind.word() == word).ok_or(())
    }
}

impl fmt::Display for VictimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_that_of_the_json() {
        for kind in VictimKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.word());
            assert_eq!(kind.word().parse(), Ok(kind));
        }
    }
}
