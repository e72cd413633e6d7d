//! The system calls that read and set a task's scheduling attributes. Each setter changes one attribute and keeps the others.

use std::fs;
use std::io::{self, Write};
use std::mem::size_of;

use rustix::io::Errno;
use rustix::process::{Pid, getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};
use unstarve_change::{Aspect, Value};
use unstarve_host::SchedAttr;
use unstarve_model::{CpuId, CpuSet, SchedPolicy, Tid};

use crate::attributes::Attributes;

const RESET_ON_FORK: u64 = SchedAttr::RESET_ON_FORK;
/// SCHED_FLAG_RECLAIM and SCHED_FLAG_DL_OVERRUN, which a deadline task keeps.
const OF_DEADLINE: u64 = 0x02 | 0x04;
const KEEP_POLICY: u64 = 0x08;
const KEEP_PARAMS: u64 = 0x10;
const UTIL_CLAMP_MIN: u64 = 0x20;
const UTIL_CLAMP_MAX: u64 = 0x40;

/// Words of a mask for the maximum number of CPUs.
const MASK_WORDS: usize = CpuId::LIMIT as usize / 64;

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn raw(tid: Tid) -> libc::pid_t {
    // A tid is at most 2^22 (PID_MAX_LIMIT). A number outside pid_t is no task's, and −1 gives ESRCH or EINVAL.
    libc::pid_t::try_from(tid.0).unwrap_or(-1)
}

/// Sets all of a task's attributes at once, unnamed ones to their defaults. Allocates nothing, so it may be called between fork
/// and exec.
pub fn set(tid: Tid, mut attr: SchedAttr) -> io::Result<()> {
    attr.size = size_of::<SchedAttr>() as u32;
    // SAFETY: the kernel reads `size` bytes of `attr`.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, raw(tid), &raw const attr, 0) }).map(drop)
}

/// The same for rustix, where `None` is the calling thread. Negative numbers are not accepted.
fn pid(tid: Tid) -> io::Result<Option<Pid>> {
    let number = libc::pid_t::try_from(tid.0).map_err(|_| io::Error::from(Errno::SRCH))?;
    Ok(Pid::from_raw(number))
}

/// The nice value, which sched_getattr does not report for real-time tasks.
fn getpriority(tid: Tid) -> io::Result<i32> {
    Ok(getpriority_process(pid(tid)?)?)
}

/// The CPUs on which a task may run. rustix's CPU set ends at 1024.
pub fn affinity(tid: Tid) -> io::Result<CpuSet> {
    let mut mask = [0_u64; MASK_WORDS];
    let size = size_of_val(&mask);
    // SAFETY: the kernel writes at most `size` bytes into `mask`.
    let bytes = check(unsafe { libc::syscall(libc::SYS_sched_getaffinity, raw(tid), size, &raw mut mask) })?;
    let words = &mask[..(bytes as usize).div_ceil(8).min(MASK_WORDS)];
    let cpus = (0..CpuId::LIMIT).take(words.len() * 64);
    Ok(cpus.filter(|&cpu| words[cpu as usize / 64] & (1 << (cpu % 64)) != 0).map(CpuId).collect())
}

/// Sets the CPUs on which a task may run.
pub fn set_affinity(tid: Tid, cpus: &CpuSet) -> io::Result<()> {
    let mut mask = [0_u64; MASK_WORDS];
    for cpu in cpus.iter() {
        mask[cpu.index() / 64] |= 1 << (cpu.0 % 64);
    }
    let size = size_of_val(&mask);
    // SAFETY: the kernel reads `size` bytes of `mask`.
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, raw(tid), size, &raw const mask) }).map(drop)
}

/// Reads all settable attributes of a task.
pub fn read(tid: Tid) -> io::Result<Attributes> {
    let attr = SchedAttr::of(tid)?;
    let policy = SchedPolicy::from_number(attr.policy);
    let fair = policy.class() == Some(unstarve_model::Policy::Fair);
    Ok(Attributes {
        policy,
        deadline: (policy == SchedPolicy::Deadline).then_some((attr.runtime, attr.deadline, attr.period)),
        rt_priority: attr.priority,
        nice: getpriority(tid)?,
        reset_on_fork: attr.flags & RESET_ON_FORK != 0,
        slice: (fair && attr.runtime > 0).then_some(attr.runtime),
        uclamp: clamps_exist().then_some((attr.util_min, attr.util_max)),
        affinity: affinity(tid)?,
        files: Vec::new(),
    })
}

/// Reads one setting of a task; `None` if this kernel does not have it.
pub fn read_value(tid: Tid, aspect: Aspect) -> io::Result<Option<Value>> {
    let Some(file) = aspect.of_task().and_then(|setting| setting.file.as_ref()) else {
        return read(tid).map(|attributes| attributes.value(aspect));
    };
    let text = fs::read_to_string(format!("/proc/{tid}/{}", file.name))?;
    Ok((file.parse)(text.trim()))
}

/// Sets one setting of a task.
pub fn set_value(tid: Tid, value: &Value) -> io::Result<()> {
    match value {
        Value::Class { policy, rt_priority, slice } => set_class(tid, *policy, *rt_priority, *slice),
        Value::Deadline { runtime, deadline, period } => set_deadline(tid, *runtime, *deadline, *period),
        Value::Nice(nice) => set_nice(tid, *nice),
        Value::Slice(ns) => set_slice(tid, *ns),
        Value::Affinity(cpus) => set_affinity(tid, cpus),
        Value::Uclamp { min, max } => set_uclamp(tid, *min, *max),
        Value::ResetOnFork(on) => set_reset_on_fork(tid, *on),
        other => {
            let file = other.of_task().and_then(|setting| setting.file.as_ref());
            let found = file.and_then(|file| Some((file.name, (file.format)(other)?)));
            let (name, text) = found.ok_or(io::ErrorKind::InvalidInput)?;
            let mut file = fs::OpenOptions::new().write(true).open(format!("/proc/{tid}/{name}"))?;
            file.write_all(text.as_bytes())
        }
    }
}

/// Whether this kernel has utilisation clamps (CONFIG_UCLAMP_TASK). Without them sched_getattr leaves both at 0. With them a
/// maximum of 0 exists only where it was set, which nobody can have done for a new thread of this process.
fn clamps_exist() -> bool {
    static EXIST: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *EXIST.get_or_init(|| SchedAttr::of(Tid(0)).is_ok_and(|own| own.util_max > 0))
}

/// The slice of a task for which none was set: that of this process, unless it was changed.
fn default_slice() -> Option<u64> {
    static SLICE: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
    *SLICE.get_or_init(|| {
        // A new thread with the ordinary policy: slices are not inherited through reset-on-fork.
        std::thread::spawn(|| {
            let plain = SchedAttr { flags: 0, ..SchedAttr::default() };
            set(Tid(0), plain).ok()?;
            SchedAttr::of(Tid(0)).ok().map(|attr| attr.runtime).filter(|&runtime| runtime > 0)
        })
        .join()
        .ok()
        .flatten()
    })
}

/// The argument that keeps a task's slice: 0 keeps the default.
fn kept_slice(slice: Option<u64>) -> u64 {
    slice.filter(|_| slice != default_slice()).unwrap_or(0)
}

fn reset_flag(on: bool) -> u64 {
    if on { RESET_ON_FORK } else { 0 }
}

/// Sets policy and real-time priority. Nice and reset-on-fork stay; a fair policy gets `slice`, if given.
pub fn set_class(tid: Tid, policy: SchedPolicy, rt_priority: u32, slice: Option<u64>) -> io::Result<()> {
    let number = policy.number().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let now = read(tid)?;
    let fair = policy.class() == Some(unstarve_model::Policy::Fair);
    set(
        tid,
        SchedAttr {
            policy: number,
            flags: reset_flag(now.reset_on_fork),
            nice: if fair { now.nice } else { 0 },
            priority: rt_priority,
            runtime: if fair { kept_slice(slice.or(now.slice)) } else { 0 },
            ..SchedAttr::default()
        },
    )
}

/// Makes a task a deadline task with these times in ns. Reset-on-fork stays.
pub fn set_deadline(tid: Tid, runtime: u64, deadline: u64, period: u64) -> io::Result<()> {
    let now = read(tid)?;
    let number = SchedPolicy::Deadline.number().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    let flags = reset_flag(now.reset_on_fork) | SchedAttr::of(tid)?.flags & OF_DEADLINE;
    set(tid, SchedAttr { policy: number, flags, runtime, deadline, period, ..SchedAttr::default() })
}

/// Sets nice. setpriority(2) keeps the slice; sched_setattr(2) does not.
pub fn set_nice(tid: Tid, nice: i32) -> io::Result<()> {
    Ok(setpriority_process(pid(tid)?, nice)?)
}

/// Sets whether children start as ordinary tasks.
pub fn set_reset_on_fork(tid: Tid, on: bool) -> io::Result<()> {
    let now = read(tid)?;
    let number = now.policy.number().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    set(
        tid,
        SchedAttr {
            policy: number,
            flags: reset_flag(on) | SchedAttr::of(tid)?.flags & OF_DEADLINE,
            nice: now.nice,
            priority: now.rt_priority,
            runtime: now.deadline.map_or_else(|| kept_slice(now.slice), |(runtime, ..)| runtime),
            deadline: now.deadline.map_or(0, |(_, deadline, _)| deadline),
            period: now.deadline.map_or(0, |(.., period)| period),
            ..SchedAttr::default()
        },
    )
}

/// Sets the slice of a fair task, in ns.
pub fn set_slice(tid: Tid, slice: u64) -> io::Result<()> {
    let now = read(tid)?;
    let number = now.policy.number().ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
    set(
        tid,
        SchedAttr {
            policy: number,
            flags: reset_flag(now.reset_on_fork),
            nice: now.nice,
            priority: now.rt_priority,
            runtime: kept_slice(Some(slice)),
            ..SchedAttr::default()
        },
    )
}

/// Sets both utilisation clamps.
pub fn set_uclamp(tid: Tid, min: u32, max: u32) -> io::Result<()> {
    set(
        tid,
        SchedAttr {
            flags: KEEP_POLICY | KEEP_PARAMS | UTIL_CLAMP_MIN | UTIL_CLAMP_MAX,
            util_min: min,
            util_max: max,
            ..SchedAttr::default()
        },
    )
}

/// Raises the calling thread to a real-time priority; its children stay ordinary.
pub fn become_realtime(priority: u32) -> io::Result<()> {
    set(Tid(0), SchedAttr { policy: 1, flags: RESET_ON_FORK, priority, ..SchedAttr::default() })
}

/// The unit of start times in /proc, on the boot clock (USER_HZ is 100 on all architectures except Alpha and ia64).
pub const TICK_NS: u64 = 10_000_000;

/// The clock of fork events in ns (BPF's `ktime_get_ns`, the process connector).
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// The clock of tasks' start times in ns, which continues while the machine is suspended.
pub fn boot_ns() -> u64 {
    clock_ns(ClockId::Boottime)
}

/// Neither clock is ever negative.
fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
