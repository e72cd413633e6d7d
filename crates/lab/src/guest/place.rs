use std::io;

use crate::scenario::{Placement, Scheduling};

/// A policy as the system call takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// Number and priority.
    Plain(libc::c_int, libc::c_int),
    Deadline(Attributes),
}

/// `struct sched_attr` of its first version (include/uapi/linux/sched/types.h).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Policy {
    /// First-in-first-out with this priority, and fair for what it starts.
    pub(super) fn fifo_alone(priority: i32) -> Policy {
        Policy::Plain(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
    }

    /// As everybody else.
    pub(super) fn fair() -> Policy {
        Policy::Plain(libc::SCHED_OTHER, 0)
    }

    fn of(scheduling: Scheduling) -> Policy {
        match scheduling {
            Scheduling::Other => Policy::fair(),
            Scheduling::Batch => Policy::Plain(libc::SCHED_BATCH, 0),
            Scheduling::Idle => Policy::Plain(libc::SCHED_IDLE, 0),
            Scheduling::Fifo(priority) => Policy::Plain(libc::SCHED_FIFO, priority as libc::c_int),
            Scheduling::Rr(priority) => Policy::Plain(libc::SCHED_RR, priority as libc::c_int),
            Scheduling::Deadline { runtime_us, deadline_us, period_us } => Policy::Deadline(Attributes {
                size: size_of::<Attributes>() as u32,
                policy: libc::SCHED_DEADLINE as u32,
                // Else the kernel lets it start nothing.
                flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
                runtime_ns: runtime_us.saturating_mul(1_000),
                deadline_ns: deadline_us.saturating_mul(1_000),
                period_ns: period_us.saturating_mul(1_000),
                ..Attributes::default()
            }),
        }
    }

    /// Gives it to a thread; 0 is the caller.
    pub(super) fn give(self, tid: i32) -> io::Result<()> {
        match self {
            Policy::Plain(number, priority) => {
                let parameters = libc::sched_param { sched_priority: priority };
                // SAFETY: the parameters live across the call. The system call itself: not every C library has a wrapper.
                checked(unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, number, &parameters) })
            }
            Policy::Deadline(attributes) => {
                // SAFETY: the attributes live across the call and say their own size.
                checked(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &attributes, 0) })
            }
        }
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
        Place { policy: placement.policy.map(Policy::of), nice: placement.nice, cpus }
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
            rustix::process::setpriority_process(rustix::process::Pid::from_raw(tid), nice)?;
        }
        Ok(())
    }
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
