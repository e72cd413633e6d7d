//! Names cost nothing: a user who gives as many as he likes hides nobody behind them.

use unstarve_diagnose::report::Report;
use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};

struct Scene {
    events: Vec<Event>,
    time: u64,
}

impl Scene {
    fn push(&mut self, step: u64, cpu: u32, kind: EventKind) {
        self.time += step;
        let (time, cpu) = (Time(self.time), CpuId(cpu));
        self.events.push(Event { time, cpu, issuer: Issuer::new(None, Context::Task), kind });
    }

    fn switch(&mut self, step: u64, cpu: u32, prev: TaskRef, prev_state: PrevState, next: TaskRef) {
        self.push(step, cpu, EventKind::Switch { prev, prev_state, next });
    }
}

fn idle(cpu: u32) -> TaskRef {
    TaskRef::new(Tid(0), Comm::from(format!("swapper/{cpu}").as_str()), Some(Prio::NORMAL))
}

fn user(index: u32) -> TaskRef {
    TaskRef::new(Tid(1000 + index), Comm::from(format!("n{index}").as_str()), Some(Prio::NORMAL))
}

/// Tasks of so many names wait on CPU 1, each for the one before it; then a real-time task keeps a worker of CPU 0 from running.
fn explained(names: u32) -> Report {
    let worker = TaskRef::new(Tid(9), Comm::from("kworker/0:1"), Some(Prio::NORMAL));
    let mut scene = Scene { events: Vec::new(), time: 1_000_000_000 };
    let hog = TaskRef::new(Tid(500), Comm::from("hog"), Some(Prio(49)));
    scene.switch(0, 0, idle(0), PrevState::Runnable, hog);
    scene.switch(0, 1, idle(1), PrevState::Runnable, user(0));
    for index in 1..names {
        scene.push(1_000, 1, EventKind::Wakeup { task: user(index), target_cpu: CpuId(1) });
        scene.switch(1_000, 1, user(index - 1), PrevState::Sleeping, user(index));
    }
    let late = TaskRef::new(Tid(501), Comm::from("late-hog"), Some(Prio(39)));
    scene.switch(1_000, 0, hog, PrevState::Sleeping, late);
    for _ in 0..20 {
        scene.push(1_000, 0, EventKind::Wakeup { task: worker, target_cpu: CpuId(0) });
        scene.switch(50_000_000, 0, late, PrevState::Sleeping, worker);
        scene.switch(10_000, 0, worker, PrevState::Sleeping, late);
    }
    let source = MemorySource::new(TraceInfo::default(), scene.events, Names::default());
    explain(Box::new(source), &Options::default(), |_| {}).expect("there are events")
}

#[test]
fn whoever_comes_after_a_flood_of_names_is_named() {
    let report = explained(70_000);
    let finding = &report.findings[0];
    assert_eq!((finding.id.as_str(), finding.victim.comm.as_str()), ("rt-starvation", "kworker/0:1"), "{finding:#?}");
    assert_eq!(finding.culprits[0].comm, "late-hog");
    let told = |loss: &String| loss.contains("names were not kept (of tasks, beyond 49152 kinds)");
    assert!(report.losses.iter().any(told), "{:?}", report.losses);
}

#[test]
fn what_happens_without_the_flood_is_the_same() {
    let (few, many) = (explained(10), explained(70_000));
    assert_eq!(few.findings[0].sentence, many.findings[0].sentence);
    assert!(!few.losses.iter().any(|loss| loss.contains("names")), "{:?}", few.losses);
}
