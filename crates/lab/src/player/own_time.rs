//! A thread's own CPU time, read from the clock of the machine.
//!
//! CLOCK_THREAD_CPUTIME_ID is a system call of about a microsecond that makes the kernel account for the running thread, and may
//! so make it reschedule: a thread that asks all the time is preempted at other moments than one that computes. So it is asked
//! only after the thread may have lost the CPU, which a gap in the time of the machine shows, and in between the time of the
//! machine, read without a system call, is the thread's own (docs/decisions/0594).

use rustix::time::{ClockId, clock_gettime};

/// The thread computes for this long between two looks at the clock.
const LOOK_EVERY: u64 = 5_000;

/// A look at the clock that comes later than this after when it was due may follow a loss of the CPU. Two switches and a thread
/// between them take longer.
const GAP: u64 = 1_500;

/// Closer to the end than this is not computed.
const RESOLUTION: u64 = 100;

/// The calling thread's CPU time.
pub(super) struct OwnTime {
    /// A moment on CLOCK_MONOTONIC, and the CPU time then. The thread has had the CPU since.
    clock: u64,
    cpu: u64,
    looked: u64,
    preemptions: i64,
}

impl OwnTime {
    pub(super) fn start() -> OwnTime {
        let mut own = OwnTime { clock: 0, cpu: 0, looked: 0, preemptions: preemptions() };
        own.ask();
        own
    }

    /// Asks the kernel: after the thread slept, and whenever it may have lost the CPU.
    pub(super) fn ask(&mut self) -> u64 {
        let before = monotonic();
        self.cpu = nanos(ClockId::ThreadCPUTime);
        self.looked = monotonic();
        self.clock = before + (self.looked - before) / 2;
        self.cpu + (self.looked - self.clock)
    }

    /// The time of the machine at the last look.
    pub(super) fn looked(&self) -> u64 {
        self.looked
    }

    /// The CPU time at the last look.
    pub(super) fn at_look(&self) -> u64 {
        self.cpu + (self.looked - self.clock)
    }

    /// The CPU time now. `expected` is how long after the last look this was to come. Adds to `lost` how often the CPU was lost.
    fn now(&mut self, expected: u64, lost: &mut u64) -> u64 {
        let now = monotonic();
        if now - self.looked > expected + GAP {
            let preemptions = preemptions();
            if preemptions != self.preemptions {
                *lost += preemptions.abs_diff(self.preemptions);
                self.preemptions = preemptions;
                return self.ask();
            }
        }
        self.looked = now;
        self.cpu + (now - self.clock)
    }

    /// When the thread's CPU time was or will be this much, if it keeps the CPU.
    pub(super) fn when(&self, cpu: i64) -> u64 {
        self.clock.saturating_add_signed(cpu - self.cpu as i64)
    }

    /// Computes until the thread's CPU time is `target`, or `is_over`. `since_look` is how long what the thread did since the last
    /// look takes if it keeps the CPU. Returns how often it lost the CPU.
    pub(super) fn compute_until(&mut self, target: u64, since_look: u64, is_over: impl Fn() -> bool) -> u64 {
        let (mut lost, mut expected) = (0, since_look);
        loop {
            let cpu = self.now(expected, &mut lost);
            if cpu + RESOLUTION >= target || is_over() {
                return lost;
            }
            expected = (target - cpu).min(LOOK_EVERY);
            spin(expected);
        }
    }
}

/// Time of the machine in ns.
pub(super) fn monotonic() -> u64 {
    nanos(ClockId::Monotonic)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// How often the calling thread lost the CPU while runnable.
fn preemptions() -> i64 {
    // SAFETY: all zeros is a valid rusage, which is plain integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nivcsw
}

/// Computes for `ns` instructions, each of which is a nanosecond in a guest with one busy CPU, and never more.
#[cfg(target_arch = "x86_64")]
fn spin(ns: u64) {
    let rounds = (ns / 2).max(1);
    // SAFETY: counts a register down; touches nothing else.
    unsafe {
        std::arch::asm!("2: dec {rounds}", "jnz 2b", rounds = inout(reg) rounds => _, options(nomem, nostack));
    }
}

#[cfg(target_arch = "aarch64")]
fn spin(ns: u64) {
    let rounds = (ns / 2).max(1);
    // SAFETY: counts a register down; touches nothing else.
    unsafe {
        std::arch::asm!("2: subs {rounds}, {rounds}, #1", "b.ne 2b", rounds = inout(reg) rounds => _, options(nomem, nostack));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn spin(ns: u64) {
    for _ in 0..ns / 16 {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_loses_its_cpu_still_gets_its_time() {
        // Two threads on the same CPU: each is preempted, and neither counts the other's time.
        let cpu =
            unstarve_executor::sched::affinity(unstarve_model::Tid(0)).expect("an affinity").last().expect("a CPU");
        let compute = move || {
            unstarve_executor::sched::set_affinity(unstarve_model::Tid(0), &[cpu].into_iter().collect()).expect("set");
            let mut own = OwnTime::start();
            let target = own.ask() + 50_000_000;
            own.compute_until(target, 0, || false);
            (nanos(ClockId::ThreadCPUTime), target)
        };
        let threads = [std::thread::spawn(compute), std::thread::spawn(compute)];
        for thread in threads {
            let (came, target) = thread.join().expect("it computed");
            // A gap may hide a loss that is shorter than GAP: at most so much for each look.
            assert!(came.abs_diff(target) < 5_000_000, "{came} for {target}");
        }
    }
}
