//! Metrics and the page, by HTTP/1.1: GET alone, one answer for each connection, over TCP or a unix socket.
//!
//! A connection has a thread while it lasts. There are never more than [`MOST`] of them, a head has to come within
//! [`PATIENCE`], and so has the answer to go: who hangs takes a place for that long, and nobody else waits for it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Board;
use super::http_head::{self, BadHead, Head};
use super::page::{Answer, answer};
use crate::config::{Address, Listen};

/// Connections at a time.
pub const MOST: usize = 16;
/// For a head, and for an answer.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long one read or write waits, so that [`PATIENCE`] is looked at.
const TICK: Duration = Duration::from_millis(500);
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

trait Stream: Read + Write + Send {
    fn limit(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit(&self) -> io::Result<()> {
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(TICK)).and_then(|()| self.set_write_timeout(Some(TICK)))
    }
}

impl Stream for UnixStream {
    fn limit(&self) -> io::Result<()> {
        self.set_read_timeout(Some(TICK)).and_then(|()| self.set_write_timeout(Some(TICK)))
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
            _ => Hosts::All,
        };
        let site = Arc::new(Site { board, store, hosts });
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
    let old = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(old);
    bound
}

fn accept(listener: &Listener, site: &Arc<Site>) {
    let busy = Arc::new(AtomicUsize::new(0));
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
        // The place is taken before the thread begins, and given back when it ends, or when it never began.
        let place = Place::take(&busy);
        let site = Arc::clone(site);
        let serve = move || serve(stream, &site, &place);
        let _ = std::thread::Builder::new().name("unstarve-http".into()).stack_size(256 << 10).spawn(serve);
    }
}

/// One of the places for connections.
struct Place {
    busy: Arc<AtomicUsize>,
    number: usize,
}

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Place {
        Place { busy: Arc::clone(busy), number: busy.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut stream: Box<dyn Stream>, site: &Site, place: &Place) {
    if stream.limit().is_err() {
        return;
    }
    if place.number >= MOST {
        let _ = send(&mut *stream, &Answer::plain(503, "too many connections\n"), Body::Sent);
        return;
    }
    let (answer, body) = match http_head::read(&mut stream, Instant::now() + PATIENCE) {
        Ok(head) => {
            let body = if head.method == "HEAD" { Body::Left } else { Body::Sent };
            (respond(&head, site), body)
        }
        Err(BadHead::Status(status)) => (Answer::plain(status, "not understood\n"), Body::Sent),
        Err(BadHead::Io) => return,
    };
    let _ = send(&mut *stream, &answer, body);
}

fn respond(head: &Head, site: &Site) -> Answer {
    if head.method != "GET" && head.method != "HEAD" {
        return Answer::plain(405, "only GET\n");
    }
    if site.hosts == Hosts::Loopback && !head.host.as_deref().is_none_or(is_loopback) {
        return Answer::plain(421, "this name is not of this machine's loopback interface\n");
    }
    answer(&head.path, site)
}

/// `localhost:9846`, `127.0.0.1`, `[::1]:80`.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Whether the content follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Sent,
    Left,
}

fn send(stream: &mut dyn Stream, answer: &Answer, body: Body) -> io::Result<()> {
    let end = Instant::now() + if answer.content.len() < 1 << 20 { PATIENCE } else { SLOWEST };
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n{}\r\n",
        answer.status,
        answer.reason(),
        answer.kind,
        answer.content.len(),
        answer.policy.as_ref().map(|policy| format!("Content-Security-Policy: {policy}\r\n")).unwrap_or_default(),
    );
    all(stream, head.as_bytes(), end)?;
    if body == Body::Sent {
        all(stream, &answer.content, end)?;
    }
    stream.flush()
}

fn all(stream: &mut dyn Stream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(listen: &Listen) -> (Server, Arc<Board>) {
        let board = Arc::new(Board::default());
        let server = Server::start(listen, Arc::clone(&board), "/nowhere".into()).expect("listening");
        (server.expect("a server"), board)
    }

    fn ask(stream: &mut (impl Read + Write), request: &str) -> String {
        stream.write_all(request.as_bytes()).expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn tcp(server: &Server) -> TcpStream {
        let Address::Tcp(address) = server.address() else { panic!("no TCP") };
        TcpStream::connect(address).expect("connected")
    }

    #[test]
    fn who_hangs_is_waited_for_by_nobody() {
        let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
        let (server, _) = server(&listen);
        let hanging: Vec<TcpStream> = (0..MOST - 2)
            .map(|_| {
                let mut stream = tcp(&server);
                stream.write_all(b"GET /metrics HTT").expect("written");
                stream
            })
            .collect();
        let answer = ask(&mut tcp(&server), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
        drop(hanging);
    }

    #[test]
    fn other_hosts_methods_and_paths_are_refused() {
        let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
        let (server, _) = server(&listen);
        let status = |request: &str| ask(&mut tcp(&server), request).split(' ').nth(1).map(str::to_owned);
        let cases = [
            ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "200"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
            ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
            ("GET /episodes/..%2f/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
            ("GET /episodes/20261123-012345-678/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
            ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
            ("nonsense\r\n\r\n", "400"),
        ];
        for (request, expected) in cases {
            assert_eq!(status(request).as_deref(), Some(expected), "{request}");
        }
    }

    #[test]
    fn a_unix_socket_is_its_owners_and_an_old_one_is_replaced() {
        let directory =
            tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().expect("a directory");
        let path = directory.path().join("http");
        drop(UnixListener::bind(&path).expect("what a killed process left"));
        let listen = Listen { address: Address::Unix(path.clone()), ..Listen::default() };
        let (server, _) = server(&listen);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut stream = UnixStream::connect(&path).expect("connected");
        assert!(ask(&mut stream, "HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"), "no content");
        drop(server);
        assert!(!path.exists());
    }
}
