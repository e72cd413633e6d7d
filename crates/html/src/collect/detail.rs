//! Keeps the records around the longest waits.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{CpuId, Nanos, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::density::{CpuScope, Density};

/// A record that the timeline of a moment draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub start: Time,
    pub end: Time,
    pub kind: Kind,
    pub cpu: CpuId,
    pub tid: Tid,
    pub actor: ActorId,
    /// Its meaning depends on the kind.
    pub detail: u32,
}

impl Record {
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// What a [`Record`] is, and what its `detail` means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(ts_rs::TS), ts(repr(enum)))]
#[repr(u8)]
pub(crate) enum Kind {
    /// A stay on a CPU; how it ended: 0 slept, 1 preempted, 2 preempted by a task just woken, 3 not seen.
    Run,
    /// A wait; the number of [`Kind::Piece`] records that follow it.
    Wait,
    /// Part of the wait before it: `actor` is the occupant, `tid` the rule, `detail` its part of the wait in 2^-32.
    Piece,
    /// A wakeup of `tid`, issued on `cpu`; the waker's tid, 0 for an interrupt or if it is not known.
    Wake,
    /// A hard interrupt handler.
    Irq,
    /// A softirq.
    Softirq,
    /// A work item; its function's name and one, 0 if it is not known.
    Work,
    /// Runs that were merged: `tid` is how many, `actor` who had most of them, `detail` the part of the time that the CPU was
    /// busy in 2^-32.
    Block,
}

/// A wait to show in detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub actor: ActorId,
    pub tid: Tid,
    pub cpu: CpuId,
    pub start: Time,
    pub end: Time,
    /// How much to show before and after it.
    pub margin: Nanos,
    /// The rule with most of the wait.
    pub rule: Rule,
}

impl Spot {
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// The shown window.
    pub fn window(&self) -> (Time, Time) {
        (self.start - self.margin, self.end + self.margin)
    }
}

/// Keeps the surroundings of the longest waits without knowing them in advance.
///
/// Every record passes through a queue that is long enough for a wait to end, and to be known as one of the longest,
/// before its surroundings leave the queue. A record that leaves is kept if it is in the window of a spot.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    queue: VecDeque<Record>,
    /// The longest waits of each actor by rule: the longest of all may be of an unimportant kind.
    spots: FxHashMap<(ActorId, Rule), Vec<Spot>>,
    /// The longest wait that ended in each coarse slice of the trace.
    slices: Vec<Option<Spot>>,
    /// The spots' windows, merged, in order; rebuilt when `stale`.
    windows: Vec<(Time, Time)>,
    stale: bool,
    kept: Vec<Record>,
    pruned_to: usize,
    /// How often the number of spots kept of each kind was halved.
    halvings: u32,
    pushed: u64,
    first: Option<Time>,
    /// CPUs that have appeared.
    cpus: usize,
    thinned: Vec<Thinned>,
}

/// A record of what was dropped from a window that held too much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thinned {
    pub from: Time,
    pub to: Time,
    pub count: usize,
    pub longest: Nanos,
}

/// The result of [`Detail`].
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// In the order of their ends.
    pub records: Vec<Record>,
    /// Longest first.
    pub spots: Vec<Spot>,
    pub thinned: Vec<Thinned>,
}

impl Detail {
    /// Maximum records in the queue: 10 MB, a third of a second of a very busy machine, minutes of a calm one.
    const MAX_QUEUED_RECORDS: usize = 1 << 18;
    /// The number of records that leave at once.
    const RELEASE_BATCH: usize = 1 << 12;
    /// Longest waits kept for each kind.
    const PER_KIND: usize = 16;
    /// Maximum kinds of waits, by actor and rule.
    const MAX_SPOT_KINDS: usize = 512;
    /// Maximum records kept beyond the queue.
    const MAX_KEPT_RECORDS: usize = 1 << 18;
    /// Maximum records in one window, approximately.
    const MAX_RECORDS_PER_SPOT: usize = 6000;
    /// Maximum notes about dropped records.
    const MAX_THINNED_SPANS: usize = 4096;
    /// Records before and after a wait, approximately.
    const RECORDS_AROUND_SPOT: u64 = 3000;

    /// Number of spots kept of each kind.
    fn per_kind(&self) -> usize {
        Detail::PER_KIND >> self.halvings
    }

    pub fn push(&mut self, record: Record) {
        if self.queue.len() >= Detail::MAX_QUEUED_RECORDS {
            self.let_go(Detail::RELEASE_BATCH);
        }
        self.pushed += 1;
        self.cpus = self.cpus.max(record.cpu.index() + 1);
        self.first.get_or_insert(record.start);
        self.queue.push_back(record);
    }

    /// How much to show before and after a wait: enough to see its cause, but the wait must stay visible, and the
    /// records drawable.
    fn margin(&self, spot: &Spot) -> Nanos {
        const MIN_MARGIN_NS: u64 = 400_000;
        const MAX_MARGIN_NS: u64 = 25_000_000;
        let natural = spot.length().0.clamp(MIN_MARGIN_NS, MAX_MARGIN_NS);
        let elapsed = self.first.map_or(Nanos::ZERO, |first| spot.end.since(first));
        let roomy = elapsed.0 / (self.pushed / Detail::RECORDS_AROUND_SPOT * 2 + 1);
        Nanos(natural.min(roomy.max(MIN_MARGIN_NS / 8)))
    }

    /// Offers a finished wait in this coarse slice of the trace. Computes its margin.
    pub fn offer(&mut self, spot: Spot, slice: usize) {
        let spot = Spot { margin: self.margin(&spot), ..spot };
        if self.slices.len() <= slice {
            self.slices.resize(slice + 1, None);
        }
        let longest = &mut self.slices[slice];
        if longest.is_none_or(|longest| spot.length() > longest.length()) {
            *longest = Some(spot);
            self.stale = true;
        }
        let key = (spot.actor, spot.rule);
        if self.spots.len() >= Detail::MAX_SPOT_KINDS && !self.spots.contains_key(&key) {
            self.make_room(spot.length());
            if self.spots.len() >= Detail::MAX_SPOT_KINDS {
                return;
            }
        }
        let per_kind = self.per_kind();
        let list = self.spots.entry(key).or_default();
        if list.len() < per_kind {
            list.push(spot);
            self.stale = true;
        } else if let Some(least) = list.iter_mut().min_by_key(|known| known.length())
            && least.length() < spot.length()
        {
            *least = spot;
            self.stale = true;
        }
    }

    /// Drops the kind with the shortest longest wait, if that is shorter than `length`.
    fn make_room(&mut self, length: Nanos) {
        let longest = |spots: &Vec<Spot>| spots.iter().map(Spot::length).max();
        let least = self.spots.iter().min_by_key(|(kind, spots)| (longest(spots), **kind));
        if let Some((&kind, spots)) = least
            && longest(spots) < Some(length)
        {
            self.spots.remove(&kind);
            self.stale = true;
        }
    }

    /// Merges pairs of coarse slices.
    pub fn halve(&mut self) {
        let longest = |pair: &[Option<Spot>]| pair.iter().flatten().max_by_key(|spot| spot.length()).copied();
        self.slices = self.slices.chunks(2).map(longest).collect();
        self.stale = true;
    }

    fn let_go(&mut self, count: usize) {
        self.refresh();
        for record in self.queue.drain(..count.min(self.queue.len())) {
            // A piece follows its wait and has the same ends.
            if overlaps(&self.windows, record.start, record.end) {
                self.kept.push(record);
            }
        }
        if self.kept.len() > (self.pruned_to * 2).clamp(Detail::MAX_KEPT_RECORDS / 4, Detail::MAX_KEPT_RECORDS) {
            self.prune();
        }
    }

    fn refresh(&mut self) {
        if !self.stale {
            return;
        }
        self.stale = false;
        let mut windows: Vec<(Time, Time)> = self.all_spots().map(|spot| spot.window()).collect();
        windows.sort_unstable();
        self.windows.clear();
        for (from, to) in windows {
            match self.windows.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => self.windows.push((from, to)),
            }
        }
    }

    fn all_spots(&self) -> impl Iterator<Item = &Spot> {
        self.spots.values().flatten().chain(self.slices.iter().flatten())
    }

    /// Drops records that no window needs, and the shortest ones of windows that hold too much; if that is not enough,
    /// keeps fewer waits.
    fn prune(&mut self) {
        loop {
            self.refresh();
            self.kept.retain(|record| overlaps(&self.windows, record.start, record.end));
            self.thin_out();
            self.pruned_to = self.kept.len();
            if self.kept.len() <= Detail::MAX_KEPT_RECORDS * 3 / 4 || !self.look_at_fewer() {
                return;
            }
        }
    }

    /// Thins out windows with more than [`Detail::MAX_RECORDS_PER_SPOT`] records: the longer half of that number stays
    /// as it is. Shorter runs become blocks; other short records are dropped.
    fn thin_out(&mut self) {
        let mut lengths: Vec<Vec<Nanos>> = vec![Vec::new(); self.windows.len()];
        for record in &self.kept {
            lengths[window_of(&self.windows, record.start)].push(record.length());
        }
        let floors: Vec<Option<Nanos>> = lengths
            .iter_mut()
            .map(|lengths| {
                let at = lengths.len().checked_sub(Detail::MAX_RECORDS_PER_SPOT)? + Detail::MAX_RECORDS_PER_SPOT / 2;
                Some(*lengths.select_nth_unstable(at).1)
            })
            .collect();
        let near = self.cpus_that_matter();
        let density = |(window, near): (&(Time, Time), &FxHashSet<CpuId>)| Density::new(*window, self.cpus, near.len());
        let mut densities: Vec<Density> = self.windows.iter().zip(&near).map(density).collect();
        let mut dropped = vec![0; self.windows.len()];
        self.kept.retain(|record| {
            let window = window_of(&self.windows, record.start);
            let stays = floors[window].is_none_or(|floor| record.length() > floor);
            let place = if near[window].contains(&record.cpu) { CpuScope::Near } else { CpuScope::Far };
            let goes = !stays && !densities[window].add(record, place);
            dropped[window] += usize::from(goes);
            stays
        });
        self.kept.extend(densities.into_iter().flat_map(Density::into_records));
        // Stable sort: a wait's pieces stay behind it.
        self.kept.sort_by_key(|record| record.end);
        for ((window, count), floor) in self.windows.iter().zip(dropped).zip(floors) {
            if let (Some(longest), true) = (floor, count > 0) {
                self.thinned.push(Thinned { from: window.0, to: window.1, count, longest });
            }
        }
        if self.thinned.len() > Detail::MAX_THINNED_SPANS {
            self.thinned.drain(..Detail::MAX_THINNED_SPANS / 2);
        }
    }

    /// The CPUs of each window's waits.
    fn cpus_that_matter(&self) -> Vec<FxHashSet<CpuId>> {
        let mut near = vec![FxHashSet::default(); self.windows.len()];
        for spot in self.all_spots() {
            if let Some(cpus) = near.get_mut(window_of(&self.windows, spot.start)) {
                cpus.insert(spot.cpu);
            }
        }
        near
    }

    fn look_at_fewer(&mut self) -> bool {
        self.stale = true;
        if self.per_kind() > 1 {
            self.halvings += 1;
            let per_kind = self.per_kind();
            for list in self.spots.values_mut() {
                list.sort_by_key(|spot| std::cmp::Reverse(spot.length()));
                list.truncate(per_kind);
            }
            return true;
        }
        // Drops half of the kinds, those with the shortest waits.
        let mut all: Vec<(Nanos, (ActorId, Rule))> =
            self.spots.iter().filter_map(|(kind, spots)| Some((spots.first()?.length(), *kind))).collect();
        all.sort_unstable();
        for (_, kind) in &all[..all.len() / 2] {
            self.spots.remove(kind);
        }
        all.len() > 1
    }

    /// Returns everything that was kept.
    pub fn finish(mut self) -> Kept {
        while !self.queue.is_empty() {
            self.let_go(Detail::RELEASE_BATCH);
        }
        self.refresh();
        self.kept.retain(|record| overlaps(&self.windows, record.start, record.end));
        let mut spots: Vec<Spot> = self.all_spots().copied().collect();
        spots.sort_unstable_by_key(|spot| (std::cmp::Reverse(spot.length()), spot.start, spot.tid, spot.cpu));
        spots.dedup();
        Kept { records: self.kept, spots, thinned: self.thinned }
    }
}

/// The first window that ends at or after `start`, or the last one.
fn window_of(windows: &[(Time, Time)], start: Time) -> usize {
    windows.partition_point(|window| window.1 < start).min(windows.len().saturating_sub(1))
}

/// Whether `start..=end` touches one of the windows, which are sorted and disjoint.
fn overlaps(windows: &[(Time, Time)], start: Time, end: Time) -> bool {
    let first = windows.partition_point(|window| window.1 < start);
    windows.get(first).is_some_and(|window| window.0 <= end)
}

#[cfg(test)]
mod tests;
