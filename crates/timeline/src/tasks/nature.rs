//! Where tasks come from: of the kernel or of a program, and who created them.
//!
//! A program may call itself `ksoftirqd/0`. What a task is, its name only claims; who created it, an exec, a change of
//! its name and the host snapshot show.

use unstarve_model::{Comm, Tid};
use unstarve_sched::KernelThread;

/// Whether a task is a kernel thread, by anything but its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nature {
    /// Nothing shows it.
    #[default]
    Unknown,
    /// A kernel thread: the snapshot says so, or kthreadd created it.
    Kernel,
    /// A program: the snapshot says so, another task than kthreadd created it, or it executed a file.
    Program,
}

/// What a task's name claims beyond what is known of the task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Claim {
    /// Nothing: it is no name of a kernel thread, or the task is one.
    Nothing,
    /// That it is a kernel thread, and nothing shows whether it is.
    Unshown,
    /// The same of a program.
    False,
}

/// Who created a task in the course of the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Birth {
    /// The task that forked it.
    pub parent: Ancestor,
    /// The nearest of its ancestors that was there before the recording began.
    pub root: Ancestor,
    /// The task whose policy, affinity and cgroup it has, as far as the snapshot knows: its own, or if it was gone by then the nearest
    /// ancestor's that the snapshot knows.
    pub settings_of: Tid,
}

/// A task from which others come.
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
    /// What a snapshot says, where there is one.
    pub(crate) fn told(is_kernel_thread: Option<bool>, tid: Tid) -> Nature {
        match is_kernel_thread {
            Some(true) => Nature::Kernel,
            Some(false) => Nature::Program,
            None if tid == KTHREADD => Nature::Kernel,
            None => Nature::Unknown,
        }
    }

    /// The kernel thread that a task of this name is, if it is one.
    pub(crate) fn kernel_thread(self, comm: &Comm) -> Option<KernelThread> {
        if self == Nature::Program { None } else { KernelThread::of(comm) }
    }

    /// What a name claims of a task of this nature.
    pub(crate) fn claim(self, comm: &Comm) -> Claim {
        match self {
            Nature::Program if KernelThread::is_name_of_one(comm) => Claim::False,
            Nature::Unknown if KernelThread::is_name_of_one(comm) => Claim::Unshown,
            _ => Claim::Nothing,
        }
    }

    /// What a change of name shows: kernel threads get their names from kthreadd's alone, programs choose theirs.
    pub(crate) fn renamed(self, old: &Comm, new: &Comm) -> Nature {
        let was_program = !old.is_unknown() && !KernelThread::is_name_of_one(old) && KernelThread::is_name_of_one(new);
        if self == Nature::Unknown && was_program { Nature::Program } else { self }
    }
}
