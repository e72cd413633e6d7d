use super::stream::{Damage, Stream};

/// Merges streams by time with a binary heap of their next records' times.
///
/// Ties go to the stream that was given first. While a stream leads, only the two others that could come next are
/// looked at, so a CPU that is busy alone costs nothing for the rest.
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
        // Sorted is a heap.
        heap.sort_unstable();
        Merge { streams, heap }
    }

    pub(super) fn is_leading(&self) -> bool {
        !self.heap.is_empty()
    }

    /// The stream whose record comes next.
    #[inline]
    pub(super) fn leader(&mut self) -> Option<&mut Stream> {
        let &(_, index) = self.heap.first()?;
        self.streams.get_mut(index as usize)
    }

    /// Passes over the leader's record.
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
        self.sink();
    }

    /// Moves the first entry down to where it belongs.
    #[inline]
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    pub(super) fn damages(&self) -> impl Iterator<Item = &Damage> {
        self.streams.iter().map(|stream| &stream.damage)
    }
}
