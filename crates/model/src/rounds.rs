//! A fixed set of buffers that circulate between a thread that fills them and one that empties them.

use std::sync::mpsc::{self, Receiver, Sender};

/// Provides empty buffers: new ones first, then those that were returned.
#[derive(Debug)]
pub struct Empties<T> {
    new: usize,
    spare: Vec<T>,
    returned: Receiver<Vec<T>>,
}

/// Returns used buffers, several at a time. To wake a thread on an idle CPU takes microseconds, so a thread that waits
/// for buffers is woken once for several.
#[derive(Debug)]
pub struct Returns<T> {
    at_once: usize,
    done: Vec<T>,
    to: Sender<Vec<T>>,
}

/// The two ends of a circulation of `buffers` buffers, returned `at_once` at a time. `at_once` plus the number that the
/// emptying thread holds must be less than `buffers`, or both threads wait forever.
pub fn rounds<T>(buffers: usize, at_once: usize) -> (Empties<T>, Returns<T>) {
    assert!(at_once < buffers, "{at_once} of {buffers} buffers come back at once");
    let (to, returned) = mpsc::channel();
    (Empties { new: buffers, spare: Vec::new(), returned }, Returns { at_once, done: Vec::new(), to })
}

impl<T> Empties<T> {
    /// The next buffer, waiting if necessary; `None` if the emptying thread has ended.
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
    /// Returns a used buffer.
    pub fn give(&mut self, buffer: T) {
        self.done.push(buffer);
        if self.done.len() >= self.at_once {
            // If the filling thread has ended, nobody needs the buffers.
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
    fn the_filling_side_learns_that_the_emptying_side_has_ended() {
        let (mut empties, returns) = rounds::<u8>(2, 1);
        assert_eq!((empties.next(|| 1), empties.next(|| 2)), (Some(1), Some(2)));
        drop(returns);
        assert_eq!(empties.next(|| 3), None);
    }
}
