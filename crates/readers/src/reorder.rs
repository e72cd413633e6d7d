mod queue;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use unstarve_model::{Batch, CpuId, Event, EventKind, Issuer, Loss, LossKind, Nanos, Time};

use crate::heap::sink_first;
use queue::{Blocks, Queue};

/// Puts events that arrive roughly in order into order, in bounded memory.
///
/// Recorders drain one CPU's ring buffer after the other, so a file holds runs that are sorted within themselves and
/// overlap. Events wait here, each CPU's in a queue of its own, until the format says that nothing earlier can come
/// ([`Reorder::release`]) or until too many wait; then the queues are merged. Equal times keep the order of arrival. An
/// event that comes after later ones have been given out is moved to the last time given and counted.
///
/// An event that is earlier than the last of its CPU is put into the queue if its place is in the last two blocks and not the
/// first of all, and otherwise waits in a heap beside the queues: whatever the order, an event takes steps by the logarithm
/// of how many wait.
#[derive(Debug)]
pub struct Reorder {
    queues: Vec<Queue>,
    blocks: Blocks,
    /// The queue of each CPU; [`NO_QUEUE`] for those that have had no event.
    of_cpu: Vec<u32>,
    /// A binary heap of the first event in each queue that has one, the earliest first.
    heads: Vec<Head>,
    /// Events that came after many later ones of their CPU, the earliest first. They are in no queue.
    strays: BinaryHeap<Stray>,
    waiting: usize,
    arrived: u64,
    /// What lies no later may be given out.
    until: Time,
    /// As many more may be given out whatever their time.
    surplus: usize,
    limit: usize,
    last: Time,
    late: u64,
    /// The latest runs of events of one CPU were short.
    alternates: bool,
    /// A CPU's events came in another order than that of time.
    mixed: bool,
    /// How many events were moved within their queue.
    #[cfg(test)]
    moved: usize,
}

/// How many events have arrived.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Arrivals(u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Head {
    time: Time,
    arrival: u64,
    queue: u32,
}

/// An event that waits beside the queues, in parts: a whole one would be aligned, and so take two lines with its number.
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

    /// Where it stands among the first events of the queues.
    fn head(&self) -> Head {
        Head { time: self.time, arrival: self.arrival, queue: NO_QUEUE }
    }
}

/// The greatest of a [`BinaryHeap`] comes out first: the earliest.
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

/// Runs of so few events are copied one by one, which is less than a call.
const SHORT: usize = 3;

/// So many are merged one by one before it is asked again whether runs are short.
const MERGED: usize = 64;

/// So many events are copied by one call. glibc copies 2 KiB and more by `rep movsb`, of which callgrind counts each byte; pieces take
/// no longer by the clock.
const PIECE: usize = 16;

/// Events of one CPU may overtake each other by as much: one that an interrupt issues while another is being written.
const NESTING: Nanos = Nanos::from_micros(100);

impl Reorder {
    /// At most `limit` events wait; beyond it the older half is given out.
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

    /// At most `limit` events wait from now on.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(2);
    }

    /// Takes an event in. The caller gives out what is released before it adds more than a record's worth.
    #[inline]
    pub fn push(&mut self, event: Event) {
        self.push_with(event.cpu, |place| {
            *place = event;
            true
        });
    }

    /// Takes in the event of that CPU which `write` puts where it is to stay, if it does; whether it did. What has just been
    /// written in small pieces is slow to copy.
    #[inline(always)]
    pub fn push_with(&mut self, cpu: CpuId, write: impl FnOnce(&mut Event) -> bool) -> bool {
        let mut index = self.of_cpu.get(cpu.index()).copied().unwrap_or(NO_QUEUE);
        // No queue has that number.
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

    /// The event behind the last is earlier than one which its CPU has already issued.
    #[cold]
    fn push_late(&mut self, index: u32, time: Time) {
        let queue = &mut self.queues[index as usize];
        self.mixed |= time + NESTING < queue.latest;
        match queue.keep_in_order(&mut self.blocks) {
            Some(_moved) => {
                #[cfg(test)]
                {
                    self.moved += _moved;
                }
            }
            // What is first in a queue stands among the heads, where it could not be exchanged in a few steps.
            None => {
                let (event, arrival) = queue.room(&mut self.blocks);
                self.strays.push(Stray::new(*event, *arrival));
            }
        }
    }

    /// How many events have arrived so far.
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.arrived)
    }

    /// Drops those that arrived after so many and still wait.
    pub fn take_back(&mut self, Arrivals(first): Arrivals) {
        self.heads.clear();
        self.strays.retain(|stray| stray.arrival < first);
        self.waiting = self.strays.len();
        for (index, queue) in (0..).zip(&mut self.queues) {
            self.waiting += queue.retain_before(first, &mut self.blocks);
            let head = queue.earliest(&self.blocks);
            self.heads.extend(head.map(|(time, arrival)| Head { time, arrival, queue: index }));
        }
        // Sorted is a heap.
        self.heads.sort_unstable();
    }

    /// Nothing earlier than or at `time` can come any more.
    pub fn release(&mut self, time: Time) {
        self.until = self.until.max(time);
    }

    /// Nothing can come any more at all.
    pub fn release_all(&mut self) {
        self.release(Time(u64::MAX));
    }

    /// For a source that has one buffer for each of `cpus` CPUs, and gives the content of each in order: what all CPUs
    /// have gone beyond is released.
    pub fn release_passed(&mut self, cpus: u32) {
        if self.mixed || self.queues.len() != cpus as usize {
            return;
        }
        if let Some(passed) = self.queues.iter().map(|queue| queue.latest).min() {
            self.release(Time(passed.0.saturating_sub(NESTING.0)));
        }
    }

    /// Whether that event may be given out.
    #[inline(always)]
    fn may_go(&self, head: &Head) -> bool {
        self.surplus > 0 || head.time <= self.until
    }

    /// Moves released events to the end of `events` until it holds [`Batch::TARGET`]; whether it does.
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

    /// The same while events wait beside the queues: until none does, and otherwise until there is nothing to give out.
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

    /// Gives out some of what is released of two queues, until a block of one of them ends. While two CPUs wake each other's tasks a run is an
    /// event or two, and to look for its end takes longer than to compare each event.
    #[inline(never)]
    fn merge(&mut self, one: Head, other: Head, events: &mut Vec<Event>) {
        let waiting = |head: Head| self.queues[head.queue as usize].waiting(&self.blocks);
        let ((mut lefts, left_numbers), (mut rights, right_numbers)) = (waiting(one), waiting(other));
        let (all_lefts, all_rights) = (lefts.len(), rights.len());
        let until = self.until;
        for _ in 0..MERGED.min(Batch::TARGET - events.len()) {
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
        self.alternates = from_left.min(from_right) * SHORT >= from_left.max(from_right);
        self.heads.clear();
        for (index, count) in [(one.queue, from_left), (other.queue, from_right)] {
            let queue = &mut self.queues[index as usize];
            queue.pass(count, &mut self.blocks);
            self.heads.extend(queue.earliest(&self.blocks).map(|(time, arrival)| Head { time, arrival, queue: index }));
        }
        // Sorted is a heap.
        self.heads.sort_unstable();
    }

    /// Gives out the first event, and those that follow it in its block before any other CPU's and the stray.
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

    /// Gives out what is released of a queue's first block and earlier than the rival.
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
        let is_short = count <= SHORT;
        // What ends with its block may go on in the next.
        self.alternates = is_short && count < block.len();
        if is_short {
            waiting[..count].iter().for_each(|event| events.push(*event));
        } else {
            waiting[..count].chunks(PIECE).for_each(|piece| events.extend_from_slice(piece));
        }
        queue.pass(count, &mut self.blocks);
        queue.fetch_next(&self.blocks);
        self.waiting -= count;
        match queue.earliest(&self.blocks) {
            // At the rival's time the number decides.
            Some((time, _)) if rival.is_some_and(|rival| rival.time == time) => {
                self.give_one_by_one(head.queue, rival, events);
            }
            Some((time, arrival)) => self.replace_first(Some(Head { time, arrival, queue: head.queue })),
            None => self.replace_first(None),
        }
    }

    /// The same where times alone do not decide: events that come too late, that are given out for want of room, or at the same
    /// time as the rival.
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

    /// Gives out an event that is in no queue any longer.
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

    /// The queue that was first now begins with another event, or is empty.
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

    /// The loss to report for events that came too late, if there were any.
    pub fn loss(&self) -> Option<Loss> {
        (self.late > 0).then(|| Loss::new(LossKind::OutOfOrder, self.late))
    }

    /// Moves a head up to where it belongs.
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
    /// In the order of heads; no two have one number.
    #[inline(always)]
    fn key(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.arrival)
    }
}

#[cfg(test)]
mod tests;
