//! Reads files given by a user completely, up to a limit.
//!
//! The file may be a FIFO or a device, so the bytes read are counted instead of trusting the size.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The limit for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The maximum size.
    pub bytes: u64,
    /// What the file should be, and what to do if it is too large; for people.
    pub expected: &'static str,
}

/// Why a file cannot be read completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A system call failed.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Larger than the limit.
    #[error("{}: more than {}; expected {}", path.display(), size(limit.bytes), limit.expected)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: Limit,
    },
    /// Not text.
    #[error("{}: not text (invalid byte at offset {offset}); expected {expected}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// The offset.
        offset: usize,
        /// What was expected.
        expected: &'static str,
    },
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

impl ReadError {
    /// Whether the file does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, ReadError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Opens a file that another user may have created: only a regular file, without following a symbolic link in the last
/// component. Does not block on a FIFO.
///
/// # Errors If it cannot be opened, or is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file");
    // Checked first: opening some devices has an effect.
    if !path.symlink_metadata()?.is_file() {
        return Err(no_file());
    }
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

/// The bytes of a regular file that another user may have created.
///
/// # Errors If it cannot be opened as in [`open_regular`] or read, or is too large.
pub fn read_regular(path: &Path, limit: Limit) -> Result<Vec<u8>, ReadError> {
    let file = open_regular(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    bytes_until(file, path, limit, Nul::Means0)
}

/// The text of a file.
///
/// # Errors If it cannot be read, is too large, or not UTF-8.
pub fn read_text(path: &Path, limit: Limit) -> Result<String, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    text_of(file, path, limit)
}

/// The text of a stream, which is called `name` in messages.
///
/// # Errors As [`read_text`].
pub fn text_of(from: impl Read, name: &Path, limit: Limit) -> Result<String, ReadError> {
    let not_text = |offset| ReadError::NotText { path: name.to_owned(), offset, expected: limit.expected };
    let bytes = bytes_until(from, name, limit, Nul::Ends)?;
    if let Some(offset) = bytes.iter().position(|&byte| byte == 0) {
        return Err(not_text(offset));
    }
    String::from_utf8(bytes).map_err(|error| not_text(error.utf8_error().valid_up_to()))
}

/// The bytes of a file.
///
/// # Errors
/// If it cannot be read, or is too large.
pub fn read_bytes(path: &Path, limit: Limit) -> Result<Vec<u8>, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    bytes_until(file, path, limit, Nul::Means0)
}

/// How a zero byte is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nul {
    /// It ends the reading, as text has none: `/dev/zero` is not read up to the limit.
    Ends,
    /// As any other byte.
    Means0,
}

fn bytes_until(mut from: impl Read, name: &Path, limit: Limit, nul: Nul) -> Result<Vec<u8>, ReadError> {
    const CHUNK: u64 = 1 << 18;
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let read = from.by_ref().take(CHUNK).read_to_end(&mut bytes);
        let read = read.map_err(|source| ReadError::Io { path: name.to_owned(), source })?;
        if bytes.len() as u64 > limit.bytes {
            return Err(ReadError::TooLarge { path: name.to_owned(), limit });
        }
        let ends = nul == Nul::Ends && bytes.get(before..).is_some_and(|new| new.contains(&0));
        if read == 0 || ends {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const SMALL: Limit = Limit { bytes: 1 << 20, expected: "a small thing; make it smaller" };

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        let error = read_text(Path::new("/dev/zero"), Limit { bytes: u64::MAX, ..SMALL }).expect_err("no text");
        assert_eq!(
            error.to_string(),
            "/dev/zero: not text (invalid byte at offset 0); expected a small thing; make it smaller"
        );
        let error = read_bytes(Path::new("/dev/zero"), SMALL).expect_err("too large").to_string();
        assert_eq!(error, "/dev/zero: more than 1 MiB; expected a small thing; make it smaller");
        let endless = io::repeat(b'x');
        assert!(matches!(text_of(endless, Path::new("-"), SMALL), Err(ReadError::TooLarge { .. })));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let text = "x".repeat(300_000);
        let sent = text.clone();
        let sender = std::thread::spawn(move || writer.write_all(sent.as_bytes()));
        assert_eq!(text_of(reader, Path::new("-"), SMALL).expect("text"), text);
        sender.join().expect("no panic").expect("sent");
    }

    #[test]
    fn of_others_only_regular_files_are_read() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("file"), vec![b'x'; 1 << 20]).expect("written");
        assert_eq!(read_regular(&at("file"), SMALL).expect("bytes").len(), 1 << 20);
        std::fs::write(at("large"), vec![b'x'; (1 << 20) + 1]).expect("written");
        assert!(matches!(read_regular(&at("large"), SMALL), Err(ReadError::TooLarge { .. })));
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).expect("a FIFO");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("a link");
        for name in ["fifo", "link", "/dev/zero", "."] {
            let error = read_regular(&at(name), SMALL).expect_err("no regular file").to_string();
            assert!(error.ends_with("expected a regular file"), "{error}");
        }
        assert!(read_regular(&at("none"), SMALL).expect_err("absent").is_absent());
    }

    #[test]
    fn the_limit_itself_is_allowed_and_a_directory_is_an_error() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let file = place.path().join("f");
        std::fs::write(&file, vec![b'x'; 1 << 20]).expect("written");
        assert_eq!(read_text(&file, SMALL).expect("text").len(), 1 << 20);
        let text = read_text(place.path(), SMALL).expect_err("a directory").to_string();
        assert!(text.contains("cannot read") && text.contains("directory"), "{text}");
        std::fs::write(&file, b"ab\xff").expect("written");
        assert!(matches!(read_text(&file, SMALL), Err(ReadError::NotText { offset: 2, .. })));
        assert!(read_text(&place.path().join("none"), SMALL).expect_err("absent").is_absent());
    }
}
