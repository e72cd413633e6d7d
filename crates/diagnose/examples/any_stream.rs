//! What is reported of event streams that mean nothing, for comparing two builds that are to give the same answers:
//! `any_stream FIRST LAST` prints a line for each seed, a checksum of the report's JSON.
//!
//! Streams are made from the seed alone, by a generator of its own: a library's may change.

use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};

use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};

const NAMES: [&str; 8] = ["fio", "kworker/0:1", "kworker/1:0", "ksoftirqd/0", "nfsd", "rcu_preempt", "perf", ""];
const PRIOS: [i32; 8] = [-1, 0, 50, 89, 100, 120, 120, 139];
const STATES: [PrevState; 6] = [
    PrevState::Runnable,
    PrevState::Preempted,
    PrevState::Sleeping,
    PrevState::Uninterruptible,
    PrevState::Dead,
    PrevState::Unknown,
];

/// Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A machine of which the generator knows who runs where, so that some streams make sense for a while.
struct Machine {
    dice: Dice,
    tasks: u64,
    running: Vec<u32>,
    /// One event in so many is any.
    nonsense: u64,
}

impl Machine {
    /// Mostly a task has its own name and priority.
    fn task(&mut self, tid: u32) -> TaskRef {
        let own = self.dice.below(50) > 0;
        let (name, prio) = (NAMES[tid as usize % 8], PRIOS[(tid / 8) as usize % 8]);
        let (name, prio) = if own { (name, prio) } else { (self.dice.one(&NAMES), self.dice.one(&PRIOS)) };
        let comm = if tid == 0 { Comm::from("swapper") } else { Comm::from(name) };
        TaskRef::new(Tid(tid), comm, (self.dice.below(100) > 0).then_some(Prio(prio)))
    }

    fn any_task(&mut self) -> TaskRef {
        let tid = self.dice.below(self.tasks) as u32;
        self.task(tid)
    }

    fn kind(&mut self, cpu: usize) -> EventKind {
        let cpus = self.running.len() as u64;
        let target_cpu = CpuId(self.dice.below(cpus) as u32);
        match self.dice.below(24) {
            0..10 => {
                let sane = self.dice.below(self.nonsense) > 0;
                let prev = if sane { self.running[cpu] } else { self.dice.below(self.tasks) as u32 };
                let (prev, next) = (self.task(prev), self.any_task());
                self.running[cpu] = next.tid().0;
                EventKind::Switch { prev, prev_state: self.dice.one(&STATES), next }
            }
            10..14 => EventKind::Waking { task: self.any_task(), target_cpu },
            14..17 => EventKind::Wakeup { task: self.any_task(), target_cpu },
            17 => EventKind::Migrate { task: self.any_task(), orig_cpu: CpuId(cpu as u32), dest_cpu: target_cpu },
            18 => EventKind::IrqEntry { irq: self.dice.below(3) as u32, name: None },
            19 => EventKind::IrqExit { irq: self.dice.below(3) as u32 },
            20 => EventKind::SoftirqEntry { vec: self.dice.below(10) as u8 },
            21 => EventKind::SoftirqExit { vec: self.dice.below(10) as u8 },
            22 => EventKind::WorkStart { work: self.dice.below(3), function: None },
            _ => match self.dice.below(6) {
                0 => EventKind::WakeupNew { task: self.any_task(), target_cpu },
                1 => EventKind::Exit { tid: self.any_task().tid(), comm: Comm::default() },
                2 => EventKind::SetPrio { tid: self.any_task().tid(), prio: Prio(self.dice.one(&PRIOS)) },
                3 => EventKind::Rename { tid: Some(self.any_task().tid()), comm: Comm::from(self.dice.one(&NAMES)) },
                4 => EventKind::WorkEnd { work: self.dice.below(3), function: None },
                _ => EventKind::Lost { count: None },
            },
        }
    }
}

fn stream(seed: u64) -> Vec<Event> {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let cpus = 1 + dice.below(4) as usize;
    let (tasks, nonsense) = (2 + dice.below(60), dice.one(&[2, 50, 2000]));
    let longest = dice.one(&[2_000, 300_000, 30_000_000]);
    let contexts = dice.one(&[1, 4, 5]);
    let length = 100 + dice.below(20_000);
    let mut machine = Machine { dice, tasks, running: vec![0; cpus], nonsense };
    let mut time = 1_000_000;
    let mut event = || {
        time += machine.dice.below(longest);
        let cpu = machine.dice.below(cpus as u64) as usize;
        let all = [Context::Task, Context::Softirq, Context::Hardirq, Context::Nmi, Context::Unknown];
        let context = all[machine.dice.below(contexts) as usize];
        let current = (machine.dice.below(machine.nonsense) > 0).then_some(Tid(machine.running[cpu]));
        Event {
            time: Time(time),
            cpu: CpuId(cpu as u32),
            issuer: Issuer::new(current, context),
            kind: machine.kind(cpu),
        }
    };
    (0..length).map(|_| event()).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: Vec<u64> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [first, last] = seeds[..] else { return Err("usage: any_stream FIRST LAST".into()) };
    for seed in first..=last {
        let source = MemorySource::new(TraceInfo::default(), stream(seed), Names::default());
        let report = serde_json::to_string(&explain(Box::new(source), &Options::default(), |_| {})?)?;
        let mut hasher = DefaultHasher::new();
        report.hash(&mut hasher);
        println!("{seed} {} bytes {:016x}", report.len(), hasher.finish());
    }
    Ok(())
}
