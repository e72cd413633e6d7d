//! The socket by which a running watch is asked, and the lock that makes it the only one with its state directory.
//!
//! One line each way: `status` or `dump`, and JSON. The directory is root's alone, and so is the socket.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use unstarve_files::trust::{Directory, How, TrustError};

use crate::run::Event;
use crate::tell::http::bind_unix;

const SOCKET: &str = "watch.sock";
const LOCK: &str = "watch.lock";

/// For an answer to `status`, and for one to `dump`: its trace has to be explained.
const PATIENCE: Duration = Duration::from_secs(10);
const LONG_PATIENCE: Duration = Duration::from_secs(240);

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// How things stand.
    Status,
    /// An episode of what the flight recorder holds.
    Dump,
}

impl Request {
    fn word(self) -> &'static str {
        match self {
            Request::Status => "status",
            Request::Dump => "dump",
        }
    }

    fn of(line: &str) -> Option<Request> {
        [Request::Status, Request::Dump].into_iter().find(|request| request.word() == line.trim())
    }
}

/// Why a watch cannot be asked, or cannot be the one that is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another one runs.
    #[error("another watch is running with the state directory {}; stop it first, or give this one another with --state", .0.display())]
    Busy(PathBuf),
    /// None runs.
    #[error("no watch is running with the state directory {}", .0.display())]
    Nobody(PathBuf),
    /// The directory could be changed by others.
    #[error("the state directory cannot be used")]
    Untrusted(#[from] TrustError),
    /// The system refuses.
    #[error("{}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The socket of a running watch; nobody else gets it while this is there.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    _lock: File,
}

impl Control {
    /// Takes the lock and listens. Requests go to `events`.
    pub(crate) fn open(state: &Path, events: &Sender<Event>) -> Result<Control, ControlError> {
        let directory = Directory::make(state)?;
        let lock = directory.file(OsStr::new(LOCK), How::Update)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(ControlError::Busy(state.to_owned()));
        }
        let path = directory.path().join(SOCKET);
        let io = |source| ControlError::Io { path: path.clone(), source };
        let listener = bind_unix(&path).map_err(io)?;
        let events = events.clone();
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let events = events.clone();
                // One after another: it is root who asks, and not often.
                let _ =
                    std::thread::Builder::new().name("unstarve-control".into()).spawn(move || answer(stream, &events));
            }
        };
        std::thread::Builder::new().name("unstarve-control".into()).spawn(serve).map_err(io)?;
        Ok(Control { path, _lock: lock })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, events: &Sender<Event>) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    let mut line = String::new();
    BufReader::new((&stream).take(64)).read_line(&mut line).ok()?;
    let (reply, answer) = channel();
    let text = match Request::of(&line) {
        Some(request) => {
            events.send(Event::Asked(request, reply)).ok()?;
            answer.recv_timeout(LONG_PATIENCE).unwrap_or_else(|_| error("no answer in time"))
        }
        None => error("expected `status` or `dump`"),
    };
    stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(b"\n")).ok()
}

/// An answer that is none.
pub(crate) fn error(what: &str) -> String {
    serde_json::json!({ "error": what }).to_string()
}

/// Asks a running watch; its JSON.
///
/// # Errors
/// If none runs with this state directory, or if it does not answer.
pub fn ask(state: &Path, request: Request) -> Result<String, ControlError> {
    let path = state.join(SOCKET);
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ControlError::Nobody(state.to_owned()),
        _ => ControlError::Io { path: path.clone(), source },
    };
    let mut stream = UnixStream::connect(&path).map_err(io)?;
    stream.set_read_timeout(Some(LONG_PATIENCE)).map_err(io)?;
    stream.write_all(format!("{}\n", request.word()).as_bytes()).map_err(io)?;
    let mut answer = String::new();
    stream.take(16 << 20).read_to_string(&mut answer).map_err(io)?;
    Ok(answer)
}
