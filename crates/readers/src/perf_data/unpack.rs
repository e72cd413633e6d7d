//! Decompresses `PERF_RECORD_COMPRESSED` and `COMPRESSED2`: records inside a zstd stream.
//!
//! A single zstd stream runs through all compressed records of a file, and a record inside it may continue in the next
//! compressed record. Source: `tools/perf/util/tool.c`, `perf_session__process_compressed_event`.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// A compressed record of 64 KiB may unpack to gigabytes, so it is unpacked in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

/// Unpacks one piece at a time.
pub struct Unpacker {
    decoder: Decoder<'static>,
    packed: Vec<u8>,
    taken: usize,
    unpacked: Vec<u8>,
    given: usize,
    /// The last piece was full, so there may be more output without more input.
    pending: bool,
}

impl Unpacker {
    /// An unpacker at the start of a zstd stream.
    pub fn new() -> std::io::Result<Unpacker> {
        Ok(Unpacker {
            decoder: Decoder::new()?,
            packed: Vec::new(),
            taken: 0,
            unpacked: Vec::new(),
            given: 0,
            pending: false,
        })
    }

    /// Adds the content of a compressed record. The record before must have been unpacked.
    pub fn feed(&mut self, packed: &[u8]) {
        self.packed.clear();
        self.packed.extend_from_slice(packed);
        self.taken = 0;
        self.pending = !packed.is_empty();
    }

    /// Whether there is something to unpack.
    pub fn is_pending(&self) -> bool {
        self.pending
    }

    /// Unpacks the next piece and returns all unpacked bytes that have not been consumed.
    ///
    /// # Errors If the data is not a zstd stream.
    pub fn piece(&mut self) -> std::io::Result<&[u8]> {
        self.unpacked.drain(..self.given);
        self.given = 0;
        let kept = self.unpacked.len();
        self.unpacked.resize(kept + PIECE_BYTES, 0);
        let mut input = InBuffer::around(&self.packed[self.taken..]);
        let mut output = OutBuffer::around_pos(&mut self.unpacked[..], kept);
        let result = loop {
            let before = (input.pos(), output.pos());
            if let Err(error) = self.decoder.run(&mut input, &mut output) {
                break Err(error);
            }
            let stuck = before == (input.pos(), output.pos());
            if stuck || output.pos() == kept + PIECE_BYTES {
                break Ok(());
            }
        };
        let length = output.pos();
        self.taken += input.pos();
        self.unpacked.truncate(length);
        // A piece that is not full shows that all input has been used.
        self.pending = result.is_ok() && length == kept + PIECE_BYTES;
        result.map(|()| &self.unpacked[..])
    }

    /// Marks the first `length` bytes of the output as used.
    pub fn consume(&mut self, length: usize) {
        self.given = length.min(self.unpacked.len());
    }
}
