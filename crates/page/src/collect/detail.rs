use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos, Tid, Time};
use unstarve_timeline::ActorId;

/// Something that the timeline of a moment draws.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub start: Time,
    pub end: Time,
    pub kind: Kind,
    pub cpu: CpuId,
    pub tid: Tid,
    pub actor: ActorId,
    /// What the kind says it is.
    pub detail: u32,
}

/// What a [`Record`] is, and what its `detail` means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

/// A wait that is worth a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    pub actor: ActorId,
    pub tid: Tid,
    pub cpu: CpuId,
    pub start: Time,
    pub end: Time,
}

impl Spot {
    pub fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// What is shown around it: enough before and after to see how it came about, not so much that it is lost in it.
    pub fn window(&self) -> (Time, Time) {
        const LEAST: u64 = 400_000;
        const MOST: u64 = 25_000_000;
        let margin = Nanos(self.length().0.clamp(LEAST, MOST));
        (self.start - margin, self.end + margin)
    }
}

/// Keeps what happened around the longest waits, without knowing beforehand which they are.
///
/// Every record passes through a queue that is long enough for a wait to be over and known as one of the longest before
/// its surroundings leave the queue. What leaves it is kept if it lies in the window of a spot, else forgotten.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    queue: VecDeque<Record>,
    spots: FxHashMap<ActorId, Vec<Spot>>,
    /// The longest wait that ended in each coarse slice of the trace.
    slices: Vec<Option<Spot>>,
    /// The spots' windows, merged, in order; rebuilt when `stale`.
    windows: Vec<(Time, Time)>,
    stale: bool,
    kept: Vec<Record>,
    pruned_to: usize,
    per_actor: usize,
}

impl Detail {
    /// Records in the queue: 20 MB, half a second of a busy machine, minutes of a calm one.
    const QUEUE: usize = 1 << 19;
    /// How many leave it at once.
    const BATCH: usize = 1 << 12;
    /// Longest waits of each actor.
    const PER_ACTOR: usize = 4;
    /// Actors whose longest waits are looked at.
    const ACTORS: usize = 512;
    /// Records kept beyond the queue.
    const KEPT: usize = 1 << 19;

    pub fn new() -> Detail {
        Detail { per_actor: Detail::PER_ACTOR, ..Detail::default() }
    }

    pub fn push(&mut self, record: Record) {
        if self.queue.len() >= Detail::QUEUE {
            self.let_go(Detail::BATCH);
        }
        self.queue.push_back(record);
    }

    /// A wait that is over, in this coarse slice of the trace.
    pub fn offer(&mut self, spot: Spot, slice: usize) {
        if self.slices.len() <= slice {
            self.slices.resize(slice + 1, None);
        }
        let longest = &mut self.slices[slice];
        if longest.is_none_or(|longest| spot.length() > longest.length()) {
            *longest = Some(spot);
            self.stale = true;
        }
        if self.spots.len() >= Detail::ACTORS && !self.spots.contains_key(&spot.actor) {
            self.make_room(spot.length());
            if self.spots.len() >= Detail::ACTORS {
                return;
            }
        }
        let list = self.spots.entry(spot.actor).or_default();
        if list.len() < self.per_actor {
            list.push(spot);
            self.stale = true;
        } else if let Some(least) = list.iter_mut().min_by_key(|known| known.length())
            && least.length() < spot.length()
        {
            *least = spot;
            self.stale = true;
        }
    }

    /// Drops the actor whose longest wait is the shortest, if it is shorter than this.
    fn make_room(&mut self, length: Nanos) {
        let longest = |spots: &Vec<Spot>| spots.iter().map(Spot::length).max();
        let least = self.spots.iter().min_by_key(|(actor, spots)| (longest(spots), **actor));
        if let Some((&actor, spots)) = least
            && longest(spots) < Some(length)
        {
            self.spots.remove(&actor);
            self.stale = true;
        }
    }

    /// Coarse slices are merged in pairs.
    pub fn halve(&mut self) {
        let longest = |pair: &[Option<Spot>]| pair.iter().flatten().max_by_key(|spot| spot.length()).copied();
        self.slices = self.slices.chunks(2).map(longest).collect();
        self.stale = true;
    }

    fn let_go(&mut self, count: usize) {
        self.refresh();
        for record in self.queue.drain(..count.min(self.queue.len())) {
            // A piece follows its wait and has its ends.
            if overlaps(&self.windows, record.start, record.end) {
                self.kept.push(record);
            }
        }
        if self.kept.len() > (self.pruned_to * 2).max(Detail::KEPT / 4) {
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

    /// Forgets what no window needs any more; if that is not enough, looks at fewer waits.
    fn prune(&mut self) {
        loop {
            self.refresh();
            self.kept.retain(|record| overlaps(&self.windows, record.start, record.end));
            self.pruned_to = self.kept.len();
            if self.kept.len() <= Detail::KEPT || !self.look_at_fewer() {
                return;
            }
        }
    }

    fn look_at_fewer(&mut self) -> bool {
        self.stale = true;
        if self.per_actor > 1 {
            self.per_actor /= 2;
            for list in self.spots.values_mut() {
                list.sort_by_key(|spot| std::cmp::Reverse(spot.length()));
                list.truncate(self.per_actor);
            }
            return true;
        }
        // Half of the actors, those with the shortest waits.
        let mut all: Vec<(Nanos, ActorId)> =
            self.spots.iter().filter_map(|(actor, spots)| Some((spots.first()?.length(), *actor))).collect();
        all.sort_unstable();
        for (_, actor) in &all[..all.len() / 2] {
            self.spots.remove(actor);
        }
        all.len() > 1
    }

    /// What is kept, and the spots, longest first.
    pub fn finish(mut self) -> (Vec<Record>, Vec<Spot>) {
        while !self.queue.is_empty() {
            self.let_go(Detail::BATCH);
        }
        self.refresh();
        self.kept.retain(|record| overlaps(&self.windows, record.start, record.end));
        let mut spots: Vec<Spot> = self.all_spots().copied().collect();
        spots.sort_unstable_by_key(|spot| (std::cmp::Reverse(spot.length()), spot.start, spot.tid, spot.cpu));
        spots.dedup();
        (self.kept, spots)
    }
}

/// Whether `start..=end` touches one of the windows, which are in order and apart.
fn overlaps(windows: &[(Time, Time)], start: Time, end: Time) -> bool {
    let first = windows.partition_point(|window| window.1 < start);
    windows.get(first).is_some_and(|window| window.0 <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTOR: ActorId = ActorId::OTHERS;

    fn run(at: u64) -> Record {
        let (start, end) = (Time(at), Time(at + 1000));
        Record { start, end, kind: Kind::Run, cpu: CpuId(0), tid: Tid(1), actor: ACTOR, detail: 0 }
    }

    fn spot(start: u64, end: u64) -> Spot {
        Spot { actor: ACTOR, tid: Tid(2), cpu: CpuId(0), start: Time(start), end: Time(end) }
    }

    #[test]
    fn what_is_around_the_longest_waits_stays_and_the_rest_goes() {
        let mut detail = Detail::new();
        let runs = 3 * Detail::QUEUE as u64;
        for index in 0..runs {
            let now = index * 1000;
            detail.push(run(now));
            if index % 1000 == 999 {
                // Ever longer waits, so that each is the longest when it ends.
                detail.offer(spot(now - index / 10, now), 0);
            }
        }
        let (kept, spots) = detail.finish();
        assert_eq!(spots.len(), Detail::PER_ACTOR);
        for spot in &spots {
            let (from, to) = spot.window();
            let around = kept.iter().filter(|run| run.end >= from && run.start <= to).count() as u64;
            let fits = to.min(Time(runs * 1000)).since(from).0 / 1000;
            assert!(around >= fits, "{around} of {fits}");
        }
        assert!(kept.len() < 20_000, "{}", kept.len());
    }
}
