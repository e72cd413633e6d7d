//! Limits the number of series in the metrics: one per name, and one for selected combinations of victim, occupant and rule.
//!
//! Where all combinations may have a series, they have the kernel's sums ([`Admitted`]). Where only the worst may, they have what was added since they
//! were named ([`WorstBlame`]): a sum that changes its series would look like growth.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_model::{Nanos, Time};
use unstarve_sched::Rule;

use super::board::Published;
use super::config::Blame;
use super::ranking::{Ranking, WINDOW};
use crate::engine::reading::{Histogram, Reading, Role, RoleKind};

/// Maximum number of these; with those of 32 roles, all series together stay below 2,000.
pub const MAX_SERIES: usize = 1200;

/// Victim, occupant and rule of a series.
pub type Key = (String, String, Rule);

/// Combinations with series of their own. They are kept as long as both roles exist, so that no counter decreases because another one has grown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admitted(BTreeSet<Key>);

impl Admitted {
    /// Drops combinations of removed roles, and adds new ones while there is room. `None` if nothing changes.
    pub fn next(&self, reading: &Reading) -> Option<Admitted> {
        let name = |id| reading.role(id).map(Role::name);
        let rows = reading.blame.iter().filter_map(|row| Some((name(row.victim)?, name(row.occupant)?, row.rule)));
        let present: BTreeSet<Key> = rows.collect();
        let mut next: BTreeSet<Key> = self.0.intersection(&present).cloned().collect();
        for key in present {
            if next.len() >= MAX_SERIES {
                break;
            }
            next.insert(key);
        }
        (next != self.0).then_some(Admitted(next))
    }

    /// Whether a combination has a series of its own.
    pub fn has(&self, key: &Key) -> bool {
        self.0.contains(key)
    }
}

/// Waits by name in the series: groups with the same name after escaping are merged.
#[derive(Default)]
pub struct Named {
    /// Total waiting time.
    pub waited: Nanos,
    /// Finished waits.
    pub histogram: Histogram,
    /// Number of tasks that wait now.
    pub waiting: u32,
    /// The longest wait in progress.
    pub oldest: Nanos,
}

/// The waits of all roles that can wait.
pub fn by_name(reading: &Reading) -> BTreeMap<String, Named> {
    let mut names: BTreeMap<String, Named> = BTreeMap::new();
    for (index, role) in reading.roles.iter().enumerate() {
        let (Some(role), Some(waits)) = (role.as_ref().filter(|role| role.kind.can_wait()), reading.waits.get(index))
        else {
            continue;
        };
        let sum = names.entry(role.name()).or_default();
        sum.waited = Nanos(sum.waited.0.saturating_add(waits.waited.0));
        sum.histogram.merge(&waits.histogram);
        sum.waiting += waits.waiting;
        let lasting = reading.oldest.iter().filter(|wait| wait.role.index() == index).map(|wait| wait.ns);
        sum.oldest = lasting.fold(sum.oldest, Nanos::max);
    }
    names
}

/// The occupant in the series of all other combinations.
const REST: &str = "rest";

/// The blame of a reading by the names of the series; `None` where there is no such metric.
pub fn blame_of(published: &Published) -> Option<BTreeMap<Key, Nanos>> {
    match published.series.blame {
        Blame::Off => None,
        Blame::All => published.reading.as_deref().map(|reading| blame_by_name(reading, &published.admitted)),
        Blame::Worst(_) => Some(published.worst_blame.as_ref().clone()),
    }
}

fn blame_by_name(reading: &Reading, admitted: &Admitted) -> BTreeMap<Key, Nanos> {
    let mut sums: BTreeMap<Key, Nanos> = BTreeMap::new();
    for (key, ns) in named(reading) {
        let key = if admitted.has(&key) { key } else { (key.0, REST.to_owned(), key.2) };
        let sum = sums.entry(key).or_insert(Nanos::ZERO);
        *sum = Nanos(sum.0.saturating_add(ns.0));
    }
    sums
}

/// All combinations by name; a name may be there several times.
fn named(reading: &Reading) -> impl Iterator<Item = (Key, Nanos)> {
    let name = |id| reading.role(id).map(Role::name);
    reading.blame.iter().filter_map(move |row| Some(((name(row.victim)?, name(row.occupant)?, row.rule), row.ns)))
}

/// How often [`WorstBlame`] looks: names are made of each combination for that.
const LOOK: Nanos = Nanos::from_millis(1_000);

/// The combinations that are the worst, and all others by rule.
#[derive(Debug, Default)]
pub struct WorstBlame {
    ranking: Ranking<Key, ()>,
    rest: BTreeMap<Rule, u64>,
    seen: Option<BTreeMap<Key, u64>>,
    looked: Option<Time>,
    began: Option<Time>,
}

impl WorstBlame {
    /// Adds the growth since the previous look, if it is time for one. Returns the rows then.
    pub fn see(&mut self, reading: &Reading, limit: u32) -> Option<BTreeMap<Key, Nanos>> {
        let now = reading.at.trace;
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK) {
            return None;
        }
        self.looked = Some(now);
        let mut sums: BTreeMap<Key, u64> = BTreeMap::new();
        for (key, ns) in named(reading).filter(|(key, _)| !is_moved(key)) {
            let sum = sums.entry(key).or_insert(0);
            *sum = sum.saturating_add(ns.0);
        }
        // Sums that include waits in progress can be smaller for a moment.
        let seen = self.seen.take();
        for (key, sum) in &mut sums {
            let before = seen.as_ref().map_or(*sum, |seen| seen.get(key).copied().unwrap_or(0));
            let new = sum.saturating_sub(before);
            *sum = before.max(*sum);
            let bad = if is_by_turns(key.2) { 0 } else { new };
            if !self.ranking.add(key, [new, 0, 0], bad) && new > 0 {
                *self.rest.entry(key.2).or_insert(0) += new;
            }
        }
        self.seen = Some(sums);
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= WINDOW {
            self.began = Some(now);
            self.ranking.end_window(now, limit as usize, |_| ());
        }
        Some(self.rows())
    }

    fn rows(&self) -> BTreeMap<Key, Nanos> {
        let named = self.ranking.rows().map(|(key, (), parts)| (key.clone(), Nanos(parts[0])));
        let rest = self.rest.iter().map(|(rule, ns)| ((REST.to_owned(), REST.to_owned(), *rule), Nanos(*ns)));
        named.chain(rest).collect()
    }
}

/// A turn among equals, or an idle CPU, is nobody's fault.
fn is_by_turns(rule: Rule) -> bool {
    !crate::engine::reading::is_precedence(rule)
}

/// What was counted of a removed group moves there: it was counted already.
fn is_moved(key: &Key) -> bool {
    let gone = RoleKind::Gone.word();
    key.0 == gone || key.1 == gone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, at};

    fn key(victim: &str, occupant: &str, rule: Rule) -> Key {
        (victim.to_owned(), occupant.to_owned(), rule)
    }

    #[test]
    fn the_worst_combinations_are_named_and_rates_add_up() {
        let mut worst = WorstBlame::default();
        let mut scene = Scene::new().group("/a").group("/b");
        let (mut before, mut rows) = (0, BTreeMap::new());
        for second in 0..60_u64 {
            scene = scene
                .blame("kworker", RoleKind::RealTime, 300_000_000)
                .blame("ksoftirqd", RoleKind::RealTime, 20_000_000)
                .blame_group("/a", "/b", Rule::Weight, 100_000_000)
                .blame_group("/a", "/a", Rule::Fair, 900_000_000);
            if let Some(new) = worst.see(&scene.reading(at(second * 1_000)), 2) {
                let sum = new.values().map(|ns| ns.0).sum::<u64>();
                assert_eq!(sum - before, if second == 0 { 0 } else { 1_320_000_000 }, "second {second}");
                (before, rows) = (sum, new);
            }
        }
        let names: Vec<&Key> = rows.keys().collect();
        let named = [key("/a", "/b", Rule::Weight), key("kworker", "real-time", Rule::Class)];
        assert!(named.iter().all(|key| names.contains(&key)), "{names:?}");
        assert!(rows[&named[1]].0 >= 45 * 300_000_000, "{rows:?}");
        // What was before they had names is in `rest`, too.
        assert_eq!(names.len(), 5, "the others by rule: {names:?}");
        assert_eq!(rows[&key(REST, REST, Rule::Fair)].0, 59 * 900_000_000, "a turn is nobody's fault");
    }

    #[test]
    fn readings_in_quick_succession_and_sums_that_shrink_for_a_moment_count_once() {
        let mut worst = WorstBlame::default();
        let of = |ns: u64| Scene::new().blame("kworker", RoleKind::RealTime, ns);
        assert!(worst.see(&of(5).reading(at(0)), 2).is_some());
        assert!(worst.see(&of(50).reading(at(250)), 2).is_none(), "not yet");
        let total = |rows: Option<BTreeMap<Key, Nanos>>| -> u64 { rows.expect("rows").values().map(|ns| ns.0).sum() };
        assert_eq!(total(worst.see(&of(105).reading(at(1_000)), 2)), 100);
        assert_eq!(total(worst.see(&of(95).reading(at(2_000)), 2)), 100);
        assert_eq!(total(worst.see(&of(125).reading(at(3_000)), 2)), 120);
    }
}
