//! Merges the streams of a trace.dat by time.

use super::stream::{Damage, Stream};
use crate::heap::sink_first;

/// Merges streams by time, with a binary heap of the times of their next records.
///
/// At equal times the stream added first wins. While one stream leads, only the two others that could come next are
/// compared, so a CPU that is busy alone costs nothing for the others.
pub(super) struct Merge {
    streams: Vec<Stream>,
    /// (Time of the next record, index of the stream); the smallest first.
    heap: Vec<(u64, u32)>,
}

impl Merge {
    pub(super) fn new(mut streams: Vec<Stream>) -> Merge {
        let mut heap = Vec::with_capacity(streams.len());
        for (index, stream) in streams.iter_mut().enumerate() {
            stream.advance();
            if let Some(time) = stream.time() {
                heap.push((time, index as u32));
            }
        }
        // A sorted list is a valid heap.
        heap.sort_unstable();
        Merge { streams, heap }
    }

    pub(super) fn is_leading(&self) -> bool {
        !self.heap.is_empty()
    }

    /// The stream with the next record.
    #[inline]
    pub(super) fn leader(&mut self) -> Option<&mut Stream> {
        let &(_, index) = self.heap.first()?;
        self.streams.get_mut(index as usize)
    }

    /// Moves past the leader's record.
    #[inline]
    pub(super) fn advance(&mut self) {
        let Some(&(_, index)) = self.heap.first() else { return };
        let stream = &mut self.streams[index as usize];
        stream.advance();
        match stream.time() {
            Some(time) => self.heap[0].0 = time,
            None => {
                self.heap.swap_remove(0);
            }
        }
        sink_first(&mut self.heap, |&(time, index)| u128::from(time) << 32 | u128::from(index));
    }

    pub(super) fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.streams.iter().map(|stream| &stream.damage)
    }
}
