//! Delivers to one output from a bounded queue, in a thread, with retries. At shutdown it has a deadline; what is left then is counted and
//! kept for the next start.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Message, Tried, WEBHOOK};
use crate::agent::board::{Board, Published};
use crate::episode::Episode;

/// Time limit of a try.
pub const LONGEST_TRY: Duration = Duration::from_secs(10);
/// Messages that may wait behind the one being delivered.
const QUEUE: usize = 32;
/// Tries of a message, and the pause before the second; each further pause is four times as long.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Tries of a message during shutdown. If they fail, the rest is not tried.
const LAST_TRIES: u32 = 2;
/// Minimum time for a try.
const SHORTEST: Duration = Duration::from_millis(50);

/// Delivers to one output.
#[derive(Debug)]
pub struct DeliveryQueue {
    queue: Arc<Queue>,
    board: Arc<Board>,
}

#[derive(Debug)]
struct Queue {
    output: &'static str,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    /// The first stays until it is delivered or given up.
    messages: VecDeque<Message>,
    /// How many of the first ones the previous run has left: they take no room from new ones.
    others: usize,
    is_on_its_way: bool,
    /// Nothing is sent any more.
    is_closed: bool,
    /// Deadline of the shutdown.
    until: Option<Instant>,
    /// Nothing is delivered any more; what is still sent is left with the rest.
    is_over: bool,
    /// The rest has been taken; what is still sent is counted.
    is_taken: bool,
    /// Belongs to an earlier configuration: its failures are not reported as problems.
    is_former: bool,
}

impl Waiting {
    /// Whether another message fits.
    fn has_room(&self) -> bool {
        let is_own_on_its_way = self.is_on_its_way && self.others == 0;
        self.messages.len() - self.others < QUEUE + usize::from(is_own_on_its_way)
    }

    /// Removes the oldest message that waits and that a newer one replaces; returns whether there was one.
    fn drop_outdated(&mut self) -> bool {
        let first = usize::from(self.is_on_its_way).max(self.others);
        let outdated = self.messages.iter().skip(first).position(Message::is_replaced_by_a_newer_one);
        outdated.and_then(|at| self.messages.remove(first + at)).is_some()
    }

    /// Removes the first one.
    fn pop(&mut self) {
        self.messages.pop_front();
        self.others = self.others.saturating_sub(1);
        self.is_on_its_way = false;
    }
}

/// Outcome of a message.
enum Fared {
    Delivered,
    GivenUp(String),
    /// Shutdown came first.
    Left,
}

impl DeliveryQueue {
    /// Starts the thread. `deliver` is called for each message, with the time it may take, and again while that may help.
    pub fn start(
        output: &'static str,
        board: Arc<Board>,
        deliver: impl FnMut(&Message, Duration) -> Tried + Send + 'static,
    ) -> std::io::Result<DeliveryQueue> {
        let queue = Arc::new(Queue { output, waiting: Mutex::default(), changed: Condvar::new() });
        let (theirs, noted) = (Arc::clone(&queue), Arc::clone(&board));
        std::thread::Builder::new()
            .name(format!("unstarve-{output}"))
            .stack_size(STACK)
            .spawn(move || theirs.run(deliver, &noted))?;
        Ok(DeliveryQueue { queue, board })
    }

    /// Puts a message into the queue. Without room one is counted as undelivered: the oldest that is outdated by now, else this
    /// one. After the end it is left with the rest.
    pub fn send(&self, message: Message) {
        let mut waiting = self.queue.lock();
        let has_room = !waiting.is_taken && waiting.has_room();
        if has_room || !waiting.is_taken && waiting.drop_outdated() {
            waiting.messages.push_back(message);
        }
        drop(waiting);
        self.queue.changed.notify_all();
        if !has_room {
            self.board.undelivered(self.queue.output);
        }
    }

    /// Puts what the previous run has left before all others, without limit.
    pub fn send_first(&self, messages: impl DoubleEndedIterator<Item = Message>) {
        let mut waiting = self.queue.lock();
        for message in messages.rev() {
            waiting.messages.push_front(message);
            waiting.others += 1;
        }
        drop(waiting);
        self.queue.changed.notify_all();
    }
}

/// Enough for TLS.
const STACK: usize = 512 << 10;

impl Drop for DeliveryQueue {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut deliver: impl FnMut(&Message, Duration) -> Tried, board: &Board) {
        while let Some(message) = self.next() {
            let problem = match self.persist(&message, &mut deliver, FIRST_PAUSE) {
                Fared::Delivered => None,
                Fared::GivenUp(why) => Some(why),
                Fared::Left => break,
            };
            let mut waiting = self.lock();
            if waiting.is_over {
                // Too late: it counts as left.
                return;
            }
            waiting.pop();
            drop(waiting);
            board.write(|published| self.note(published, problem));
        }
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Records the outcome of a delivery.
    fn note(&self, published: &mut Published, problem: Option<String>) {
        if problem.is_some() {
            *published.counts.undelivered.entry(self.output).or_insert(0) += 1;
        }
        // `replace` comes before its caller writes to the board, which is locked here.
        if self.lock().is_former {
            return;
        }
        match problem {
            None => drop(published.problems.remove(self.output)),
            Some(why) => drop(published.problems.insert(self.output, format!("{}: {why}", self.output))),
        }
    }

    /// Waits for a message; `None` if none will come or the time is over.
    fn next(&self) -> Option<Message> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(first) = waiting.messages.front().cloned() {
                waiting.is_on_its_way = true;
                return Some(first);
            }
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn persist(
        &self,
        message: &Message,
        deliver: &mut impl FnMut(&Message, Duration) -> Tried,
        first_pause: Duration,
    ) -> Fared {
        let (mut pause, mut last_tries) = (first_pause, 0);
        for attempt in 1.. {
            let Some(within) = self.time_left() else { return Fared::Left };
            let is_ending = self.lock().until.is_some();
            let why = match deliver(message, within) {
                Tried::Done => return Fared::Delivered,
                Tried::Refused(why) => return Fared::GivenUp(why),
                Tried::Later(why) => why,
            };
            last_tries += u32::from(is_ending);
            if last_tries >= LAST_TRIES {
                return Fared::Left;
            }
            // Shutdown may have begun during the try.
            let until = self.lock().until;
            if attempt >= TRIES && until.is_none() {
                return Fared::GivenUp(why);
            }
            self.pause(if until.is_some() { first_pause } else { pause }, until);
            pause *= 4;
        }
        Fared::Left
    }

    /// Time for a try, if there is enough.
    fn time_left(&self) -> Option<Duration> {
        let waiting = self.lock();
        let left = waiting.until.map_or(LONGEST_TRY, |until| until.saturating_duration_since(Instant::now()));
        (!waiting.is_over && left >= SHORTEST).then_some(left.min(LONGEST_TRY))
    }

    /// Pauses before another try; a changed deadline ends the pause.
    fn pause(&self, pause: Duration, until: Option<Instant>) {
        let waiting = self.lock();
        let same = |waiting: &mut Waiting| waiting.until == until && !waiting.is_over;
        drop(self.changed.wait_timeout_while(waiting, pause, same));
    }
}

impl Queue {
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

    /// Whether nothing waits, and nothing is on its way.
    fn is_idle(&self) -> bool {
        self.lock().messages.is_empty()
    }

    fn is_over(&self) -> bool {
        self.lock().is_over
    }

    fn wait(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        drop(self.changed.wait_timeout_while(self.lock(), left, |waiting| !waiting.is_over));
    }

    /// What was not delivered: episodes, and how many other messages.
    fn take_left(&self) -> (Vec<Arc<Episode>>, u64) {
        let mut waiting = self.lock();
        (waiting.is_over, waiting.is_taken) = (true, true);
        waiting.others = 0;
        let (words, others): (Vec<_>, Vec<_>) =
            waiting.messages.drain(..).map(|message| message.episode()).partition(Option::is_some);
        drop(waiting);
        self.changed.notify_all();
        (words.into_iter().flatten().collect(), others.len() as u64)
    }
}

/// All queues that have something to deliver, those of earlier configurations too.
#[derive(Clone, Default)]
pub struct Deliveries(Arc<Mutex<Vec<Arc<Queue>>>>);

/// What was not delivered in the end.
#[derive(Debug, Default, PartialEq)]
pub struct Undelivered {
    /// Episodes for the webhook, in their order.
    pub words: Vec<Arc<Episode>>,
    /// By output, how many other messages.
    pub others: Vec<(&'static str, u64)>,
}

impl Deliveries {
    fn all(&self) -> Vec<Arc<Queue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn add(&self, new: &DeliveryQueue) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|queue| !queue.is_over());
        all.push(Arc::clone(&new.queue));
    }

    /// A new configuration uses the last `newest` queues. The others deliver what they have, and end.
    pub fn replace_all_but(&self, newest: usize) {
        let all = self.all();
        all.iter().take(all.len().saturating_sub(newest)).for_each(|queue| queue.replace());
    }

    /// Whether all queues of an output are empty.
    pub fn is_idle(&self, output: &str) -> bool {
        self.all().iter().all(|queue| queue.output != output || queue.is_idle())
    }

    /// The watch ends: nothing is delivered after `until`, and no pause is longer than it has to be.
    pub fn end(&self, until: Instant) {
        self.all().iter().for_each(|queue| queue.end(until));
    }

    /// Delivers as much as possible until `until`; returns the rest. Nothing may be sent afterwards.
    pub fn finish(&self, until: Instant) -> Undelivered {
        let all = self.all();
        all.iter().for_each(|queue| queue.close());
        all.iter().for_each(|queue| queue.wait(until));
        let mut left = Undelivered::default();
        for queue in all {
            let (words, mut others) = queue.take_left();
            // The next watch delivers what is kept by the webhook alone.
            match queue.output == WEBHOOK {
                true => left.words.extend(words),
                false => others += words.len() as u64,
            }
            left.others.extend((others > 0).then_some((queue.output, others)));
        }
        left
    }
}

#[cfg(test)]
#[path = "delivery_queue_tests.rs"]
mod tests;
