//! Waits that last.

use std::io;
use std::time::{Duration, Instant};

use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid, Time};

use super::counted::Counted;
use super::programs::{Programs, RawOldest};
use crate::{EngineError, OldestWait, RoleId, TaskId, clocks, proc};

/// Looking at all tasks may take this part of the time at most: of 60,000 tasks it takes some 15 ms.
const SHARE: u32 = 100;
/// Waits reported at once.
const MOST: usize = 64;

/// Looks for them.
pub(super) struct Oldest {
    from: Nanos,
    next: Option<Instant>,
    /// What the last look found, and when: it may be too early for another.
    last: Vec<OldestWait>,
    looked: Time,
}

/// What a look has found.
#[derive(Default)]
pub(super) struct Found {
    /// Longest first.
    pub waits: Vec<OldestWait>,
    /// Waits that `/proc` disproved.
    pub disproved: u64,
}

impl Oldest {
    pub fn new(from: Nanos) -> Oldest {
        Oldest { from, next: None, last: Vec::new(), looked: Time(0) }
    }

    pub fn look(&mut self, programs: &Programs, counted: &Counted, at: ClockPair) -> Result<Found, EngineError> {
        if counted.totals.roles.iter().all(|role| role.waiting == 0) {
            return Ok(Found::default());
        }
        if self.next.is_some_and(|next| Instant::now() < next) {
            return Ok(self.once_more(at));
        }
        let before = clocks::thread();
        let read = |source: io::Error| EngineError::Read { what: "the waiting tasks", source };
        let bytes = programs.list().map_err(read)?;
        let mut waits: Vec<OldestWait> = bytes
            .chunks_exact(size_of::<RawOldest>())
            .filter_map(|bytes| {
                // SAFETY: plain integers, any bits are valid; the chunk is as long as one.
                let raw = unsafe { bytes.as_ptr().cast::<RawOldest>().read_unaligned() };
                self.wait(&raw, counted, at)
            })
            .collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        let found = confirmed(first_of_each(waits));
        // Its own time: on a busy machine more passes by the clock.
        let took = Duration::from_nanos(clocks::thread().saturating_sub(before).0);
        self.next = (took > Duration::from_millis(1)).then(|| Instant::now() + took * SHARE);
        self.last.clone_from(&found.waits);
        self.looked = at.trace;
        Ok(found)
    }

    fn wait(&self, raw: &RawOldest, counted: &Counted, at: ClockPair) -> Option<OldestWait> {
        let ns = at.trace.since(Time(raw.start));
        if ns < self.from {
            return None;
        }
        let current = counted.current.get(raw.cpu as usize)?;
        let occupant = (!current.tid.is_idle())
            .then(|| Some(TaskId { tid: current.tid, tgid: current.tgid, comm: proc::comm(current.tid)? }))
            .flatten();
        let task = TaskId { tid: Tid(raw.tid), tgid: Tid(raw.tgid), comm: Comm::new(&raw.comm.map(|c| c as u8)) };
        let (role, occupant_role) = (RoleId(raw.role as u8), current.role);
        Some(OldestWait { cpu: CpuId(raw.cpu), task, role, ns, occupant, occupant_role })
    }

    /// Those of the last look that may still wait, so much older. One that ran meanwhile and waits again is found out at the next.
    fn once_more(&mut self, at: ClockPair) -> Found {
        let passed = at.trace.since(self.looked);
        self.looked = at.trace;
        let older = |wait: OldestWait| OldestWait { ns: wait.ns + passed, ..wait };
        let found = confirmed(std::mem::take(&mut self.last).into_iter().map(older).collect());
        self.last.clone_from(&found.waits);
        found
    }
}

/// Of each CPU the longest of each role, and not more than are worth reading.
fn first_of_each(waits: Vec<OldestWait>) -> Vec<OldestWait> {
    let mut firsts: Vec<OldestWait> = Vec::new();
    for wait in waits {
        if firsts.len() < MOST && !firsts.iter().any(|known| (known.cpu, known.role) == (wait.cpu, wait.role)) {
            firsts.push(wait);
        }
    }
    firsts
}

/// What events say is not enough to say of a task that it starves: a kernel may leave out a switch.
fn confirmed(waits: Vec<OldestWait>) -> Found {
    let before = waits.len();
    let waits: Vec<OldestWait> = waits.into_iter().filter(|wait| proc::is_runnable(wait.task.tid)).collect();
    Found { disproved: (before - waits.len()) as u64, waits }
}
