//! `PERF_RECORD_COMPRESSED` and `COMPRESSED2`: records inside a zstd stream.
//!
//! One zstd stream runs through all of a file's compressed records; a record inside it may be cut by the end of one and
//! continue in the next. Source: `tools/perf/util/tool.c`, `perf_session__process_compressed_event`.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// A compressed record of 64 KiB may unpack to gigabytes; it is unpacked in pieces of this size.
const PIECE: usize = 256 << 10;

/// Unpacks a piece at a time.
pub struct Unpacker {
    decoder: Decoder<'static>,
    packed: Vec<u8>,
    taken: usize,
    unpacked: Vec<u8>,
    given: usize,
    /// The last piece was full: there may be more without any more input.
    pending: bool,
}

impl Unpacker {
    /// An unpacker at the beginning of a zstd stream.
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

    /// Takes in what a compressed record holds; the one before must have been unpacked.
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

    /// Unpacks the next piece and gives all there is of the unpacked stream that has not been consumed.
    ///
    /// # Errors
    /// If the data is not a zstd stream.
    pub fn piece(&mut self) -> std::io::Result<&[u8]> {
        self.unpacked.drain(..self.given);
        self.given = 0;
        let kept = self.unpacked.len();
        self.unpacked.resize(kept + PIECE, 0);
        let mut input = InBuffer::around(&self.packed[self.taken..]);
        let mut output = OutBuffer::around_pos(&mut self.unpacked[..], kept);
        let result = loop {
            let before = (input.pos(), output.pos());
            if let Err(error) = self.decoder.run(&mut input, &mut output) {
                break Err(error);
            }
            let stuck = before == (input.pos(), output.pos());
            if stuck || output.pos() == kept + PIECE {
                break Ok(());
            }
        };
        let length = output.pos();
        self.taken += input.pos();
        self.unpacked.truncate(length);
        // A piece that is not full means that the input is used up.
        self.pending = result.is_ok() && length == kept + PIECE;
        result.map(|()| &self.unpacked[..])
    }

    /// The first `length` bytes of what was given have been used.
    pub fn consume(&mut self, length: usize) {
        self.given = length.min(self.unpacked.len());
    }
}
