//! Sorts events that arrive roughly in order, in bounded memory.

mod queue;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use unstarve_model::{Batch, CpuId, Event, EventKind, Issuer, Loss, LossKind, Nanos, Time};

use crate::heap::sink_first;
use queue::{Blocks, Queue};

/// Sorts events that arrive roughly in order, in bounded memory.
///
/// Recorders drain one CPU's ring buffer after the other, so a file holds runs that are sorted within themselves and
/// overlap. Events wait here in one queue per CPU until the format says that nothing earlier can come
/// ([`Reorder::release`]), or until too many wait; then the queues are merged. Events with equal times keep their order
/// of arrival. An event that arrives after later ones have been given out gets the time of the last one given out, and
/// is counted.
///
/// An event earlier than the last one of its CPU is inserted into the queue if its place is in the last two blocks and
/// not at the front. Otherwise it waits in a heap beside the queues. Whatever the order, an event costs steps in the
/// logarithm of the number waiting.
#[derive(Debug)]
pub struct Reorder {
    queues: Vec<Queue>,
    blocks: Blocks,
    /// The queue index of each CPU; [`NO_QUEUE`] for CPUs without events so far.
    of_cpu: Vec<u32>,
    /// A binary heap of the first event of each queue that is not empty, the earliest first.
    heads: Vec<Head>,
    /// Events too late to be inserted into their CPU's queue, the earliest first.
    strays: BinaryHeap<Stray>,
    waiting: usize,
    arrived: u64,
    /// Events up to this time may be given out.
    until: Time,
    /// How many events may be given out whatever their time, because too many wait.
    surplus: usize,
    limit: usize,
    last: Time,
    late: u64,
    /// The latest runs of events of one CPU were short: CPUs alternate.
    alternates: bool,
    /// Some CPU's events did not arrive in time order.
    mixed: bool,
    /// How many events were moved within their queue, for tests.
    #[cfg(test)]
    moved: usize,
}

/// A number of events that have arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Arrivals(u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Head {
    time: Time,
    arrival: u64,
    queue: u32,
}

/// An event that waits beside the queues. Stored field by field: an `Event` is aligned to a cache line, so together
/// with its arrival number it would take two.
#[derive(Debug)]
struct Stray {
    time: Time,
    arrival: u64,
    cpu: CpuId,
    issuer: Issuer,
    kind: EventKind,
}

const _: () = assert!(size_of::<Stray>() <= 72);

impl Stray {
    fn new(Event { time, cpu, issuer, kind }: Event, arrival: u64) -> Stray {
        Stray { time, arrival, cpu, issuer, kind }
    }

    fn event(self) -> Event {
        Event { time: self.time, cpu: self.cpu, issuer: self.issuer, kind: self.kind }
    }

    /// Its sort key, as if it were at the front of a queue.
    fn head(&self) -> Head {
        Head { time: self.time, arrival: self.arrival, queue: NO_QUEUE }
    }
}

/// Reversed: a [`BinaryHeap`] yields the greatest element first, and the earliest is wanted.
impl Ord for Stray {
    fn cmp(&self, other: &Stray) -> Ordering {
        other.head().cmp(&self.head())
    }
}

impl PartialOrd for Stray {
    fn partial_cmp(&self, other: &Stray) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Stray {
    fn eq(&self, other: &Stray) -> bool {
        self.head() == other.head()
    }
}

impl Eq for Stray {}

const NO_QUEUE: u32 = u32::MAX;

/// Runs shorter than this are copied event by event, which costs less than a call.
const SHORT_RUN: usize = 3;

/// Events merged one by one before it is checked again whether runs are still short.
const MAX_MERGED_AT_ONCE: usize = 64;

/// Events copied by one call. glibc copies 2 KiB and more with `rep movsb`, of which callgrind counts each byte; pieces
/// of this size take no longer on the clock.
const COPY_PIECE: usize = 16;

/// How far events of one CPU may be out of order: an interrupt may record one while another is being written.
const MAX_NESTING: Nanos = Nanos::from_micros(100);

impl Reorder {
    /// A queue in which at most `limit` events wait. Beyond that, the older half is given out.
    pub fn new(limit: usize) -> Reorder {
        assert!(limit > 1);
        Reorder {
            queues: Vec::new(),
            blocks: Blocks::new(),
            of_cpu: Vec::new(),
            heads: Vec::new(),
            strays: BinaryHeap::new(),
            waiting: 0,
            arrived: 0,
            until: Time(0),
            surplus: 0,
            limit,
            last: Time(0),
            late: 0,
            alternates: false,
            mixed: false,
            #[cfg(test)]
            moved: 0,
        }
    }

    /// Changes the limit of waiting events.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(2);
    }

    /// Adds an event. The caller must give out released events before it adds more than one record's worth.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.push_with(event.cpu, |place| {
            *place = event;
            true
        });
    }

    /// Adds an event of this CPU, which `write` writes in place. Returns what `write` returned: whether there is an
    /// event. In place, because copying what was just written in smaller pieces is slow.
    #[inline(always)]
    pub fn push_with(&mut self, cpu: CpuId, write: impl FnOnce(&mut Event) -> bool) -> bool {
        let mut index = self.of_cpu.get(cpu.index()).copied().unwrap_or(NO_QUEUE);
        // No queue has this index.
        if index as usize >= self.queues.len() {
            index = self.add_queue(cpu);
        }
        let queue = &mut self.queues[index as usize];
        let (place, number) = queue.room(&mut self.blocks);
        if !write(place) {
            return false;
        }
        let (time, arrival) = (place.time, self.arrived);
        *number = arrival;
        self.arrived += 1;
        self.waiting += 1;
        if time < queue.latest {
            self.push_late(index, time);
        } else {
            queue.latest = time;
            queue.keep();
            if queue.has_one() {
                self.heads.push(Head { time, arrival, queue: index });
                self.rise(self.heads.len() - 1);
            }
        }
        if self.waiting >= self.limit && self.surplus == 0 {
            self.surplus = self.waiting / 2;
        }
        true
    }

    #[cold]
    fn add_queue(&mut self, cpu: CpuId) -> u32 {
        let index = self.queues.len() as u32;
        self.queues.push(Queue::new());
        if self.of_cpu.len() <= cpu.index() {
            self.of_cpu.resize(cpu.index() + 1, NO_QUEUE);
        }
        self.of_cpu[cpu.index()] = index;
        index
    }

    /// Handles an event that is earlier than one its CPU has already recorded.
    #[cold]
    fn push_late(&mut self, index: u32, time: Time) {
        let queue = &mut self.queues[index as usize];
        self.mixed |= time + MAX_NESTING < queue.latest;
        match queue.keep_in_order(&mut self.blocks) {
            Some(_moved) => {
                #[cfg(test)]
                {
                    self.moved += _moved;
                }
            }
            // The first event of a queue is in the heap of heads, where it cannot be replaced cheaply.
            None => {
                let (event, arrival) = queue.room(&mut self.blocks);
                self.strays.push(Stray::new(*event, *arrival));
            }
        }
    }

    /// The number of events so far.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.arrived)
    }

    /// Drops the waiting events that arrived after the first `first` events.
    pub fn take_back(&mut self, Arrivals(first): Arrivals) {
        self.heads.clear();
        self.strays.retain(|stray| stray.arrival < first);
        self.waiting = self.strays.len();
        for (index, queue) in (0..).zip(&mut self.queues) {
            self.waiting += queue.retain_before(first, &mut self.blocks);
            let head = queue.earliest(&self.blocks);
            self.heads.extend(head.map(|(time, arrival)| Head { time, arrival, queue: index }));
        }
        // A sorted list is a valid heap.
        self.heads.sort_unstable();
    }

    /// Releases events up to `time`: no earlier one can come any more.
    pub fn release(&mut self, time: Time) {
        self.until = self.until.max(time);
    }

    /// Releases everything: no more events come.
    pub fn release_all(&mut self) {
        self.release(Time(u64::MAX));
    }

    /// Releases what all CPUs have passed. For a source with one buffer for each of `cpus` CPUs, each read in order.
    pub fn release_passed(&mut self, cpus: u32) {
        if self.mixed || self.queues.len() != cpus as usize {
            return;
        }
        if let Some(passed) = self.queues.iter().map(|queue| queue.latest).min() {
            self.release(Time(passed.0.saturating_sub(MAX_NESTING.0)));
        }
    }

    /// Whether this event may be given out.
    #[inline(always)]
    fn may_go(&self, head: &Head) -> bool {
        self.surplus > 0 || head.time <= self.until
    }

    /// Moves released events to `events` until it holds [`Batch::TARGET`]. Returns whether it does.
    pub fn fill(&mut self, events: &mut Vec<Event>) -> bool {
        if !self.strays.is_empty() {
            self.fill_with_strays(events);
        }
        while events.len() < Batch::TARGET && self.heads.first().is_some_and(|head| self.may_go(head)) {
            match self.heads[..] {
                [first, second] if self.alternates && self.surplus == 0 && first.time >= self.last => {
                    self.merge(first, second, events);
                }
                _ => self.give_run(None, events),
            }
        }
        events.len() >= Batch::TARGET
    }

    /// The same while events wait beside the queues. Stops when none does, or when nothing more can be given out.
    #[cold]
    fn fill_with_strays(&mut self, events: &mut Vec<Event>) {
        while events.len() < Batch::TARGET
            && let Some(stray) = self.strays.peek().map(Stray::head)
        {
            match self.heads.first() {
                Some(head) if *head < stray => {
                    if !self.may_go(head) {
                        return;
                    }
                    self.give_run(Some(stray), events);
                }
                _ => {
                    if !self.may_go(&stray) {
                        return;
                    }
                    self.strays.pop().into_iter().for_each(|stray| self.give(stray.event(), events));
                }
            }
        }
    }

    /// Merges two queues event by event until a block of one of them ends. While two CPUs wake each other's tasks, a
    /// run is only an event or two long, and finding its end would cost more than comparing each event.
    #[inline(never)]
    fn merge(&mut self, one: Head, other: Head, events: &mut Vec<Event>) {
        let waiting = |head: Head| self.queues[head.queue as usize].waiting(&self.blocks);
        let ((mut lefts, left_numbers), (mut rights, right_numbers)) = (waiting(one), waiting(other));
        let (all_lefts, all_rights) = (lefts.len(), rights.len());
        let until = self.until;
        for _ in 0..MAX_MERGED_AT_ONCE.min(Batch::TARGET - events.len()) {
            let ([event, more_lefts @ ..], [rival, more_rights @ ..]) = (lefts, rights) else { break };
            let is_left = event.time < rival.time
                || event.time == rival.time
                    && left_numbers[all_lefts - lefts.len()] < right_numbers[all_rights - rights.len()];
            let next = if is_left { event } else { rival };
            if next.time > until {
                break;
            }
            events.push(*next);
            if is_left { lefts = more_lefts } else { rights = more_rights }
        }
        let (from_left, from_right) = (all_lefts - lefts.len(), all_rights - rights.len());
        let given = from_left + from_right;
        if let Some(last) = events.last().filter(|_| given > 0) {
            self.last = last.time;
        }
        self.waiting -= given;
        self.alternates = from_left.min(from_right) * SHORT_RUN >= from_left.max(from_right);
        self.heads.clear();
        for (index, count) in [(one.queue, from_left), (other.queue, from_right)] {
            let queue = &mut self.queues[index as usize];
            queue.pass(count, &mut self.blocks);
            self.heads.extend(queue.earliest(&self.blocks).map(|(time, arrival)| Head { time, arrival, queue: index }));
        }
        // A sorted list is a valid heap.
        self.heads.sort_unstable();
    }

    /// Gives out the first event, and those after it in its block that come before all other queues and the stray.
    #[inline(always)]
    fn give_run(&mut self, stray: Option<Head>, events: &mut Vec<Event>) {
        let Some(&head) = self.heads.first() else { return };
        let rival = match self.heads[..] {
            [_, second, third, ..] => Some(second.min(third)),
            [_, second] => Some(second),
            _ => None,
        };
        let rival = match (rival, stray) {
            (Some(rival), Some(stray)) => Some(rival.min(stray)),
            _ => rival.or(stray),
        };
        if self.surplus == 0 && head.time >= self.last {
            self.give_surely(head, rival, events);
        } else {
            self.give_one_by_one(head.queue, rival, events);
        }
    }

    /// Gives out the released events of a queue's first block that are earlier than the rival.
    #[inline(always)]
    fn give_surely(&mut self, head: Head, rival: Option<Head>, events: &mut Vec<Event>) {
        let queue = &mut self.queues[head.queue as usize];
        let (block, _) = queue.waiting(&self.blocks);
        let waiting = &block[..block.len().min(Batch::TARGET - events.len())];
        let until = self.until;
        let count = match rival {
            Some(rival) => waiting.iter().take_while(|event| event.time < rival.time && event.time <= until).count(),
            None => waiting.iter().take_while(|event| event.time <= until).count(),
        };
        if let Some(last) = waiting[..count].last() {
            self.last = last.time;
        }
        let is_short = count <= SHORT_RUN;
        // A run that ends with its block may continue in the next one.
        self.alternates = is_short && count < block.len();
        if is_short {
            waiting[..count].iter().for_each(|event| events.push(*event));
        } else {
            waiting[..count].chunks(COPY_PIECE).for_each(|piece| events.extend_from_slice(piece));
        }
        queue.pass(count, &mut self.blocks);
        queue.fetch_next(&self.blocks);
        self.waiting -= count;
        match queue.earliest(&self.blocks) {
            // At equal times the arrival number decides.
            Some((time, _)) if rival.is_some_and(|rival| rival.time == time) => {
                self.give_one_by_one(head.queue, rival, events);
            }
            Some((time, arrival)) => self.replace_first(Some(Head { time, arrival, queue: head.queue })),
            None => self.replace_first(None),
        }
    }

    /// The same if times alone do not decide: events that are late, given out for lack of room, or at the same time as
    /// the rival.
    #[cold]
    fn give_one_by_one(&mut self, index: u32, rival: Option<Head>, events: &mut Vec<Event>) {
        while let Some((time, arrival)) = self.queues[index as usize].earliest(&self.blocks) {
            let head = Head { time, arrival, queue: index };
            if rival.is_some_and(|rival| rival < head) || !self.may_go(&head) || events.len() >= Batch::TARGET {
                return self.replace_first(Some(head));
            }
            let queue = &mut self.queues[index as usize];
            let (waiting, _) = queue.waiting(&self.blocks);
            let event = waiting[0];
            queue.pass(1, &mut self.blocks);
            self.give(event, events);
        }
        self.replace_first(None);
    }

    /// Gives out an event that has been taken from its queue.
    #[inline]
    fn give(&mut self, event: Event, events: &mut Vec<Event>) {
        if event.time > self.until {
            self.surplus -= 1;
        }
        self.late += u64::from(event.time < self.last);
        self.last = self.last.max(event.time);
        events.push(Event { time: self.last, ..event });
        self.waiting -= 1;
    }

    /// Replaces the first head: its queue now begins with another event, or is empty.
    #[inline(always)]
    fn replace_first(&mut self, head: Option<Head>) {
        match (head, self.heads.first_mut()) {
            (Some(head), Some(first)) => *first = head,
            _ => {
                self.heads.swap_remove(0);
            }
        }
        sink_first(&mut self.heads, Head::key);
    }

    /// The loss to report for late events, if there were any.
    pub fn loss(&self) -> Option<Loss> {
        (self.late > 0).then(|| Loss::new(LossKind::OutOfOrder, self.late))
    }

    /// Moves a head up the heap to its place.
    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heads[above] <= self.heads[at] {
                return;
            }
            self.heads.swap(above, at);
            at = above;
        }
    }
}

impl Head {
    /// Sort key: time, then arrival number, which is unique.
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.arrival)
    }
}

#[cfg(test)]
mod tests;
