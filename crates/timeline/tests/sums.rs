//! Every wait's pieces add up to the wait, whatever the events say; and where the events are consistent, each piece is
//! what really happened, as a plain simulation that writes everything down knows it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use unstarve_model::{
    BlockRequest, Comm, Context, CpuId, Event, EventKind, Issuer, NameId, Nanos, PrevState, Prio, TaskRef, Tid, Time,
    Vector,
};
use unstarve_timeline::{NoSettings, Sink, Timeline, Wait, World};

/// Checks each wait as it comes.
#[derive(Default)]
struct Sums {
    waits: u64,
    /// (tid, start, end) → occupant name → ns.
    found: BTreeMap<(u32, u64, u64), BTreeMap<String, u64>>,
}

impl Sink for Sums {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let sum: Nanos = wait.pieces.iter().map(|piece| piece.length).sum();
        assert_eq!(sum, wait.length(), "pieces of {wait:?}");
        assert!(wait.pieces.iter().all(|piece| piece.length > Nanos::ZERO));
        self.waits += 1;
        let occupants = self.found.entry((world.tasks.get(wait.task).tid.0, wait.start.0, wait.end.0)).or_default();
        for piece in wait.pieces {
            *occupants.entry(crate::scene::name(world, piece.occupant)).or_default() += piece.length.0;
        }
    }
}

fn task(tid: u32) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(format!("t{tid}").as_str()), Some(Prio::NORMAL))
}

fn request() -> impl Strategy<Value = BlockRequest> {
    (0..3u64, 0..3u32).prop_map(|(sector, sectors)| BlockRequest { device: 1, sector, sectors })
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let tid = 0..8u32;
    let cpu = 0..4u32;
    let state = prop_oneof![
        Just(PrevState::Runnable),
        Just(PrevState::Preempted),
        Just(PrevState::Sleeping),
        Just(PrevState::Dead),
        Just(PrevState::Unknown),
    ];
    prop_oneof![
        4 => (tid.clone(), state, tid.clone()).prop_map(|(prev, prev_state, next)| EventKind::Switch {
            prev: task(prev), prev_state, next: task(next)
        }),
        2 => (tid.clone(), cpu.clone()).prop_map(|(t, c)| EventKind::Waking { task: task(t), target_cpu: CpuId(c) }),
        2 => (tid.clone(), cpu.clone()).prop_map(|(t, c)| EventKind::Wakeup { task: task(t), target_cpu: CpuId(c) }),
        1 => (tid.clone(), cpu.clone()).prop_map(|(t, c)| EventKind::WakeupNew { task: task(t), target_cpu: CpuId(c) }),
        1 => (tid.clone(), cpu.clone(), cpu).prop_map(|(t, a, b)| EventKind::Migrate {
            task: task(t), orig_cpu: CpuId(a), dest_cpu: CpuId(b)
        }),
        1 => (tid.clone(), tid.clone()).prop_map(|(a, b)| EventKind::Fork {
            parent: Tid(a), child: Tid(b), child_comm: Comm::from("child")
        }),
        1 => tid.prop_map(|t| EventKind::Exit { tid: Tid(t), comm: Comm::default() }),
        1 => (0..3u32).prop_map(|irq| EventKind::IrqEntry { irq, name: None::<NameId> }),
        1 => (0..3u32).prop_map(|irq| EventKind::IrqExit { irq }),
        1 => (0..3u8).prop_map(|vec| EventKind::SoftirqEntry { vec }),
        1 => (0..3u8).prop_map(|vec| EventKind::SoftirqExit { vec }),
        1 => request().prop_map(EventKind::BlockInsert),
        1 => request().prop_map(EventKind::BlockIssue),
        1 => request().prop_map(EventKind::BlockComplete),
        1 => Just(EventKind::Tick { heard: None }),
        1 => Just(EventKind::TickStop),
        1 => prop::sample::select(Vector::ALL.to_vec()).prop_map(|vector| EventKind::VectorEntry { vector }),
        1 => prop::sample::select(Vector::ALL.to_vec()).prop_map(|vector| EventKind::VectorExit { vector }),
        1 => Just(EventKind::Lost { count: None }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn pieces_add_up_for_events_that_make_no_sense(
        events in prop::collection::vec((0..50u64, 0..4u32, prop::option::of(0..8u32), any_kind()), 0..400)
    ) {
        let mut timeline = Timeline::new(None, None, Box::new(NoSettings));
        let mut sums = Sums::default();
        let mut time = 1_000;
        for (step, cpu, current, kind) in events {
            time += step;
            let event =
                Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(current.map(Tid), Context::Unknown), kind };
            timeline.push(&event, &mut sums);
        }
        timeline.finish(&mut sums);
    }

    #[test]
    fn pieces_are_what_happened(seed in any::<u64>(), cpus in 1..4usize, tasks in 2..24u32) {
        let mut world = Simulation::new(seed, cpus, tasks);
        let mut timeline = Timeline::new(Some(cpus as u32), None, Box::new(NoSettings));
        let mut sums = Sums::default();
        for index in 0..cpus {
            // A first event, so that it is known that the CPU is idle.
            timeline.push(&world.event(index, EventKind::SoftirqRaise { vec: 1 }), &mut sums);
        }
        for _ in 0..12_000 {
            for event in world.step() {
                timeline.push(&event, &mut sums);
            }
        }
        prop_assert_eq!(timeline.losses(), vec![]);
        // Two tasks on three CPUs hardly ever wait for one.
        prop_assert!(sums.waits > 100, "only {} waits", sums.waits);
        prop_assert_eq!(sums.found, world.truth);
    }
}

/// A machine that wakes, switches, moves and interrupts at random, and keeps the book of who had which CPU when.
struct Simulation {
    random: u64,
    time: u64,
    cpus: Vec<SimCpu>,
    tasks: Vec<SimTask>,
    truth: BTreeMap<(u32, u64, u64), BTreeMap<String, u64>>,
}

struct SimCpu {
    current: u32,
    irq: Option<u32>,
    queue: Vec<u32>,
}

#[derive(Clone, Default)]
struct SimTask {
    last_cpu: usize,
    wait: Option<(u64, BTreeMap<String, u64>)>,
}

impl Simulation {
    fn new(seed: u64, cpus: usize, tasks: u32) -> Simulation {
        let cpu = || SimCpu { current: 0, irq: None, queue: Vec::new() };
        Simulation {
            random: seed | 1,
            time: 1_000,
            cpus: (0..cpus).map(|_| cpu()).collect(),
            tasks: vec![SimTask::default(); tasks as usize + 1],
            truth: BTreeMap::new(),
        }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    /// Lets time pass: every waiting task writes down who had its CPU.
    fn pass(&mut self, span: u64) {
        for cpu in &self.cpus {
            let occupant = match (cpu.irq, cpu.current) {
                (Some(irq), _) => format!("irq{irq}"),
                (None, 0) => "idle".into(),
                (None, tid) => format!("t{tid}"),
            };
            for tid in &cpu.queue {
                if let Some((_, occupants)) = &mut self.tasks[*tid as usize].wait {
                    *occupants.entry(occupant.clone()).or_default() += span;
                }
            }
        }
        self.time += span;
    }

    fn event(&self, cpu: usize, kind: EventKind) -> Event {
        let current = Some(Tid(self.cpus[cpu].current));
        Event { time: Time(self.time), cpu: CpuId(cpu as u32), issuer: Issuer::new(current, Context::Unknown), kind }
    }

    fn enqueue(&mut self, tid: u32, cpu: usize) {
        self.cpus[cpu].queue.push(tid);
        self.tasks[tid as usize].wait = Some((self.time, BTreeMap::new()));
    }

    fn switch(&mut self, index: usize, prev_state: PrevState) -> Event {
        let prev = self.cpus[index].current;
        let next = match self.cpus[index].queue.len() {
            0 => 0,
            length => {
                let place = self.pick(length);
                self.cpus[index].queue.swap_remove(place)
            }
        };
        let kind = EventKind::Switch { prev: task(prev), prev_state, next: task(next) };
        let event = self.event(index, kind);
        if prev != 0 && prev_state.is_runnable() {
            self.enqueue(prev, index);
        }
        self.cpus[index].current = next;
        if next != 0 {
            let (start, mut occupants) = self.tasks[next as usize].wait.take().expect("it waited");
            occupants.retain(|_, length| *length > 0);
            self.truth.insert((next, start, self.time), occupants);
            self.tasks[next as usize].last_cpu = index;
        }
        event
    }

    fn step(&mut self) -> Vec<Event> {
        let span = self.pick(40) as u64 + 1;
        self.pass(span);
        let index = self.pick(self.cpus.len());
        let busy = self.cpus[index].current != 0;
        match self.pick(10) {
            0..4 => {
                let tid = self.pick(self.tasks.len() - 1) as u32 + 1;
                let asleep = self.tasks[tid as usize].wait.is_none() && self.cpus.iter().all(|cpu| cpu.current != tid);
                if !asleep {
                    return Vec::new();
                }
                let target = self.tasks[tid as usize].last_cpu;
                let event = self.event(index, EventKind::Waking { task: task(tid), target_cpu: CpuId(target as u32) });
                self.enqueue(tid, target);
                vec![event]
            }
            4 => {
                let (from, to) = (self.pick(self.cpus.len()), index);
                if self.cpus[from].queue.is_empty() || from == to {
                    return Vec::new();
                }
                let place = self.pick(self.cpus[from].queue.len());
                let tid = self.cpus[from].queue.swap_remove(place);
                self.cpus[to].queue.push(tid);
                let (orig_cpu, dest_cpu) = (CpuId(from as u32), CpuId(to as u32));
                vec![self.event(index, EventKind::Migrate { task: task(tid), orig_cpu, dest_cpu })]
            }
            5 => {
                let (kind, irq) = match self.cpus[index].irq {
                    None => (EventKind::IrqEntry { irq: 7, name: None }, Some(7)),
                    Some(irq) => (EventKind::IrqExit { irq }, None),
                };
                self.cpus[index].irq = irq;
                vec![self.event(index, kind)]
            }
            _ if self.cpus[index].irq.is_some() => Vec::new(),
            6 if busy && !self.cpus[index].queue.is_empty() => vec![self.switch(index, PrevState::Preempted)],
            7.. if busy => vec![self.switch(index, PrevState::Sleeping)],
            _ if !self.cpus[index].queue.is_empty() => vec![self.switch(index, PrevState::Runnable)],
            _ => Vec::new(),
        }
    }
}
