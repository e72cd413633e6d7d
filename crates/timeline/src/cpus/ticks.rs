//! Detects CPUs that did not run (steal, SMI), from missing ticks.
//!
//! A CPU with a task on it has a tick each 1 to 10 ms. If steady ticks stop for many periods, the same task is current after
//! the gap, and the CPU issued no other event, then the CPU was not running: a hypervisor gave it to another guest (steal),
//! firmware had it (SMI), or interrupts were off. No rule of the scheduler gave it to another task.
//!
//! | what is known | the gap is |
//! |---|---|
//! | no tick is recorded, or too few in this run | nothing: it is unknown whether one was due |
//! | an idle CPU | nothing: its tick stops |
//! | `tick_stop` since the last tick | nothing: NO_HZ_FULL |
//! | a fair task, no other waits | nothing: NO_HZ_FULL may stop the tick of a single task without a recorded event |
//! | a fair task, another task waits all the time | a stop: the tick is needed to share the CPU (`sched_can_stop_tick`) |
//! | the same, but a real-time task waits, too, on a CPU of `nohz_full` | nothing: the kernel checks real-time tasks first; one needs no tick |
//! | a real-time task, even if others wait | nothing: NO_HZ_FULL may stop its tick; before, RCU or a timer may have kept it |
//! | an event of any type from this CPU in the gap | as long as the silence, if that is still long |
//! | shorter than 16 periods, or than 20 ms | nothing: a guest's ticks come late |
//! | another task is current after it | nothing: a switch is missing |
//! | all other CPUs are silent, too | nothing: tracing may have been off; a loss reports it |

use unstarve_model::{Nanos, Policy, Time};

use crate::cpus::{Cpu, Cpus};
use crate::effort::{Effort, count_steps};
use crate::run_queues::RunQueue;
use crate::{ActorId, World};

/// A silence of this length is recorded; a stop is no shorter.
const LONG_SILENCE: Nanos = Nanos::from_millis(20);
/// The slowest tick is that of `CONFIG_HZ=100`, and a guest's may be late by half a period.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(15);
/// Ticks are steady if they came for this long: at least five.
const STEADY: Nanos = Nanos::from_millis(50);
/// This many periods without a tick are not a delay.
const PERIODS: u64 = 16;
/// The overdue tick comes first when the CPU runs again, along with other interrupts.
const COMES_FIRST: Nanos = Nanos::from_millis(1);

/// The interval between two events of a CPU.
#[derive(Clone, Copy, Default, Debug)]
struct Silence {
    from: Time,
    to: Time,
}

/// Silences of all CPUs in which a tick was due.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AllSilent {
    count: u64,
    longest: Nanos,
    until: Time,
}

impl AllSilent {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest one.
    pub fn longest(&self) -> Nanos {
        self.longest
    }

    /// The ticks of each busy CPU show the same silence.
    fn note(&mut self, silence: Silence) {
        self.longest = self.longest.max(silence.length());
        if silence.from >= self.until {
            self.count += 1;
            self.until = silence.to;
        }
    }
}

/// The last long silence of a CPU, and the ticks of the current run.
#[derive(Debug, Default)]
pub(crate) struct TickWatch {
    silence: Silence,
    rhythm: Option<Rhythm>,
}

/// Consecutive ticks of one run of a task.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    /// The start of the run.
    run: Time,
    first: Time,
    last: Time,
    /// The longest interval between two ticks.
    longest: Nanos,
}

impl Silence {
    fn length(self) -> Nanos {
        self.to.since(self.from)
    }

    /// Whether the other silence lies inside, except for its edges.
    fn covers(self, other: Silence) -> bool {
        let edge = Nanos(other.length().0 / 4);
        self.from <= other.from + edge && self.to + edge >= other.to
    }
}

impl Rhythm {
    fn begin(run: Time, now: Time) -> Rhythm {
        Rhythm { run, first: now, last: now, longest: Nanos::ZERO }
    }

    /// The longest delay to expect of a tick; `None` if ticks are not steady.
    fn longest_delay(&self) -> Option<Nanos> {
        let steady = self.last.since(self.first) >= STEADY;
        steady.then(|| Nanos(self.longest.0.saturating_mul(PERIODS)).max(LONG_SILENCE))
    }
}

impl TickWatch {
    /// An event came; `last` is the previous one.
    #[inline(always)]
    pub fn note_silence(&mut self, last: Time, now: Time) {
        if now.since(last) >= LONG_SILENCE {
            self.silence = Silence { from: last, to: now };
        }
    }

    /// The ticks of the current run no longer predict any: the kernel stops them, or no task runs.
    pub fn stop(&mut self) {
        self.rhythm = None;
    }

    /// A tick came in the run that started at `run`. Returns the silence before it and the maximum delay of a tick, if ticks
    /// were due in it.
    fn tick(&mut self, run: Time, heard: Option<Time>, now: Time) -> Option<(Silence, Nanos)> {
        let Some(rhythm) = self.rhythm.as_mut().filter(|rhythm| rhythm.run == run) else {
            self.rhythm = Some(Rhythm::begin(run, now));
            return None;
        };
        let pause = now.since(rhythm.last);
        if pause <= LONGEST_PERIOD {
            (rhythm.last, rhythm.longest) = (now, rhythm.longest.max(pause));
            return None;
        }
        let before = std::mem::replace(rhythm, Rhythm::begin(run, now));
        let silence = self.silence;
        let delay = before.longest_delay().filter(|_| now.since(silence.to) <= COMES_FIRST)?;
        let from = silence.from.max(before.last).max(heard.unwrap_or(before.last));
        Some((Silence { from, to: silence.to }, delay))
    }
}

impl Cpu {
    /// Whether it issued events while another CPU was silent.
    fn is_heard_during(&self, other: Silence) -> bool {
        let edge = Nanos(other.length().0 / 4);
        let presence = self.presence();
        presence.has_issued() && presence.last_event() >= other.from + edge && !self.ticks.silence.covers(other)
    }
}

impl Cpus {
    /// A tick came on this CPU; `heard` is its last event of any type, read or not.
    pub fn tick(&mut self, index: usize, heard: Option<Time>, queue: &RunQueue, world: &World, effort: &mut Effort) {
        let cpu = &mut self.list[index];
        if cpu.task().is_none() {
            cpu.ticks.stop();
            return;
        }
        let run = cpu.run_start();
        if let Some((silence, delay)) = cpu.ticks.tick(run, heard, world.now) {
            self.note_stop(index, (silence, delay), queue, world, effort);
        }
    }

    /// The CPU was silent while ticks were due.
    #[cold]
    fn note_stop(
        &mut self,
        index: usize,
        (silence, delay): (Silence, Nanos),
        queue: &RunQueue,
        world: &World,
        effort: &mut Effort,
    ) {
        let Some(from) = tick_was_needed_from(&self.list[index], queue, world, silence.from, effort) else { return };
        let stop = Silence { from, ..silence };
        if stop.length() < delay || effort.is_spent() {
            return;
        }
        effort.take(self.list.len());
        count_steps(self.list.len());
        if !self.list.iter().enumerate().any(|(other, cpu)| other != index && cpu.is_heard_during(stop)) {
            self.all_silent.note(stop);
            return;
        }
        let cpu = &mut self.list[index];
        let holder = cpu.holder();
        cpu.occupancy.rename(holder, ActorId::STOPPED, stop.from, world.now);
        cpu.occupancy.rename(ActorId::STOPPED, holder, stop.to, world.now);
    }
}

/// Since when a task has waited here, so that the kernel keeps the tick; `None` if none waits.
fn tick_was_needed_from(
    cpu: &Cpu,
    queue: &RunQueue,
    world: &World,
    silent_from: Time,
    effort: &mut Effort,
) -> Option<Time> {
    let shares = world.tasks.get(cpu.task()?).prio.policy() == Policy::Fair;
    if !shares || !effort.may_look_at_all(queue.len()) {
        return None;
    }
    count_steps(queue.len());
    let waiting = || queue.waiting().iter().map(|key| world.tasks.get(*key));
    let may_stop = || world.settings().may_stop_its_tick(cpu.id());
    if waiting().any(|task| task.prio.policy() == Policy::Rt) && may_stop() {
        return None;
    }
    let first = waiting().filter_map(|task| Some(task.pending.as_ref()?.segment())).min()?;
    Some(first.max(silent_from))
}
