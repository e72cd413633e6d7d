//! What the programs have counted, read from the memory that they share with us.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use unstarve_model::{Tid, Time};
use unstarve_sched::Rule;
use unstarve_sched::counted::{COUNTED_RULES, place};

use super::programs::{ByRole, RawCpu, RawQueue, RawRow};
use crate::engine::reading::RoleId;
use crate::engine::totals::Totals;
use crate::engine::{EngineError, clocks};

/// A CPU that switches 100,000 times a second is quiet between switches for far longer than a row takes to copy.
const TRIES: usize = 1 << 16;

/// Copies that hold together are had at once, mostly.
const WHOLE_TRIES: usize = 64;

/// Queues of a role, `BIAS` and `64 - WEIGHT_FROM` of counted.h and queues.h.
const BANDS: usize = 4;
const BIAS: u64 = 1 << 56;
const WEIGHT_BITS: u32 = 40;

/// One CPU's sums. Mapped pages count as this process's memory, and a large machine has many.
pub(super) struct Cpu {
    mapped: *mut libc::c_void,
    length: usize,
    at: *const RawCpu,
    number: usize,
}

/// What was counted up to now.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub totals: Totals,
    pub missing: u64,
    pub disbelieved: u64,
    /// When the first and the last CPU that has anybody waiting had counted, on the monotonic clock.
    pub between: Option<(Time, Time)>,
    /// Somebody waits for a CPU that is taken for idle: what is waited there is not counted yet.
    pub waits_for_idle: bool,
    /// Who has each CPU.
    pub current: Vec<Current>,
}

/// Who has a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub tid: Tid,
    pub tgid: Tid,
    pub role: RoleId,
    /// Since when; `None` if it just changed.
    pub since: Option<Time>,
}

impl Cpu {
    /// The one of this number in a map of all.
    pub fn map(map: BorrowedFd<'_>, number: usize) -> io::Result<Cpu> {
        let offset = number * size_of::<RawCpu>();
        // Where pages are larger than 4 KiB it may begin within one.
        let within = offset % rustix::param::page_size();
        let length = within + size_of::<RawCpu>();
        // SAFETY: a new mapping, read only, of a part of the map that it has; `number` is that of a CPU.
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

    /// Whether anybody may be waiting for the CPU, or nobody knows who has it.
    pub fn has_waiting(&self) -> bool {
        let cpu = self.at;
        // SAFETY: within the mapping. The kernel writes at the same time: each word is read on its own, and any value will do.
        unsafe {
            let active = ptr::read_volatile(&raw const (*cpu).active_count);
            let known = ptr::read_volatile(&raw const (*cpu).known);
            let marks = ptr::read_volatile(&raw const (*cpu).marks);
            let seen = ptr::read_volatile(&raw const (*cpu).seen_marks);
            active > 0 || known == 0 || marks != seen || self.has_tasks()
        }
    }

    /// Whether the queues are not all empty: on some machines a mark may be seen before what it stands for.
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

    /// Whether somebody may be waiting behind a task. On some machines somebody seems to wait for an idle CPU nearly all the time.
    pub fn has_crowd(&self) -> bool {
        // SAFETY: within the mapping, one word each.
        let (known, tid) =
            unsafe { (ptr::read_volatile(&raw const (*self.at).known), ptr::read_volatile(&raw const (*self.at).tid)) };
        // Of a CPU that never was there nothing is known, and nobody waits.
        (known == 0 || !Tid(tid).is_idle()) && self.has_tasks()
    }

    /// Adds what each role has waited here, but for what who waits now has waited since that was counted. Read as it is: where it is written
    /// meanwhile a sum may be anything.
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

    /// Reads what belongs together: again until the CPU has not written meanwhile.
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

    /// Copies a part that belongs together.
    fn copy<T, U>(&self, part: *const T, take: impl FnOnce(&T) -> U) -> Result<U, EngineError> {
        // SAFETY: within the mapping; plain integers, of which any bits are valid. What was written meanwhile is not used.
        self.steady(|| unsafe { ptr::read_volatile(part) }).map(|copy| take(&copy))
    }

    /// Adds a row. The programs order what they write for the compiler alone: where a CPU shows its writes to others in another order (arm64),
    /// a copy may hold parts of two moments though the sequence has not changed. Then its blame is not its waits, and it is copied again.
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

    /// Whether nobody of a role has ever waited here: all of its sums are zero. Most roles are of groups that are not there.
    fn is_untouched(&self, row: *const RawRow) -> bool {
        (0..BANDS).all(|band| {
            // SAFETY: within the mapping, one word.
            unsafe {
                let queue = &raw const (*row).queues[band];
                ptr::read_volatile(&raw const (*queue).at) == 0
                    && ptr::read_volatile(&raw const (*queue).own.load) == 0
                    && ptr::read_volatile(&raw const (*queue).others.load) == 0
                    // Who came and was taken elsewhere before anything was counted.
                    && ptr::read_volatile(&raw const (*queue).others.moments) == 0
            }
        })
    }

    /// Adds what it has counted.
    pub fn add_to(&self, counted: &mut Counted) -> Result<(), EngineError> {
        let cpu = self.at;
        // Of one role at a time: its queue and its sums belong together, and are copied in a moment.
        for role in 0..RoleId::LIMIT {
            // SAFETY: a place within the mapping.
            let row = unsafe { &raw const (*cpu).rows[role] };
            if self.is_untouched(row) {
                continue;
            }
            self.add_row(row, role, &mut counted.totals)?;
        }
        // One that is off line has stopped counting, and nobody waits there.
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
        counted.waits_for_idle |= current.tid.is_idle() && waits;
        counted.current.push(current);
        Ok(())
    }

    /// For how long real-time tasks have had the CPU, the one that has it now included.
    pub fn real_time(&self) -> Result<u64, EngineError> {
        let cpu = self.at;
        // SAFETY: within the mapping, one word each.
        let (counted, since, rank, now) = self.steady(|| unsafe {
            (
                ptr::read_volatile(&raw const (*cpu).real_time),
                ptr::read_volatile(&raw const (*cpu).since),
                ptr::read_volatile(&raw const (*cpu).rank),
                // While it still has the CPU.
                clocks::now().trace,
            )
        })?;
        // As long as a task keeps a CPU that nobody waits for, nothing is counted there.
        let lasts = if rank > 0 { now.since(Time(since)).0 } else { 0 };
        Ok(counted.saturating_add(lasts))
    }

    /// Who has the CPU. What is read while that changes may be of two tasks: since when is said only where it is of one.
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
                since: None,
            };
            fence(Ordering::Acquire);
            let is_one = before.is_multiple_of(2) && before == ptr::read_volatile(&raw const (*cpu).sequence);
            Current { since: is_one.then_some(since), ..current }
        }
    }
}

/// How many wait, of what came from other CPUs and from the queue's own.
fn tasks(others: u64, own: u64) -> i64 {
    (others.wrapping_add(own) << WEIGHT_BITS) as i64 >> WEIGHT_BITS
}

/// Whether what was waited is what is blamed, as it is whenever no program is at work.
fn is_whole(row: &RawRow) -> bool {
    let waited = row.queues.iter().fold(0_u64, |sum, queue| sum.wrapping_add(waited(queue)));
    row.sums.blame.iter().fold(0_u64, |sum, ns| sum.wrapping_add(*ns)) == waited
}

/// Modulo 2^64, as the programs count. What they have not yet counted is in neither.
fn waited(queue: &RawQueue) -> u64 {
    let counted = tasks(queue.counted.load, 0) as u64;
    counted.wrapping_mul(queue.at.wrapping_add(BIAS)).wrapping_sub(queue.counted.moments)
}

/// The same of all that is noted; while somebody is in the queue, as far as it is counted.
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

    /// One that came at 100 and waits, on a queue that was last counted at 70.
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
        // It takes the CPU, or is taken to another one, at 170: what of it is counted here says nothing of that.
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
        // Two came at 100 and 130, and were counted up to 200.
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
