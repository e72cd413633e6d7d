//! CPUs that did not run themselves.
//!
//! A CPU with a task on it has a tick each 1 to 10 ms. If ticks that came steadily stay away for many periods, the same task is current
//! behind the gap, and the CPU issued no other event, then the CPU was not running: a hypervisor gave it to another guest (steal), firmware
//! had it (SMI), or interrupts were off. Nobody else had it by any rule of the scheduler.
//!
//! | what is known | the gap is |
//! |---|---|
//! | no tick is recorded, or too few in this run | nothing: it is unknown whether one was due |
//! | an idle CPU | nothing: its tick stops |
//! | `tick_stop` since the last tick | nothing: NO_HZ_FULL |
//! | a fair task with nobody beside it | nothing: NO_HZ_FULL may stop the tick of a single task without an event that is recorded |
//! | a fair task, somebody waits all along | a stop: the tick is needed to share the CPU (`sched_can_stop_tick`) |
//! | the same, but a real-time task waits, too, and the CPU is known to be one of `nohz_full` | nothing: the kernel looks at the real-time tasks first, and one needs no tick |
//! | a real-time task, even if others wait | nothing: NO_HZ_FULL may stop its tick (`sched_can_stop_tick`), and RCU or a timer let it tick for a while |
//! | an event of this CPU in the gap, of whatever type | as long as the silence, if that is still long |
//! | shorter than 16 periods, or than 20 ms | nothing: a guest's ticks come late |
//! | another task is current behind it | nothing: a switch is missing |
//! | all other CPUs are silent, too | nothing, for tracing may have been off; a loss says so |

use unstarve_model::{Nanos, Policy, Time};

use crate::ActorId;
use crate::cpus::{Cpu, Current};
use crate::timeline::Timeline;
use crate::waits::effort::count_steps;

/// A silence of this length is remembered; a stop is no shorter.
const LONG_SILENCE: Nanos = Nanos::from_millis(20);
/// The slowest tick is that of `CONFIG_HZ=100`, and a guest's may be late by half of it.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(15);
/// Ticks that came for so long are steady: five at least.
const STEADY: Nanos = Nanos::from_millis(50);
/// So many periods without a tick are no delay.
const PERIODS: u64 = 16;
/// The tick that was due comes first when the CPU runs again, beside other interrupts.
const COMES_FIRST: Nanos = Nanos::from_millis(1);

/// From one event of a CPU to the next.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Silence {
    from: Time,
    to: Time,
}

/// Silences of all CPUs in which a tick was due.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AllSilent {
    pub count: u64,
    pub longest: Nanos,
    until: Time,
}

impl AllSilent {
    /// The ticks of each busy CPU show the same silence.
    fn note(&mut self, silence: Silence) {
        self.longest = self.longest.max(silence.length());
        if silence.from >= self.until {
            self.count += 1;
            self.until = silence.to;
        }
    }
}

/// Ticks of one run of a task, none of them missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    /// When the run began.
    run: Time,
    first: Time,
    last: Time,
    /// The longest time from one to the next.
    longest: Nanos,
}

impl Silence {
    fn length(self) -> Nanos {
        self.to.since(self.from)
    }

    /// Whether nothing but the edges of the other one lies outside.
    fn covers(self, other: Silence) -> bool {
        let edge = Nanos(other.length().0 / 4);
        self.from <= other.from + edge && self.to + edge >= other.to
    }
}

impl Rhythm {
    fn begin(run: Time, now: Time) -> Rhythm {
        Rhythm { run, first: now, last: now, longest: Nanos::ZERO }
    }

    /// The shortest time without a tick that is none of its delays; `None` if it is not steady.
    fn longest_delay(&self) -> Option<Nanos> {
        let steady = self.last.since(self.first) >= STEADY;
        steady.then(|| Nanos(self.longest.0.saturating_mul(PERIODS)).max(LONG_SILENCE))
    }
}

impl Cpu {
    /// An event has come.
    #[inline(always)]
    pub fn note_silence(&mut self, now: Time) {
        if now.since(self.last_event) >= LONG_SILENCE {
            self.silence = Silence { from: self.last_event, to: now };
        }
    }

    /// Whether it issued events while another one was silent.
    fn is_heard_during(&self, other: Silence) -> bool {
        let edge = Nanos(other.length().0 / 4);
        self.issued && self.last_event >= other.from + edge && !self.silence.covers(other)
    }
}

impl Timeline {
    /// A tick came on this CPU, which was heard last then by an event that is not read.
    pub(crate) fn tick(&mut self, index: usize, heard: Option<Time>) {
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        if !matches!(cpu.current, Current::Task(_)) {
            cpu.rhythm = None;
            return;
        }
        let run = cpu.run_start;
        let Some(rhythm) = cpu.rhythm.as_mut().filter(|rhythm| rhythm.run == run) else {
            cpu.rhythm = Some(Rhythm::begin(run, now));
            return;
        };
        let pause = now.since(rhythm.last);
        if pause <= LONGEST_PERIOD {
            (rhythm.last, rhythm.longest) = (now, rhythm.longest.max(pause));
            return;
        }
        let before = std::mem::replace(rhythm, Rhythm::begin(run, now));
        let silence = cpu.silence;
        if let Some(delay) = before.longest_delay()
            && now.since(silence.to) <= COMES_FIRST
        {
            let from = silence.from.max(before.last).max(heard.unwrap_or(before.last));
            self.note_stop(index, Silence { from, to: silence.to }, delay);
        }
    }

    /// The CPU was silent while ticks were due.
    #[cold]
    fn note_stop(&mut self, index: usize, silence: Silence, delay: Nanos) {
        let Some(from) = self.tick_was_needed_from(index, silence.from) else { return };
        let stop = Silence { from, ..silence };
        if stop.length() < delay || self.effort.is_spent() {
            return;
        }
        self.effort.take(self.cpus.len());
        count_steps(self.cpus.len());
        if !self.cpus.iter().enumerate().any(|(other, cpu)| other != index && cpu.is_heard_during(stop)) {
            self.all_silent.note(stop);
            return;
        }
        let now = self.world.now;
        let cpu = &mut self.cpus[index];
        let holder = cpu.base;
        cpu.occupancy.rename(holder, ActorId::STOPPED, stop.from, now);
        cpu.occupancy.rename(ActorId::STOPPED, holder, stop.to, now);
    }

    /// Since when somebody has waited here, so that the kernel does not stop the tick; `None` if nobody does.
    fn tick_was_needed_from(&mut self, index: usize, silent_from: Time) -> Option<Time> {
        let Current::Task(holder) = self.cpus[index].current else { return None };
        let shares = self.world.tasks.get(holder).prio.policy() == Policy::Fair;
        if !shares || !self.may_look_at_all(index) {
            return None;
        }
        let queue = &self.cpus[index].queue;
        count_steps(queue.len());
        let waiting = || queue.iter().map(|key| self.world.tasks.get(*key));
        let may_stop = || self.world.settings.0.may_stop_its_tick(self.cpus[index].id);
        if waiting().any(|task| task.prio.policy() == Policy::Rt) && may_stop() {
            return None;
        }
        let first = waiting().filter_map(|task| Some(task.pending.as_ref()?.segment)).min()?;
        Some(first.max(silent_from))
    }
}
