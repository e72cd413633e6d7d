//! Exports what ran on each CPU as kernel events, which Perfetto displays best and unstarve can read again.

use rustc_hash::FxHashMap;
use unstarve_model::{Comm, CpuId, Prio, Tid, Time};
use unstarve_timeline::{ActorKind, Interrupt, Run, RunEnd, Wake, Waker, World};

use super::proto::{
    FtraceEvent, FtraceEventBundle, IrqHandlerEntry, IrqHandlerExit, Kind, SchedSwitch, SchedWakeup, Softirq,
    TracePacket,
};
use super::stream::Stream;
use unstarve_tables::Out;

/// How many events are held back over all CPUs, so that packets are reasonably large and reasonably sorted.
const MAX_HELD_EVENTS: usize = 2048;

/// `prev_state` since 4.14 (`include/trace/events/sched.h`): sleeping, dead, and preempted, which Perfetto shows as
/// `R+`.
const STATE_SLEEPING: i64 = 1;
const STATE_DEAD: i64 = 0x10;
const STATE_PREEMPTED: i64 = 0x100;

/// `common_flags` of an event in a hard interrupt, and in a softirq.
const FLAG_HARDIRQ: u32 = 8;
const FLAG_SOFTIRQ: u32 = 16;

/// A task as switch events name it.
#[derive(Clone, Copy)]
struct SwitchTask {
    tid: Tid,
    comm: Comm,
    prio: Prio,
}

/// Priority of the idle task.
const IDLE_PRIO: Prio = Prio(120);

#[derive(Default)]
struct Cpu {
    events: Vec<FtraceEvent>,
    /// The last task that left: when, which, and its state. The switch is written when the next task is known.
    left: Option<(Time, SwitchTask, i64)>,
}

/// Converts runs and wakeups back to events.
#[derive(Default)]
pub struct Cpus {
    cpus: FxHashMap<CpuId, Cpu>,
    held: usize,
}

impl Cpus {
    /// Adds a run and the switch before it.
    pub fn run(&mut self, world: &World, run: &Run) {
        let actor = world.actors.get(run.actor);
        let task = world.tasks.get(run.task);
        let named = SwitchTask {
            tid: task.tid,
            comm: actor.comm().unwrap_or(task.comm),
            prio: actor.prio().unwrap_or(task.prio),
        };
        let idle = SwitchTask { tid: Tid::IDLE, comm: Comm::from(&*format!("swapper/{}", run.cpu)), prio: IDLE_PRIO };
        let cpu = self.cpus.entry(run.cpu).or_default();
        let before = cpu.events.len();
        match cpu.left.take() {
            Some((at, who, state)) if at == run.start => cpu.events.push(switch(at, who, state, named)),
            left => {
                cpu.events.extend(left.map(|(at, who, state)| switch(at, who, state, idle)));
                cpu.events.extend(run.start_seen.then(|| switch(run.start, idle, 0, named)));
            }
        }
        cpu.left = match run.ended {
            RunEnd::Slept => Some((run.end, named, STATE_SLEEPING)),
            RunEnd::Died => Some((run.end, named, STATE_DEAD)),
            RunEnd::Preempted { .. } => Some((run.end, named, STATE_PREEMPTED)),
            RunEnd::Cut => None,
        };
        self.held += cpu.events.len() - before;
    }

    /// Adds a wakeup, with its context if known.
    pub fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let task = world.tasks.get(wake.wakee);
        // Perfetto's trace_processor drops events without a task.
        let current = wake.current.map(|tid| tid.0);
        let (pid, flags) = match wake.waker {
            Waker::Task(waker) => (Some(world.tasks.get(waker).tid.0), Some(0)),
            Waker::Interrupt(Some(actor)) if matches!(world.actors.get(actor).kind, ActorKind::Softirq { .. }) => {
                (current, Some(FLAG_SOFTIRQ))
            }
            Waker::Interrupt(_) => (current, Some(FLAG_HARDIRQ)),
            Waker::Unknown => (current, None),
        };
        let waking = SchedWakeup {
            comm: Some(task.comm.as_bytes().to_vec()),
            pid: Some(task.tid.0 as i32),
            prio: Some(task.prio.0),
            success: Some(1),
            target_cpu: Some(task.last_cpu().unwrap_or(wake.cpu).0 as i32),
        };
        let mut event = event(wake.time, Kind::SchedWaking(waking));
        (event.pid, event.common_flags) = (pid, flags);
        self.push(wake.cpu, [event]);
    }

    /// Adds an interrupt: its entry and exit.
    pub fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        let (entry, exit) = match world.actors.get(interrupt.actor).kind {
            ActorKind::Irq { irq, name } => {
                let name = name.map(|name| world.names.get(name).as_bytes().to_vec());
                let irq = Some(irq as i32);
                (
                    Kind::IrqHandlerEntry(IrqHandlerEntry { irq, name }),
                    Kind::IrqHandlerExit(IrqHandlerExit { irq, ret: Some(1) }),
                )
            }
            ActorKind::Softirq { vec } => {
                let softirq = Softirq { vec: Some(u32::from(vec)) };
                (Kind::SoftirqEntry(softirq.clone()), Kind::SoftirqExit(softirq))
            }
            _ => return,
        };
        // A CPU is idle between two runs. What it did before the first run is unknown.
        let is_idle = self.cpus.get(&interrupt.cpu).is_some_and(|cpu| cpu.left.is_some());
        let interrupted = interrupt.task.map(|task| world.tasks.get(task).tid).or(is_idle.then_some(Tid::IDLE));
        let by = |event| FtraceEvent { pid: interrupted.map(|tid| tid.0), ..event };
        self.push(interrupt.cpu, [by(event(interrupt.start, entry)), by(event(interrupt.end, exit))]);
    }

    fn push(&mut self, cpu: CpuId, events: impl IntoIterator<Item = FtraceEvent>) {
        let list = &mut self.cpus.entry(cpu).or_default().events;
        let before = list.len();
        list.extend(events);
        self.held += list.len() - before;
    }

    /// Writes the events held back, if they are enough.
    pub fn write_some<W: Out>(&mut self, stream: &mut Stream<W>) {
        if self.held >= MAX_HELD_EVENTS {
            self.write(stream);
        }
    }

    /// Writes all events held back, and the last switches.
    pub fn finish<W: Out>(&mut self, stream: &mut Stream<W>) {
        for (id, cpu) in &mut self.cpus {
            let idle = SwitchTask { tid: Tid::IDLE, comm: Comm::from(&*format!("swapper/{id}")), prio: IDLE_PRIO };
            cpu.events.extend(cpu.left.take().map(|(at, who, state)| switch(at, who, state, idle)));
        }
        self.write(stream);
    }

    fn write<W: Out>(&mut self, stream: &mut Stream<W>) {
        self.held = 0;
        let mut full: Vec<(CpuId, Vec<FtraceEvent>)> =
            self.cpus.iter_mut().map(|(id, cpu)| (*id, std::mem::take(&mut cpu.events))).collect();
        full.sort_unstable_by_key(|(id, _)| *id);
        for (id, mut events) in full.into_iter().filter(|(_, events)| !events.is_empty()) {
            // A stable sort keeps the order of events at the same nanosecond.
            events.sort_by_key(|event| event.timestamp);
            let bundle = FtraceEventBundle { cpu: Some(id.0), event: events };
            stream.packet(TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() });
        }
    }
}

fn event(at: Time, kind: Kind) -> FtraceEvent {
    FtraceEvent { timestamp: Some(at.0), event: Some(kind), ..FtraceEvent::default() }
}

fn switch(at: Time, prev: SwitchTask, state: i64, next: SwitchTask) -> FtraceEvent {
    let kind = Kind::SchedSwitch(SchedSwitch {
        prev_comm: Some(prev.comm.as_bytes().to_vec()),
        prev_pid: Some(prev.tid.0 as i32),
        prev_prio: Some(prev.prio.0),
        prev_state: Some(state),
        next_comm: Some(next.comm.as_bytes().to_vec()),
        next_pid: Some(next.tid.0 as i32),
        next_prio: Some(next.prio.0),
    });
    FtraceEvent { pid: Some(prev.tid.0), common_flags: Some(0), ..event(at, kind) }
}
