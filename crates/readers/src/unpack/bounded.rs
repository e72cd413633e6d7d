//! Decompression that ends. A bomb of a few kilobytes would otherwise fill the disk that recordings are unpacked to.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may come out in any case: a recording of an idle machine, mostly empty pages, packs well.
const FREE: u64 = 1 << 30;

/// And beyond that, what each packed byte may become. Text of a real trace packs 10 to 30 times, zstd's best and zeros
/// of a trace.dat 200 times; a bomb of DEFLATE reaches 1032, of xz 7000.
const RATIO: u64 = 500;

/// How much may come out of one file, however many layers it has.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// Bytes read from the file itself; none as long as nothing is packed.
    source: Option<Arc<AtomicU64>>,
}

impl Budget {
    /// Counts the outermost packed bytes; those of inner layers came out of them.
    pub fn source(&mut self, stream: Box<dyn Read + Send>) -> Box<dyn Read + Send> {
        if self.source.is_some() {
            return stream;
        }
        let read = Arc::new(AtomicU64::new(0));
        self.source = Some(Arc::clone(&read));
        Box::new(Counted { stream, read })
    }

    /// Ends `stream` with an error where more has come out than may.
    pub fn bounded<R: Read>(&self, stream: R) -> Bounded<R> {
        Bounded { stream, source: self.source.clone(), given: 0 }
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

/// A stream that ends where it becomes too much.
#[derive(Debug)]
pub struct Bounded<R> {
    stream: R,
    source: Option<Arc<AtomicU64>>,
    given: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let source = self.source.as_ref().map(|read| read.load(Ordering::Relaxed));
        if let Some(source) = source
            && self.given > FREE.max(source.saturating_mul(RATIO))
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
        assert!((FREE..FREE + (2 << 20)).contains(&given));
        assert!(error.to_string().starts_with("1000 packed bytes became more than"), "{error}");
        // As more goes in, more may come out.
        io::copy(&mut packed, &mut io::sink()).unwrap();
        assert!(out.read(&mut sink).is_ok());
    }
}
