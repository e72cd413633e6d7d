//! The occupancy log: which actor had a CPU, and when.

use std::num::NonZeroU32;

use unstarve_model::{Nanos, Time};

use crate::ActorId;
use crate::effort::count_steps;

/// The occupants of one CPU over time, so that a wait can ask how long each had the CPU. Exactly one actor has the CPU at any
/// moment. Each actor has a track of its runs with a running total, and tracks are linked by how recently they had the CPU. A
/// query for `from..now` therefore touches only actors that ran since `from`, with one binary search each, however many
/// switches are in between.
#[derive(Debug)]
pub(crate) struct Occupancy {
    current: u32,
    since: Time,
    tracks: Vec<Track>,
    /// The track of each actor, by the actor's index.
    slots: Vec<u32>,
    stays: usize,
    /// The time up to which runs were dropped.
    forgotten: Time,
    /// Time of the latest mark, and which marks are still valid.
    marked: Time,
    epoch: u32,
}

/// The total CPU time of the occupant at some moment. With it, that occupant's time since then needs no search. It is mostly
/// the waker, or the task that took the CPU, so it has most of the wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// The slot plus one, so that an `Option` of a mark is no larger.
    above: NonZeroU32,
    epoch: u32,
    had: u64,
}

#[derive(Debug)]
struct Track {
    actor: ActorId,
    /// Total length of closed runs.
    total: u64,
    stays: Vec<Stay>,
    /// When it last lost the CPU, also after a run of length 0.
    left: Time,
    /// The tracks that had the CPU less and more recently.
    older: u32,
    newer: u32,
}

#[derive(Clone, Copy, Debug)]
struct Stay {
    start: Time,
    end: Time,
    /// The track's total when the run began.
    before: u64,
}

const END: u32 = u32::MAX;

impl Occupancy {
    /// Runs kept before the owner must settle open waits (see [`Self::is_full`]): 100 kB for each CPU, still in the L2 cache.
    pub const CAPACITY: usize = 4096;
    /// The same if a wait that ends here may have started elsewhere, as far as its events show: then more history is better.
    pub const LONG_CAPACITY: usize = 16_384;

    pub fn new() -> Occupancy {
        let unknown =
            Track { actor: ActorId::UNKNOWN, total: 0, stays: Vec::new(), left: Time(0), older: END, newer: END };
        Occupancy {
            current: 0,
            since: Time(0),
            tracks: vec![unknown],
            slots: vec![0],
            stays: 0,
            forgotten: Time(0),
            marked: Time(0),
            epoch: 0,
        }
    }

    /// From `time` on `actor` has the CPU. `time` may be before the last query, but not before the last change.
    pub fn set(&mut self, time: Time, actor: ActorId) {
        let track = &mut self.tracks[self.current as usize];
        if track.actor == actor {
            return;
        }
        self.close(time);
        self.hand_over(actor);
    }

    /// The same at a switch, which starts a new run also if the next task has the same actor.
    #[inline(always)]
    pub fn switch(&mut self, time: Time, actor: ActorId) {
        let same = self.tracks[self.current as usize].actor == actor;
        self.close(time);
        if !same {
            self.hand_over(actor);
        }
    }

    /// The current run ends.
    #[inline(always)]
    fn close(&mut self, time: Time) {
        if time < self.marked {
            self.epoch += 1;
        }
        let track = &mut self.tracks[self.current as usize];
        track.left = self.since.max(time);
        let length = time.since(self.since).0;
        if length > 0 {
            track.stays.push(Stay { start: self.since, end: time, before: track.total });
            track.total += length;
            self.stays += 1;
            self.since = time;
        }
    }

    #[inline(always)]
    fn hand_over(&mut self, actor: ActorId) {
        let slot = match self.slots.get(actor.index()) {
            Some(&slot) if slot != END => slot,
            _ => self.add(actor),
        };
        self.bring_forward(slot);
        self.current = slot;
    }

    #[cold]
    fn add(&mut self, actor: ActorId) -> u32 {
        let slot = self.tracks.len() as u32;
        let newest = self.current;
        self.tracks.push(Track { actor, total: 0, stays: Vec::new(), left: Time(0), older: newest, newer: END });
        self.tracks[newest as usize].newer = slot;
        if self.slots.len() <= actor.index() {
            self.slots.resize(actor.index() + 1, END);
        }
        self.slots[actor.index()] = slot;
        slot
    }

    fn slot(&self, actor: ActorId) -> Option<u32> {
        self.slots.get(actor.index()).copied().filter(|slot| *slot != END)
    }

    /// Links `slot` before `self.current`, which is the newest.
    #[inline(always)]
    fn bring_forward(&mut self, slot: u32) {
        let newest = self.current;
        let Track { older, newer, .. } = self.tracks[slot as usize];
        if newer == END {
            return;
        }
        if older != END {
            self.tracks[older as usize].newer = newer;
        }
        self.tracks[newer as usize].older = older;
        self.tracks[newest as usize].newer = slot;
        let track = &mut self.tracks[slot as usize];
        track.older = newest;
        track.newer = END;
    }

    /// A mark of the present moment.
    #[inline]
    pub fn mark(&mut self, now: Time) -> Mark {
        self.marked = now;
        let had = self.tracks[self.current as usize].total + now.since(self.since).0;
        Mark { above: NonZeroU32::MIN.saturating_add(self.current), epoch: self.epoch, had }
    }

    /// Calls `part` with each actor that had the CPU in `from..to` and for how long; the parts add up to `to - from`. `from`
    /// must not be before the last [`Self::forget`]; `mark`, if given, was made at `from`. Returns how many actors were
    /// visited.
    #[inline(always)]
    pub fn parts(&self, from: Time, to: Time, mark: Option<Mark>, mut part: impl FnMut(ActorId, Nanos)) -> usize {
        if self.since > from {
            return self.several_parts(from, to, mark, part);
        }
        if let Some((actor, length)) = self.only_part(from, to) {
            part(actor, length);
        }
        1
    }

    /// The same for the latest few actors and for idle time; the rest is [`ActorId::UNKNOWN`]. Returns whether there was such a
    /// rest.
    pub fn latest_parts(&self, from: Time, to: Time, few: usize, mut part: impl FnMut(ActorId, Nanos)) -> bool {
        let mut left = to.since(from);
        let mut give = |actor: ActorId, length: Nanos| {
            let length = length.min(left);
            if length > Nanos::ZERO && actor != ActorId::UNKNOWN {
                left = left.saturating_sub(length);
                part(actor, length);
            }
        };
        let (mut slot, mut idle_is_known) = (self.current, false);
        for _ in 0..few {
            let Some(track) = self.tracks.get(slot as usize) else { break };
            count_steps(1);
            let open = if slot == self.current { to.since(self.since.max(from)).0 } else { 0 };
            if slot != self.current && track.left <= from {
                slot = END;
                break;
            }
            give(track.actor, Nanos(track.since(from) + open));
            idle_is_known |= track.actor == ActorId::IDLE;
            slot = track.older;
        }
        if !idle_is_known {
            give(ActorId::IDLE, self.time_of(ActorId::IDLE, from, to));
        }
        if left > Nanos::ZERO {
            part(ActorId::UNKNOWN, left);
        }
        self.tracks.get(slot as usize).is_some_and(|track| track.left > from)
    }

    /// The current actor, if it had the CPU all the time from `from` to `to`, and for how long.
    #[inline(always)]
    pub fn only_part(&self, from: Time, to: Time) -> Option<(ActorId, Nanos)> {
        // Mostly the task woken by the previous one.
        let length = to.since(from);
        let is_only = self.since <= from && length > Nanos::ZERO;
        is_only.then(|| (self.tracks[self.current as usize].actor, length))
    }

    #[inline(always)]
    fn several_parts(&self, from: Time, to: Time, mark: Option<Mark>, mut part: impl FnMut(ActorId, Nanos)) -> usize {
        let mark = mark.filter(|mark| mark.epoch == self.epoch);
        let (marked, had) = mark.map_or((END, 0), |mark| (mark.above.get() - 1, mark.had));
        let holder = &self.tracks[self.current as usize];
        let length = if marked == self.current {
            holder.total + to.since(self.since).0 - had
        } else {
            holder.since(from) + to.since(self.since).0
        };
        if length > 0 {
            part(holder.actor, Nanos(length));
        }
        let (mut slot, mut looked_at) = (holder.older, 1);
        while let Some(track) = self.tracks.get(slot as usize) {
            // Tracks are ordered by when they lost the CPU, so all older ones also lost it before `from`.
            if track.left <= from {
                break;
            }
            let length = if marked == slot { track.total - had } else { track.since(from) };
            if length > 0 {
                part(track.actor, Nanos(length));
            }
            slot = track.older;
            looked_at += 1;
        }
        count_steps(looked_at);
        looked_at
    }

    /// How long `actor` had the CPU in `from..to`.
    pub fn time_of(&self, actor: ActorId, from: Time, to: Time) -> Nanos {
        let Some(slot) = self.slot(actor) else { return Nanos::ZERO };
        let open = if slot == self.current { to.since(self.since.max(from)).0 } else { 0 };
        Nanos(self.tracks[slot as usize].since(from) + open)
    }

    /// Replaces actor `was` by `is` in the log from `from` on. Affects later queries only.
    pub fn rename(&mut self, was: ActorId, is: ActorId, from: Time, now: Time) {
        let Some(wrong) = self.slot(was).filter(|_| was != is) else { return };
        let holder = self.tracks[self.current as usize].actor;
        // Closes the current run, and orders `is` before `was` by when they lost the CPU.
        self.set(now, is);
        let Some(right) = self.slot(is) else { return };
        let kept = self.tracks[wrong as usize].stays.partition_point(|stay| stay.end <= from);
        let moved = self.tracks[wrong as usize].cut_off(kept, from);
        self.stays += usize::from(self.tracks[wrong as usize].stays.len() > kept);
        self.tracks[right as usize].append(&moved);
        if holder != was {
            self.set(now, holder);
        }
        self.epoch += 1;
    }

    /// Whether it is time to settle all open waits and to call [`Self::forget`].
    #[inline]
    pub fn is_full(&self, capacity: usize) -> bool {
        self.stays >= capacity
    }

    /// Number of changes kept.
    pub fn changes(&self) -> usize {
        self.stays
    }

    /// The time up to which the log was dropped.
    pub fn forgotten(&self) -> Time {
        self.forgotten
    }

    /// Drops all closed runs: no later query may reach back before `now`.
    pub fn forget(&mut self, now: Time) {
        let actor = self.tracks[self.current as usize].actor;
        let epoch = self.epoch + 1;
        if self.tracks.len() > 256 {
            *self = Occupancy::new();
            self.set(Time(0), actor);
        } else {
            for track in &mut self.tracks {
                track.stays.clear();
                track.total = 0;
            }
        }
        self.epoch = epoch;
        self.since = now;
        self.forgotten = now;
        self.stays = 0;
    }
}

impl Track {
    /// Removes the runs from index `kept` on, and what remains after `from`.
    fn cut_off(&mut self, kept: usize, from: Time) -> Vec<Stay> {
        let mut moved = self.stays.split_off(kept);
        if let Some(first) = moved.first_mut().filter(|first| first.start < from) {
            self.stays.push(Stay { end: from, ..*first });
            first.start = from;
        }
        self.total = self.stays.last().map_or(0, |last| last.before + last.end.since(last.start).0);
        moved
    }

    /// Appends runs that are later than all existing ones.
    fn append(&mut self, stays: &[Stay]) {
        for stay in stays {
            self.stays.push(Stay { before: self.total, ..*stay });
            self.total += stay.end.since(stay.start).0;
        }
    }

    /// Total time of closed runs after `from`.
    #[inline]
    fn since(&self, from: Time) -> u64 {
        let Some(last) = self.stays.last() else { return 0 };
        if last.end <= from {
            return 0;
        }
        let index = if last.start <= from { self.stays.len() - 1 } else { self.find(from) };
        let stay = self.stays[index];
        self.total - stay.before - from.since(stay.start).0
    }

    /// The first run that ends after `from`. Most waits are short, so it searches from the end with growing steps.
    fn find(&self, from: Time) -> usize {
        let length = self.stays.len();
        let (mut step, mut high) = (2, length);
        while step <= length && self.stays[length - step].end > from {
            high = length - step + 1;
            step *= 2;
        }
        let low = length.saturating_sub(step);
        low + self.stays[low..high].partition_point(|stay| stay.end <= from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ActorId = ActorId(10);
    const B: ActorId = ActorId(11);

    fn parts(log: &Occupancy, from: u64, to: u64) -> Vec<(u32, u64)> {
        let mut found = Vec::new();
        log.parts(Time(from), Time(to), None, |actor, length| found.push((actor.0, length.0)));
        found.sort();
        found
    }

    #[test]
    fn each_actor_gets_what_it_had_and_the_parts_fill_the_span() {
        //  0     10    20   30   40     50
        //  unk   A     B    A    idle   (now)
        let mut log = Occupancy::new();
        for (time, actor) in [(10, A), (20, B), (30, A), (40, ActorId::IDLE)] {
            log.set(Time(time), actor);
        }
        assert_eq!(parts(&log, 0, 50), [(0, 10), (1, 10), (10, 20), (11, 10)]);
        assert_eq!(parts(&log, 15, 50), [(1, 10), (10, 15), (11, 10)]);
        assert_eq!(parts(&log, 33, 45), [(1, 5), (10, 7)]);
        assert_eq!(parts(&log, 44, 45), [(1, 1)]);
        assert_eq!(log.time_of(A, Time(15), Time(50)), Nanos(15));
    }

    #[test]
    fn any_span_adds_up_over_thousands_of_switches() {
        let mut log = Occupancy::new();
        let mut time = 5;
        let mut edges = vec![0];
        for step in 0..3000u64 {
            log.set(Time(time), ActorId(10 + (step * 7 % 13) as u32));
            edges.push(time);
            time += 1 + step % 5;
        }
        for from in edges.iter().step_by(17).chain([1, 4, 6, time - 1].iter()) {
            let sum: u64 = parts(&log, *from, time).iter().map(|part| part.1).sum();
            assert_eq!(sum, time - from, "from {from}");
        }
    }

    #[test]
    fn a_stay_that_had_another_name_is_renamed_from_the_moment_on() {
        //  0     10   20   25   30    40   60
        //  unk   B    A    (B)  irq   (B)  now
        let irq = ActorId(12);
        let mut log = Occupancy::new();
        for (time, actor) in [(10, B), (20, A), (30, irq), (40, A)] {
            log.set(Time(time), actor);
        }
        log.rename(A, B, Time(25), Time(60));
        assert_eq!(parts(&log, 0, 60), [(0, 10), (10, 5), (11, 10 + 5 + 20), (12, 10)]);
        assert_eq!(parts(&log, 26, 60), [(11, 4 + 20), (12, 10)]);
        assert_eq!(parts(&log, 22, 60), [(10, 3), (11, 5 + 20), (12, 10)]);
        log.set(Time(70), irq);
        assert_eq!(parts(&log, 45, 75), [(11, 25), (12, 5)]);
        assert_eq!(parts(&log, 5, 75), [(0, 5), (10, 5), (11, 45), (12, 15)]);
    }

    #[test]
    fn renaming_keeps_every_span_whole() {
        let mut log = Occupancy::new();
        let mut edges = vec![0];
        for step in 0..2000u64 {
            let time = 10 + step * 7;
            log.set(Time(time), ActorId(10 + (step * 5 % 7) as u32));
            edges.push(time);
            if step % 3 == 0 {
                let was = ActorId(10 + (step * 5 % 7) as u32);
                log.rename(was, ActorId(20 + (step % 4) as u32), Time(time + step % 5), Time(time + 5));
                edges.push(time + 2);
            }
        }
        let now = 10 + 2000 * 7;
        for from in edges.iter().step_by(13) {
            let sum: u64 = parts(&log, *from, now).iter().map(|part| part.1).sum();
            assert_eq!(sum, now - from, "from {from}");
        }
    }

    #[test]
    fn after_forgetting_only_the_present_counts() {
        let mut log = Occupancy::new();
        log.set(Time(10), A);
        log.set(Time(20), B);
        log.forget(Time(25));
        log.set(Time(30), A);
        assert_eq!(parts(&log, 25, 33), [(10, 3), (11, 5)]);
    }
}
