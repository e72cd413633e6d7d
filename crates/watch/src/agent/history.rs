//! Waits of the last hour by minute and role, for the page.

use std::collections::{BTreeMap, VecDeque};

use unstarve_model::{Nanos, WallTime};

use crate::engine::reading::Reading;

/// The last hour, minute by minute.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct History {
    /// Oldest first; the last one is still in progress.
    pub minutes: VecDeque<Minute>,
    /// The sums of each role at the last reading.
    seen: BTreeMap<String, Nanos>,
}

/// One minute.
#[derive(Clone, PartialEq, Debug)]
pub struct Minute {
    /// Its number on the engine's clock.
    number: u64,
    /// Its start on the wall clock.
    pub at: WallTime,
    /// Waits of each role.
    pub waited: BTreeMap<String, Nanos>,
}

const MINUTES: usize = 60;
const MINUTE: u64 = 60_000_000_000;

impl History {
    /// Adds the growth since the previous reading.
    pub fn add(&mut self, reading: &Reading) {
        let number = reading.at.trace.0 / MINUTE;
        if self.minutes.back().is_none_or(|last| last.number != number) {
            self.minutes.push_back(Minute { number, at: reading.at.wall, waited: BTreeMap::new() });
        }
        while self.minutes.front().is_some_and(|first| first.number + (MINUTES as u64) <= number) {
            self.minutes.pop_front();
        }
        let mut seen = BTreeMap::new();
        for (role, waits) in reading.roles.iter().zip(&reading.waits) {
            let Some(role) = role.as_ref().filter(|role| role.kind.can_wait()) else { continue };
            let name = role.name();
            // The first reading only provides a baseline; a role that appears later counts with its full sum.
            let before = self.seen.get(&name).copied().or((!self.seen.is_empty()).then_some(Nanos(0)));
            let new = before.map_or(Nanos(0), |before| waits.waited.saturating_sub(before));
            if new.0 > 0
                && let Some(minute) = self.minutes.back_mut()
            {
                let sum = minute.waited.entry(name.clone()).or_insert(Nanos(0));
                *sum = Nanos(sum.0.saturating_add(new.0));
            }
            seen.insert(name, waits.waited);
        }
        self.seen = seen;
    }

    /// The last hour, one entry per minute, oldest first; `None` for minutes without readings.
    pub fn places(&self) -> Vec<Option<&Minute>> {
        let last = self.minutes.back().map_or(0, |last| last.number);
        let ago = |ago: u64| {
            last.checked_sub(ago).and_then(|number| self.minutes.iter().find(|minute| minute.number == number))
        };
        (0..MINUTES as u64).rev().map(ago).collect()
    }

    /// All roles that waited, longest first.
    pub fn roles(&self) -> Vec<(&str, Nanos)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (role, ns) in self.minutes.iter().flat_map(|minute| &minute.waited) {
            *sums.entry(role).or_insert(0) += ns.0;
        }
        let mut sums: Vec<_> = sums.into_iter().map(|(role, ns)| (role, Nanos(ns))).collect();
        sums.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    #[test]
    fn a_minute_without_readings_keeps_its_place() {
        let mut history = History::default();
        let scene = Scene::new();
        history.add(&scene.reading(at(0)));
        let scene = scene.blame("kworker", RoleKind::RealTime, 5);
        history.add(&scene.reading(at(1_000)));
        let scene = scene.blame("kworker", RoleKind::RealTime, 7);
        history.add(&scene.reading(at(3 * 60_000 + 1_000)));
        let waited = |minute: Option<&Minute>| minute.and_then(|minute| minute.waited.get("kworker").copied());
        let places: Vec<_> = history.places().into_iter().map(waited).collect();
        assert_eq!(places.len(), MINUTES);
        assert_eq!(places[MINUTES - 4..], [Some(Nanos(5)), None, None, Some(Nanos(7))]);
    }
}
