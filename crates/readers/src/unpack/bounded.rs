//! Limits how much decompression may produce. Otherwise a bomb of a few kilobytes would fill the disk.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much is always allowed. A recording of an idle machine is mostly empty pages and compresses well.
const FREE_BYTES: u64 = 1 << 30;

/// How much more is allowed for each compressed byte. Text of a real trace compresses 10 to 30 times, a trace.dat of
/// zeros with zstd's highest level 200 times; a DEFLATE bomb reaches 1032, an xz bomb 7000.
const MAX_RATIO: u64 = 500;

/// Limits the total output of one file, however many layers it has.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Bytes read from the file itself; `None` while nothing is compressed.
    source: Option<Arc<AtomicU64>>,
    /// The limit of all files together.
    allowance: Option<Allowance>,
}

/// What may be spent on all files of a bundle together. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowance {
    left: Arc<AtomicU64>,
    until: Instant,
}

impl Allowance {
    /// So many unpacked bytes, and so much time from now on.
    pub fn new(bytes: u64, time: Duration) -> Allowance {
        Allowance { left: Arc::new(AtomicU64::new(bytes)), until: Instant::now() + time }
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0 || Instant::now() >= self.until
    }

    /// Makes `stream` fail when nothing is left.
    pub fn bound<R: Read>(&self, stream: R) -> Bounded<R> {
        Bounded { stream, source: None, allowance: Some(self.clone()), given: 0 }
    }

    fn spend(&self, bytes: u64) {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Budget {
    /// A file's budget within that of all.
    pub fn within(allowance: Allowance) -> Budget {
        Budget { source: None, allowance: Some(allowance) }
    }

    /// Counts the bytes of the outermost layer only: inner layers are its output.
    pub fn source(&mut self, stream: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        if self.source.is_some() {
            return stream;
        }
        let read = Arc::new(AtomicU64::new(0));
        self.source = Some(Arc::clone(&read));
        Box::new(Counted { stream, read })
    }

    /// Makes `stream` fail when more than allowed comes out of it.
    pub fn bounded<R: Read>(&self, stream: R) -> Bounded<R> {
        Bounded { stream, source: self.source.clone(), allowance: self.allowance.clone(), given: 0 }
    }
}

struct Counted {
    stream: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.stream.read(buffer)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

/// A stream that fails when its output is too large.
#[derive(Debug)]
pub struct Bounded<R> {
    stream: R,
    source: Option<Arc<AtomicU64>>,
    allowance: Option<Allowance>,
    given: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.allowance.as_ref().is_some_and(Allowance::is_spent) {
            return Err(io::Error::other("the limit of bytes or time for all files together is reached"));
        }
        let source = self.source.as_ref().map(|read| read.load(Ordering::Relaxed));
        if let Some(source) = source
            && self.given > FREE_BYTES.max(source.saturating_mul(MAX_RATIO))
        {
            let reason = format!(
                "{source} packed bytes became more than {}: refused as a decompression bomb; unpack it yourself if you \
                 trust it",
                self.given
            );
            return Err(io::Error::other(reason));
        }
        let length = self.stream.read(buffer)?;
        self.given += length as u64;
        if let Some(allowance) = &self.allowance {
            allowance.spend(length as u64);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_ends_and_what_packs_well_does_not() {
        let mut budget = Budget::default();
        let mut packed = budget.source(Box::new(io::repeat(1).take(4 << 20)));
        packed.read_exact(&mut [0; 1000]).unwrap();
        let mut out = budget.bounded(io::repeat(0));
        let mut sink = vec![0; 1 << 20];
        let mut given = 0u64;
        let error = loop {
            match out.read(&mut sink) {
                Ok(length) => given += length as u64,
                Err(error) => break error,
            }
        };
        assert!((FREE_BYTES..FREE_BYTES + (2 << 20)).contains(&given));
        assert!(error.to_string().starts_with("1000 packed bytes became more than"), "{error}");
        // More input allows more output.
        io::copy(&mut packed, &mut io::sink()).unwrap();
        assert!(out.read(&mut sink).is_ok());
    }
}
