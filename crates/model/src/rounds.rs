//! Buffers that go round between who fills them and who empties them.

use std::sync::mpsc::{self, Receiver, Sender};

/// Where buffers to be filled come from: some new ones, then those that come back.
#[derive(Debug)]
pub struct Empties<T> {
    new: usize,
    spare: Vec<T>,
    returned: Receiver<Vec<T>>,
}

/// Where used buffers go, some at once: to wake a thread whose CPU has gone to sleep takes microseconds, and so who waits
/// for a buffer is woken for several.
#[derive(Debug)]
pub struct Returns<T> {
    at_once: usize,
    done: Vec<T>,
    to: Sender<Vec<T>>,
}

/// The two ends of a round of so many buffers, which come back `at_once`. That and what who empties them keeps must be fewer
/// than there are, or both sides wait for ever.
pub fn rounds<T>(buffers: usize, at_once: usize) -> (Empties<T>, Returns<T>) {
    assert!(at_once < buffers, "{at_once} of {buffers} buffers come back at once");
    let (to, returned) = mpsc::channel();
    (Empties { new: buffers, spare: Vec::new(), returned }, Returns { at_once, done: Vec::new(), to })
}

impl<T> Empties<T> {
    /// The next one, as soon as there is one; `None` if nobody empties them any longer.
    pub fn next(&mut self, make: impl FnOnce() -> T) -> Option<T> {
        if self.spare.is_empty() {
            match self.returned.try_recv() {
                Ok(returned) => self.spare = returned,
                Err(_) if self.new > 0 => {
                    self.new -= 1;
                    return Some(make());
                }
                Err(_) => self.spare = self.returned.recv().ok()?,
            }
        }
        self.spare.pop()
    }
}

impl<T> Returns<T> {
    /// The buffer has been used.
    pub fn give(&mut self, buffer: T) {
        self.done.push(buffer);
        if self.done.len() >= self.at_once {
            // Who fills them may have ended; then nobody needs them again.
            let _ = self.to.send(std::mem::take(&mut self.done));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_same_few_buffers_are_filled_again_and_again() {
        let (mut empties, mut returns) = rounds::<Vec<u32>>(4, 3);
        let (full, filled) = mpsc::channel();
        let writer = thread::spawn(move || {
            let mut made = 0;
            for number in 0..10_000 {
                let mut buffer = empties.next(|| {
                    made += 1;
                    Vec::new()
                })?;
                buffer.push(number);
                full.send(buffer).ok()?;
            }
            Some(made)
        });
        let mut next = 0;
        while let Ok(mut buffer) = filled.recv() {
            assert_eq!(std::mem::take(&mut buffer), [next]);
            next += 1;
            returns.give(buffer);
        }
        assert_eq!((next, writer.join().ok().flatten().is_some_and(|made| made <= 4)), (10_000, true));
    }

    #[test]
    fn who_fills_them_hears_that_nobody_empties_them() {
        let (mut empties, returns) = rounds::<u8>(2, 1);
        assert_eq!((empties.next(|| 1), empties.next(|| 2)), (Some(1), Some(2)));
        drop(returns);
        assert_eq!(empties.next(|| 3), None);
    }
}
