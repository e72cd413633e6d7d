use std::io;

use crate::scenario::Placement;

/// A policy as the system call takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    number: libc::c_int,
    priority: libc::c_int,
}

impl Policy {
    /// First-in-first-out with this priority, and fair for what it starts.
    pub(super) fn fifo_alone(priority: i32) -> Policy {
        Policy { number: libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority }
    }

    /// As everybody else.
    pub(super) fn fair() -> Policy {
        Policy { number: libc::SCHED_OTHER, priority: 0 }
    }

    fn named(name: &str, priority: u32) -> Policy {
        let number = match name {
            "fifo" => libc::SCHED_FIFO,
            "rr" => libc::SCHED_RR,
            "batch" => libc::SCHED_BATCH,
            "idle" => libc::SCHED_IDLE,
            _ => libc::SCHED_OTHER,
        };
        Policy { number, priority: priority as libc::c_int }
    }

    /// Gives it to a thread; 0 is the caller.
    pub(super) fn give(self, tid: i32) -> io::Result<()> {
        let parameters = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the parameters live across the call. The system call itself: not every C library has a wrapper.
        let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, self.number, &parameters) };
        checked(result)
    }
}

/// What a thread is given, ready for the system calls (nothing is allocated when it is given).
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    policy: Option<Policy>,
    nice: Option<i32>,
    cpus: Option<rustix::thread::CpuSet>,
}

impl Place {
    pub(super) fn of(placement: &Placement) -> Place {
        let cpus = placement.cpus.as_ref().map(|numbers| {
            let mut set = rustix::thread::CpuSet::new();
            let most = rustix::thread::CpuSet::MAX_CPU;
            numbers.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < most).for_each(|cpu| set.set(cpu));
            set
        });
        let policy = placement.policy.as_ref().map(|(name, priority)| Policy::named(name, *priority));
        Place { policy, nice: placement.nice, cpus }
    }

    /// Gives it to a thread; 0 is the caller.
    pub(super) fn give(&self, tid: i32) -> io::Result<()> {
        if let Some(cpus) = &self.cpus {
            rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(tid), cpus)?;
        }
        if let Some(policy) = self.policy {
            policy.give(tid)?;
        }
        if let Some(nice) = self.nice {
            // SAFETY: takes no pointers.
            let result = unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, tid, nice) };
            checked(result)?;
        }
        Ok(())
    }
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
