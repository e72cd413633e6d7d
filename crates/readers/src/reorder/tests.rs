//! Tests of sorting, against a plain sorted list.

use super::queue::Block;
use super::*;
use proptest::prelude::*;
use unstarve_model::{Context, Issuer, Tid};

fn at(time: u64, cpu: u32) -> Event {
    let kind = EventKind::SoftirqExit { vec: 0 };
    Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(None, Context::Task), kind }
}

/// An event with its number as the current task.
fn at_number(time: u64, cpu: u32, number: u32) -> Event {
    Event { issuer: Issuer::new(Some(Tid(number)), Context::Task), ..at(time, cpu) }
}

fn number_of(event: &Event) -> u32 {
    event.issuer.current().map_or(0, |tid| tid.0)
}

fn drain(reorder: &mut Reorder) -> Vec<(u64, u32)> {
    drain_events(reorder).iter().map(|event| (event.time.0, event.cpu.0)).collect()
}

fn drain_events(reorder: &mut Reorder) -> Vec<Event> {
    let mut events = Vec::new();
    loop {
        let mut part = Vec::new();
        reorder.fill(&mut part);
        if part.is_empty() {
            break;
        }
        events.extend(part);
    }
    events
}

#[test]
fn runs_of_several_cpus_are_merged_and_equal_times_keep_their_order() {
    let mut reorder = Reorder::new(100);
    for (time, cpu) in [(1, 0), (4, 0), (9, 0), (2, 1), (4, 1), (8, 1)] {
        reorder.push(at(time, cpu));
    }
    reorder.release(Time(4));
    assert_eq!(drain(&mut reorder), [(1, 0), (2, 1), (4, 0), (4, 1)]);
    reorder.push(at(3, 2));
    reorder.push(at(9, 2));
    reorder.release_all();
    // CPU 2's first event is too late: it gets a later time, and is counted.
    assert_eq!(drain(&mut reorder), [(4, 2), (8, 1), (9, 0), (9, 2)]);
    assert_eq!(reorder.loss(), Some(Loss::new(LossKind::OutOfOrder, 1)));
}

#[test]
fn what_all_cpus_have_gone_beyond_can_go() {
    let us = 1000;
    let mut reorder = Reorder::new(100);
    reorder.push(at(10 * us, 0));
    reorder.push(at(500 * us, 0));
    reorder.release_passed(2);
    assert_eq!(drain(&mut reorder), [], "CPU 1 may have anything");
    reorder.push(at(20 * us, 1));
    reorder.push(at(300 * us, 1));
    reorder.release_passed(2);
    assert_eq!(drain(&mut reorder), [(10 * us, 0), (20 * us, 1)]);
    // A CPU whose events are out of order has more than one buffer.
    reorder.push(at(400 * us, 1));
    reorder.push(at(250 * us, 0));
    reorder.release_passed(2);
    assert_eq!(drain(&mut reorder), []);
    reorder.release_all();
    assert_eq!(drain(&mut reorder), [(250 * us, 0), (300 * us, 1), (400 * us, 1), (500 * us, 0)]);
    assert_eq!(reorder.loss(), None);
}

#[test]
fn what_came_last_can_be_taken_back() {
    let mut reorder = Reorder::new(100);
    for (time, cpu) in [(1, 0), (4, 0), (9, 1)] {
        reorder.push(at(time, cpu));
    }
    let before = reorder.arrivals();
    for (time, cpu) in [(2, 0), (5, 0), (3, 2)] {
        reorder.push(at(time, cpu));
    }
    reorder.take_back(before);
    reorder.push(at(7, 2));
    reorder.release_all();
    assert_eq!(drain(&mut reorder), [(1, 0), (4, 0), (7, 2), (9, 1)]);
    assert_eq!(reorder.loss(), None);
}

/// Pushes events of two CPUs with these times, each with its number as the current task. Returns them in the order in
/// which they are given out.
fn put_in_order(times: &[u64], reorder: &mut Reorder) -> Vec<(u64, u32)> {
    let mut events = Vec::new();
    for (number, &time) in (0..).zip(times) {
        reorder.push(at_number(time, number % 2, number));
    }
    reorder.release_all();
    while reorder.waiting > 0 {
        let mut part = Vec::new();
        reorder.fill(&mut part);
        events.extend(part);
    }
    events.iter().map(|event| (event.time.0, number_of(event))).collect()
}

fn sorted(times: &[u64]) -> Vec<(u64, u32)> {
    let mut expected: Vec<(u64, u32)> = times.iter().copied().zip(0..).collect();
    expected.sort();
    expected
}

#[test]
fn events_in_the_worst_order_are_not_moved_one_by_one() {
    let count = 20_000;
    let backwards: Vec<u64> = (0..count).rev().collect();
    // The second half of each piece belongs before the whole first half.
    let swapped: Vec<u64> = (0..count).map(|at| at ^ 1024).collect();
    let equal: Vec<u64> = (0..count).map(|at| (count - at) / 1000).collect();
    for times in [backwards, swapped, equal] {
        let mut reorder = Reorder::new(2 * times.len());
        assert_eq!(put_in_order(&times, &mut reorder), sorted(&times));
        assert!(reorder.moved <= times.len(), "{} moved", reorder.moved);
        assert_eq!((reorder.strays.len(), reorder.loss()), (0, None));
    }
}

#[test]
fn an_event_is_moved_past_those_of_two_blocks_and_waits_beside_more() {
    for (before, later, moved) in [
        (1, 0, 0),
        (1, 1, 1),
        (1, Block::LENGTH - 2, Block::LENGTH - 2),
        // Its place is in the block before, or at the start of its own.
        (1, Block::LENGTH, Block::LENGTH),
        (Block::LENGTH - 1, 1, 1),
        (Block::LENGTH, 1, 1),
        (Block::LENGTH + 1, 1, 1),
        // Its place is two blocks earlier.
        (1, 2 * Block::LENGTH, 0),
        // It would be the first of the queue.
        (0, 1, 0),
        (0, Block::LENGTH, 0),
    ] {
        let (before, later) = (before as u64, later as u64);
        let times: Vec<u64> = (0..before).chain((0..later).map(|at| before + 1 + at)).chain([before]).collect();
        let mut reorder = Reorder::new(2 * times.len());
        times.iter().for_each(|&time| reorder.push(at(time, 1)));
        assert_eq!(reorder.moved, moved, "{before} before, {later} later");
        assert_eq!(reorder.strays.len(), usize::from(moved == 0 && later > 0), "{before} before, {later} later");
        reorder.push(at(0, 0));
        reorder.release_all();
        let expected: Vec<u64> = (0..=before + later).collect();
        let came: Vec<u64> = drain(&mut reorder).iter().filter(|(_, cpu)| *cpu == 1).map(|(time, _)| *time).collect();
        assert_eq!(came, expected, "{before} before, {later} later");
    }
}

#[test]
fn neighbours_may_overtake_each_other_anywhere() {
    let last = 3 * Block::LENGTH as u64;
    for swapped in 1..last {
        let mut times: Vec<u64> = (0..=last).collect();
        times.swap(swapped as usize, swapped as usize + 1);
        let mut reorder = Reorder::new(1000);
        times.iter().for_each(|&time| reorder.push(at(time, 1)));
        assert_eq!((reorder.moved, reorder.strays.len()), (1, 0), "{swapped}");
        reorder.release_all();
        assert!(drain(&mut reorder).iter().map(|(time, _)| *time).eq(0..=last), "{swapped}");
    }
}

#[test]
fn an_event_that_is_not_written_is_none() {
    let mut reorder = Reorder::new(1000);
    for time in 0..3 * Block::LENGTH as u64 {
        assert!(!reorder.push_with(CpuId(1), |_| false), "also where a block has just been taken for it");
        reorder.push(at(time, 1));
        if time % 5 == 0 {
            reorder.release(Time(time));
            drain(&mut reorder);
            assert!(!reorder.push_with(CpuId(1), |_| false), "also where none waits");
        }
    }
    reorder.release_all();
    assert_eq!(drain(&mut reorder).last(), Some(&(3 * Block::LENGTH as u64 - 1, 1)));
    assert_eq!(reorder.waiting, 0);
}

#[test]
fn a_queue_takes_what_others_have_given_out() {
    // Rounds of 64 CPUs of equal duration: each CPU's events one after the other, as a recorder writes its buffers.
    const CPUS: u32 = 64;
    const EACH: u64 = 1000;
    let mut reorder = Reorder::new(1 << 22);
    let mut given = Vec::new();
    for round in 0..10 {
        for cpu in 0..CPUS {
            (0..EACH).for_each(|step| reorder.push(at((round * EACH + step) * 100 + u64::from(cpu), cpu)));
        }
        reorder.release(Time(round * EACH * 100));
        given.extend(drain(&mut reorder));
    }
    reorder.release_all();
    given.extend(drain(&mut reorder));
    let waited = (2 * EACH * u64::from(CPUS)) as usize;
    assert_eq!(given.len(), 5 * waited);
    assert!(given.is_sorted());
    // Each queue has one block that is not full and one partly given out; and rounds do not end at block boundaries.
    let most = waited.div_ceil(Block::LENGTH) + 3 * CPUS as usize;
    assert!(reorder.blocks.made() <= most, "{} blocks for {waited} events", reorder.blocks.made());
}

#[test]
fn one_cpu_may_have_any_number_of_events() {
    let count = 200_000;
    let mut reorder = Reorder::new(2 * count as usize);
    (0..count).for_each(|time| reorder.push(at(time, 7)));
    let before = reorder.arrivals();
    (0..count / 2).for_each(|time| reorder.push(at(count + time, 7)));
    reorder.take_back(before);
    reorder.push(at(count, 7));
    reorder.release_all();
    assert!(drain(&mut reorder).iter().map(|(time, _)| *time).eq(0..=count));
}

/// An operation on the queue.
#[derive(Clone, Debug)]
enum Step {
    /// Pushes events of one CPU, each slightly later than the one before, except some that are earlier.
    Push {
        cpu: u32,
        count: usize,
        late: u64,
    },
    NotWritten {
        cpu: u32,
    },
    /// Releases and gives out what is this much earlier than the latest event.
    Give {
        behind: u64,
    },
    TakeBack {
        from: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u32..3, 1usize..200, 0u64..300).prop_map(|(cpu, count, late)| Step::Push { cpu, count, late }),
        1 => (0u32..3).prop_map(|cpu| Step::NotWritten { cpu }),
        3 => (0u64..2000).prop_map(|behind| Step::Give { behind }),
        1 => (0usize..300).prop_map(|from| Step::TakeBack { from }),
    ]
}

proptest! {
    /// Compares with a list that is sorted in every step.
    #[test]
    fn blocks_and_strays_give_what_a_sorted_list_gives(steps in proptest::collection::vec(step(), 0..40)) {
        let mut reorder = Reorder::new(1 << 20);
        let (mut waiting, mut number, mut time) = (Vec::<(u64, u64, u32)>::new(), 0u64, 10_000u64);
        let (mut given, mut expected, mut last) = (Vec::new(), Vec::new(), 0);
        let shown = |event: &Event| (event.time.0, event.cpu.0, u64::from(number_of(event)));
        for step in steps {
            match step {
                Step::Push { cpu, count, late } => for at in 0..count as u64 {
                    time += at % 3;
                    // Not before what was given out: such events get another time, which other tests cover.
                    let time = time.saturating_sub(if at % 7 == 3 { late } else { 0 }).max(last);
                    reorder.push(at_number(time, cpu, number as u32));
                    waiting.push((time, number, cpu));
                    number += 1;
                },
                Step::NotWritten { cpu } => prop_assert!(!reorder.push_with(CpuId(cpu), |_| false)),
                Step::Give { behind } => {
                    let until = time - behind;
                    reorder.release(Time(until));
                    last = last.max(until);
                    waiting.sort();
                    let count = waiting.partition_point(|event| event.0 <= last);
                    expected.extend(waiting.drain(..count).map(|(time, number, cpu)| (time, cpu, number)));
                    given.extend(drain_events(&mut reorder).iter().map(shown));
                }
                Step::TakeBack { from } => {
                    let from = number.saturating_sub(from as u64);
                    reorder.take_back(Arrivals(from));
                    waiting.retain(|event| event.1 < from);
                }
            }
            prop_assert_eq!(reorder.waiting, waiting.len());
        }
        reorder.release_all();
        waiting.sort();
        expected.extend(waiting.into_iter().map(|(time, number, cpu)| (time, cpu, number)));
        given.extend(drain_events(&mut reorder).iter().map(shown));
        prop_assert_eq!(given, expected);
        prop_assert_eq!(reorder.loss(), None);
    }

    #[test]
    fn whatever_the_order_was_it_is_that_of_time_and_arrival(
        // How far time advances, and how far behind it the event is.
        steps in proptest::collection::vec((0u64..3, prop_oneof![Just(0), 0u64..10, 0u64..3000]), 0..1500)
    ) {
        let mut time = 5000;
        let times: Vec<u64> = steps.iter().map(|(step, back)| { time += step; time - back }).collect();
        let mut reorder = Reorder::new(2 * times.len() + 2);
        prop_assert_eq!(put_in_order(&times, &mut reorder), sorted(&times));
    }

    #[test]
    fn whatever_comes_times_never_decrease_and_nothing_is_lost(
        steps in proptest::collection::vec((0u64..50, 0u8..10), 0..300)
    ) {
        let mut reorder = Reorder::new(16);
        let (mut out, mut pushed) = (Vec::new(), 0);
        for (time, action) in steps {
            if action == 0 {
                reorder.release(Time(time));
            } else {
                reorder.push(at(time, pushed));
                pushed += 1;
            }
            out.extend(drain(&mut reorder));
            prop_assert!(reorder.waiting <= 16);
        }
        reorder.release_all();
        out.extend(drain(&mut reorder));
        prop_assert!(out.is_sorted_by_key(|&(time, _)| time));
        let mut seen: Vec<u32> = out.iter().map(|&(_, id)| id).collect();
        seen.sort();
        prop_assert_eq!(seen, (0..pushed).collect::<Vec<_>>());
    }
}
