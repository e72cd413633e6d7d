//! Serves metrics and pages by HTTP/1.1: GET only, one request per connection, over TCP or a unix socket.
//!
//! Each connection has a thread. There are at most [`MAX_CONNECTIONS`]; the head must arrive within [`REQUEST_TIMEOUT`], and the answer must be
//! sent within the same time. When all slots are taken, the connection without progress for longest is closed: clients that hang do not block
//! others.

mod connections;
pub mod head;
mod hour;
pub mod metrics;
mod page;
pub mod serving;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use self::connections::{ConnectionSlot, ConnectionSlots};
use self::head::{BadHead, Head};
use self::page::{Answer, Answered, Content, answer};
use crate::agent::board::Board;
use crate::agent::config::{Address, Listen};

/// Maximum connections waiting to be accepted, as for the standard library's sockets.
const BACKLOG: i32 = 128;
/// Maximum connections at a time.
pub const MAX_CONNECTIONS: usize = 16;
/// Nice value of the threads that answer.
const NICE: i32 = 10;
const SEND_BUFFER: usize = 64 << 10;
const UNREAD_MILLIS: u32 = 10_000;
/// For a head, and for an answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a single read or write, after which [`REQUEST_TIMEOUT`] is checked.
const TICK: Duration = Duration::from_millis(500);
/// For what a client still sends while it gets its answer. It must be read: otherwise the kernel would reset the connection, and the client might
/// not see the answer.
const DRAINED: Duration = Duration::from_secs(1);
const MOST_DRAINED: usize = 256 << 10;
/// Bytes of a file sent at a time.
const PART: usize = 32 << 10;
/// Time limit for sending a file: the page of a long trace can have several MiB.
const SLOWEST: Duration = Duration::from_secs(30);

/// What is served.
#[derive(Debug)]
pub struct Site {
    /// The present state of the watch.
    pub board: Arc<Board>,
    /// The store with the pages of episodes.
    pub store: PathBuf,
    /// Which values of the `Host` header are accepted: only names of this machine protect against DNS rebinding by web pages.
    pub hosts: Hosts,
    /// Recent answers.
    pub answered: Answered,
}

/// Accepted values of the `Host` header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// `localhost` and loopback addresses.
    Loopback,
    /// Any.
    All,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    address: Address,
}

/// Error of listening.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}")]
pub struct ListenError {
    address: Address,
    source: io::Error,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

pub(super) trait Stream: Read + Write + Send {
    fn limit(&self) -> io::Result<()>;
    fn close(&self, how: Shutdown) -> io::Result<()>;
    fn twin(&self) -> io::Result<Box<dyn Stream>>;
}

impl Stream for TcpStream {
    fn limit(&self) -> io::Result<()> {
        self.set_nodelay(true)?;
        // Limits data that the client does not read: its size, and how long the kernel keeps it after close.
        sockopt::set_socket_send_buffer_size(self, SEND_BUFFER)?;
        sockopt::set_tcp_user_timeout(self, UNREAD_MILLIS)?;
        self.set_read_timeout(Some(TICK)).and_then(|()| self.set_write_timeout(Some(TICK)))
    }

    fn close(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }

    fn twin(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Stream for UnixStream {
    fn limit(&self) -> io::Result<()> {
        self.set_read_timeout(Some(TICK)).and_then(|()| self.set_write_timeout(Some(TICK)))
    }

    fn close(&self, how: Shutdown) -> io::Result<()> {
        self.shutdown(how)
    }

    fn twin(&self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.try_clone()?))
    }
}

impl Server {
    /// Listens and serves until the process ends; `None` if nothing is to be served.
    pub fn start(listen: &Listen, board: Arc<Board>, store: PathBuf) -> Result<Option<Server>, ListenError> {
        let failed = |source| ListenError { address: listen.address.clone(), source };
        let Some((listener, address)) = bind(listen).map_err(failed)? else { return Ok(None) };
        let hosts = match &address {
            Address::Tcp(address) if address.ip().is_loopback() => Hosts::Loopback,
            // Browsers cannot reach a unix socket; a proxy that adds TLS to it passes on the name in the request.
            _ => Hosts::All,
        };
        let site = Arc::new(Site { board, store, hosts, answered: Answered::default() });
        std::thread::Builder::new()
            .name("unstarve-http".into())
            .spawn(move || accept(&listener, &site))
            .map_err(failed)?;
        Ok(Some(Server { address }))
    }

    /// The bound address: for port 0, with the port that was chosen.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind(listen: &Listen) -> io::Result<Option<(Listener, Address)>> {
    match &listen.address {
        Address::Off => Ok(None),
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            Ok(Some((Listener::Tcp(listener), Address::Tcp(address))))
        }
        Address::Unix(path) => {
            // Accessible to the owner only, until it gets the configured mode.
            let listener = bind_unix(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(listen.mode.unwrap_or(0o600)))?;
            Ok(Some((Listener::Unix(listener), listen.address.clone())))
        }
    }
}

/// Creates a socket where there is none, or only one without a listener. Only root and this user may be able to change the directory: otherwise
/// another user could replace the socket.
pub(crate) fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    unstarve_files::Directory::make(directory).map_err(io::Error::other)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the socket's mode minus the umask (unix_bind_bsd() in net/unix/af_unix.c). The umask belongs to the whole process, in which
    // other threads create files, so it is not changed.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn accept(listener: &Listener, site: &Arc<Site>) {
    // Any user can keep these threads busy, so they must not compete with other programs. Threads that they start inherit the nice value.
    let _ = rustix::process::setpriority_process(None, NICE);
    let slots = Arc::new(ConnectionSlots::default());
    loop {
        let stream: io::Result<Box<dyn Stream>> = match listener {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
        };
        let Ok(stream) = stream else {
            // For example, no free descriptor: one may become free soon.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        // The slot is taken before the thread starts, and released when it ends or if it cannot start. If even too many connections are being
        // refused, this one is closed here.
        let Some(slot) = stream.twin().ok().and_then(|twin| ConnectionSlot::take(&slots, twin)) else { continue };
        let site = Arc::clone(site);
        let serve = move || serve(stream, &site, &slot);
        let _ = std::thread::Builder::new().name("unstarve-http".into()).stack_size(256 << 10).spawn(serve);
    }
}

fn serve(mut stream: Box<dyn Stream>, site: &Site, slot: &ConnectionSlot) {
    if stream.limit().is_err() {
        return;
    }
    let full = || Arc::new(Answer::plain(503, "too many connections\n"));
    let (answer, body) = match slot.is_refused() {
        true => (full(), Body::Sent),
        false => match head::read(&mut stream, Instant::now() + REQUEST_TIMEOUT) {
            Ok(head) => {
                let body = if head.method == "HEAD" { Body::Left } else { Body::Sent };
                slot.answers();
                (respond(&head, site), body)
            }
            Err(BadHead::Status(status)) => (Arc::new(Answer::plain(status, "not understood\n")), Body::Sent),
            Err(BadHead::Io) if slot.is_refused() => (full(), Body::Sent),
            Err(BadHead::Io) => return,
        },
    };
    if send(&mut *stream, &answer, body, slot).is_ok() {
        slot.drains();
        drain(&mut *stream);
    }
}

/// Reads what still arrives, for a short time, after the sending direction is closed.
fn drain(stream: &mut dyn Stream) {
    if stream.close(Shutdown::Write).is_err() {
        return;
    }
    let end = Instant::now() + DRAINED;
    let (mut part, mut left) = ([0; 4096], MOST_DRAINED);
    while left > 0 && Instant::now() < end {
        match stream.read(&mut part) {
            Ok(0) => return,
            Ok(length) => left = left.saturating_sub(length),
            Err(error) if head::is_pause(&error) => {}
            Err(_) => return,
        }
    }
}

fn respond(head: &Head, site: &Site) -> Arc<Answer> {
    if head.method != "GET" && head.method != "HEAD" {
        return Arc::new(Answer::plain(405, "only GET\n"));
    }
    if site.hosts == Hosts::Loopback && !head.host.as_deref().is_none_or(is_loopback) {
        return Arc::new(Answer::plain(421, "this name is not of this machine's loopback interface\n"));
    }
    answer(head, site)
}

/// `localhost:9846`, `127.0.0.1`, `[::1]:80`: a name and an optional port, nothing else.
fn is_loopback(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((name, rest)) if name.parse::<Ipv6Addr>().is_ok() => (name, rest),
            _ => return false,
        },
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether the content follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Sent,
    Left,
}

fn send(stream: &mut dyn Stream, answer: &Answer, body: Body, slot: &ConnectionSlot) -> io::Result<()> {
    let end = Instant::now() + if answer.content.length() < 1 << 20 { REQUEST_TIMEOUT } else { SLOWEST };
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n{}\r\n",
        answer.status,
        answer.reason(),
        answer.kind,
        answer.content.length(),
        answer.policy.as_ref().map(|policy| format!("Content-Security-Policy: {policy}\r\n")).unwrap_or_default(),
    );
    all(stream, head.as_bytes(), end, slot)?;
    match &answer.content {
        _ if body == Body::Left => {}
        Content::Made(bytes) => all(stream, bytes, end, slot)?,
        Content::File(file, length) => parts(stream, file, *length, end, slot)?,
    }
    stream.flush()
}

/// Sends a file in parts, so that little is in memory at a time: any number of clients can be slow.
fn parts(stream: &mut dyn Stream, file: &File, length: u64, end: Instant, slot: &ConnectionSlot) -> io::Result<()> {
    let (mut part, mut at) = (vec![0; PART], 0);
    while at < length {
        let wanted = usize::try_from(length - at).unwrap_or(PART).min(PART);
        match file.read_at(&mut part[..wanted], at)? {
            // The file has become shorter: the client sees that from the early end of the connection.
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                all(stream, &part[..read], end, slot)?;
                at += read as u64;
            }
        }
    }
    Ok(())
}

fn all(stream: &mut dyn Stream, mut bytes: &[u8], end: Instant, slot: &ConnectionSlot) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                bytes = &bytes[length..];
                slot.progresses();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= end || slot.has_ended() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
