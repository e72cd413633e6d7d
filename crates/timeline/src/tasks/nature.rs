//! Whether tasks are kernel threads or programs, and who created them.
//!
//! A program may have the name `ksoftirqd/0`: a name is only a claim. The creator, an exec, a rename and the host snapshot are
//! evidence.

use unstarve_model::{Comm, Tid};
use unstarve_sched::KernelThread;

/// Whether a task is a kernel thread, by more than its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nature {
    /// Unknown.
    #[default]
    Unknown,
    /// A kernel thread, by the snapshot or because kthreadd created it.
    Kernel,
    /// A program, by the snapshot, or because another task than kthreadd created it, or because it executed a file.
    Program,
}

/// What a task's name claims beyond what is known of the task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Claim {
    /// Nothing: it is not a kernel thread's name, or the task is a kernel thread.
    Nothing,
    /// It claims a kernel thread, which is unconfirmed.
    Unshown,
    /// It claims a kernel thread, but the task is a program.
    False,
}

/// The creator of a task that was created during the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    /// The task that forked it.
    pub parent: Ancestor,
    /// Its nearest ancestor that existed before the recording.
    pub root: Ancestor,
    /// The task whose policy, affinity and cgroup it has in the snapshot: itself, or if it had exited by then, its nearest
    /// ancestor in the snapshot.
    pub settings_of: Tid,
}

/// An ancestor of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ancestor {
    /// Its id.
    pub tid: Tid,
    /// Its name when it forked.
    pub comm: Comm,
}

/// Creates all kernel threads since 2.6.12 (`kernel/kthread.c`); the second task of every boot (`rest_init`).
pub(crate) const KTHREADD: Tid = Tid(2);

impl Nature {
    /// By the snapshot, if there is one.
    pub(crate) fn told(is_kernel_thread: Option<bool>, tid: Tid) -> Nature {
        match is_kernel_thread {
            Some(true) => Nature::Kernel,
            Some(false) => Nature::Program,
            None if tid == KTHREADD => Nature::Kernel,
            None => Nature::Unknown,
        }
    }

    /// The kernel thread that a task with this name is, if any.
    pub(crate) fn kernel_thread(self, comm: &Comm) -> Option<KernelThread> {
        if self == Nature::Program { None } else { KernelThread::of(comm) }
    }

    /// What the name of such a task claims.
    pub(crate) fn claim(self, comm: &Comm) -> Claim {
        match self {
            Nature::Program if KernelThread::is_name_of_one(comm) => Claim::False,
            Nature::Unknown if KernelThread::is_name_of_one(comm) => Claim::Unshown,
            _ => Claim::Nothing,
        }
    }

    /// What a rename shows: kernel threads are renamed only from kthreadd's name; programs choose their names.
    pub(crate) fn renamed(self, old: &Comm, new: &Comm) -> Nature {
        let was_program = !old.is_unknown() && !KernelThread::is_name_of_one(old) && KernelThread::is_name_of_one(new);
        if self == Nature::Unknown && was_program { Nature::Program } else { self }
    }
}
