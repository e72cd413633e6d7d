//! Numbers pods and units for the programs that count, with bounded memory however many come and go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use unstarve_model::Nanos;

use crate::engine::reading::Place;
use crate::engine::reading::{Workload, WorkloadSums, Workloads};

/// The number of tasks of no known workload; and of an idle CPU.
pub(crate) const ELSEWHERE: u8 = 0;
const FIRST: usize = 2;
/// A workload that has not waited and kept nobody waiting for this long makes room for another one.
const IDLE: Duration = Workloads::IDLE;
/// A number is given to another workload only after this time: programs that were running when it was freed are done. Tasks that wait or run
/// under it for longer are located again before they are counted (`generation`), and what ended before it was given is not charged
/// (`place_since` of counted.h).
const RESTS: Duration = Duration::from_secs(5);
/// So many numbers are kept free where enough workloads are idle: some of these rest.
const MIN_FREE: usize = 32;
/// Maximum cgroups that have a number; the map in the kernel has room for more.
const MAX_GROUPS: usize = 3072;
/// A cgroup whose path was not found so many times is of no known workload for `PAUSE`, and then looked up again: the lookups of others must
/// not wait for it.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(30);
/// Maximum cgroups of which failed lookups are counted.
const MAX_TRIED: usize = 1024;

/// The numbers of workloads.
#[derive(Debug)]
pub(crate) struct PlaceTable {
    slots: Vec<Option<Slot>>,
    /// Numbers by the cgroup's id.
    groups: BTreeMap<u64, u8>,
    /// What was counted under a number before its present owner got it.
    base: Vec<WorkloadSums>,
    /// Numbers without owner, those freed first at the front.
    free: VecDeque<(u8, Option<Instant>)>,
    given: u64,
    /// How often the path of a cgroup was not found.
    tried: BTreeMap<u64, u32>,
    /// Cgroups that are not looked up for a while, and since when.
    paused: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Slot {
    place: Arc<Place>,
    number: u64,
    last: WorkloadSums,
    grown: Instant,
}

/// What the counting code must change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PlaceChanges {
    /// Cgroups that now have a number.
    pub added: Vec<(u64, u8)>,
    /// Cgroups that have none any more.
    pub removed: Vec<u64>,
    /// Numbers that have another owner.
    pub given: Vec<u8>,
}

impl PlaceTable {
    pub fn new() -> PlaceTable {
        PlaceTable {
            slots: (0..Workloads::LIMIT).map(|_| None).collect(),
            groups: BTreeMap::new(),
            base: vec![WorkloadSums::default(); Workloads::LIMIT],
            free: (FIRST..Workloads::LIMIT).map(|slot| (slot as u8, None)).collect(),
            given: 0,
            tried: BTreeMap::new(),
            paused: VecDeque::new(),
        }
    }

    /// Whether another workload could get a number now.
    pub fn has_room(&self, now: Instant) -> bool {
        let is_rested = |freed: &Option<Instant>| freed.is_none_or(|freed| now.duration_since(freed) >= RESTS);
        self.free.front().is_some_and(|(_, freed)| is_rested(freed)) || self.idlest(now).is_some()
    }

    /// Whether a workload that seems to be idle would have to give its number away.
    pub fn is_short(&self, now: Instant) -> bool {
        (self.free.len() < MIN_FREE || self.groups.len() >= MAX_GROUPS) && self.idlest(now).is_some()
    }

    /// Workloads of which a task waits or has a CPU now are not idle: their sums grow when that ends.
    pub fn keep(&mut self, busy: impl Iterator<Item = u8>, now: Instant) {
        for number in busy {
            if let Some(slot) = &mut self.slots[usize::from(number)] {
                slot.grown = now;
            }
        }
    }

    /// Gives cgroups their numbers; `None` is one whose path was not found. `counted` are the sums so far under each number.
    pub fn place(&mut self, found: Vec<(u64, Option<Place>)>, counted: &[WorkloadSums], now: Instant) -> PlaceChanges {
        let mut changes = PlaceChanges::default();
        self.end_pauses(now, &mut changes);
        for (group, place) in found {
            let Some(place) = place else {
                self.not_found(group, now, &mut changes);
                continue;
            };
            self.tried.remove(&group);
            if self.groups.len() >= MAX_GROUPS {
                self.forget_idle(now, &mut changes);
            }
            if self.groups.len() >= MAX_GROUPS {
                break;
            }
            let number = if place == Place::default() {
                Some(ELSEWHERE)
            } else {
                self.number_of(place, counted, now, &mut changes)
            };
            if let Some(number) = number {
                self.groups.insert(group, number);
                changes.added.push((group, number));
            }
        }
        changes
    }

    /// Its tasks stay in no known workload, and put it on the list again when they are next located.
    fn not_found(&mut self, group: u64, now: Instant, changes: &mut PlaceChanges) {
        if self.tried.len() >= MAX_TRIED {
            self.tried.clear();
        }
        let tries = self.tried.entry(group).or_default();
        *tries += 1;
        if *tries >= TRIES && self.groups.len() < MAX_GROUPS {
            self.tried.remove(&group);
            self.paused.push_back((now, group));
            self.groups.insert(group, ELSEWHERE);
            changes.added.push((group, ELSEWHERE));
        }
    }

    fn end_pauses(&mut self, now: Instant, changes: &mut PlaceChanges) {
        while let Some((since, group)) = self.paused.front().copied()
            && now.duration_since(since) >= PAUSE
        {
            self.paused.pop_front();
            // It may have been forgotten, and found, meanwhile.
            if self.groups.get(&group) == Some(&ELSEWHERE) {
                self.groups.remove(&group);
                changes.removed.push(group);
            }
        }
    }

    fn number_of(
        &mut self,
        place: Place,
        counted: &[WorkloadSums],
        now: Instant,
        changes: &mut PlaceChanges,
    ) -> Option<u8> {
        let is_it = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| *slot.place == place);
        if let Some(known) = self.slots.iter().position(is_it) {
            return Some(known as u8);
        }
        while self.free.len() < MIN_FREE
            && let Some(idle) = self.idlest(now)
        {
            self.free_slot(idle, now, changes);
        }
        let is_rested = |freed: Option<Instant>| freed.is_none_or(|freed| now.duration_since(freed) >= RESTS);
        let number = self.free.front().filter(|(_, freed)| is_rested(*freed))?.0;
        self.free.pop_front();
        let slot = usize::from(number);
        self.given += 1;
        self.base[slot] = counted.get(slot).copied().unwrap_or_default();
        let (place, last) = (Arc::new(place), WorkloadSums::default());
        self.slots[slot] = Some(Slot { place, number: self.given, last, grown: now });
        changes.given.push(number);
        Some(number)
    }

    /// The workload that has been idle for longest, if for long enough.
    fn idlest(&self, now: Instant) -> Option<usize> {
        let idle = self.slots.iter().enumerate().filter_map(|(index, slot)| Some((slot.as_ref()?.grown, index)));
        idle.filter(|(grown, _)| now.duration_since(*grown) >= IDLE).min().map(|(_, index)| index)
    }

    fn free_slot(&mut self, slot: usize, now: Instant, changes: &mut PlaceChanges) {
        self.slots[slot] = None;
        self.free.push_back((slot as u8, Some(now)));
        let gone: Vec<u64> =
            self.groups.iter().filter(|(_, number)| usize::from(**number) == slot).map(|(group, _)| *group).collect();
        for group in gone {
            self.groups.remove(&group);
            changes.removed.push(group);
        }
    }

    /// Forgets all idle workloads and all cgroups that are of none.
    fn forget_idle(&mut self, now: Instant, changes: &mut PlaceChanges) {
        while let Some(slot) = self.idlest(now) {
            self.free_slot(slot, now, changes);
        }
        self.groups.retain(|group, number| {
            if *number == ELSEWHERE {
                changes.removed.push(*group);
            }
            *number != ELSEWHERE
        });
    }

    /// The sums by workload.
    pub fn report(&mut self, counted: &[WorkloadSums], now: Instant) -> Workloads {
        let mut all = Workloads::default();
        counted.iter().for_each(|sums| all.total.add(sums));
        for ((slot, sums), base) in self.slots.iter_mut().zip(counted).zip(&self.base) {
            let Some(slot) = slot else { continue };
            let sums = sums.since(base);
            if sums != slot.last {
                (slot.last, slot.grown) = (sums, now);
            }
            // Most units of a host never wait.
            if sums.waited.max(sums.kept) > Nanos::ZERO {
                all.each.push(Workload { place: Arc::clone(&slot.place), number: slot.number, sums });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(number: u64) -> Place {
        Place { pod: Some(format!("{number:08x}")), ..Place::default() }
    }

    fn all_found(found: impl IntoIterator<Item = (u64, Place)>) -> Vec<(u64, Option<Place>)> {
        found.into_iter().map(|(group, place)| (group, Some(place))).collect()
    }

    fn grow(sums: &mut WorkloadSums, ns: u64) {
        sums.waited += Nanos(ns);
        sums.behind += Nanos(ns);
    }

    #[test]
    fn groups_of_one_pod_have_one_number_and_those_of_none_the_first() {
        let (mut table, now) = (PlaceTable::new(), Instant::now());
        let counted = vec![WorkloadSums::default(); Workloads::LIMIT];
        let found = [(7, pod(1)), (8, pod(1)), (9, Place::default()), (10, pod(2))];
        let changes = table.place(all_found(found), &counted, now);
        assert_eq!(changes.added, [(7, 2), (8, 2), (9, ELSEWHERE), (10, 3)]);
        assert_eq!(changes.given, [2, 3]);
        assert_eq!(table.report(&counted, now), Workloads::default(), "nobody has waited");
    }

    #[test]
    fn a_thousand_pods_that_come_and_go_grow_nothing_and_lose_nothing() {
        let (mut table, begun) = (PlaceTable::new(), Instant::now());
        let mut counted = vec![WorkloadSums::default(); Workloads::LIMIT];
        let (mut groups, mut total) = (BTreeMap::new(), 0);
        for number in 0..1000_u64 {
            let now = begun + Duration::from_secs(number);
            let changes = table.place(all_found([(number, pod(number))]), &counted, now);
            changes.removed.iter().for_each(|group| assert!(groups.remove(group).is_some()));
            groups.extend(changes.added.iter().copied());
            let own = groups.get(&number).copied().unwrap_or(ELSEWHERE);
            grow(&mut counted[usize::from(own)], 5);
            total += 5;
            let report = table.report(&counted, now);
            assert_eq!(report.total.waited, Nanos(total));
            let each: u64 = report.each.iter().map(|workload| workload.sums.waited.0).sum();
            assert!(each <= total && report.each.len() <= Workloads::LIMIT && groups.len() <= Workloads::LIMIT);
            let named = report.each.iter().find(|workload| *workload.place == pod(number));
            assert!(own == ELSEWHERE || named.is_some_and(|named| named.sums.waited == Nanos(5)), "{number}: {own}");
        }
        assert!(table.groups.len() <= Workloads::LIMIT && table.given > 900, "{}", table.given);
    }

    #[test]
    fn a_number_in_use_is_not_taken_away_and_a_freed_one_rests() {
        let (mut table, begun) = (PlaceTable::new(), Instant::now());
        let mut counted = vec![WorkloadSums::default(); Workloads::LIMIT];
        let all = (0..(Workloads::LIMIT - FIRST) as u64).map(|number| (number, pod(number)));
        assert_eq!(table.place(all_found(all), &counted, begun).added.len(), Workloads::LIMIT - FIRST);
        assert!(!table.has_room(begun));
        let later = begun + IDLE;
        counted.iter_mut().skip(3).for_each(|sums| grow(sums, 1));
        table.report(&counted, later);
        let changes = table.place(all_found([(1000, pod(1000))]), &counted, later);
        assert_eq!((changes.removed, changes.added), (vec![0], vec![]), "the idle one makes room, after a rest");
        let changes = table.place(all_found([(1000, pod(1000))]), &counted, later + RESTS);
        assert_eq!(changes.added, [(1000, 2)]);
    }

    #[test]
    fn who_waits_or_has_a_cpu_is_not_idle_and_keeps_its_number() {
        let (mut table, begun) = (PlaceTable::new(), Instant::now());
        let counted = vec![WorkloadSums::default(); Workloads::LIMIT];
        let all = (0..(Workloads::LIMIT - FIRST) as u64).map(|number| (number, pod(number)));
        table.place(all_found(all), &counted, begun);
        assert!(!table.is_short(begun), "none is idle");
        let later = begun + IDLE;
        assert!(table.is_short(later));
        // Nobody's numbers are no workload's.
        table.keep([ELSEWHERE, 1, 7, 9].into_iter(), later);
        let changes = table.place(all_found([(1000, pod(1000))]), &counted, later);
        let expected: Vec<u64> = (0..MIN_FREE as u64 + 2).filter(|group| ![5, 7].contains(group)).collect();
        assert_eq!((changes.removed, changes.given), (expected, vec![]));
        assert_eq!((table.groups.get(&5), table.groups.get(&7)), (Some(&7), Some(&9)));
    }

    #[test]
    fn a_group_whose_task_has_left_is_looked_up_again() {
        let (mut table, begun) = (PlaceTable::new(), Instant::now());
        let counted = vec![WorkloadSums::default(); Workloads::LIMIT];
        for _ in 1..TRIES {
            assert_eq!(table.place(vec![(7, None)], &counted, begun), PlaceChanges::default());
        }
        // By then it has no number, so it is found again for as long as a task of it runs.
        assert_eq!(table.place(all_found([(7, pod(1))]), &counted, begun).added, [(7, 2)]);
        for _ in 1..TRIES {
            table.place(vec![(8, None)], &counted, begun);
        }
        let changes = table.place(vec![(8, None), (9, Some(pod(2)))], &counted, begun);
        assert_eq!(changes.added, [(8, ELSEWHERE), (9, 3)], "a pause");
        let before = begun + PAUSE - Duration::from_millis(1);
        assert_eq!(table.place(Vec::new(), &counted, before), PlaceChanges::default());
        assert_eq!(table.place(Vec::new(), &counted, begun + PAUSE).removed, [8]);
        assert_eq!(table.place(all_found([(8, pod(3))]), &counted, begun + PAUSE).added, [(8, 4)]);
        (100..3000).for_each(|group| {
            table.place(vec![(group, None)], &counted, begun);
        });
        assert!(table.tried.len() <= MAX_TRIED);
    }
}
