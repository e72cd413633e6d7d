//! Reads the sums of the BPF programs from the map that they share with this process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use unstarve_model::{Comm, CpuId, Nanos, Tid, Time};
use unstarve_sched::Rule;
use unstarve_sched::counted::{COUNTED_RULES, place};

use super::programs::{ByRole, RawCpu, RawQueue, RawRow};
use crate::engine::reading::{RoleId, RoleKind, TaskId, WorkloadSums, Workloads};
use crate::engine::recent_runs::{RECENT, RecentRuns};
use crate::engine::totals::Totals;
use crate::engine::{EngineError, clocks, proc};

/// Attempts to read between two writes. Even at 100,000 context switches per second, a CPU is quiet between two of them for far longer than
/// copying a row takes.
const TRIES: usize = 1 << 16;

/// Attempts to copy a consistent row. Most copies are consistent at once.
const WHOLE_TRIES: usize = 64;

/// Queues per role; `BIAS` and `64 - WEIGHT_FROM` of counted.h and queues.h.
const BANDS: usize = 4;
const BIAS: u64 = 1 << 56;
const WEIGHT_BITS: u32 = 40;

/// One CPU's sums, mapped. Large hosts map one CPU at a time, because mapped pages count as memory of this process.
pub(super) struct Cpu {
    mapped: *mut libc::c_void,
    length: usize,
    at: *const RawCpu,
    number: usize,
}

/// The sums of all CPUs up to now.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub totals: Totals,
    /// By number of a pod or unit.
    pub places: Vec<WorkloadSums>,
    pub missing: u64,
    pub disbelieved: u64,
    /// When the first and the last CPU with waiting tasks updated their sums, on the monotonic clock.
    pub between: Option<(Time, Time)>,
    /// A task waits for a CPU that is believed to be idle: its wait is not counted yet.
    pub waits_for_idle: bool,
    /// What runs on each CPU.
    pub current: Vec<Current>,
}

/// The task that runs on a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub tid: Tid,
    pub tgid: Tid,
    pub role: RoleId,
    /// The number of its pod or unit.
    pub place: u8,
    /// Start of its run; `None` if the CPU switched while this was read.
    pub since: Option<Time>,
}

impl Cpu {
    /// Maps one CPU's element of the array map.
    pub fn map(map: BorrowedFd<'_>, number: usize) -> io::Result<Cpu> {
        let offset = number * size_of::<RawCpu>();
        // Where pages are larger than 4 KiB, the element can begin inside a page.
        let within = offset % rustix::param::page_size();
        let length = within + size_of::<RawCpu>();
        // SAFETY: a new read-only mapping of a part of the map; `number` is that of a possible CPU.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                (offset - within) as libc::off_t,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Cpu { mapped, length, at: mapped.wrapping_byte_add(within).cast_const().cast(), number })
    }

    /// Whether a task may be waiting for the CPU, or the running task is unknown.
    pub fn has_waiting(&self) -> bool {
        let cpu = self.at;
        // SAFETY: within the mapping. The kernel writes concurrently: each word is read on its own, and any value is valid.
        unsafe {
            let active = ptr::read_volatile(&raw const (*cpu).active_count);
            let known = ptr::read_volatile(&raw const (*cpu).known);
            let marks = ptr::read_volatile(&raw const (*cpu).marks);
            let seen = ptr::read_volatile(&raw const (*cpu).seen_marks);
            active > 0 || known == 0 || marks != seen || self.has_tasks()
        }
    }

    /// Whether a queue has tasks. On weakly ordered machines a mark can become visible before the data that it announces.
    fn has_tasks(&self) -> bool {
        let cpu = self.at;
        (0..RoleId::LIMIT).flat_map(|role| (0..BANDS).map(move |band| (role, band))).any(|(role, band)| {
            // SAFETY: as above.
            let queue = unsafe { &raw const (*cpu).rows[role].queues[band] };
            // SAFETY: as above.
            unsafe {
                tasks(
                    ptr::read_volatile(&raw const (*queue).others.load),
                    ptr::read_volatile(&raw const (*queue).own.load),
                ) > 0
            }
        })
    }

    /// Whether a task may be waiting behind another task. On some machines a task seems to wait for an idle CPU nearly all the time.
    pub fn has_crowd(&self) -> bool {
        // SAFETY: within the mapping, one word each.
        let (known, tid) =
            unsafe { (ptr::read_volatile(&raw const (*self.at).known), ptr::read_volatile(&raw const (*self.at).tid)) };
        // Nothing is known of a CPU that was never online, and no task waits there.
        (known == 0 || !Tid(tid).is_idle()) && self.has_tasks()
    }

    /// Adds what each role has waited here. Of waits in progress, only the part already counted is included. Reads without synchronisation:
    /// a sum may be arbitrary if the CPU writes meanwhile.
    pub fn add_noted(&self, waited: &mut ByRole) {
        for (role, sum) in waited.iter_mut().enumerate() {
            // SAFETY: a place within the mapping.
            let row = unsafe { &raw const (*self.at).rows[role] };
            if self.is_untouched(row) {
                continue;
            }
            // SAFETY: within the mapping; plain integers, of which any bits are valid.
            let queues = unsafe { ptr::read_volatile(&raw const (*row).queues) };
            *sum = queues.iter().fold(*sum, |sum, queue| sum.wrapping_add(noted(queue)));
        }
    }

    /// Repeats `read` until the CPU has not written meanwhile, so that the values are consistent.
    fn steady<T>(&self, read: impl Fn() -> T) -> Result<T, EngineError> {
        for _ in 0..TRIES {
            // SAFETY: within the mapping, one word.
            let sequence = || unsafe { ptr::read_volatile(&raw const (*self.at).sequence) };
            let before = sequence();
            fence(Ordering::Acquire);
            let found = read();
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && before == sequence() {
                return Ok(found);
            }
            std::hint::spin_loop();
        }
        let source = io::Error::other(format!("CPU {} wrote all the time", self.number));
        Err(EngineError::Read { what: "the programs' memory", source })
    }

    /// Copies a part consistently.
    fn copy<T, U>(&self, part: *const T, take: impl FnOnce(&T) -> U) -> Result<U, EngineError> {
        // SAFETY: within the mapping; plain integers, of which any bits are valid. A copy that was overwritten meanwhile is discarded.
        self.steady(|| unsafe { ptr::read_volatile(part) }).map(|copy| take(&copy))
    }

    /// Adds a row. The programs order their writes with compiler barriers only. Where other CPUs see writes in another order (arm64), a copy
    /// can mix two moments although the sequence number has not changed. Then blame and waits differ, and the row is copied again.
    fn add_row(&self, row: *const RawRow, role: usize, totals: &mut Totals) -> Result<(), EngineError> {
        for _ in 0..WHOLE_TRIES {
            let mut whole = false;
            self.copy(row, |row| {
                whole = is_whole(row);
                if whole {
                    add(totals, role, self.number, row);
                }
            })?;
            if whole {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        self.copy(row, |row| add(totals, role, self.number, row))
    }

    /// Whether no task of a role has ever waited here: all sums are zero. Most roles belong to groups that do not exist.
    fn is_untouched(&self, row: *const RawRow) -> bool {
        (0..BANDS).all(|band| {
            // SAFETY: within the mapping, one word.
            unsafe {
                let queue = &raw const (*row).queues[band];
                ptr::read_volatile(&raw const (*queue).at) == 0
                    && ptr::read_volatile(&raw const (*queue).own.load) == 0
                    && ptr::read_volatile(&raw const (*queue).others.load) == 0
                    // A task that was enqueued here and migrated away before anything was counted.
                    && ptr::read_volatile(&raw const (*queue).others.moments) == 0
            }
        })
    }

    /// Adds this CPU's sums.
    pub fn add_to(&self, counted: &mut Counted) -> Result<(), EngineError> {
        let cpu = self.at;
        // One role at a time: its queue and its sums must be consistent, and copying them is short.
        for role in 0..RoleId::LIMIT {
            // SAFETY: a place within the mapping.
            let row = unsafe { &raw const (*cpu).rows[role] };
            if self.is_untouched(row) {
                continue;
            }
            self.add_row(row, role, &mut counted.totals)?;
        }
        self.add_places(&mut counted.places)?;
        // A CPU that is offline has stopped counting, and no task waits there.
        let waits = self.has_tasks();
        if waits {
            // SAFETY: a place within the mapping.
            let since = self.copy(unsafe { &raw const (*self.at).since }, |since| Time(*since))?;
            let (first, last) = counted.between.unwrap_or((since, since));
            counted.between = Some((first.min(since), last.max(since)));
        }
        // SAFETY: within the mapping, one word each.
        unsafe {
            counted.missing += ptr::read_volatile(&raw const (*cpu).missing);
            counted.disbelieved += ptr::read_volatile(&raw const (*cpu).disbelieved);
        }
        counted.totals.add_real_time(self.number, self.real_time()?);
        let current = self.current();
        let mut recent = self.recent()?;
        if let Some(since) = current.since.filter(|_| Some(current.role) == RoleKind::RealTime.fixed_id()) {
            let now = clocks::now().trace;
            if let Some(comm) = proc::comm(current.tid) {
                recent.add(TaskId { tid: current.tid, tgid: current.tgid, comm }, now.since(since), now);
            }
        }
        *counted.totals.recent_mut(CpuId(self.number as u32)) = recent;
        counted.waits_for_idle |= current.tid.is_idle() && waits;
        counted.current.push(current);
        Ok(())
    }

    /// Adds the sums of pods and units. Both sums of one wait are written before the sequence number is even again.
    fn add_places(&self, sums: &mut Vec<WorkloadSums>) -> Result<(), EngineError> {
        sums.resize(Workloads::LIMIT, WorkloadSums::default());
        // SAFETY: a place within the mapping.
        let places = unsafe { &raw const (*self.at).places };
        self.copy(places, |places| {
            for (sum, place) in sums.iter_mut().zip(places) {
                sum.add(&WorkloadSums {
                    waited: Nanos(place.waited),
                    behind: Nanos(place.behind),
                    idle: Nanos(place.idle),
                    kept: Nanos(place.kept),
                });
            }
        })
    }

    /// For how long real-time tasks have had the CPU, including the current run.
    pub fn real_time(&self) -> Result<u64, EngineError> {
        let cpu = self.at;
        // SAFETY: within the mapping, one word each.
        let (counted, since, rank, now) = self.steady(|| unsafe {
            (
                ptr::read_volatile(&raw const (*cpu).real_time),
                ptr::read_volatile(&raw const (*cpu).since),
                ptr::read_volatile(&raw const (*cpu).rank),
                // Inside the sequence check, so that the task still has the CPU at this time.
                clocks::now().trace,
            )
        })?;
        // As long as a task runs and no task waits, nothing is counted on the CPU.
        let lasts = if rank > 0 { now.since(Time(since)).0 } else { 0 };
        Ok(counted.saturating_add(lasts))
    }

    /// Which real-time programs had the CPU lately, up to its last switch.
    fn recent(&self) -> Result<RecentRuns, EngineError> {
        let cpu = self.at;
        // SAFETY: within the mapping; plain integers, of which any bits are valid.
        let (raw, at) = self.steady(|| unsafe {
            (ptr::read_volatile(&raw const (*cpu).recent), ptr::read_volatile(&raw const (*cpu).recent_at))
        })?;
        let mut recent = RecentRuns { at, each: [None; RECENT] };
        for (place, raw) in recent.each.iter_mut().zip(&raw) {
            let comm = Comm::new(&raw.comm.map(|c| c as u8));
            *place = (raw.tid > 0).then_some((TaskId { tid: Tid(raw.tid), tgid: Tid(raw.tgid), comm }, raw.ns));
        }
        Ok(recent)
    }

    /// The running task. If the CPU switches meanwhile, the values can mix two tasks; then `since` is `None`.
    fn current(&self) -> Current {
        let cpu = self.at;
        // SAFETY: within the mapping, one word each.
        unsafe {
            let before = ptr::read_volatile(&raw const (*cpu).sequence);
            fence(Ordering::Acquire);
            let since = Time(ptr::read_volatile(&raw const (*cpu).run_start));
            let current = Current {
                tid: Tid(ptr::read_volatile(&raw const (*cpu).tid)),
                tgid: Tid(ptr::read_volatile(&raw const (*cpu).tgid)),
                role: RoleId(ptr::read_volatile(&raw const (*cpu).role)),
                place: ptr::read_volatile(&raw const (*cpu).place),
                since: None,
            };
            fence(Ordering::Acquire);
            let is_one = before.is_multiple_of(2) && before == ptr::read_volatile(&raw const (*cpu).sequence);
            Current { since: is_one.then_some(since), ..current }
        }
    }
}

/// Number of waiting tasks, from the counts written by other CPUs and by the queue's own CPU.
fn tasks(others: u64, own: u64) -> i64 {
    (others.wrapping_add(own) << WEIGHT_BITS) as i64 >> WEIGHT_BITS
}

/// Whether waits and blame have equal sums, as they have whenever no program is running on the CPU.
fn is_whole(row: &RawRow) -> bool {
    let waited = row.queues.iter().fold(0_u64, |sum, queue| sum.wrapping_add(waited(queue)));
    row.sums.blame.iter().fold(0_u64, |sum, ns| sum.wrapping_add(*ns)) == waited
}

/// Modulo 2^64, as in the programs. Excludes what they have not yet counted.
fn waited(queue: &RawQueue) -> u64 {
    let counted = tasks(queue.counted.load, 0) as u64;
    counted.wrapping_mul(queue.at.wrapping_add(BIAS)).wrapping_sub(queue.counted.moments)
}

/// The same for all noted tasks. While tasks are in the queue, only up to the last count.
fn noted(queue: &RawQueue) -> u64 {
    match tasks(queue.others.load, queue.own.load) {
        0 => 0_u64.wrapping_sub(queue.others.moments.wrapping_add(queue.own.moments)),
        _ => waited(queue),
    }
}

/// Adds one CPU's sums of one role.
fn add(totals: &mut Totals, role: usize, cpu: usize, row: &RawRow) {
    let RawRow { queues, sums, preferred, .. } = row;
    for (sum, ns) in totals.victim_mut(role).iter_mut().zip(&sums.blame) {
        *sum = sum.wrapping_add(*ns);
    }
    let here = queues.iter().fold(0_u64, |sum, queue| sum.wrapping_add(waited(queue)));
    let by_class = sums.blame.iter().skip(place(Rule::Class)).step_by(COUNTED_RULES);
    totals.add_on_cpu(role, cpu as u32, here, by_class.fold(0_u64, |sum, ns| sum.wrapping_add(*ns)));
    let of_role = &mut totals.roles[role];
    of_role.waited = of_role.waited.wrapping_add(here);
    of_role.preferred = of_role.preferred.wrapping_add(*preferred);
    for queue in queues {
        let waiting = tasks(queue.others.load, queue.own.load);
        of_role.waiting = of_role.waiting.saturating_add_signed(i32::try_from(waiting).unwrap_or(i32::MAX));
    }
    of_role.ended += sums.steps.iter().sum::<u64>();
    for (step, count) in sums.steps.iter().enumerate() {
        of_role.histogram.add_step(step, *count);
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, of which no reference is left.
        unsafe { libc::munmap(self.mapped, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue last counted at 70, with a task that arrived at 100 and waits.
    fn with_one() -> RawQueue {
        let mut queue = RawQueue::default();
        queue.own.load = 1;
        queue.own.moments = 100 + BIAS;
        queue.at = 70;
        queue
    }

    #[test]
    fn notes_tell_what_was_waited_before_it_is_counted() {
        let mut queue = with_one();
        assert_eq!(noted(&queue), 0, "as far as it is counted, though it came after that");
        // It gets the CPU, or migrates, at 170: the time counted so far does not include its wait.
        queue.others.load = 0_u64.wrapping_sub(1);
        queue.others.moments = 0_u64.wrapping_sub(170 + BIAS);
        assert_eq!((noted(&queue), waited(&queue)), (70, 0));
        queue.at = 900;
        assert_eq!(noted(&queue), 70, "whenever it is looked at");
    }

    #[test]
    fn a_note_of_which_a_half_is_to_come_is_far_from_any_wait() {
        let far = |queue: &RawQueue| noted(queue).wrapping_sub(noted(&with_one())) > 1 << 54;
        let mut left = with_one();
        left.others.load = 0_u64.wrapping_sub(1);
        assert!(far(&left), "its moment is to come");
        let mut came = RawQueue::default();
        came.others.moments = 100 + BIAS;
        assert!(far(&came), "its number is to come");
    }

    #[test]
    fn parts_of_two_moments_are_no_whole() {
        let mut row = RawRow::default();
        assert!(is_whole(&row));
        // Two tasks arrived at 100 and 130, and were counted up to 200.
        row.queues[1].counted.load = 2;
        row.queues[1].counted.moments = (100 + BIAS).wrapping_add(130 + BIAS);
        row.queues[1].at = 200;
        assert!(!is_whole(&row), "the sums are still to come");
        row.sums.blame[5] = 60;
        row.sums.blame[9] = 110;
        assert!(is_whole(&row));
        row.queues[1].at = 201;
        assert!(!is_whole(&row));
    }
}
