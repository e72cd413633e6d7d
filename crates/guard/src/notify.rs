//! systemd's readiness and watchdog protocol (sd_notify(3)): a datagram to the socket that the environment names.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one.
pub struct Manager {
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Manager {
    /// The manager that `NOTIFY_SOCKET` names.
    pub fn of_environment() -> Manager {
        let name = std::env::var_os("NOTIFY_SOCKET");
        Manager { to: name.and_then(|name| Some((UnixDatagram::unbound().ok()?, address(&name)?))) }
    }

    /// Sends a state. Without a listener this does nothing.
    pub fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.to {
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// A name that begins with `@` is in the abstract namespace.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(name).ok(),
    }
}

/// How often to notify the watchdog: half of the interval that it allows.
pub fn watchdog_interval() -> Option<Duration> {
    let micros: u64 = std::env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    Some(Duration::from_micros(micros / 2)).filter(|interval| !interval.is_zero())
}
