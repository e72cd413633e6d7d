//! Reads a file section ahead of the decoder, in a thread of its own.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use unstarve_model::{UsedBuffers, buffer_pool};

use crate::input::{PAGE_SIZE, Positioned, landing};

/// Space for the unread rest of the previous block. A record is at most 64 KiB long, so the rest is shorter.
pub const REST_ROOM: usize = 64 << 10;
/// Small enough that a block is still in the core's cache when it is decoded.
pub const BLOCK_BYTES: usize = 256 << 10;
const BLOCK_COUNT: usize = 6;
/// How many spare blocks are returned to the reading thread at a time: one block is in use, and the others must keep
/// both threads busy.
const RETURNED_AT_ONCE: usize = 2;

/// The blocks of a section, in order.
pub struct ReadAhead {
    full: Receiver<io::Result<Block>>,
    used: UsedBuffers<Vec<u8>>,
}

/// Space for the rest of the previous block, then the bytes read, which start at `begin`.
struct Block {
    bytes: Vec<u8>,
    begin: usize,
    length: usize,
}

/// Length of a block's buffer: the rest of the previous block, the block, and slack so that the block can be read to
/// the address where copying is fastest (`landing`).
pub const BUFFER_BYTES: usize = REST_ROOM + PAGE_SIZE + BLOCK_BYTES;

impl ReadAhead {
    /// Starts reading from `start` to `end`. The thread ends at the end of the section, or when `self` is dropped.
    pub fn new(file: Positioned, start: u64, end: u64) -> ReadAhead {
        let (send, full) = mpsc::channel();
        let (mut empties, used) = buffer_pool(BLOCK_COUNT, RETURNED_AT_ONCE);
        thread::spawn(move || {
            let mut at = start;
            while at < end {
                // Fresh memory from the kernel is already zeroed.
                let Some(mut bytes) = empties.next(|| vec![0; BUFFER_BYTES]) else { return };
                let wanted = BLOCK_BYTES.min(usize::try_from(end - at).unwrap_or(BLOCK_BYTES));
                let begin = REST_ROOM + landing(&bytes[REST_ROOM..], at);
                let read = file.read_at(at, &mut bytes[begin..begin + wanted]);
                let ends = !matches!(read, Ok(length) if length == wanted);
                if send.send(read.map(|length| Block { bytes, begin, length })).is_err() || ends {
                    return;
                }
                at += wanted as u64;
            }
        });
        ReadAhead { full, used }
    }

    /// Replaces `buffer` by the next block, with `rest` of the old one moved in front of it. Returns where the rest now
    /// begins and how many new bytes follow it; none at the end.
    pub fn replace(&mut self, buffer: &mut Vec<u8>, rest: Range<usize>) -> io::Result<(usize, usize)> {
        let Ok(block) = self.full.recv() else { return Ok((rest.start, 0)) };
        let Block { mut bytes, begin, length } = block?;
        let start = begin - rest.len();
        bytes[start..begin].copy_from_slice(&buffer[rest]);
        let before = std::mem::replace(buffer, bytes);
        // The first buffer passed in is not one of ours. All of ours must be returned, or the thread waits forever.
        if before.len() == BUFFER_BYTES {
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

    /// Reads a whole section, where each block leaves `rest` bytes to be read with the next one.
    fn read(file: Positioned, section: Range<u64>, rest: usize) -> Vec<u8> {
        let mut ahead = ReadAhead::new(file, section.start, section.end);
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
        let content: Vec<u8> = (0..BLOCK_BYTES * 5 + 77).map(|index| ((index * 31) >> 3) as u8).collect();
        let end = content.len() as u64;
        for rest in [0, 1, 4000, REST_ROOM - 1] {
            assert!(read(file(&content), 5..end, rest) == content[5..], "{rest}");
        }
        assert!(read(file(&content), 5..end + 999, 3) == content[5..], "a file that is shorter than it says");
        assert_eq!(read(file(&content), 5..5, 3), Vec::<u8>::new());
    }

    /// The thread holds a clone of the file while it runs.
    #[test]
    fn the_thread_ends_with_its_reader() {
        for blocks in [0, 1, 7] {
            let file = file(&vec![1; BLOCK_BYTES * 20]);
            let mut ahead = ReadAhead::new(file.clone(), 0, (BLOCK_BYTES * 20) as u64);
            let mut buffer = Vec::new();
            for _ in 0..blocks {
                assert!(ahead.replace(&mut buffer, 0..0).is_ok_and(|(_, length)| length == BLOCK_BYTES));
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
