//! Exports of arbitrary events with hostile names.

use proptest::prelude::*;
use unstarve_export::Folded;
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};
use unstarve_timeline::Selection;

use crate::formats::folded::stacks;
use crate::formats::stage::{Sheet, export, sum, tables};

const NAMES: [&[u8]; 10] = [
    b"fio",
    b"kworker/0:1",
    b"a;b;c 12",
    b"\"x\",\n1",
    b"=cmd|'/c calc'!A",
    b"\x1b[31mred",
    b"</script><b>",
    b"\xff\xfe",
    "a\u{202e}b\u{2028}".as_bytes(),
    b"",
];

fn task() -> impl Strategy<Value = TaskRef> {
    let prios = vec![-1, 0, 50, 89, 100, 120, 139, 4711];
    (0..8_u32, 0..NAMES.len(), prop::sample::select(prios), any::<bool>()).prop_map(|(tid, name, prio, known)| {
        TaskRef::new(
            Tid(tid),
            if tid == 0 { Comm::from("swapper") } else { Comm::new(NAMES[name]) },
            known.then_some(Prio(prio)),
        )
    })
}

fn kind() -> impl Strategy<Value = EventKind> {
    let cpu = || (0..3_u32).prop_map(CpuId);
    let state =
        prop::sample::select(vec![PrevState::Runnable, PrevState::Preempted, PrevState::Sleeping, PrevState::Dead]);
    prop_oneof![
        6 => (task(), state, task()).prop_map(|(prev, prev_state, next)| EventKind::Switch { prev, prev_state, next }),
        4 => (task(), cpu()).prop_map(|(task, target_cpu)| EventKind::Waking { task, target_cpu }),
        2 => (task(), cpu()).prop_map(|(task, target_cpu)| EventKind::Wakeup { task, target_cpu }),
        1 => (task(), cpu(), cpu()).prop_map(|(task, orig_cpu, dest_cpu)| EventKind::Migrate { task, orig_cpu, dest_cpu }),
        1 => (0..4_u32).prop_map(|irq| EventKind::IrqEntry { irq, name: None }),
        1 => (0..4_u32).prop_map(|irq| EventKind::IrqExit { irq }),
        1 => (0..12_u8).prop_map(|vec| EventKind::SoftirqEntry { vec }),
        1 => (0..12_u8).prop_map(|vec| EventKind::SoftirqExit { vec }),
        1 => (0..8_u32).prop_map(|tid| EventKind::Exit { tid: Tid(tid), comm: Comm::default() }),
        1 => Just(EventKind::Lost { count: None }),
    ]
}

/// Arbitrary events in time order, with names that contain the formats' special characters.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let step = prop_oneof![Just(0), 1..100_u64, 1..1_000_000_u64, 1..200_000_000_u64];
    prop::collection::vec((step, 0..3_u32, kind()), 1..200).prop_map(|steps| {
        let mut time = 1_000_000;
        let event = |(step, cpu, kind)| {
            time += step;
            Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(None, Context::Task), kind }
        };
        steps.into_iter().map(event).collect()
    })
}

pub fn source(events: &[Event]) -> Box<MemorySource> {
    Box::new(MemorySource::new(TraceInfo::default(), events.to_vec(), Names::default()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_add_up_whatever_happens(events in events()) {
        let ([waits, pieces, blame, _], report) = tables(source(&events));
        let total = report.trace.waits_total_ns;
        prop_assert_eq!(waits.len() as u64, report.trace.waits_count);
        prop_assert_eq!([sum(&waits, "wait_ns"), sum(&pieces, "piece_ns"), sum(&blame, "total_ns")], [total; 3]);
        for cell in waits.iter().chain(&pieces).chain(&blame).flat_map(|row| row.values()) {
            prop_assert!(!cell.contains(char::is_control) && !cell.starts_with(['=', '@']), "{:?}", cell);
        }
    }

    #[test]
    fn stacks_add_up_whatever_happens(events in events()) {
        let sheet = Sheet::default();
        let report = export(source(&events), Folded::new(sheet.clone(), Selection::default()));
        let text = sheet.text();
        let stacks = stacks(&text);
        prop_assert_eq!(stacks.iter().map(|(_, ns)| ns).sum::<u64>(), report.trace.waits_total_ns);
        prop_assert!(stacks.iter().all(|(frames, _)| frames.len() == 3), "{}", text);
    }
}
