//! The control socket of a running watch, and the lock that prevents a second watch with the same state directory.
//!
//! One line in each direction: `status` or `dump`, and JSON. The directory and the socket belong to root.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use unstarve_files::trust::{Directory, How, TrustError};

use crate::agent::outputs::http::bind_unix;

const SOCKET: &str = "watch.sock";
const LOCK: &str = "watch.lock";

/// Time limits for the answers to `status` and to `dump`, whose trace has to be explained.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const LONG_PATIENCE: Duration = Duration::from_secs(240);

/// Maximum size of an answer.
const LARGEST: usize = 16 << 20;

/// Requests to a running watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// The present state.
    Status,
    /// An episode with the contents of the flight recorder.
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

/// Why a watch cannot be reached or cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Another watch is running.
    #[error("another watch is running with the state directory {}; stop it first, or give this one another with --state", .0.display())]
    Busy(PathBuf),
    /// No watch is running.
    #[error("no watch is running with the state directory {}", .0.display())]
    Nobody(PathBuf),
    /// A process of another user listens there.
    #[error("{}: user {user} listens there, and no watch of root or this user", path.display())]
    Another {
        /// The socket.
        path: PathBuf,
        /// The user.
        user: u32,
    },
    /// The directory could be changed by other users.
    #[error("the state directory cannot be used")]
    Untrusted(#[from] TrustError),
    /// A system call failed.
    #[error("{}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

/// The socket of a running watch; the lock is held while this exists.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    _lock: File,
}

impl Control {
    /// Takes the lock and listens. `ask` passes a request on; its answer is awaited.
    pub(crate) fn open(
        state: &Path,
        ask: impl Fn(Request, Sender<String>) + Clone + Send + 'static,
    ) -> Result<Control, ControlError> {
        let directory = Directory::make(state)?;
        let lock = directory.file(OsStr::new(LOCK), How::Update)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(ControlError::Busy(state.to_owned()));
        }
        let path = directory.path().join(SOCKET);
        let io = |source| ControlError::Io { path: path.clone(), source };
        let listener = bind_unix(&path).map_err(io)?;
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let ask = ask.clone();
                // One after another: only root asks, and rarely.
                let _ = std::thread::Builder::new().name("unstarve-control".into()).spawn(move || answer(stream, &ask));
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

fn answer(mut stream: UnixStream, ask: &impl Fn(Request, Sender<String>)) -> Option<()> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT)).ok()?;
    let mut line = String::new();
    BufReader::new((&stream).take(64)).read_line(&mut line).ok()?;
    let (reply, answer) = channel();
    let text = match Request::of(&line) {
        Some(request) => {
            ask(request, reply);
            answer.recv_timeout(LONG_PATIENCE).unwrap_or_else(|_| error("no answer in time"))
        }
        None => error("expected `status` or `dump`"),
    };
    stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(b"\n")).ok()
}

/// An answer with an error.
pub(crate) fn error(what: &str) -> String {
    serde_json::json!({ "error": what }).to_string()
}

/// Sends a request to a running watch; returns the JSON.
///
/// # Errors
/// If no watch is running with this state directory, or if it does not answer.
pub fn ask(state: &Path, request: Request) -> Result<String, ControlError> {
    let path = state.join(SOCKET);
    let io = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ControlError::Nobody(state.to_owned()),
        _ => ControlError::Io { path: path.clone(), source },
    };
    let patience = match request {
        Request::Status => ANSWER_TIMEOUT,
        Request::Dump => LONG_PATIENCE,
    };
    let until = Instant::now() + patience;
    let mut stream = connect(&path, until).map_err(io)?;
    // Anyone who can write to the directory can put a socket there.
    let peer = socket_peercred(&stream).map_err(|error| io(error.into()))?.uid;
    if !peer.is_root() && peer != rustix::process::geteuid() {
        return Err(ControlError::Another { path, user: peer.as_raw() });
    }
    stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(io)?;
    stream.write_all(format!("{}\n", request.word()).as_bytes()).map_err(io)?;
    read_all(&stream, until).map_err(io)
}

/// Connects with a time limit. A blocking connect would wait indefinitely for a listener that does not accept.
fn connect(path: &Path, until: Instant) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let address = SocketAddrUnix::new(path)?;
    while let Err(error) = rustix::net::connect(&socket, &address) {
        if error != Errno::AGAIN || Instant::now() >= until {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Reads the whole answer, until the time limit.
fn read_all(mut stream: &UnixStream, until: Instant) -> io::Result<String> {
    let (mut answer, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
            Err(error) => return Err(error),
        }
        if answer.len() > LARGEST {
            return Err(io::Error::other("it answers with more than 16 MiB"));
        }
        if Instant::now() >= until {
            return Err(late());
        }
    }
    String::from_utf8(answer).map_err(|_| io::Error::other("its answer is no text"))
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_silent_or_answers_byte_by_byte_holds_nobody_for_longer_than_that() {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let begin = Instant::now();
        let silent = read_all(&ours, begin + Duration::from_millis(100));
        assert_eq!(silent.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        let drips = std::thread::spawn(move || {
            let mut theirs = &theirs;
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let dripped = read_all(&ours, Instant::now() + Duration::from_millis(200));
        assert_eq!(dripped.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        drop(ours);
        drips.join().expect("it ends with its socket");
    }

    #[test]
    fn who_takes_nobody_in_holds_nobody_either() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join(SOCKET);
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("a socket");
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).expect("a path")).expect("a name for it");
        rustix::net::listen(&listener, 0).expect("it listens");
        let until = Instant::now() + Duration::from_millis(200);
        let mut waiting = Vec::new();
        let refused = (0..8).find_map(|_| connect(&path, until).map(|stream| waiting.push(stream)).err());
        assert_eq!(refused.map(|error| error.raw_os_error()), Some(Some(Errno::AGAIN.raw_os_error())));
    }
}
