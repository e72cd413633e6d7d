//! Run queues: which tasks wait for each CPU, and the fair shares of its runnable tasks.

use std::ops::{Index, IndexMut};

use unstarve_model::{Policy, Time};
use unstarve_sched::fairness::Fairness;

use crate::TaskKey;

/// The run queues of all CPUs.
#[derive(Debug, Default)]
pub(crate) struct RunQueues {
    list: Vec<RunQueue>,
    /// Each waiting task's index in its queue, so that it can leave in one step. Not stored in the tasks: when one leaves, the
    /// last of the queue takes its place, and a dense table is in the cache while that other task is not.
    places: Vec<u32>,
}

/// The run queue of one CPU.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// Tasks that wait here, unordered.
    waiting: Vec<TaskKey>,
    fairness: Fairness,
    /// Whether waiting tasks of a higher class are throttled.
    stops: bool,
    /// The time up to which it was not checked whether waiting tasks are throttled, because that took too many steps.
    not_looked: Time,
}

impl RunQueues {
    /// Adds the queue of the next CPU.
    pub fn add(&mut self) {
        self.list.push(RunQueue::default());
    }

    /// Appends a task to the CPU's queue, and returns the queue. The task must not be in any queue.
    #[inline]
    pub fn push(&mut self, index: usize, key: TaskKey) -> &mut RunQueue {
        let run_queue = &mut self.list[index];
        let queue = &mut run_queue.waiting;
        match self.places.get_mut(key.index()) {
            Some(place) => *place = queue.len() as u32,
            None => add_place(&mut self.places, key, queue.len() as u32),
        }
        queue.push(key);
        run_queue
    }

    /// Removes a task from the CPU's queue, and returns the queue.
    #[inline]
    pub fn remove(&mut self, index: usize, key: TaskKey) -> &mut RunQueue {
        let run_queue = &mut self.list[index];
        let queue = &mut run_queue.waiting;
        let place = self.places[key.index()];
        debug_assert_eq!(queue.get(place as usize), Some(&key));
        queue.swap_remove(place as usize);
        if let Some(moved) = queue.get(place as usize) {
            self.places[moved.index()] = place;
        }
        run_queue
    }
}

#[cold]
fn add_place(places: &mut Vec<u32>, key: TaskKey, place: u32) {
    places.resize(key.index(), 0);
    places.push(place);
}

impl Index<usize> for RunQueues {
    type Output = RunQueue;

    #[inline(always)]
    fn index(&self, index: usize) -> &RunQueue {
        &self.list[index]
    }
}

impl IndexMut<usize> for RunQueues {
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut RunQueue {
        &mut self.list[index]
    }
}

impl RunQueue {
    /// The tasks that wait here.
    #[inline(always)]
    pub fn waiting(&self) -> &[TaskKey] {
        &self.waiting
    }

    /// How many tasks wait here.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no task waits here.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The ideal fair shares of the runnable tasks.
    #[inline(always)]
    pub fn fairness(&mut self) -> &mut Fairness {
        &mut self.fairness
    }

    /// A copy of the same, to compute ahead with.
    pub fn fairness_so_far(&self) -> Fairness {
        self.fairness
    }

    /// The total weight of the runnable tasks.
    pub fn weight(&self) -> u64 {
        self.fairness.weight()
    }

    /// Whether waiting tasks of a higher class are throttled.
    #[inline(always)]
    pub fn is_limited(&self) -> bool {
        self.stops
    }

    /// Records whether such tasks are throttled.
    pub fn set_limited(&mut self, stops: bool) {
        self.stops = stops;
    }

    /// Skips the check whether waiting tasks are throttled: they may be.
    pub fn skip_look(&mut self, now: Time) {
        (self.stops, self.not_looked) = (true, now);
    }

    /// The time up to which it is unknown why a task of this class waits here.
    #[inline(always)]
    pub fn unknown_until(&self, class: Policy) -> Time {
        if class > Policy::Fair { self.not_looked } else { Time(0) }
    }
}
