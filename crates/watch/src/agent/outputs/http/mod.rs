//! Metrics and the page, by HTTP/1.1: GET alone, one answer for each connection, over TCP or a unix socket.
//!
//! A connection has a thread while it lasts. There are never more than [`MAX_CONNECTIONS`] of them, a head has to come within
//! [`REQUEST_TIMEOUT`], and so has the answer to go. When all places are taken, the one that has neither asked nor taken anything of its
//! answer for longest has to make room: who hangs keeps nobody else out.

pub mod head;
mod hour;
pub mod metrics;
mod page;
mod places;
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

use self::head::{BadHead, Head};
use self::page::{Answer, Answered, Content, answer};
use self::places::{Place, Places};
use crate::agent::board::Board;
use crate::agent::config::{Address, Listen};

/// Connections that wait to be accepted, as the standard library's sockets have.
const BACKLOG: i32 = 128;
/// Connections at a time.
pub const MAX_CONNECTIONS: usize = 16;
/// Of the threads that answer.
const NICE: i32 = 10;
const SEND_BUFFER: usize = 64 << 10;
const UNREAD_MILLIS: u32 = 10_000;
/// For a head, and for an answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one read or write waits, so that [`REQUEST_TIMEOUT`] is looked at.
const TICK: Duration = Duration::from_millis(500);
/// For what a client still sends while it gets its answer: it is read, for else the kernel would end the connection with a reset, and
/// the answer might never be seen.
const DRAINED: Duration = Duration::from_secs(1);
const MOST_DRAINED: usize = 256 << 10;
/// Of a file that is being sent.
const PART: usize = 32 << 10;
/// A page of a long trace can have some MiB.
const SLOWEST: Duration = Duration::from_secs(30);

/// What is served.
#[derive(Debug)]
pub struct Site {
    /// How things stand.
    pub board: Arc<Board>,
    /// Where the pages of episodes are.
    pub store: PathBuf,
    /// Whether requests may name any host: else only this machine's own names, so that no web page can read it through a name
    /// that it lets point here.
    pub hosts: Hosts,
    /// What was answered lately.
    pub answered: Answered,
}

/// Which hosts requests may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    /// `localhost` and loopback addresses.
    Loopback,
    /// Any.
    All,
}

/// A server at work.
#[derive(Debug)]
pub struct Server {
    address: Address,
}

/// Why it cannot be served.
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
        // What nobody reads must not stay in the kernel: little of it, and not for long once we have closed.
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
    /// Listens, and serves until this process ends; `None` if nothing is to be served.
    ///
    /// # Errors
    /// If the address cannot be listened at.
    pub fn start(listen: &Listen, board: Arc<Board>, store: PathBuf) -> Result<Option<Server>, ListenError> {
        let failed = |source| ListenError { address: listen.address.clone(), source };
        let Some((listener, address)) = bind(listen).map_err(failed)? else { return Ok(None) };
        let hosts = match &address {
            Address::Tcp(address) if address.ip().is_loopback() => Hosts::Loopback,
            // No browser reaches a unix socket; a proxy that only adds TLS to it passes on the name that was asked for.
            _ => Hosts::All,
        };
        let site = Arc::new(Site { board, store, hosts, answered: Answered::default() });
        std::thread::Builder::new()
            .name("unstarve-http".into())
            .spawn(move || accept(&listener, &site))
            .map_err(failed)?;
        Ok(Some(Server { address }))
    }

    /// Where it is: of port 0 the one that was free.
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
            // For its owner alone until it has the mode that was asked for.
            let listener = bind_unix(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(listen.mode.unwrap_or(0o600)))?;
            Ok(Some((Listener::Unix(listener), listen.address.clone())))
        }
    }
}

/// Makes a socket where none is, or one that nobody listens at any more. Its directory must be one that only root and we can
/// change: else somebody could put another socket there.
pub(crate) fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    unstarve_files::Directory::make(directory).map_err(io::Error::other)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the mode that the socket has, less the umask (unix_bind_bsd() in net/unix/af_unix.c); the umask itself is of the
    // whole process, and other threads make files.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(0o600))?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn accept(listener: &Listener, site: &Arc<Site>) {
    // Whom any user may keep busy is nobody's rival, whatever the nice value of the process. Threads that it starts inherit that.
    let _ = rustix::process::setpriority_process(None, NICE);
    let places = Arc::new(Places::default());
    loop {
        let stream: io::Result<Box<dyn Stream>> = match listener {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
        };
        let Ok(stream) = stream else {
            // No descriptor is free, say: in a moment one may be.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        // The place is taken before the thread begins, and given back when it ends, or when it never began. Where even
        // those who are refused are too many, the connection ends here.
        let Some(place) = stream.twin().ok().and_then(|twin| Place::take(&places, twin)) else { continue };
        let site = Arc::clone(site);
        let serve = move || serve(stream, &site, &place);
        let _ = std::thread::Builder::new().name("unstarve-http".into()).stack_size(256 << 10).spawn(serve);
    }
}

fn serve(mut stream: Box<dyn Stream>, site: &Site, place: &Place) {
    if stream.limit().is_err() {
        return;
    }
    let full = || Arc::new(Answer::plain(503, "too many connections\n"));
    let (answer, body) = match place.is_refused() {
        true => (full(), Body::Sent),
        false => match head::read(&mut stream, Instant::now() + REQUEST_TIMEOUT) {
            Ok(head) => {
                let body = if head.method == "HEAD" { Body::Left } else { Body::Sent };
                place.answers();
                (respond(&head, site), body)
            }
            Err(BadHead::Status(status)) => (Arc::new(Answer::plain(status, "not understood\n")), Body::Sent),
            Err(BadHead::Io) if place.is_refused() => (full(), Body::Sent),
            Err(BadHead::Io) => return,
        },
    };
    if send(&mut *stream, &answer, body, place).is_ok() {
        place.drains();
        drain(&mut *stream);
    }
}

/// Reads what still comes, for a moment, once it is said that nothing more is sent.
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
    answer(&head.path, site)
}

/// `localhost:9846`, `127.0.0.1`, `[::1]:80`: a name and at most a port, nothing behind it.
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

fn send(stream: &mut dyn Stream, answer: &Answer, body: Body, place: &Place) -> io::Result<()> {
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
    all(stream, head.as_bytes(), end, place)?;
    match &answer.content {
        _ if body == Body::Left => {}
        Content::Made(bytes) => all(stream, bytes, end, place)?,
        Content::File(file, length) => parts(stream, file, *length, end, place)?,
    }
    stream.flush()
}

/// A file, of which little is in memory at any time: any number of clients may be slow.
fn parts(stream: &mut dyn Stream, file: &File, length: u64, end: Instant, place: &Place) -> io::Result<()> {
    let (mut part, mut at) = (vec![0; PART], 0);
    while at < length {
        let wanted = usize::try_from(length - at).unwrap_or(PART).min(PART);
        match file.read_at(&mut part[..wanted], at)? {
            // It has become shorter: that the connection ends early says so.
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                all(stream, &part[..read], end, place)?;
                at += read as u64;
            }
        }
    }
    Ok(())
}

fn all(stream: &mut dyn Stream, mut bytes: &[u8], end: Instant, place: &Place) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => {
                bytes = &bytes[length..];
                place.progresses();
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= end || place.has_ended() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
