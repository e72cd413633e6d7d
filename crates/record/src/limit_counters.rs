//! Throttling counters of cgroups during a flight recording. A snapshot at its end alone cannot show how much of a
//! counter's value is new.

use std::collections::BTreeMap;

use unstarve_facts::{Snapshot, Throttled};
use unstarve_model::{ClockPair, WallTime};

/// The counters of groups with limits at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The moment.
    pub at: ClockPair,
    /// By group path. Only groups that were read at that moment; others keep the value of an earlier reading.
    pub counted: BTreeMap<String, Throttled>,
}

/// If a group's counters were last read this long before the trace's beginning, their growth may have happened earlier.
/// Then the first reading within the trace is the base.
const MAX_AGE_NS: u64 = 1_000_000_000;

/// Stores in the snapshot how much the counters grew since the trace's beginning, which is given on the trace clock
/// together with both clocks at its end. A group that was not read then gets no counters: nothing is known about its
/// throttling.
pub(crate) fn note(snapshot: &mut Snapshot, readings: &[Look], span: Option<(ClockPair, u64)>) {
    let Some((end, begin)) = span else { return };
    let begin = WallTime(end.wall.0.saturating_sub(end.trace.0.saturating_sub(begin)));
    let counted = |reading: &Look, path: &str| Some((reading.at.wall, *reading.counted.get(path)?));
    // For each group separately: not every reading covers all groups.
    let before = |path: &str| {
        let earlier =
            readings.iter().rev().filter(|reading| reading.at.wall <= begin).find_map(|reading| counted(reading, path));
        let is_near = |(at, _): &(WallTime, Throttled)| begin.0 - at.0 <= MAX_AGE_NS;
        let within =
            || readings.iter().filter(|reading| reading.at.wall >= begin).find_map(|reading| counted(reading, path));
        earlier.filter(is_near).or_else(within)
    };
    let after = |path: &str| readings.iter().rev().find_map(|reading| counted(reading, path));
    if readings.len() < 2 || readings.last().is_some_and(|last| last.at.wall <= begin) {
        return;
    }
    let mut meanwhile = BTreeMap::new();
    for group in snapshot.cgroups.iter_mut().filter(|group| group.limit.is_some()) {
        let both = before(&group.path).zip(after(&group.path)).filter(|((first, _), (last, _))| first < last);
        let grown = both.and_then(|((_, before), (_, after))| grown((&before, &after)));
        match grown {
            Some(grown) if grown.count > 0 => drop(meanwhile.insert(group.path.clone(), grown)),
            Some(_) => {}
            None => group.throttled = None,
        }
    }
    snapshot.throttled_meanwhile = Some(meanwhile);
}

/// `None` for a group that was created again.
fn grown((before, after): (&Throttled, &Throttled)) -> Option<Throttled> {
    let ns = after.ns.0.checked_sub(before.ns.0)?;
    Some(Throttled {
        periods: after.periods.checked_sub(before.periods)?,
        count: after.count.checked_sub(before.count)?,
        ns: unstarve_model::Nanos(ns),
    })
}

#[cfg(test)]
mod tests {
    use unstarve_facts::{Bandwidth, CgroupFacts};
    use unstarve_model::{Nanos, Time};

    use super::*;

    fn reading(second: u64, counted: &[(&str, u64)]) -> Look {
        let of = |(path, count): &(&str, u64)| {
            ((*path).to_owned(), Throttled { periods: 10 * second, count: *count, ns: Nanos(count * 1000) })
        };
        let at = ClockPair { trace: Time(second), wall: WallTime(1_000 + second) };
        Look { at, counted: counted.iter().map(of).collect() }
    }

    fn since(second: u64) -> Option<(ClockPair, u64)> {
        Some((ClockPair { trace: Time(4), wall: WallTime(1_004) }, second))
    }

    fn snapshot(paths: &[&str]) -> Snapshot {
        let limit = Some(Bandwidth { quota_us: 1, period_us: 2 });
        let group = |path: &&str| CgroupFacts {
            path: (*path).to_owned(),
            limit,
            throttled: Some(Throttled::default()),
            ..CgroupFacts::default()
        };
        let text = r#"{"schema":"unstarve.snapshot/1","kernel":{}}"#;
        let empty = Snapshot::from_json(text).expect("a snapshot");
        Snapshot { cgroups: paths.iter().map(group).collect(), ..empty }
    }

    #[test]
    fn counters_that_were_read_long_before_the_beginning_say_nothing_of_it() {
        //  readings   1 s    2 s    3 s    4 s     the trace begins at 3 s
        //  /a      5                    9       four stops, nobody knows when
        //  /b      5             8      9       one of them in the trace
        let second = |second: u64, counted: &[(&str, u64)]| {
            let wall = WallTime(second * 1_000_000_000);
            Look { at: ClockPair { trace: Time(wall.0), wall }, ..reading(second, counted) }
        };
        let readings = [
            second(1, &[("/a", 5), ("/b", 5)]),
            second(2, &[]),
            second(3, &[("/b", 8)]),
            second(4, &[("/a", 9), ("/b", 9)]),
        ];
        let mut noted = snapshot(&["/a", "/b"]);
        let end = readings[3].at;
        note(&mut noted, &readings, Some((end, 3_000_000_000)));
        assert_eq!(noted.throttled_meanwhile("/b").map(|grown| grown.count), Some(1));
        assert_eq!(noted.throttled_meanwhile("/a"), None, "not four");
    }

    #[test]
    fn what_grew_since_the_traces_beginning_is_noted() {
        let readings = [
            reading(1, &[("/a", 5), ("/calm", 3), ("/recreated", 9)]),
            reading(2, &[("/a", 7), ("/calm", 3), ("/recreated", 9)]),
            reading(3, &[("/a", 9), ("/calm", 3), ("/recreated", 1), ("/late", 4)]),
        ];
        let mut noted = snapshot(&["/a", "/recreated", "/calm", "/late"]);
        note(&mut noted, &readings, since(2));
        let expected = Throttled { periods: 10, count: 2, ns: Nanos(2000) };
        assert_eq!(noted.throttled_meanwhile, Some(BTreeMap::from([("/a".to_owned(), expected)])));
        let known: Vec<bool> = noted.cgroups.iter().map(|group| group.throttled.is_some()).collect();
        assert_eq!(known, [true, false, true, false], "of those that were not there nothing is known");
        // Recording has just begun: growth since the first reading.
        let mut noted = snapshot(&["/a"]);
        note(&mut noted, &readings, since(0));
        assert_eq!(noted.throttled_meanwhile("/a").map(|grown| grown.count), Some(4));
        // A single reading shows no growth.
        let mut noted = snapshot(&["/a"]);
        note(&mut noted, &readings[..1], since(1));
        assert_eq!(noted.throttled_meanwhile, None);
    }
}
