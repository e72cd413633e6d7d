//! Properties of the whole table: every pair of waiter and cause, with lengths and shares beyond all thresholds and every cost.

use super::*;

const LENGTHS_MS: [u64; 18] = [0, 1, 4, 5, 11, 12, 24, 48, 50, 120, 199, 200, 240, 999, 1000, 5000, 20_000, 60_000];
const SHARES: [f64; 6] = [0.0, 0.01, 0.05, 0.2, 0.5, 1.0];

fn all() -> impl Iterator<Item = Plight> {
    let pairs = Waiter::ALL.into_iter().flat_map(|waiter| Cause::ALL.map(|cause| (waiter, cause)));
    pairs.flat_map(|(waiter, cause)| {
        LENGTHS_MS.into_iter().flat_map(move |longest| {
            SHARES.map(|share| {
                let longest = Nanos::from_millis(longest);
                Plight { share, ..Plight::new(waiter, cause, longest, longest, Nanos::ZERO) }
            })
        })
    })
}

#[test]
fn no_pair_has_two_rows() {
    for (index, row) in TABLE.iter().enumerate() {
        let twice = TABLE[..index].iter().any(|other| other.waiter == row.waiter && other.cause == row.cause);
        assert!(!twice, "{:?} by {:?}", row.waiter, row.cause);
    }
}

#[test]
fn longer_is_never_better() {
    for plight in all() {
        for longer in LENGTHS_MS.map(Nanos::from_millis).into_iter().filter(|longer| *longer > plight.longest) {
            let worse = Plight { longest: longer, lost: longer, ..plight };
            assert!(severity(&worse) >= severity(&plight), "{plight:?} became better at {longer}");
        }
    }
}

/// A plight that meets a threshold exactly.
fn just(row: &VerdictRow, threshold: &Threshold) -> Plight {
    let Threshold { longest, share, lost } = *threshold;
    Plight { share, ..Plight::new(row.waiter, row.cause, longest, lost, Nanos::ZERO) }
}

/// "Longer is never better" holds for any table whose levels are in order; a wrong value breaks the order.
#[test]
fn what_just_meets_a_level_meets_none_above_it() {
    for row in TABLE {
        let levels = [(row.info, Severity::Info), (row.warning, Severity::Warning), (row.critical, Severity::Critical)];
        for (thresholds, severity) in levels {
            for threshold in thresholds {
                assert_eq!(row.severity(&just(row, threshold)), Some(severity), "{row:?}: {threshold:?}");
            }
        }
        // What is critical must also meet a warning threshold, if there are any.
        let is_above = |threshold: &Threshold| row.warning.iter().any(|lower| lower.is_met(&just(row, threshold)));
        assert!(row.warning.is_empty() || row.critical.iter().all(is_above), "{row:?}");
        assert!(row.critical_periods.is_none() || row.warning_periods < row.critical_periods, "{row:?}");
    }
}

/// The threshold with one of its conditions slightly reduced.
fn a_little_less(threshold: &Threshold) -> impl Iterator<Item = Threshold> {
    let Threshold { longest, share, lost } = *threshold;
    let shorter =
        (longest > Nanos::ZERO).then(|| Threshold { longest: longest.saturating_sub(Nanos(1)), ..*threshold });
    let smaller = (share > 0.0).then_some(Threshold { share: share * 0.999, ..*threshold });
    let less = (lost > Nanos::ZERO).then(|| Threshold { lost: lost.saturating_sub(Nanos(1)), ..*threshold });
    [shorter, smaller, less].into_iter().flatten()
}

#[test]
fn each_level_begins_where_the_table_says_and_not_before() {
    for row in TABLE {
        let levels = [(row.info, Severity::Info), (row.warning, Severity::Warning), (row.critical, Severity::Critical)];
        for (threshold, severity) in levels.iter().flat_map(|(list, level)| list.iter().map(move |one| (one, *level))) {
            for less in a_little_less(threshold) {
                assert!(row.severity(&just(row, &less)) < Some(severity), "{row:?}: {threshold:?}");
            }
        }
    }
}

#[test]
fn a_larger_part_is_never_better() {
    for plight in all() {
        for share in SHARES.into_iter().filter(|share| *share > plight.share) {
            assert!(severity(&Plight { share, ..plight }) >= severity(&plight), "{plight:?} became better at {share}");
        }
    }
}

#[test]
fn cost_raises_and_its_absence_never_lowers() {
    for plight in all() {
        let [free, felt, heavy] = [Cost::NotSeen, Cost::Felt, Cost::Heavy].map(|cost| severity(&plight.at_cost(cost)));
        assert!(free <= felt && felt <= heavy, "{plight:?}: {free:?}, {felt:?}, {heavy:?}");
    }
}

#[test]
fn a_second_behind_others_is_never_healthy() {
    let by_others = |cause: &Cause| {
        matches!(
            cause,
            Cause::Class
                | Cause::Priority
                | Cause::NotPreempted
                | Cause::ClassLimit
                | Cause::Weight
                | Cause::GroupLimit
                | Cause::StuckEqual
                | Cause::Turns
                | Cause::OwnCpuIdle
                | Cause::CpuStopped
                | Cause::Interrupts
        )
    };
    for waiter in Waiter::ALL.into_iter().filter(|waiter| *waiter != Waiter::AskedToBeLast) {
        for cause in Cause::ALL.iter().filter(|cause| by_others(cause)) {
            // Real-time tasks are under no cgroup quota and have no weight; for kernel threads, real-time tasks are above them
            // only by class.
            if table::row(waiter, *cause).is_none() {
                let of_real_time = matches!(cause, Cause::Priority | Cause::NotPreempted | Cause::ClassLimit);
                assert!(of_real_time || waiter == Waiter::RealTime, "{waiter:?} by {cause:?} has no row");
                continue;
            }
            let plight =
                Plight { share: 0.0, ..Plight::new(waiter, *cause, NEVER_HEALTHY, NEVER_HEALTHY, Nanos::ZERO) };
            assert!(severity(&plight) >= Some(Severity::Warning), "{plight:?}");
        }
    }
}

#[test]
fn what_asked_to_be_last_is_at_most_a_remark_unless_somebody_pays() {
    let by_others = |plight: &Plight| plight.cause != Cause::OwnCpuIdle;
    for plight in all().filter(|plight| plight.waiter == Waiter::AskedToBeLast && by_others(plight)) {
        assert!(severity(&plight) <= Some(Severity::Info), "{plight:?}");
    }
    let minute = Nanos::from_millis(60_000);
    let plight = Plight::new(Waiter::AskedToBeLast, Cause::Class, minute, minute, minute);
    assert_eq!(severity(&plight.at_cost(Cost::Felt)), Some(Severity::Critical));
}

#[test]
fn the_contract() {
    let of = |waiter, cause, ms| {
        let length = Nanos::from_millis(ms);
        let plight = Plight::new(waiter, cause, length, length, Nanos::from_millis(1_000_000));
        severity(&plight).map_or("nothing".to_owned(), |severity| format!("{severity:?}").to_lowercase())
    };
    let row = |waiter, cause, lengths: [u64; 4]| lengths.map(|ms| of(waiter, cause, ms));
    let levels = ["info", "warning", "warning", "critical"];
    use Cause::*;
    use Waiter::*;
    for cause in [Class, Weight, GroupLimit] {
        assert_eq!(row(ServingThread, cause, [49, 50, 999, 1000]), levels);
        assert_eq!(row(HousekeepingThread, cause, [199, 200, 999, 1000]), levels);
    }
    for waiter in [ServingThread, HousekeepingThread, Program] {
        assert_eq!(row(waiter, StuckEqual, [199, 200, 4999, 5000]), levels);
    }
    assert_eq!(row(ServingThread, OwnCpuIdle, [23, 24, 999, 1000]), levels);
    assert_eq!(row(RealTime, NotPreempted, [4, 5, 49, 50]), levels);
    assert_eq!(row(RealTime, ClassLimit, [4, 5, 49, 50]), levels);
    assert_eq!(row(RealTime, Priority, [23, 24, 999, 1000]), levels);
    assert_eq!(row(RealTime, OwnClassLimit, [5, 50, 1000, 60_000]), ["info"; 4], "it used the time up itself");
    let late = |ms, period_ms| {
        let length = Nanos::from_millis(ms);
        let plight = Plight::new(RealTime, NotPreempted, length, length, Nanos::from_millis(1_000_000));
        severity(&plight.every(Some(Nanos::from_millis(period_ms))))
    };
    assert_eq!([late(1, 2), late(2, 2), late(6, 2)], [Severity::Info, Severity::Warning, Severity::Critical].map(Some));
}
