//! Tests of attributing waits to quotas.

use proptest::prelude::*;
use unstarve_facts::Bandwidth;
use unstarve_model::{Nanos, Time};
use unstarve_sched::counted::COUNTED_RULES;

use super::*;
use crate::engine::reading::RoleId;

const MS: u64 = 1_000_000;
/// The first two groups.
const POD: usize = RoleKind::FIXED.len();
const NEIGHBOUR: usize = POD + 1;

fn group(path: &str, stopped_ms: u64) -> LimitedGroup {
    LimitedGroup {
        path: path.into(),
        role: RoleId(POD as u8),
        limit: Bandwidth { quota_us: 10_000, period_us: 100_000 },
        counted: Throttled { periods: 10, count: stopped_ms, ns: Nanos(stopped_ms * MS) },
        read: Time(0),
    }
}

/// Sums after the given number of steps, each with the given wait behind the neighbour by each rule.
fn counted(steps: u64, by: &[(Rule, u64)]) -> Totals {
    let mut totals = Totals::new();
    for (rule, ms) in by {
        totals.add((POD, NEIGHBOUR, place(*rule)), steps * ms * MS);
        totals.roles[POD].waited += steps * ms * MS;
    }
    totals
}

fn by(totals: &Totals, rule: Rule) -> u64 {
    totals.of_victim(POD).iter().skip(place(rule)).step_by(COUNTED_RULES).sum::<u64>() / MS
}

#[test]
fn what_the_kernel_counts_as_stopped_is_taken_from_those_who_had_the_cpu_meanwhile() {
    //  pod        wwwwwwwww#wwwwwwwww#      per 250 ms: 100 by weight, 140 by fair share; the kernel: throttled for 225
    //  neighbour  #########.#########.
    let mut stops = Stops::default();
    let mut totals = Totals::new();
    for step in 0..=8 {
        totals = counted(step, &[(Rule::Weight, 100), (Rule::Fair, 140)]);
        stops.settle(&mut totals, &[group("/pod", 225 * step)]);
        let sum: u64 = totals.of_victim(POD).iter().sum();
        assert_eq!(sum, totals.roles[POD].waited, "blame is what was waited");
    }
    assert_eq!([Rule::Throttled, Rule::Weight, Rule::Fair].map(|rule| by(&totals, rule)), [1800, 0, 120]);
    assert_eq!(totals.roles[POD].stopped, 1800 * MS);
    // No longer throttled: new waits are caused by the neighbour, and what was moved stays moved.
    let mut totals = counted(9, &[(Rule::Weight, 100), (Rule::Fair, 140)]);
    stops.settle(&mut totals, &[group("/pod", 1800)]);
    assert_eq!([Rule::Throttled, Rule::Weight, Rule::Fair].map(|rule| by(&totals, rule)), [1800, 100, 260]);
    // The removal of a group moves nothing back.
    let mut totals = counted(9, &[(Rule::Weight, 100), (Rule::Fair, 140)]);
    stops.settle(&mut totals, &[]);
    assert_eq!(by(&totals, Rule::Throttled), 1800);
}

#[test]
fn a_stop_that_the_kernel_counts_at_its_end_is_put_in_place_by_what_follows() {
    // 3 ms in each second: counted once a second.
    let mut stops = Stops::default();
    let mut totals = Totals::new();
    for step in 0..=40 {
        totals = counted(step, &[(Rule::Weight, 249)]);
        stops.settle(&mut totals, &[group("/pod", 997 * (step / 4))]);
    }
    assert!(by(&totals, Rule::Weight) <= 1000, "the first second: {}", by(&totals, Rule::Weight));
    // What the engine itself saw as throttled is not counted twice.
    let mut stops = Stops::default();
    for step in 0..=40 {
        totals = counted(step, &[(Rule::Weight, 20), (Rule::Throttled, 225)]);
        stops.settle(&mut totals, &[group("/pod", 225 * step)]);
    }
    assert_eq!([Rule::Throttled, Rule::Weight].map(|rule| by(&totals, rule)), [9000, 800]);
    // Throttled time without waits behind other tasks is not taken from them later.
    let mut stops = Stops::default();
    for step in 0..=8 {
        totals = counted(0, &[]);
        stops.settle(&mut totals, &[group("/pod", 200 * step)]);
    }
    for step in 1..=40 {
        totals = counted(step, &[(Rule::Weight, 100)]);
        stops.settle(&mut totals, &[group("/pod", 1600)]);
    }
    assert!(by(&totals, Rule::Weight) >= 3200, "{}", by(&totals, Rule::Weight));
}

#[test]
fn limits_below_a_role_s_group_take_nothing_from_its_neighbours() {
    let mut stops = Stops::default();
    let groups =
        |ms: &[u64; 2]| ["/pod", "/pod/a"].iter().zip(ms).map(|(path, ms)| group(path, *ms)).collect::<Vec<_>>();
    let mut grown = |groups: &[LimitedGroup]| -> BTreeMap<usize, u64> {
        stops.grown(groups).into_iter().map(|(victim, stopped)| (victim, stopped.ns)).collect()
    };
    assert_eq!(grown(&groups(&[5, 5])), BTreeMap::from([(POD, 0)]), "before the first look");
    // While /pod/a is throttled, /pod/b runs: its waits behind other tasks are caused by these.
    assert_eq!(grown(&groups(&[15, 400])), BTreeMap::from([(POD, 10 * MS)]));
    // The group was created again: its counters start from zero, and their values belong to a time that was not observed.
    assert_eq!(grown(&groups(&[3, 401])), BTreeMap::from([(POD, 0)]));
    let other = LimitedGroup { role: RoleKind::Other.fixed_id().expect("a role"), ..group("/many", 0) };
    let later = LimitedGroup { counted: Throttled { periods: 20, count: 9, ns: Nanos(9 * MS) }, ..other.clone() };
    assert_eq!((grown(&[other]), grown(&[later])), (BTreeMap::new(), BTreeMap::new()), "shared by many");
}

#[test]
fn neighbours_give_as_they_had_the_cpu() {
    //  pod    wwwwwwww    throttled for 100 ms of 250, while one neighbour had 150 ms and another 50
    //  n1     ######
    //  n2           ##
    let counted = |steps: u64| {
        let mut totals = Totals::new();
        for (occupant, ms) in [(NEIGHBOUR, 150), (NEIGHBOUR + 1, 50)] {
            totals.add((POD, occupant, place(Rule::Weight)), steps * ms * MS);
        }
        totals
    };
    let mut stops = Stops::default();
    let mut totals = Totals::new();
    for step in 0..=8 {
        totals = counted(step);
        stops.settle(&mut totals, &[group("/pod", 100 * step)]);
    }
    let of = |occupant: usize, rule| totals.of_victim(POD)[occupant * COUNTED_RULES + place(rule)] / MS;
    assert_eq!([NEIGHBOUR, NEIGHBOUR + 1].map(|occupant| of(occupant, Rule::Throttled)), [600, 200]);
    assert_eq!([NEIGHBOUR, NEIGHBOUR + 1].map(|occupant| of(occupant, Rule::Weight)), [600, 200]);
}

#[test]
fn a_stop_over_several_periods_is_put_in_place_though_it_is_counted_late() {
    // The excess keeps it throttled for 5 s, which the kernel counts once: as much of the following waits is not caused by the neighbour.
    let counters = |step: u64| {
        let counted = step / 20;
        LimitedGroup {
            counted: Throttled { periods: 10 * step, count: counted, ns: Nanos(counted * 4900 * MS) },
            ..group("/pod", 0)
        }
    };
    let mut stops = Stops::default();
    let mut totals = Totals::new();
    for step in 0..=80 {
        totals = counted(step, &[(Rule::Weight, 245)]);
        stops.settle(&mut totals, &[counters(step)]);
    }
    // The waits of the first 20 readings stay with the neighbour until the kernel has counted the throttling.
    assert!(by(&totals, Rule::Weight) <= 21 * 245, "{}", by(&totals, Rule::Weight));
    // But not indefinitely: if nothing waited behind other tasks meanwhile, it expires.
    let mut stops = Stops::default();
    (0..=40).for_each(|step| stops.settle(&mut counted(0, &[]), &[counters(step)]));
    for step in 1..=SETTLED_AT_LAST {
        stops.settle(&mut counted(0, &[]), &[counters(40)]);
        assert!(step < SETTLED_AT_LAST || stops.accounts[&POD].left == 0);
    }
}

proptest! {
    #[test]
    fn shares_add_up_and_are_never_more_than_there_is(parts in prop::collection::vec(0..1_u64 << 60, 0..8), amount: u64) {
        let whole: u128 = parts.iter().map(|part| u128::from(*part)).sum();
        let shares = shares(&parts, amount);
        let given: u128 = shares.iter().map(|share| u128::from(*share)).sum();
        prop_assert_eq!(given, whole.min(u128::from(amount)));
        for (share, part) in shares.iter().zip(&parts) {
            prop_assert!(share <= part);
            // As close to its share as integers allow.
            let exact = u128::from(*part) * given / whole.max(1);
            prop_assert!(u128::from(*share).abs_diff(exact) <= 1, "{} {}", share, exact);
        }
    }
}
