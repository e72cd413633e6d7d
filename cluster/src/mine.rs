//! The token of a cluster on loopback where none was given: each user has one of his own, so that no other user of the machine can ask or be an executor.

use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context, Result};
use http::Uri;
use hyper_util::rt::TokioIo;
use procfs::net::{TcpNetEntry, TcpState};
use tokio::net::TcpStream;
use tower::BoxError;

use crate::trust::{Token, secret};

/// Its bytes, before they are written as text.
const BYTES: usize = 32;

/// Where it is.
fn path() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".local/state"));
    Some(state.or_else(home)?.join("unstarve/cluster-token"))
}

/// This user's token, if a scheduler of his has made one.
///
/// # Errors
/// If it is there and cannot be read, or others can read it.
pub fn token() -> Result<Option<Token>> {
    let Some(path) = path().filter(|path| path.exists()) else { return Ok(None) };
    let text = String::from_utf8(secret(&path)?).unwrap_or_default();
    Token::new(text.trim()).map(Some).with_context(|| path.display().to_string())
}

/// The same, made if there is none.
///
/// # Errors
/// If it cannot be written.
pub fn make() -> Result<Token> {
    if let Some(token) = token()? {
        return Ok(token);
    }
    let path = path().context("there is no home directory to keep a token in; expected --token-file")?;
    let cannot = || format!("cannot make {}; expected --token-file", path.display());
    let directory = path.parent().with_context(cannot)?;
    std::fs::create_dir_all(directory).with_context(cannot)?;
    let mut bytes = [0; BYTES];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).with_context(cannot)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Mode 600, and whole under its name.
    let mut file = tempfile::NamedTempFile::new_in(directory).with_context(cannot)?;
    writeln!(file, "{text}").with_context(cannot)?;
    match file.persist_noclobber(&path) {
        Ok(_) => Token::new(&text),
        // Another scheduler was first.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            token()?.context("it was removed").with_context(cannot)
        }
        Err(error) => Err(error).with_context(cannot),
    }
}

/// Why this user's token is not for who listens at a port of loopback.
#[derive(Debug)]
pub enum Elsewhere {
    /// Nobody listens yet, or any more.
    Nobody,
    /// Another user, neither root nor this one.
    Another(u32),
    /// That cannot be seen.
    Unseen(procfs::ProcError),
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elsewhere::Nobody => f.write_str("nobody listens there"),
            Elsewhere::Another(uid) => {
                write!(
                    f,
                    "another user of this machine (uid {uid}) listens there; expected --token-file to speak to it"
                )
            }
            Elsewhere::Unseen(why) => write!(f, "it cannot be seen who listens there ({why}); expected --token-file"),
        }
    }
}

impl std::error::Error for Elsewhere {}

/// Whether this user or root listens at a port of a host of loopback: others do not get this user's token.
///
/// # Errors
/// If not.
pub fn listens(host: &str, port: u16) -> std::result::Result<(), Elsewhere> {
    let listen = sockets()?.into_iter().filter(|socket| socket.state == TcpState::Listen);
    let sockets: Vec<_> = listen.map(|socket| (socket.local_address, socket.uid)).collect();
    ours(&sockets, &addresses(host), port, rustix::process::geteuid().as_raw())
}

fn sockets() -> std::result::Result<Vec<TcpNetEntry>, Elsewhere> {
    let mut sockets = procfs::net::tcp().map_err(Elsewhere::Unseen)?;
    // A kernel may be without IPv6.
    sockets.extend(procfs::net::tcp6().unwrap_or_default());
    Ok(sockets)
}

/// Where a host of loopback may be: a name may be in both families.
fn addresses(host: &str) -> Vec<IpAddr> {
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => vec![address],
        Err(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    }
}

/// A connection to who listens there as this user or root. It is made again and again while somebody works for a scheduler: once
/// that has ended another user may have its port. So it is looked before and after, and at the other end of the connection itself.
///
/// # Errors
/// If nobody listens there, or another user does.
pub async fn connect(to: Uri) -> std::result::Result<TokioIo<TcpStream>, BoxError> {
    let (host, port) = to.host().zip(to.port_u16()).ok_or("expected HOST:PORT")?;
    listens(host, port)?;
    let stream = TcpStream::connect((host.trim_start_matches('[').trim_end_matches(']'), port)).await?;
    stream.set_nodelay(true)?;
    let (near, far) = (stream.local_addr()?, stream.peer_addr()?);
    let us = rustix::process::geteuid().as_raw();
    for socket in sockets()? {
        // One that is not accepted yet is nobody's, which reads as root's.
        let is_other_end = socket.local_address == far && socket.remote_address == near;
        if is_other_end && ![0, us].contains(&socket.uid) {
            return Err(Elsewhere::Another(socket.uid).into());
        }
    }
    listens(host, port)?;
    Ok(TokioIo::new(stream))
}

fn ours(sockets: &[(SocketAddr, u32)], to: &[IpAddr], port: u16, us: u32) -> std::result::Result<(), Elsewhere> {
    // Who listens at another address of loopback is not reached.
    let local = |ip: IpAddr| to.contains(&ip) || ip.is_unspecified();
    let at_port = sockets.iter().filter(|(at, _)| at.port() == port && local(at.ip().to_canonical()));
    let mut uids = at_port.map(|(_, uid)| *uid).peekable();
    uids.peek().ok_or(Elsewhere::Nobody)?;
    uids.find(|uid| ![0, us].contains(uid)).map_or(Ok(()), |uid| Err(Elsewhere::Another(uid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str, uid: u32) -> (SocketAddr, u32) {
        (address.parse().expect("an address"), uid)
    }

    #[test]
    fn whoever_else_could_answer_is_another_user() {
        let ours = |sockets: &[(SocketAddr, u32)]| ours(sockets, &addresses("localhost"), 50050, 1000);
        assert!(ours(&[at("127.0.0.1:50050", 1000)]).is_ok() && ours(&[at("[::]:50050", 0)]).is_ok());
        assert!(matches!(ours(&[at("127.0.0.1:50051", 65534)]), Err(Elsewhere::Nobody)), "another port");
        for address in ["127.0.0.1:50050", "0.0.0.0:50050", "[::1]:50050", "[::ffff:127.0.0.1]:50050"] {
            let found = ours(&[at("127.0.0.1:50050", 1000), at(address, 65534)]);
            assert!(matches!(found, Err(Elsewhere::Another(65534))), "{address}: {found:?}");
        }
        let beside = [at("127.0.0.1:50050", 1000), at("127.0.0.2:50050", 65534), at("[::1]:50050", 65534)];
        assert!(
            super::ours(&beside, &addresses("127.0.0.1"), 50050, 1000).is_ok(),
            "others' addresses are not reached"
        );
        assert!(super::ours(&beside, &addresses("[::1]"), 50050, 1000).is_err());
    }

    #[test]
    fn the_kernel_says_who_listens() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        assert!(listens("127.0.0.1", port).is_ok());
        drop(socket);
        assert!(matches!(listens("127.0.0.1", port), Err(Elsewhere::Nobody)));
    }
}
