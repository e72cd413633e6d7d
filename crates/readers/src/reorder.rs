use unstarve_model::{Batch, Event, Loss, LossKind, Time};

/// Puts events that arrive roughly in order into order, in bounded memory.
///
/// Recorders drain one CPU's ring buffer after the other, so a file holds runs that are sorted within themselves and
/// overlap. Events wait here until the format says that nothing earlier can come ([`Reorder::release`]) or until too
/// many wait; equal times keep the order of arrival. An event that comes after later ones have been given out is moved
/// to the last time given and counted.
#[derive(Debug)]
pub struct Reorder {
    waiting: Vec<Event>,
    /// Takes over those that go on waiting.
    spare: Vec<Event>,
    /// Waiting events by time, as far as they have been sorted: time and index into `waiting`.
    order: Vec<(Time, u32)>,
    /// The part of `order` that may be given out.
    released: std::ops::Range<usize>,
    limit: usize,
    earliest: Time,
    last: Time,
    late: u64,
}

impl Reorder {
    /// At most `limit` events wait; beyond it the older half is given out.
    pub fn new(limit: usize) -> Reorder {
        assert!(limit > 1 && u32::try_from(limit).is_ok());
        Reorder {
            waiting: Vec::new(),
            spare: Vec::new(),
            order: Vec::new(),
            released: 0..0,
            limit,
            earliest: Time(u64::MAX),
            last: Time(0),
            late: 0,
        }
    }

    /// At most `limit` events wait from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.clamp(2, u32::MAX as usize);
    }

    /// Takes an event in. The caller gives out what is released before it adds more than a record's worth.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.earliest = self.earliest.min(event.time);
        self.waiting.push(event);
        if self.waiting.len() >= self.limit && self.released.is_empty() {
            self.sort();
            self.released = 0..self.order.len() / 2;
        }
    }

    /// Nothing earlier than or at `time` can come any more.
    pub fn release(&mut self, time: Time) {
        if self.earliest > time || !self.released.is_empty() {
            return;
        }
        self.sort();
        self.released = 0..self.order.partition_point(|&(key, _)| key <= time);
    }

    /// Nothing can come any more at all.
    pub fn release_all(&mut self) {
        self.release(Time(u64::MAX));
    }

    /// Moves released events to the end of `events` until it holds [`Batch::TARGET`]; whether it does.
    pub fn fill(&mut self, events: &mut Vec<Event>) -> bool {
        let room = Batch::TARGET.saturating_sub(events.len());
        let given = self.released.len().min(room);
        if given > 0 {
            let end = self.released.start + given;
            for &(time, index) in &self.order[self.released.start..end] {
                let mut event = self.waiting[index as usize];
                if time < self.last {
                    event.time = self.last;
                    self.late += 1;
                } else {
                    self.last = time;
                }
                events.push(event);
            }
            self.released.start = end;
            if self.released.is_empty() {
                self.forget_given(end);
            }
        }
        events.len() >= Batch::TARGET
    }

    /// The loss to report for events that came too late, if there were any.
    pub fn loss(&self) -> Option<Loss> {
        (self.late > 0).then(|| Loss::new(LossKind::OutOfOrder, self.late))
    }

    fn sort(&mut self) {
        self.order.clear();
        self.order.extend((0u32..).zip(&self.waiting).map(|(index, event)| (event.time, index)));
        // Stable sorting finds the runs that the CPUs' buffers are and merges them.
        self.order.sort_by_key(|&(time, _)| time);
    }

    fn forget_given(&mut self, end: usize) {
        let (left, new) = (&self.order[end..], &self.waiting[self.order.len()..]);
        let first_left = left.first().map(|&(time, _)| time);
        let times = new.iter().map(|event| event.time).chain(first_left);
        self.earliest = times.min().unwrap_or(Time(u64::MAX));
        self.spare.clear();
        self.spare.extend(left.iter().map(|&(_, index)| self.waiting[index as usize]));
        self.spare.extend_from_slice(new);
        std::mem::swap(&mut self.waiting, &mut self.spare);
        self.order.clear();
        self.released = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unstarve_model::{Context, CpuId, EventKind};

    use super::*;

    fn at(time: u64, cpu: u32) -> Event {
        let kind = EventKind::SoftirqExit { vec: 0 };
        Event { time: Time(time), cpu: CpuId(cpu), current: None, context: Context::Task, kind }
    }

    fn drain(reorder: &mut Reorder) -> Vec<(u64, u32)> {
        let mut events = Vec::new();
        while !reorder.released.is_empty() {
            let mut part = Vec::new();
            reorder.fill(&mut part);
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

    proptest! {
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
                prop_assert!(reorder.waiting.len() <= 16);
            }
            reorder.release_all();
            out.extend(drain(&mut reorder));
            prop_assert!(out.is_sorted_by_key(|&(time, _)| time));
            let mut seen: Vec<u32> = out.iter().map(|&(_, id)| id).collect();
            seen.sort();
            prop_assert_eq!(seen, (0..pushed).collect::<Vec<_>>());
        }
    }
}
