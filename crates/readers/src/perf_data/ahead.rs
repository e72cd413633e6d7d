//! Reads a section of a file ahead of who decodes it.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use unstarve_model::{Returns, rounds};

use crate::input::{PAGE, Positioned, landing};

/// A record is at most 64 KiB long, so what is left of a block is shorter.
pub const ROOM: usize = 64 << 10;
/// Blocks stay in a core's cache between being read and being decoded.
pub const BLOCK: usize = 256 << 10;
const BLOCKS: usize = 6;
/// Of the others one is in use, and the rest keeps both sides at work.
const RETURNED_AT_ONCE: usize = 2;

/// The blocks of a section, one after the other.
pub struct Ahead {
    full: Receiver<io::Result<Block>>,
    used: Returns<Vec<u8>>,
}

/// Room for the rest of the block before, then what was read from `begin` on.
struct Block {
    bytes: Vec<u8>,
    begin: usize,
    length: usize,
}

/// The length of a block's buffer: room for what is left of the one before, and for the block to land where it is read fastest.
pub const BUFFER: usize = ROOM + PAGE + BLOCK;

impl Ahead {
    /// Starts reading from `start` to `end`; the thread ends with the section, or when `self` is gone.
    pub fn new(file: Positioned, start: u64, end: u64) -> Ahead {
        let (send, full) = mpsc::channel();
        let (mut empties, used) = rounds(BLOCKS, RETURNED_AT_ONCE);
        thread::spawn(move || {
            let mut at = start;
            while at < end {
                // The kernel gives zeroed pages, which need not be written again.
                let Some(mut bytes) = empties.next(|| vec![0; BUFFER]) else { return };
                let wanted = BLOCK.min(usize::try_from(end - at).unwrap_or(BLOCK));
                let begin = ROOM + landing(&bytes[ROOM..], at);
                let read = file.read_at(at, &mut bytes[begin..begin + wanted]);
                let ends = !matches!(read, Ok(length) if length == wanted);
                if send.send(read.map(|length| Block { bytes, begin, length })).is_err() || ends {
                    return;
                }
                at += wanted as u64;
            }
        });
        Ahead { full, used }
    }

    /// Puts the next block into `buffer`, and before it the `rest` that was there: where that begins now, and how many
    /// new bytes follow it, none at the end.
    pub fn replace(&mut self, buffer: &mut Vec<u8>, rest: Range<usize>) -> io::Result<(usize, usize)> {
        let Ok(block) = self.full.recv() else { return Ok((rest.start, 0)) };
        let Block { mut bytes, begin, length } = block?;
        let start = begin - rest.len();
        bytes[start..begin].copy_from_slice(&buffer[rest]);
        let before = std::mem::replace(buffer, bytes);
        // Before the first block there was another buffer. All of ours have to come back, or the thread waits for ever.
        if before.len() == BUFFER {
            self.used.give(before);
        }
        Ok((start, length))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::input::Input;

    fn file(content: &[u8]) -> Positioned {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file.rewind().unwrap();
        Input::from_file(file, "test".into()).unwrap().into_positioned().unwrap()
    }

    /// All of a section, where each block leaves `rest` bytes to be taken with the next one.
    fn read(file: Positioned, section: Range<u64>, rest: usize) -> Vec<u8> {
        let mut ahead = Ahead::new(file, section.start, section.end);
        let (mut buffer, mut all) = (Vec::new(), Vec::new());
        let (mut start, mut end) = (0, 0);
        loop {
            let (begin, length) = ahead.replace(&mut buffer, start..end).unwrap();
            if length == 0 {
                all.extend_from_slice(&buffer[start..end]);
                return all;
            }
            end = begin + (end - start) + length;
            start = end - rest.min(end - begin);
            all.extend_from_slice(&buffer[begin..start]);
        }
    }

    #[test]
    fn the_section_comes_whole_whatever_is_left_of_each_block() {
        let content: Vec<u8> = (0..BLOCK * 5 + 77).map(|index| ((index * 31) >> 3) as u8).collect();
        let end = content.len() as u64;
        for rest in [0, 1, 4000, ROOM - 1] {
            assert!(read(file(&content), 5..end, rest) == content[5..], "{rest}");
        }
        assert!(read(file(&content), 5..end + 999, 3) == content[5..], "a file that is shorter than it says");
        assert_eq!(read(file(&content), 5..5, 3), []);
    }

    /// The thread has a clone of the file as long as it runs.
    #[test]
    fn the_thread_ends_with_who_reads() {
        for blocks in [0, 1, 7] {
            let file = file(&vec![1; BLOCK * 20]);
            let mut ahead = Ahead::new(file.clone(), 0, (BLOCK * 20) as u64);
            let mut buffer = Vec::new();
            for _ in 0..blocks {
                assert!(ahead.replace(&mut buffer, 0..0).is_ok_and(|(_, length)| length == BLOCK));
            }
            drop(ahead);
            let deadline = Instant::now() + Duration::from_secs(20);
            while file.clones() > 1 {
                assert!(Instant::now() < deadline, "after {blocks} blocks");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
