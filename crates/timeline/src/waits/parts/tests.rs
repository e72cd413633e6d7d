//! Tests of the limit on the parts and pieces of a wait.

use proptest::prelude::*;
use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid};
use unstarve_sched::Groups;
use unstarve_sched::Rule;

use super::*;
use crate::effort::STEPS;
use crate::{Claim, NoSettings, Sink, Timeline, Wait, World};

/// The actors that always exist come first.
const FIRST_TASK: u32 = 4;

/// This many kinds of tasks, and an interrupt after them.
fn actors(tasks: u32) -> Actors {
    let mut actors = Actors::new(Groups::default());
    for task in 0..tasks {
        let comm = Comm::from(format!("t{task}").as_str());
        actors.of(ActorKind::Tasks { comm, prio: Prio::NORMAL, group: None, claim: Claim::Nothing, own_weight: None });
    }
    actors.of(ActorKind::Irq { irq: 7, name: None });
    actors
}

fn sum(parts: &[Part]) -> Nanos {
    parts.iter().map(|part| part.1).sum()
}

#[test]
fn of_too_many_parts_the_longest_stay_and_the_sum_holds() {
    let actors = actors(1000);
    let irq = ActorId(FIRST_TASK + 1000);
    let mut parts: Vec<Part> =
        (0..1000).map(|task| (ActorId(FIRST_TASK + task), Nanos(1000 + u64::from(task)))).collect();
    parts.insert(500, (ActorId::IDLE, Nanos(1)));
    parts.push((irq, Nanos(2)));
    let before = sum(&parts);
    let effort = Effort::default();
    keep_longest(&mut parts, 1, &actors, &effort);
    assert_eq!((parts.len(), sum(&parts)), (MAX_PARTS, before));
    // Actors that are not tasks, and the longest tasks in their order.
    assert_eq!(parts[0], (ActorId::IDLE, Nanos(1)));
    assert!(parts[1..MAX_PARTS - 2].is_sorted());
    assert_eq!(parts[MAX_PARTS - 3..MAX_PARTS - 1], [(ActorId(FIRST_TASK + 999), Nanos(1999)), (irq, Nanos(2))]);
    assert_eq!(parts[MAX_PARTS - 1].0, ActorId::OTHERS);
    // The more tasks wait, the fewer parts each has.
    keep_longest(&mut parts, 4 * OF_A_CPU / MAX_PARTS, &actors, &effort);
    assert_eq!((parts.len(), sum(&parts)), (MAX_PARTS / 4 - 1, before));
    keep_longest(&mut parts, usize::MAX, &actors, &effort);
    assert_eq!((parts.len(), sum(&parts)), (LEAST - 1, before));
    assert!(parts.contains(&(irq, Nanos(2))) && parts.contains(&(ActorId::IDLE, Nanos(1))));
}

#[test]
fn pieces_that_are_put_together_keep_their_rules() {
    let actors = actors(1000);
    let rule = |task: u32| if task.is_multiple_of(2) { Rule::Fair } else { Rule::Class };
    let piece =
        |task| Piece { occupant: ActorId(FIRST_TASK + task), rule: rule(task), length: Nanos(1 + u64::from(task)) };
    let mut pieces: Vec<Piece> = (0..1000).map(piece).collect();
    let of = |pieces: &[Piece], rule: Rule| -> Nanos {
        pieces.iter().filter(|piece| piece.rule == rule).map(|piece| piece.length).sum()
    };
    let before = [Rule::Fair, Rule::Class].map(|rule| of(&pieces, rule));
    keep_longest_pieces(&mut pieces, &actors);
    assert_eq!(pieces.len(), MAX_PARTS + 2);
    assert_eq!([Rule::Fair, Rule::Class].map(|rule| of(&pieces, rule)), before);
    assert_eq!(pieces.iter().filter(|piece| piece.occupant == ActorId::OTHERS).count(), 2);
}

proptest! {
    #[test]
    fn parts_added_together_are_parts_added_one_by_one(
        mut parts in prop::collection::hash_map(0..60u32, 0..9u64, 0..60),
        more in prop::collection::hash_map(0..60u32, 1..9u64, 0..60),
    ) {
        let list = |map: &mut std::collections::HashMap<u32, u64>| -> Vec<Part> {
            map.drain().map(|(actor, length)| (ActorId(actor), Nanos(length))).collect()
        };
        let (first, more) = (list(&mut parts), list(&mut more.clone()));
        let mut expected = first.clone();
        more.iter().for_each(|&(actor, length)| add(&mut expected, actor, length));
        let mut span = Span::new(more);
        // It can be used again.
        for _ in 0..2 {
            let mut found = first.clone();
            span.add_to(&mut found);
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// Checks each wait as it comes, and counts its pieces.
#[derive(Default)]
struct Pieces {
    waits: usize,
    most: usize,
}

impl Sink for Pieces {
    fn wait(&mut self, _: &World, wait: &Wait<'_>) {
        assert_eq!(wait.pieces.iter().map(|piece| piece.length).sum::<Nanos>(), wait.length());
        self.waits += 1;
        self.most = self.most.max(wait.pieces.len());
    }
}

/// Tasks of as many kinds alternate on one CPU, so that each waits for all others.
fn take_turns(tasks: u32, turns: u32) -> (Timeline, Pieces) {
    let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
    timeline.assume_places_recorded(true);
    let mut pieces = Pieces::default();
    let task = |number: u32| {
        let tid = 100 + number % tasks;
        TaskRef::new(Tid(tid), Comm::from(format!("t{tid}").as_str()), Some(Prio::NORMAL))
    };
    for turn in 0..turns {
        let (prev, next) = (task(turn), task(turn + 1));
        let kind = EventKind::Switch { prev, prev_state: PrevState::Runnable, next };
        let time = Time(u64::from(turn + 1) * 1000);
        let event = Event { time, cpu: CpuId(0), issuer: Issuer::new(Some(prev.tid()), Context::Unknown), kind };
        timeline.push(&event, &mut pieces);
    }
    (timeline, pieces)
}

#[test]
fn many_kinds_that_wait_for_each_other_take_steps_by_their_number() {
    // Waits are settled while a task waits for its next run.
    let (tasks, turns) = (4200, 9000);
    STEPS.set(0);
    let (mut timeline, mut pieces) = take_turns(tasks, turns);
    let kept: usize =
        timeline.world().tasks.iter().filter_map(|(_, task)| Some(task.pending.as_ref()?.parts.capacity())).sum();
    assert!((1..=2 * OF_A_CPU).contains(&kept), "room for {kept} parts");
    timeline.finish(&mut pieces);
    assert_eq!(pieces.waits, turns as usize);
    // All pieces of a wait have one rule.
    assert!(pieces.most <= MAX_PARTS + 1, "{} pieces", pieces.most);
    // For each wait, as many as the occupancy log keeps.
    assert!(STEPS.get() <= turns as usize * 4 * Occupancy::CAPACITY, "{} steps", STEPS.get());
}

/// Waits are also settled if only wakeups show the current task.
#[test]
fn wakeups_without_switches_are_forgotten_in_time() {
    for (places_recorded, most) in [(true, Occupancy::CAPACITY), (false, Occupancy::LONG_CAPACITY)] {
        let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
        timeline.assume_places_recorded(places_recorded);
        let mut pieces = Pieces::default();
        for step in 0..50_000 {
            let task = TaskRef::new(Tid(900), Comm::from("woken"), Some(Prio::NORMAL));
            let kind = EventKind::Waking { task, target_cpu: CpuId(0) };
            let (time, current) = (Time(1000 + u64::from(step) * 1000), Some(Tid(100 + step % 2)));
            timeline
                .push(&Event { time, cpu: CpuId(0), issuer: Issuer::new(current, Context::Task), kind }, &mut pieces);
            assert!(!timeline.machine().cpus[0].occupancy().is_full(most), "after {step} wakeups");
        }
    }
}

/// An event at the largest possible time is handled as one nanosecond earlier.
#[test]
fn events_at_the_end_of_time_are_taken() {
    let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
    let mut pieces = Pieces::default();
    let task = |tid| TaskRef::new(Tid(tid), Comm::from("t"), Some(Prio::NORMAL));
    let asleep = EventKind::Switch { prev: task(1), prev_state: PrevState::Sleeping, next: task(2) };
    let awake = EventKind::Switch { prev: task(2), prev_state: PrevState::Runnable, next: task(1) };
    let (woken, target_cpu) = (task(1), CpuId(0));
    let kinds =
        [asleep, EventKind::Waking { task: woken, target_cpu }, EventKind::Wakeup { task: woken, target_cpu }, awake];
    for (time, kind) in [5, u64::MAX, u64::MAX, u64::MAX].into_iter().zip(kinds) {
        let event = Event { time: Time(time), cpu: CpuId(0), issuer: Issuer::new(None, Context::Task), kind };
        timeline.push(&event, &mut pieces);
    }
    assert_eq!((pieces.waits, timeline.world().now), (1, Time(u64::MAX - 1)));
}
