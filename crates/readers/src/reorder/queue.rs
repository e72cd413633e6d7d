//! Queues of waiting events, one per CPU, in blocks from a shared pool.
//!
//! In each round a recorder writes one CPU's events after the other's, so one queue grows while others shrink. Blocks
//! that one queue has emptied are reused by the next. The memory touched is little more than what waits at once (the
//! first and last block of a queue are not full, and blocks are allocated eight at a time), and nothing is copied when
//! a queue grows.

use std::ops::Range;

use unstarve_model::{Context, CpuId, Event, EventKind, Issuer, Time, prefetch};

/// Events of one CPU in time order, and their arrival numbers.
#[derive(Debug)]
pub struct Block {
    events: [Event; Block::LENGTH],
    /// Separate from the events, so that a run of events can be given out as one piece of memory.
    arrivals: [u64; Block::LENGTH],
    /// The next block of the queue, or of the free list.
    next: BlockId,
}

impl Block {
    /// About a page of events: there may be a block for each of thousands of CPUs.
    pub const LENGTH: usize = 64;

    fn blank() -> Block {
        let kind = EventKind::Lost { count: None };
        let event = Event { time: Time(0), cpu: CpuId(0), issuer: Issuer::new(None, Context::Unknown), kind };
        Block { events: [event; Block::LENGTH], arrivals: [0; Block::LENGTH], next: BlockId::NONE }
    }

    /// Inserts an event at the start of `places` and shifts the others by one. Returns the event after the end, which
    /// had to make room.
    fn insert(&mut self, places: Range<usize>, (event, arrival): (Event, u64)) -> (Event, u64) {
        let (first, behind) = (places.start, places.end);
        let was = (self.events[behind], self.arrivals[behind]);
        self.events.copy_within(places.clone(), first + 1);
        self.arrivals.copy_within(places, first + 1);
        (self.events[first], self.arrivals[first]) = (event, arrival);
        was
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BlockId(u32);

impl BlockId {
    const NONE: BlockId = BlockId(u32::MAX);
}

/// The pool of blocks, in use or free.
#[derive(Debug)]
pub struct Blocks {
    slabs: Vec<Box<[Block; Blocks::SLAB]>>,
    /// The block freed last, which is most likely still in the cache.
    free: BlockId,
}

impl Blocks {
    /// Blocks allocated at a time.
    const SLAB: usize = 8;

    pub fn new() -> Blocks {
        Blocks { slabs: Vec::new(), free: BlockId::NONE }
    }

    #[inline(always)]
    fn get(&self, BlockId(id): BlockId) -> &Block {
        &self.slabs[id as usize / Blocks::SLAB][id as usize % Blocks::SLAB]
    }

    #[inline(always)]
    fn get_mut(&mut self, BlockId(id): BlockId) -> &mut Block {
        &mut self.slabs[id as usize / Blocks::SLAB][id as usize % Blocks::SLAB]
    }

    fn take(&mut self) -> BlockId {
        if self.free == BlockId::NONE {
            self.make();
        }
        let id = self.free;
        let block = self.get_mut(id);
        let next = std::mem::replace(&mut block.next, BlockId::NONE);
        self.free = next;
        id
    }

    #[cold]
    fn make(&mut self) {
        let first = (self.slabs.len() * Blocks::SLAB) as u32;
        // Allocated on the heap directly: it is too large for the stack.
        let slab: Box<[Block]> = (0..Blocks::SLAB).map(|_| Block::blank()).collect();
        let Ok(slab) = slab.try_into() else { unreachable!("as long as it was made") };
        self.slabs.push(slab);
        (first..).take(Blocks::SLAB).for_each(|id| self.give_back(BlockId(id)));
    }

    fn give_back(&mut self, id: BlockId) {
        self.get_mut(id).next = self.free;
        self.free = id;
    }

    /// The number of blocks allocated.
    #[cfg(test)]
    pub fn made(&self) -> usize {
        self.slabs.len() * Blocks::SLAB
    }
}

/// The events of one CPU in time order.
#[derive(Debug)]
pub struct Queue {
    /// The block with the first waiting event, and the block with room for the next one. All blocks between them are
    /// full.
    head: BlockId,
    tail: BlockId,
    /// The block before the tail. Meaningless while tail and head are the same.
    before_tail: BlockId,
    /// Index of the first event in the head block, and of the next free place in the tail block.
    first: usize,
    end: usize,
    /// The latest time of any event so far.
    pub latest: Time,
}

impl Queue {
    pub fn new() -> Queue {
        let nowhere = Block::LENGTH;
        let none = BlockId::NONE;
        Queue { head: none, tail: none, before_tail: none, first: nowhere, end: nowhere, latest: Time(0) }
    }

    /// The indices of waiting events in the first block. Empty only if the whole queue is empty.
    #[inline(always)]
    fn places(&self) -> Range<usize> {
        self.first..if self.head == self.tail { self.end } else { Block::LENGTH }
    }

    /// The first waiting events that are contiguous: at most a block.
    #[inline(always)]
    pub fn waiting<'a>(&self, blocks: &'a Blocks) -> (&'a [Event], &'a [u64]) {
        let places = self.places();
        if places.is_empty() {
            return (&[], &[]);
        }
        let block = blocks.get(self.head);
        (&block.events[places.clone()], &block.arrivals[places])
    }

    /// Time and arrival number of the first waiting event.
    #[inline(always)]
    pub fn earliest(&self, blocks: &Blocks) -> Option<(Time, u64)> {
        if self.places().is_empty() {
            return None;
        }
        let block = blocks.get(self.head);
        Some((block.events[self.first].time, block.arrivals[self.first]))
    }

    /// Whether exactly one event waits.
    #[inline(always)]
    pub fn has_one(&self) -> bool {
        self.head == self.tail && self.end == self.first + 1
    }

    /// Where to write the next event and its number; [`Queue::keep`] then adds them.
    #[inline(always)]
    pub fn room<'a>(&mut self, blocks: &'a mut Blocks) -> (&'a mut Event, &'a mut u64) {
        if self.end >= Block::LENGTH {
            self.extend(blocks);
        }
        let block = blocks.get_mut(self.tail);
        (&mut block.events[self.end], &mut block.arrivals[self.end])
    }

    #[cold]
    fn extend(&mut self, blocks: &mut Blocks) {
        let id = blocks.take();
        if self.tail == BlockId::NONE {
            (self.head, self.first) = (id, 0);
        } else {
            blocks.get_mut(self.tail).next = id;
        }
        (self.before_tail, self.tail, self.end) = (self.tail, id, 0);
    }

    /// Adds the event written to [`Queue::room`] at the end.
    #[inline(always)]
    pub fn keep(&mut self) {
        self.end += 1;
    }

    /// Adds the event written to [`Queue::room`] at its place in time order. Returns how many events were moved. Does
    /// nothing and returns `None` if its place is before the last two blocks, or if it would be the first.
    pub fn keep_in_order(&mut self, blocks: &mut Blocks) -> Option<usize> {
        let tail = blocks.get(self.tail);
        let late = (tail.events[self.end], tail.arrivals[self.end]);
        let first_of = |block| if self.head == block { self.first } else { 0 };
        let begin = first_of(self.tail);
        let place = begin + tail.events[begin..self.end].partition_point(|other| other.time <= late.0.time);
        if place > begin {
            blocks.get_mut(self.tail).insert(place..self.end, late);
            self.end += 1;
            return Some(self.end - 1 - place);
        }
        if self.head == self.tail {
            return None;
        }
        let begin_before = first_of(self.before_tail);
        let before = &blocks.get(self.before_tail).events[begin_before..];
        let place = begin_before + before.partition_point(|other| other.time <= late.0.time);
        if place == begin_before {
            return None;
        }
        // The event pushed out of the block before: its last one, or the late event itself.
        let carried = match place {
            Block::LENGTH => late,
            _ => blocks.get_mut(self.before_tail).insert(place..Block::LENGTH - 1, late),
        };
        blocks.get_mut(self.tail).insert(0..self.end, carried);
        self.end += 1;
        Some(Block::LENGTH - place + self.end - 1)
    }

    /// Removes the first `count` events, at most as many as [`Queue::waiting`] returned.
    #[inline(always)]
    pub fn pass(&mut self, count: usize, blocks: &mut Blocks) {
        self.first += count;
        if self.head != self.tail {
            if self.first >= Block::LENGTH {
                let used = self.head;
                (self.head, self.first) = (blocks.get(used).next, 0);
                blocks.give_back(used);
            }
        } else if self.first == self.end {
            (self.first, self.end) = (0, 0);
        }
    }

    /// Drops the events that arrived at or after `limit`. Returns how many are left.
    pub fn retain_before(&mut self, limit: u64, blocks: &mut Blocks) -> usize {
        let all = std::mem::replace(self, Queue { latest: self.latest, ..Queue::new() });
        let (mut id, mut kept) = (all.head, 0);
        while id != BlockId::NONE {
            let first = if id == all.head { all.first } else { 0 };
            let end = if id == all.tail { all.end } else { Block::LENGTH };
            for place in first..end {
                let block = blocks.get(id);
                let (event, arrival) = (block.events[place], block.arrivals[place]);
                if arrival < limit {
                    let room = self.room(blocks);
                    (*room.0, *room.1) = (event, arrival);
                    self.keep();
                    kept += 1;
                }
            }
            let next = blocks.get(id).next;
            blocks.give_back(id);
            id = next;
        }
        kept
    }

    /// Prefetches what this queue's next turn will read. With many CPUs there are too many queues for the hardware
    /// prefetcher.
    #[inline(always)]
    pub fn fetch_next(&self, blocks: &Blocks) {
        if self.places().is_empty() {
            return;
        }
        let block = blocks.get(self.head);
        if let (Some(event), Some(arrival)) = (block.events.get(self.first + 1), block.arrivals.get(self.first + 1)) {
            prefetch(event);
            prefetch(arrival);
        }
    }
}
