//! Whatever the events say, in whatever order: no panic, and every list adds up.

use proptest::prelude::*;
use unstarve_diagnose::report::Culprit;
use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    BlockRequest, Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid,
    Time, TraceInfo, Vector,
};

fn task() -> impl Strategy<Value = TaskRef> {
    let names = vec!["fio", "kworker/0:1", "kworker/1:0", "ksoftirqd/0", "nfsd", "swapper", "\u{1b}[31m", ""];
    let prios = vec![-1, 0, 50, 89, 100, 120, 139, 4711];
    (0..6_u32, prop::sample::select(names), prop::sample::select(prios), any::<bool>()).prop_map(
        |(tid, comm, prio, known)| {
            TaskRef::new(
                Tid(tid),
                if tid == 0 { Comm::from("swapper") } else { Comm::from(comm) },
                known.then_some(Prio(prio)),
            )
        },
    )
}

fn kind() -> impl Strategy<Value = EventKind> {
    let cpu = || (0..3_u32).prop_map(CpuId);
    let state = prop::sample::select(vec![
        PrevState::Runnable,
        PrevState::Preempted,
        PrevState::Sleeping,
        PrevState::Dead,
        PrevState::Unknown,
    ]);
    prop_oneof![
        6 => (task(), state, task()).prop_map(|(prev, prev_state, next)| EventKind::Switch { prev, prev_state, next }),
        3 => (task(), cpu()).prop_map(|(task, target_cpu)| EventKind::Waking { task, target_cpu }),
        3 => (task(), cpu()).prop_map(|(task, target_cpu)| EventKind::Wakeup { task, target_cpu }),
        1 => (task(), cpu()).prop_map(|(task, target_cpu)| EventKind::WakeupNew { task, target_cpu }),
        1 => (task(), cpu(), cpu()).prop_map(|(task, orig_cpu, dest_cpu)| EventKind::Migrate { task, orig_cpu, dest_cpu }),
        1 => (0..4_u32).prop_map(|irq| EventKind::IrqEntry { irq, name: None }),
        1 => (0..4_u32).prop_map(|irq| EventKind::IrqExit { irq }),
        1 => (0..255_u8).prop_map(|vec| EventKind::SoftirqEntry { vec: vec % 12 }),
        1 => (0..255_u8).prop_map(|vec| EventKind::SoftirqExit { vec: vec % 12 }),
        1 => (0..3_u64).prop_map(|work| EventKind::WorkStart { work, function: None }),
        1 => (0..3_u64).prop_map(|work| EventKind::WorkEnd { work, function: None }),
        1 => (0..3_u64).prop_map(|work| EventKind::WorkQueued { work, function: None, workqueue: None }),
        1 => request().prop_map(EventKind::BlockInsert),
        1 => request().prop_map(EventKind::BlockIssue),
        1 => request().prop_map(EventKind::BlockComplete),
        1 => (0..6_u32).prop_map(|tid| EventKind::Exit { tid: Tid(tid), comm: Comm::default() }),
        // Ticks come again and again.
        6 => prop::option::of(any::<u64>()).prop_map(|heard| EventKind::Tick { heard: heard.map(Time) }),
        1 => Just(EventKind::TickStop),
        1 => prop::sample::select(Vector::ALL.to_vec()).prop_map(|vector| EventKind::VectorEntry { vector }),
        1 => prop::sample::select(Vector::ALL.to_vec()).prop_map(|vector| EventKind::VectorExit { vector }),
        1 => (0..3_u64, any::<i64>(), any::<bool>())
            .prop_map(|(timer, due, is_relative)| EventKind::TimerStart { timer, due, is_relative }),
        1 => (0..3_u64, any::<i64>()).prop_map(|(timer, now)| EventKind::TimerExpire { timer, now }),
        1 => Just(EventKind::TimeoutExpire),
        1 => (0..6_u32, 0..2_u32)
            .prop_map(|(tid, hierarchy)| EventKind::Attach { tid: Tid(tid), hierarchy, group: None }),
        1 => (0..255_u8).prop_map(|vec| EventKind::SoftirqRaise { vec: vec % 12 }),
        1 => Just(EventKind::Lost { count: None }),
    ]
}

fn request() -> impl Strategy<Value = BlockRequest> {
    let sector = prop_oneof![4 => 0..4_u64, 1 => Just(u64::MAX)];
    (0..2_u64, sector, 0..3_u32).prop_map(|(device, sector, sectors)| BlockRequest { device, sector, sectors })
}

/// Steps up to seconds, so that every threshold of time is crossed now and then.
fn event() -> impl Strategy<Value = (u64, u32, Context, EventKind)> {
    let step = prop_oneof![Just(0), 1..100_u64, 1..1_000_000_u64, 1..200_000_000_u64];
    let context = prop::sample::select(vec![Context::Task, Context::Softirq, Context::Hardirq, Context::Unknown]);
    (step, 0..3_u32, context, kind())
}

fn sum(rows: &[Culprit]) -> u64 {
    rows.iter().map(|row| row.ns).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_list_adds_up(steps in prop::collection::vec(event(), 1..400)) {
        let mut time = 0;
        let events: Vec<Event> = steps
            .into_iter()
            .map(|(step, cpu, context, kind)| {
                time += step;
                Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(None, context), kind }
            })
            .collect();
        let count = events.len() as u64;
        let source = MemorySource::new(TraceInfo::default(), events, Names::default());
        let report = explain(Box::new(source), &Options::default(), |_| {}).expect("there are events");
        prop_assert_eq!(report.trace.events, count);
        for finding in &report.findings {
            prop_assert_eq!(sum(&finding.blame), finding.waits.total_ns, "{}", &finding.id);
            prop_assert!(sum(&finding.culprits) <= finding.waits.total_ns);
            prop_assert!((0.0..=1.0).contains(&finding.confidence));
            prop_assert!(finding.waits.p99_ns <= finding.waits.max_ns);
            prop_assert!(!finding.sentence.contains(char::is_control), "{:?}", &finding.sentence);
        }
        for wait in &report.worst_waits {
            prop_assert_eq!(sum(&wait.blame), wait.end_ns - wait.start_ns);
        }
    }

    /// Times that no recording has: sums over threads go beyond 64 bits.
    #[test]
    fn times_of_any_length_are_no_fault(
        steps in prop::collection::vec((event(), prop::option::weighted(0.02, Just(u64::MAX / 3))), 1..400)
    ) {
        let mut time = 0_u64;
        let events: Vec<Event> = steps
            .into_iter()
            .map(|((step, cpu, context, kind), leap)| {
                time = time.saturating_add(step).saturating_add(leap.unwrap_or(0));
                Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(None, context), kind }
            })
            .collect();
        let source = MemorySource::new(TraceInfo::default(), events, Names::default());
        explain(Box::new(source), &Options::default(), |_| {}).expect("there are events");
    }
}
