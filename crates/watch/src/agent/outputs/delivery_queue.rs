//! A thread that delivers to one output, from a queue with an end, and tries again. When the watch ends it has until a time for what
//! waits; what it cannot deliver by then is left in the queue, so that it can be counted and kept.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::post::LONGEST;
use crate::agent::board::{Board, Published};
use crate::episode::Episode;

/// What may wait behind the one that is being delivered.
const QUEUE: usize = 32;
/// Tries of one delivery, and how long is waited before the second one; four times as long before each further one.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Tries of one delivery since the watch is to end. Where they fail, what is behind it is not tried.
const LAST_TRIES: u32 = 2;
/// Less is too short for a try.
const SHORTEST: Duration = Duration::from_millis(50);

/// What is delivered.
pub trait Thing: Clone + Send + 'static {
    /// The word that it is, which the next watch can deliver; `None` if it is only good now.
    fn word(&self) -> Option<Arc<Episode>>;
}

impl Thing for Arc<Episode> {
    fn word(&self) -> Option<Arc<Episode>> {
        Some(Arc::clone(self))
    }
}

impl Thing for Arc<Published> {
    fn word(&self) -> Option<Arc<Episode>> {
        None
    }
}

/// How a try went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It was taken.
    Done,
    /// Another try may help.
    Later(String),
    /// It will never be taken.
    Refused(String),
}

/// Delivers to one output.
#[derive(Debug)]
pub struct DeliveryQueue<T: Thing> {
    queue: Arc<Queue<T>>,
    board: Arc<Board>,
}

#[derive(Debug)]
struct Queue<T> {
    output: &'static str,
    waiting: Mutex<Waiting<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<T> {
    /// The first one stays until it is delivered, or given up.
    things: VecDeque<T>,
    /// How many of the first ones another watch has left: they take no room from new ones.
    others: usize,
    is_on_its_way: bool,
    /// Nothing more will come.
    is_closed: bool,
    /// The watch ends: nothing is delivered after this.
    until: Option<Instant>,
    /// Nothing is delivered any more. What comes still is left with the rest.
    is_over: bool,
    /// What was left has been taken: nothing more is noted.
    is_taken: bool,
    /// Another configuration holds: how this one fares is no problem of the watch's any more.
    is_former: bool,
}

impl<T> Default for Waiting<T> {
    fn default() -> Waiting<T> {
        let things = VecDeque::new();
        Waiting {
            things,
            others: 0,
            is_on_its_way: false,
            is_closed: false,
            until: None,
            is_over: false,
            is_taken: false,
            is_former: false,
        }
    }
}

impl<T> Waiting<T> {
    /// Whether one more may wait.
    fn has_room(&self) -> bool {
        let is_own_on_its_way = self.is_on_its_way && self.others == 0;
        self.things.len() - self.others < QUEUE + usize::from(is_own_on_its_way)
    }

    /// The first one is done with.
    fn pop(&mut self) {
        self.things.pop_front();
        self.others = self.others.saturating_sub(1);
        self.is_on_its_way = false;
    }
}

/// How one thing fared.
enum Fared {
    Delivered,
    GivenUp(String),
    /// The watch ends before it can be delivered.
    Left,
}

impl<T: Thing> DeliveryQueue<T> {
    /// Starts the thread. `deliver` is called for each thing, with the time that it may take, again while that may help.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        output: &'static str,
        board: Arc<Board>,
        deliver: impl FnMut(&T, Duration) -> Tried + Send + 'static,
    ) -> std::io::Result<DeliveryQueue<T>> {
        let queue = Arc::new(Queue { output, waiting: Mutex::default(), changed: Condvar::new() });
        let (theirs, noted) = (Arc::clone(&queue), Arc::clone(&board));
        std::thread::Builder::new()
            .name(format!("unstarve-{output}"))
            .stack_size(STACK)
            .spawn(move || theirs.run(deliver, &noted))?;
        Ok(DeliveryQueue { queue, board })
    }

    /// Puts something into the queue; what has no room there is counted. Also where nothing is delivered any more: it is left with the rest.
    pub fn send(&self, thing: T) {
        let mut waiting = self.queue.lock();
        if waiting.is_taken || !waiting.has_room() {
            drop(waiting);
            self.board.undelivered(self.queue.output);
            return;
        }
        waiting.things.push_back(thing);
        drop(waiting);
        self.queue.changed.notify_all();
    }

    /// Puts what another watch has left before all others, however much it is.
    pub fn send_first(&self, things: impl DoubleEndedIterator<Item = T>) {
        let mut waiting = self.queue.lock();
        for thing in things.rev() {
            waiting.things.push_front(thing);
            waiting.others += 1;
        }
        drop(waiting);
        self.queue.changed.notify_all();
    }
}

/// TLS needs some of it.
const STACK: usize = 512 << 10;

impl<T: Thing> Drop for DeliveryQueue<T> {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl<T: Thing> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut deliver: impl FnMut(&T, Duration) -> Tried, board: &Board) {
        while let Some(thing) = self.next() {
            let problem = match self.persist(&thing, &mut deliver, FIRST_PAUSE) {
                Fared::Delivered => None,
                Fared::GivenUp(why) => Some(why),
                Fared::Left => break,
            };
            let mut waiting = self.lock();
            if waiting.is_over {
                // It came too late: it is among those that are left.
                return;
            }
            waiting.pop();
            drop(waiting);
            board.write(|published| self.note(published, problem));
        }
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Notes how a delivery went.
    fn note(&self, published: &mut Published, problem: Option<String>) {
        if problem.is_some() {
            *published.counts.undelivered.entry(self.output).or_insert(0) += 1;
        }
        // Whoever replaces this one does so before he writes to the board, which is locked here.
        if self.lock().is_former {
            return;
        }
        match problem {
            None => drop(published.problems.remove(self.output)),
            Some(why) => drop(published.problems.insert(self.output, format!("{}: {why}", self.output))),
        }
    }

    /// The first one, once there is one; `None` if nothing more comes or the time is over.
    fn next(&self) -> Option<T> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(first) = waiting.things.front().cloned() {
                waiting.is_on_its_way = true;
                return Some(first);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn persist(&self, thing: &T, deliver: &mut impl FnMut(&T, Duration) -> Tried, first_pause: Duration) -> Fared {
        let (mut pause, mut last_tries) = (first_pause, 0);
        for attempt in 1.. {
            let Some(within) = self.time_left() else { return Fared::Left };
            let is_ending = self.lock().until.is_some();
            let why = match deliver(thing, within) {
                Tried::Done => return Fared::Delivered,
                Tried::Refused(why) => return Fared::GivenUp(why),
                Tried::Later(why) => why,
            };
            last_tries += u32::from(is_ending);
            if last_tries >= LAST_TRIES {
                return Fared::Left;
            }
            // That the watch is to end may have come during the try.
            let until = self.lock().until;
            if attempt >= TRIES && until.is_none() {
                return Fared::GivenUp(why);
            }
            self.pause(if until.is_some() { first_pause } else { pause }, until);
            pause *= 4;
        }
        Fared::Left
    }

    /// What a try may take; `None` if there is no time for one.
    fn time_left(&self) -> Option<Duration> {
        let waiting = self.lock();
        let left = waiting.until.map_or(LONGEST, |until| until.saturating_duration_since(Instant::now()));
        (!waiting.is_over && left >= SHORTEST).then_some(left.min(LONGEST))
    }

    /// A pause before another try; that the watch is to end by another time than `until` ends it.
    fn pause(&self, pause: Duration, until: Option<Instant>) {
        let waiting = self.lock();
        let same = |waiting: &mut Waiting<T>| waiting.until == until && !waiting.is_over;
        drop(self.changed.wait_timeout_while(waiting, pause, same));
    }
}

/// A courier, as the end of the watch sees it.
trait Ending: Send + Sync {
    fn output(&self) -> &'static str;
    fn end(&self, until: Instant);
    fn close(&self);
    fn replace(&self);
    /// Whether nothing waits, and nothing is on its way.
    fn is_idle(&self) -> bool;
    fn is_over(&self) -> bool;
    fn wait(&self, until: Instant);
    /// What was not delivered: words, and how many things that are none.
    fn take_left(&self) -> (Vec<Arc<Episode>>, u64);
}

impl<T: Thing> Ending for Queue<T> {
    fn output(&self) -> &'static str {
        self.output
    }

    fn end(&self, until: Instant) {
        self.lock().until = Some(until);
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn replace(&self) {
        self.lock().is_former = true;
    }

    fn is_idle(&self) -> bool {
        self.lock().things.is_empty()
    }

    fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn wait(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        drop(self.changed.wait_timeout_while(self.lock(), left, |waiting| !waiting.is_over));
    }

    fn take_left(&self) -> (Vec<Arc<Episode>>, u64) {
        let mut waiting = self.lock();
        (waiting.is_over, waiting.is_taken) = (true, true);
        waiting.others = 0;
        let (words, others): (Vec<_>, Vec<_>) =
            waiting.things.drain(..).map(|thing| thing.word()).partition(Option::is_some);
        drop(waiting);
        self.changed.notify_all();
        (words.into_iter().flatten().collect(), others.len() as u64)
    }
}

/// All couriers that have something to deliver, those of configurations before this one, too.
#[derive(Clone, Default)]
pub(crate) struct Deliveries(Arc<Mutex<Vec<Arc<dyn Ending>>>>);

/// What was not delivered in the end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Undelivered {
    /// Words for the webhook, in their order.
    pub words: Vec<Arc<Episode>>,
    /// By output, how many things that are no words.
    pub others: Vec<(&'static str, u64)>,
}

impl Deliveries {
    fn all(&self) -> Vec<Arc<dyn Ending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn add<T: Thing>(&self, courier: &DeliveryQueue<T>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|courier| !courier.is_over());
        let queue: Arc<Queue<T>> = Arc::clone(&courier.queue);
        all.push(queue);
    }

    /// Another configuration has begun with the last `newest` of them. The others deliver what they have.
    pub fn replace_all_but(&self, newest: usize) {
        let all = self.all();
        all.iter().take(all.len().saturating_sub(newest)).for_each(|courier| courier.replace());
    }

    /// Whether all of an output's have delivered all that they had.
    pub fn is_idle(&self, output: &str) -> bool {
        self.all().iter().all(|courier| courier.output() != output || courier.is_idle())
    }

    /// The watch ends: nothing is delivered after `until`, and no pause is longer than it has to be.
    pub fn end(&self, until: Instant) {
        self.all().iter().for_each(|courier| courier.end(until));
    }

    /// Waits until all is delivered that can be, until `until` at most; gives the rest. Nobody sends anything any more.
    pub fn finish(&self, until: Instant) -> Undelivered {
        let all = self.all();
        all.iter().for_each(|courier| courier.close());
        all.iter().for_each(|courier| courier.wait(until));
        let mut left = Undelivered::default();
        for courier in all {
            let (words, others) = courier.take_left();
            left.words.extend(words);
            left.others.extend((others > 0).then_some((courier.output(), others)));
        }
        left
    }
}

#[cfg(test)]
#[path = "delivery_queue_tests.rs"]
mod tests;
