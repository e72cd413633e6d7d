//! A stream that several readers read in turn: the tar library its headers, and a member's reader its bytes.

use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An archive that can be read once, in the order of its bytes. What a member's reader leaves is skipped.
pub struct Forward {
    stream: Arc<Mutex<Counted>>,
    /// The next byte of this reader.
    offset: u64,
}

struct Counted {
    stream: Box<dyn Read + Send>,
    at: u64,
}

impl Forward {
    /// An archive that begins with the stream's next byte.
    pub fn new(stream: Box<dyn Read + Send>) -> Forward {
        Forward { stream: Arc::new(Mutex::new(Counted { stream, at: 0 })), offset: 0 }
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// A reader of the bytes between two offsets, for as long as nobody reads behind them.
    pub fn part(&self, begin: u64, end: u64) -> impl Read + Send + 'static {
        Forward { stream: Arc::clone(&self.stream), offset: begin }.take(end.saturating_sub(begin))
    }

    /// Another reader of the same stream, from its beginning.
    pub fn again(&self) -> Forward {
        Forward { stream: Arc::clone(&self.stream), offset: 0 }
    }
}

fn locked(stream: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for Forward {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = locked(&self.stream);
        let Some(gap) = self.offset.checked_sub(stream.at) else {
            return Err(io::Error::other("the archive was already read beyond this"));
        };
        let skipped = io::copy(&mut stream.stream.by_ref().take(gap), &mut io::sink())?;
        stream.at += skipped;
        if skipped < gap {
            return Ok(0);
        }
        let length = stream.stream.read(buffer)?;
        stream.at += length as u64;
        self.offset += length as u64;
        Ok(length)
    }
}

impl Seek for Forward {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let offset = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.offset.checked_add_signed(by),
            SeekFrom::End(_) => None,
        };
        self.offset = offset.ok_or(io::ErrorKind::Unsupported)?;
        Ok(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readers_share_a_stream_in_its_order() {
        let mut heads = Forward::new(Box::new(&b"0123456789"[..]));
        let mut two = [0; 2];
        heads.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"01");
        let mut member = String::new();
        heads.part(2, 5).read_to_string(&mut member).unwrap();
        assert_eq!(member, "234");
        heads.seek(SeekFrom::Current(5)).unwrap();
        heads.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"78");
        assert!(heads.part(2, 5).read(&mut two).is_err());
        heads.seek(SeekFrom::Current(50)).unwrap();
        assert_eq!(heads.read(&mut two).unwrap(), 0);
    }
}
