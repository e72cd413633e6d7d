//! Where tasks come from: of the kernel or of a program, and who created them.
//!
//! A program may call itself `ksoftirqd/0`. What a task is, its name only claims; who created it, an exec, a change of
//! its name and the host snapshot tell.

use unstarve_model::{Comm, Tid};
use unstarve_sched::KernelThread;

use crate::timeline::Timeline;
use crate::{State, TaskKey};

/// Whether a task is a kernel thread, by anything but its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nature {
    /// Nothing tells.
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
    /// That it is a kernel thread, and nothing tells.
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
    /// The task whose policy, affinity and cgroup it has, as far as the snapshot tells: its own, or if it was gone by then the nearest
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
const KTHREADD: Tid = Tid(2);

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

    /// What a change of name tells: kernel threads get their names from kthreadd's alone, programs choose theirs.
    pub(crate) fn renamed(self, old: &Comm, new: &Comm) -> Nature {
        let was_program = !old.is_unknown() && !KernelThread::is_name_of_one(old) && KernelThread::is_name_of_one(new);
        if self == Nature::Unknown && was_program { Nature::Program } else { self }
    }
}

impl Timeline {
    /// A thread id is given to a new thread: whatever had it before is gone.
    pub(crate) fn fork(&mut self, parent: Tid, child: Tid, comm: Comm) {
        if child.is_idle() {
            return;
        }
        if let Some(old) = self.world.tasks.find(child) {
            match self.world.tasks.get(old).state {
                State::Waiting => self.drop_wait(old),
                // Its own CPU will contradict; the new thread cannot have been born while the old one ran.
                State::Running(_) => return,
                _ => {}
            }
            self.bury(old);
        }
        let nature = if parent == KTHREADD { Nature::Kernel } else { Nature::Program };
        // fork() copies policy, affinity and cgroup. kthreadd's are not its children's: those are bound, and given a policy, later.
        let creator = self.world.tasks.find(parent).map_or(parent, |key| self.world.tasks.get(key).settings_of());
        let is_own = nature == Nature::Kernel || self.world.settings.0.knows(child);
        let settings_of = if is_own { child } else { creator };
        let key = self.new_task_of(nature, (child, settings_of), comm, None);
        // A thread begins with its creator's name.
        let parent_is = Ancestor { tid: parent, comm };
        let (root, debts) = match self.world.tasks.find(parent) {
            Some(parent) => {
                let parent = self.world.tasks.get(parent);
                (parent.birth.as_ref().map_or(parent_is, |birth| birth.root), parent.debts.clone())
            }
            None => (parent_is, Default::default()),
        };
        let task = self.world.tasks.get_mut(key);
        task.birth = Some(Box::new(Birth { parent: parent_is, root, settings_of }));
        // Whoever sleeps until the child has done something slept while its creator waited, too.
        task.debts = debts;
    }

    /// The task is gone, and another one may have its number. If it was there before the recording, what it is was said by a snapshot, which
    /// may have been taken later: then it is that one's word.
    #[cold]
    pub(crate) fn bury(&mut self, key: TaskKey) {
        let task = self.world.tasks.get(key);
        if task.birth.is_none() && task.nature == Nature::Kernel {
            let actor = task.actor;
            self.world.actors.get_mut(actor).doubt();
        }
        self.world.tasks.remove(key);
    }

    /// Something tells what the task is.
    pub(crate) fn set_nature(&mut self, key: TaskKey, nature: Nature) {
        let task = self.world.tasks.get_mut(key);
        if task.nature == nature {
            return;
        }
        task.nature = nature;
        self.renew_actor(key);
    }
}
