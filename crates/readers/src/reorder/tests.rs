use super::*;
use proptest::prelude::*;
use unstarve_model::{Issuer, Tid};

fn at(time: u64, cpu: u32) -> Event {
    let kind = EventKind::SoftirqExit { vec: 0 };
    Event { time: Time(time), cpu: CpuId(cpu), issuer: Issuer::new(None, Context::Task), kind }
}

fn drain(reorder: &mut Reorder) -> Vec<(u64, u32)> {
    let mut events = Vec::new();
    loop {
        let mut part = Vec::new();
        reorder.fill(&mut part);
        if part.is_empty() {
            break;
        }
        events.extend(part);
    }
    events.iter().map(|event| (event.time.0, event.cpu.0)).collect()
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
    // CPU 2's first event comes too late: it is moved, and counted.
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
    // Where a CPU's events are not in order, its buffer is not one.
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

/// Events of two CPUs with these times, each with its number as the current task, in the order in which they come out.
fn put_in_order(times: &[u64], reorder: &mut Reorder) -> Vec<(u64, u32)> {
    let mut events = Vec::new();
    for (number, &time) in (0..).zip(times) {
        reorder.push(Event { issuer: Issuer::new(Some(Tid(number)), Context::Task), ..at(time, number % 2) });
    }
    reorder.release_all();
    while reorder.waiting > 0 {
        let mut part = Vec::new();
        reorder.fill(&mut part);
        events.extend(part);
    }
    events.iter().map(|event| (event.time.0, event.issuer.current().map_or(0, |tid| tid.0))).collect()
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
    // The second half of each piece belongs before all of the first.
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
fn an_event_is_moved_past_a_few_and_waits_beside_many() {
    for (later, moved) in [(0, 0), (1, 1), (NEAR, NEAR), (NEAR + 1, 0)] {
        // Its CPU's first event is earlier, so that it is not the first itself.
        let later = later as u64;
        let times: Vec<u64> = [1, 1].into_iter().chain((0..2 * later).map(|at| 3 + at)).chain([2]).collect();
        let mut reorder = Reorder::new(2 * times.len());
        assert_eq!(put_in_order(&times, &mut reorder), sorted(&times));
        assert_eq!(reorder.moved, moved, "{later} later ones");
    }
}

proptest! {
    #[test]
    fn whatever_the_order_was_it_is_that_of_time_and_arrival(
        // How far time goes on, and how far behind it the event lies.
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
