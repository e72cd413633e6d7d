//! The bytes that a reader reads: a file, a pipe, or the output of a decompressor.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstatfs, memfd_create, open};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, pipe, tee};

/// Bytes kept to detect the format. A mail's headers and greeting may precede the first line of a trace.
const PREFIX_BYTES: usize = 32 << 10;

/// How long a named pipe may have no writer.
const WRITER_WITHIN: Duration = Duration::from_secs(10);

/// The file system of pipes without a name (include/uapi/linux/magic.h).
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;

/// Opens a file, a device or a directory. A named pipe must get a writer within ten seconds.
///
/// # Errors
/// If it cannot be opened; `TimedOut` if nobody writes to a named pipe.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_within(path, WRITER_WITHIN)
}

fn open_within(path: &Path, limit: Duration) -> io::Result<File> {
    const STEP: Duration = Duration::from_millis(20);
    if !path.metadata()?.file_type().is_fifo() {
        return File::open(path);
    }
    // With O_NONBLOCK a pipe opens without a writer.
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?);
    // Of a shell's `<(…)` no other writer comes.
    let is_anonymous = fstatfs(&file)?.f_type == PIPEFS_MAGIC;
    let (_kept, copy) = pipe()?;
    let begun = Instant::now();
    loop {
        // Copies what is there, and takes nothing: 0 bytes say that there is no writer, and EAGAIN that there are no bytes yet.
        match tee(&file, &copy, 1, SpliceFlags::NONBLOCK) {
            Ok(0) if is_anonymous => break,
            Ok(0) => {}
            Ok(_) | Err(Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
        if begun.elapsed() >= limit {
            let message = format!("it is a named pipe, and nobody wrote to it within {} s", limit.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        std::thread::sleep(STEP);
    }
    let flags = fcntl_getfl(&file)? - OFlags::NONBLOCK;
    fcntl_setfl(&file, flags)?;
    Ok(file)
}

/// A source of bytes with its beginning already read.
pub struct Input {
    name: String,
    prefix: Vec<u8>,
    body: Body,
}

enum Body {
    /// A regular file, readable at any position.
    File(File),
    /// The bytes after the prefix, readable once.
    Stream(Box<dyn Read + Send>),
}

impl Input {
    /// Opens a file, a FIFO or a device.
    pub fn open(path: &Path) -> io::Result<Input> {
        Input::from_file(open_file(path)?, path.display().to_string())
    }

    /// Standard input. It is read by position if it is a regular file at offset 0, and as a stream otherwise.
    pub fn stdin() -> io::Result<Input> {
        let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 0)?;
        Input::from_file(File::from(stdin), "standard input".to_owned())
    }

    /// An open file. A regular file that is not at offset 0 is read as a stream.
    pub fn from_file(mut file: File, name: String) -> io::Result<Input> {
        if file.metadata()?.is_dir() {
            return Err(Errno::ISDIR.into());
        }
        // tracefs `trace_pipe` claims to be a regular file, but cannot seek.
        if file.metadata()?.is_file() && file.stream_position().is_ok_and(|position| position == 0) {
            let mut prefix = vec![0; PREFIX_BYTES];
            let length = read_fully_at(&file, 0, &mut prefix)?;
            prefix.truncate(length);
            return Ok(Input { name, prefix, body: Body::File(file) });
        }
        Input::from_stream(Box::new(file), name)
    }

    /// A stream.
    pub fn from_stream(mut stream: Box<dyn Read + Send>, name: String) -> io::Result<Input> {
        let mut prefix = Vec::with_capacity(PREFIX_BYTES);
        // Keep what came before the error; the next read reports it.
        match stream.by_ref().take(PREFIX_BYTES as u64).read_to_end(&mut prefix) {
            Err(error) if prefix.is_empty() => Err(error),
            _ => Ok(Input { name, prefix, body: Body::Stream(stream) }),
        }
    }

    /// The name to use in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first 32 KiB, or everything if there is less.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// All bytes as a stream, from the first one on.
    pub fn into_stream(self) -> Box<dyn Read + Send> {
        match self.body {
            Body::File(file) => Box::new(file),
            Body::Stream(stream) => Box::new(io::Cursor::new(self.prefix).chain(stream)),
        }
    }

    /// All bytes with access by position. A stream is first copied to an unnamed temporary file (in `TMPDIR`), so
    /// nothing is left behind however the process ends. If no file can be made there, as in a container with a
    /// read-only file system, it is copied to memory.
    pub fn into_positioned(self) -> io::Result<Positioned> {
        let name = self.name.clone();
        if let Body::File(file) = self.body {
            let length = file.metadata()?.len();
            return Ok(Positioned { file: Arc::new(file), length, name, cut: None });
        }
        let mut spool = spool(&std::env::temp_dir())?;
        let cut = copy(&mut self.into_stream(), &mut spool)?;
        let length = spool.metadata()?.len();
        Ok(Positioned { file: Arc::new(spool), length, name, cut })
    }

    /// The same without any file: a stream of up to `limit` bytes is copied to memory.
    ///
    /// # Errors
    /// If it cannot be read, or is longer.
    pub fn into_positioned_in_memory(self, limit: u64) -> io::Result<Positioned> {
        if matches!(self.body, Body::File(_)) {
            return self.into_positioned();
        }
        let name = self.name.clone();
        let mut memory = memory()?;
        let cut = copy(&mut self.into_stream().take(limit.saturating_add(1)), &mut memory)?;
        let length = memory.metadata()?.len();
        if length > limit {
            let what = format!("{name} has more than {} MiB: unpack what it is in first", limit >> 20);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        Ok(Positioned { file: Arc::new(memory), length, name, cut })
    }
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create("unstarve-recording", MemfdFlags::CLOEXEC)?))
}

fn spool(directory: &Path) -> io::Result<File> {
    tempfile::tempfile_in(directory).or_else(|error| {
        memory().map_err(|_| {
            let message = format!("cannot make a temporary file in {} (TMPDIR): {error}", directory.display());
            io::Error::new(error.kind(), message)
        })
    })
}

/// Copies until the end. An error of the source ends the copy and is returned as text, because the bytes before it are
/// still useful.
fn copy(from: &mut dyn Read, to: &mut File) -> io::Result<Option<String>> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(length) => to.write_all(&buffer[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
}

/// A file that can be read at any position; clones share one descriptor.
#[derive(Clone, Debug)]
pub struct Positioned {
    file: Arc<File>,
    length: u64,
    name: String,
    cut: Option<String>,
}

impl Positioned {
    /// Its length in bytes when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The name to use in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the copied stream ended early (a truncated gzip file), if it did.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// All bytes once more, from the first one on. Nothing else may be reading it as a stream.
    ///
    /// # Errors
    /// If its file cannot be opened again.
    pub fn again(&self) -> io::Result<Input> {
        let mut file = self.file.try_clone()?;
        file.rewind()?;
        Input::from_file(file, self.name.clone())
    }

    /// How many clones share the file.
    #[cfg(test)]
    pub fn clones(&self) -> usize {
        Arc::strong_count(&self.file)
    }

    /// Fills `buffer` from `offset` on. Returns fewer bytes only at the end of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_fully_at(&self.file, offset, buffer)
    }
}

/// The page size of x86-64.
pub const PAGE_SIZE: usize = 4096;

/// Where in `room` to read the bytes at `offset` of a file, so that they have the same offset within a page as in the
/// page cache. AMD's Zen 3 copies three times as slowly (`rep movsb`) to an address up to 31 bytes further within its
/// page, and malloc puts a header of 16 bytes in front of large blocks.
pub fn landing(room: &[u8], offset: u64) -> usize {
    (offset as usize).wrapping_sub(room.as_ptr().addr()) % PAGE_SIZE
}

fn read_fully_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let Some(at) = offset.checked_add(filled as u64).filter(|&at| i64::try_from(at).is_ok()) else { break };
        match file.read_at(&mut buffer[filled..], at) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Truncated(&'static [u8]);

    impl Read for Truncated {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::Error::other("torn"));
            }
            self.0.read(buffer)
        }
    }

    fn all(input: Positioned) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        let length = input.read_at(0, &mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn a_named_pipe_is_read_if_it_has_a_writer() {
        use std::io::Write as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let error = open_within(&path, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        // A writer that opens it later, and writes later still.
        let late = path.clone();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            let mut file = File::options().write(true).open(late).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            file.write_all(b"all of it").unwrap();
        });
        let mut text = String::new();
        open_within(&path, Duration::from_secs(20)).unwrap().read_to_string(&mut text).unwrap();
        writer.join().unwrap();
        assert_eq!(text, "all of it");
    }

    #[test]
    fn files_and_streams_give_the_same_bytes_both_ways() {
        let file = || {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"hello").unwrap();
            file.rewind().unwrap();
            Input::from_file(file, "f".into()).unwrap()
        };
        let stream = || Input::from_stream(Box::new(&b"hello"[..]), "s".into()).unwrap();
        for make in [&file as &dyn Fn() -> Input, &stream] {
            assert_eq!(make().prefix(), b"hello");
            let mut text = String::new();
            make().into_stream().read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
            let positioned = make().into_positioned().unwrap();
            assert_eq!((positioned.length(), positioned.cut()), (5, None));
            assert_eq!(all(positioned), b"hello");
        }
    }

    #[test]
    fn without_a_directory_for_temporary_files_a_stream_is_kept_in_memory() {
        let mut file = spool(Path::new("/nonexistent")).unwrap();
        file.write_all(b"hello").unwrap();
        let mut bytes = [0; 5];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    #[test]
    fn a_torn_stream_keeps_what_came() {
        let input = Input::from_stream(Box::new(Truncated(b"abc")), "t".into()).unwrap();
        assert_eq!(input.prefix(), b"abc");
        let positioned = input.into_positioned().unwrap();
        assert_eq!(positioned.cut(), Some("torn"));
        assert_eq!(all(positioned), b"abc");
        assert!(Input::from_stream(Box::new(Truncated(b"")), "t".into()).is_err());
    }

    #[test]
    fn positions_beyond_the_end_are_the_end() {
        let file = tempfile::tempfile().unwrap();
        let input = Input::from_file(file, "f".into()).unwrap().into_positioned().unwrap();
        assert_eq!(input.read_at(u64::MAX, &mut [0; 8]).unwrap(), 0);
        assert_eq!(input.read_at(1 << 40, &mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn what_is_read_lands_where_its_page_has_it() {
        let room = vec![0; 3 * PAGE_SIZE];
        for (from, offset) in [(0, 0), (1, 1224), (77, 8192), (4095, u64::MAX)] {
            let place = &room[from + landing(&room[from..], offset)..];
            assert_eq!(place.as_ptr().addr() as u64 % PAGE_SIZE as u64, offset % PAGE_SIZE as u64);
        }
    }

    #[test]
    fn a_directory_is_refused() {
        assert!(Input::open(Path::new("/")).is_err());
    }
}
