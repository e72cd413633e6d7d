//! Finds the longest waits in progress.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid, Time};

use super::counted::Counted;
use super::programs::{Programs, RawOldest};
use crate::engine::reading::{OldestWait, RoleId, TaskId};
use crate::engine::schedstat_check::SchedstatCheck;
use crate::engine::{EngineError, clocks, proc};

/// Listing all tasks may take at most 1/100 of the time: for 60,000 tasks it takes about 15 ms.
const SHARE: u32 = 100;
/// If the only tasks that seem to wait are waiting for an idle CPU, list tasks every two seconds; a reading may be slightly early. On kernels
/// that omit switch events this is so most of the time. The only possible culprit is then a quota, about which the group's own counters say more.
const FOR_IDLE: Duration = Duration::from_millis(1_900);
/// Maximum waits per report.
const MAX_REPORTED_WAITS: usize = 64;

/// Lists waits in progress at a bounded cost.
pub(super) struct Oldest {
    from: Nanos,
    next: Option<Instant>,
    next_for_idle: Option<Instant>,
    /// What the last listing found, and when, for use while the next listing is not yet due.
    last: Vec<OldestWait>,
    looked: Time,
    /// What `/proc` said about the waiting tasks when they were first seen.
    check: SchedstatCheck,
    /// What each role had waited at the previous reading, and its time.
    before: Option<(Time, Vec<u64>)>,
}

/// Why all tasks are listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// A task may have waited long enough.
    Waits,
    /// Tasks wait for an idle CPU only.
    ForIdle,
}

/// The result of a listing.
#[derive(Default)]
pub(super) struct Found {
    /// Longest first.
    pub waits: Vec<OldestWait>,
    /// Waits that `/proc` disproved.
    pub disproved: u64,
}

/// The waits in progress that the programs list.
pub(super) fn listed(programs: &Programs) -> Result<Vec<RawOldest>, EngineError> {
    let read = |source: io::Error| EngineError::Read { what: "the waiting tasks", source };
    let bytes = programs.list().map_err(read)?;
    let raw = bytes.chunks_exact(size_of::<RawOldest>());
    // SAFETY: plain integers, any bits are valid; the chunk has the size of one.
    Ok(raw.map(|bytes| unsafe { bytes.as_ptr().cast::<RawOldest>().read_unaligned() }).collect())
}

impl Oldest {
    pub fn new(from: Nanos) -> Oldest {
        Oldest {
            from,
            next: None,
            next_for_idle: None,
            last: Vec::new(),
            looked: Time(0),
            check: SchedstatCheck::default(),
            before: None,
        }
    }

    pub fn look(&mut self, programs: &Programs, counted: &Counted, at: ClockPair) -> Result<Found, EngineError> {
        let Some(why) = self.may_have_any(counted, at.trace) else {
            self.last.clear();
            return Ok(Found::default());
        };
        let next = if why == Why::ForIdle { self.next.max(self.next_for_idle) } else { self.next };
        if next.is_some_and(|next| Instant::now() < next) {
            return Ok(self.once_more(at));
        }
        let before = clocks::thread();
        let mut waits: Vec<OldestWait> =
            listed(programs)?.iter().filter_map(|raw| self.wait(raw, counted, at)).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        let mut waits = first_of_each(waits);
        name_occupants(&mut waits, counted);
        let found = self.confirmed(waits, at.trace);
        // This thread's CPU time: on a busy machine the wall clock includes time of other tasks.
        let took = Duration::from_nanos(clocks::thread().saturating_sub(before).0);
        self.next = (took > Duration::from_millis(1)).then(|| Instant::now() + took * SHARE);
        self.next_for_idle = Some(Instant::now() + FOR_IDLE);
        self.last.clone_from(&found.waits);
        self.looked = at.trace;
        Ok(found)
    }

    /// Whether a wait may have lasted long enough. Listing all tasks is expensive. But a task that has waited for `from` has added at least
    /// `from` to the sum of its role.
    fn may_have_any(&mut self, counted: &Counted, now: Time) -> Option<Why> {
        let roles = &counted.totals.roles;
        let waited = roles.iter().map(|role| role.waited).collect();
        let before = self.before.replace((now, waited));
        let grew = |index: usize| match &before {
            Some((then, waited)) if now.since(*then) >= self.from => {
                roles[index].waited.wrapping_sub(waited[index]) >= self.from.0
            }
            _ => true,
        };
        if (0..roles.len()).any(|index| roles[index].waiting > 0 && grew(index)) {
            return Some(Why::Waits);
        }
        // A quota can keep tasks off an idle CPU.
        counted.waits_for_idle.then_some(Why::ForIdle)
    }

    fn wait(&self, raw: &RawOldest, counted: &Counted, at: ClockPair) -> Option<OldestWait> {
        let ns = at.trace.since(Time(raw.start));
        if ns < self.from {
            return None;
        }
        let current = counted.current.get(raw.cpu as usize)?;
        let task = TaskId { tid: Tid(raw.tid), tgid: Tid(raw.tgid), comm: Comm::new(&raw.comm.map(|c| c as u8)) };
        let (role, occupant_role) = (RoleId(raw.role), current.role);
        // The list is made after the sums: a task that got the CPU in between is not the one in `current`.
        let occupied = current.since.map_or(Nanos::ZERO, |since| at.trace.since(since));
        Some(OldestWait { cpu: CpuId(raw.cpu), task, role, ns, occupant: None, occupant_role, occupied })
    }

    /// The waits of the last listing that are still in progress, with their age updated.
    fn once_more(&mut self, at: ClockPair) -> Found {
        let passed = at.trace.since(self.looked);
        self.looked = at.trace;
        // The occupant is not looked up again.
        let older = |wait: OldestWait| OldestWait { ns: wait.ns + passed, occupied: Nanos::ZERO, ..wait };
        let waits = std::mem::take(&mut self.last).into_iter().map(older).collect();
        let found = self.confirmed(waits, at.trace);
        self.last.clone_from(&found.waits);
        found
    }

    /// Events alone are not enough to report that a task starves: a kernel may omit a switch event, and the task may have run since
    /// the listing.
    fn confirmed(&mut self, mut waits: Vec<OldestWait>, at: Time) -> Found {
        let before = waits.len();
        let claim = |wait: &OldestWait| (wait.task.tid, at - wait.ns);
        self.check.hear(waits.iter().map(claim));
        waits.retain(|wait| self.check.agrees(claim(wait)) == Some(true));
        Found { disproved: (before - waits.len()) as u64, waits }
    }
}

/// Reads the names of the occupants, once per CPU, however many tasks wait for it.
fn name_occupants(waits: &mut [OldestWait], counted: &Counted) {
    let mut named: BTreeMap<CpuId, Option<TaskId>> = BTreeMap::new();
    for wait in waits {
        let name = || {
            let current = counted.current.get(wait.cpu.0 as usize).filter(|current| !current.tid.is_idle())?;
            Some(TaskId { tid: current.tid, tgid: current.tgid, comm: proc::comm(current.tid)? })
        };
        wait.occupant = *named.entry(wait.cpu).or_insert_with(name);
    }
}

/// The longest wait of each role on each CPU, up to the maximum.
fn first_of_each(waits: Vec<OldestWait>) -> Vec<OldestWait> {
    let mut firsts: Vec<OldestWait> = Vec::new();
    for wait in waits {
        if firsts.len() < MAX_REPORTED_WAITS
            && !firsts.iter().any(|known| (known.cpu, known.role) == (wait.cpu, wait.role))
        {
            firsts.push(wait);
        }
    }
    firsts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(waiting: u32, waited: u64) -> Counted {
        let mut counted = Counted::default();
        counted.totals.roles[3].waiting = waiting;
        counted.totals.roles[3].waited = waited;
        counted
    }

    #[test]
    fn tasks_are_looked_at_if_one_of_them_may_have_waited_for_long() {
        const MS: u64 = 1_000_000;
        let mut oldest = Oldest::new(Nanos(10 * MS));
        let mut may =
            |ms: u64, waiting, waited: u64| oldest.may_have_any(&counted(waiting, waited * MS), Time(ms * MS));
        assert_eq!(may(0, 1, 0), Some(Why::Waits), "nothing is known yet");
        assert_eq!(may(250, 1, 9), None, "who waits now has waited for less");
        assert_eq!(may(500, 1, 19), Some(Why::Waits), "or for just so long");
        assert_eq!(may(750, 0, 200), None, "nobody waits now");
        // Immediately after the last look: too soon for any sum to show it.
        assert_eq!(may(751, 1, 201), Some(Why::Waits));
        assert_eq!(may(1_000, 1, 202), None);
        let mut idle = |ms: u64, waited: u64| {
            let idle = Counted { waits_for_idle: true, ..counted(1, waited * MS) };
            oldest.may_have_any(&idle, Time(ms * MS))
        };
        assert_eq!(idle(1_250, 202), Some(Why::ForIdle), "what waits for an idle CPU is in no sum yet");
        assert_eq!(idle(1_500, 302), Some(Why::Waits), "others wait for a busy one");
    }
}
