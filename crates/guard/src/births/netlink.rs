//! The kernel's process connector (CONFIG_PROC_EVENTS, CAP_NET_ADMIN, initial namespaces). It tells of births and programs, of
//! names only if a task changes its own, of work and policies nothing; the keeper looks again for those.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

use unstarve_model::Tid;

use super::{Born, Interest, Programs, Signal, Source, SourceName};

/// `include/uapi/linux/connector.h`, `cn_proc.h`.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const COMM: u32 = 0x200;

/// How many events of programs a second are passed on, and at once; the same as of one user by eBPF. Netlink does not say whose
/// they are.
const PER_SECOND: u32 = 3000;
const AT_ONCE: u32 = 4000;

/// What may still be passed on.
struct Allowance {
    left: u32,
    since: Instant,
}

impl Allowance {
    fn new() -> Allowance {
        Allowance { left: AT_ONCE, since: Instant::now() }
    }

    fn one_more(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.since).as_secs_f64() * f64::from(PER_SECOND);
        if gained >= 1.0 {
            // A cast of a float saturates.
            self.left = self.left.saturating_add(gained as u32).min(AT_ONCE);
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// `struct nlmsghdr` and `struct cn_msg` before the event.
const HEADERS: usize = 16 + 20;

pub(super) struct Netlink {
    socket: OwnedFd,
    programs: bool,
    allowance: Allowance,
    buffer: Vec<u8>,
    gaps: Vec<String>,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Netlink {
    pub(super) fn open(interest: &Interest) -> io::Result<Netlink> {
        if super::pid_namespace().is_some() {
            // It would accept the wish in silence, and tell nothing (`cn_proc_mcast_ctl()`, drivers/connector/cn_proc.c).
            return Err(io::Error::other("the kernel tells only the initial PID namespace"));
        }
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no memory is passed; the descriptor is nobody else's.
        let socket =
            unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::PF_NETLINK, kind, libc::NETLINK_CONNECTOR))?) };
        // SAFETY: an all-zero sockaddr_nl is valid.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = CN_IDX_PROC;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is that long.
        check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })?;
        let size: libc::c_int = 4 << 20;
        // Beyond net.core.rmem_max with CAP_NET_ADMIN; without, a smaller buffer loses sooner, and loss is noticed.
        // SAFETY: the option's value is an int.
        unsafe {
            let value = (&raw const size).cast();
            let length = size_of_val(&size) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, length);
        }
        let source = Netlink {
            socket,
            programs: interest.programs != Programs::None,
            allowance: Allowance::new(),
            buffer: vec![0; 1 << 16],
            gaps: vec![
                "what workers work on and who changes what is seen only when everything is looked at again".to_owned(),
                "real-time children that live for less than a second are not in the budget".to_owned(),
            ],
        };
        source.listen()?;
        Ok(source)
    }

    /// Asks the kernel to send.
    fn listen(&self) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADERS + 4);
        message.extend_from_slice(&((HEADERS + 4) as u32).to_ne_bytes());
        message.extend_from_slice(&(libc::NLMSG_DONE as u16).to_ne_bytes());
        message.extend_from_slice(&[0; 6]);
        message.extend_from_slice(&std::process::id().to_ne_bytes());
        for word in [CN_IDX_PROC, CN_VAL_PROC, 0, 0] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        message.extend_from_slice(&4_u16.to_ne_bytes());
        message.extend_from_slice(&[0; 2]);
        message.extend_from_slice(&PROC_CN_MCAST_LISTEN.to_ne_bytes());
        // SAFETY: the buffer is that long.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        check(sent as libc::c_int).map(drop)
    }
}

impl Source for Netlink {
    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn drain(&mut self, into: &mut Vec<Signal>) -> io::Result<()> {
        loop {
            // SAFETY: the buffer is that long.
            let count =
                unsafe { libc::recv(self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast(), self.buffer.len(), 0) };
            if count < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(()),
                    Some(libc::EINTR) => continue,
                    // The kernel does not say how many.
                    Some(libc::ENOBUFS) => {
                        into.push(Signal::Lost(1));
                        continue;
                    }
                    _ => return Err(error),
                }
            }
            let message = &self.buffer[..count as usize];
            let Some(signal) = message.get(HEADERS..).and_then(|event| decode(event, self.programs)) else { continue };
            // Whoever may start programs decides how many there are.
            let is_of_kernel = matches!(&signal, Signal::Born(born) if born.kernel == Some(true));
            if is_of_kernel || self.allowance.one_more(Instant::now()) {
                into.push(signal);
            } else {
                into.push(Signal::Throttled(1));
            }
        }
    }

    fn name(&self) -> SourceName {
        SourceName::Netlink
    }

    fn gaps(&self) -> &[String] {
        &self.gaps
    }
}

/// A `struct proc_event`: what, CPU, time, and from 16 on what depends on what.
fn decode(event: &[u8], programs: bool) -> Option<Signal> {
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    let time = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    Some(match word(0)? {
        FORK => {
            // kthreadd makes all kernel threads.
            let kernel = word(16)? == 2;
            if !kernel && !programs {
                return None;
            }
            let (tid, tgid) = (Tid(word(24)?), Tid(word(28)?));
            // The parent of a new thread is that of its process, and says nothing of the thread that made it.
            let creator = (tid == tgid).then_some(Tid(word(16)?));
            Signal::Born(Born { tid, tgid, time, kernel: Some(kernel), creator, will_execute: false })
        }
        EXEC if programs => Signal::Executed { tid: Tid(word(16)?), time },
        COMM if programs => Signal::Renamed { tid: Tid(word(16)?), tgid: Tid(word(20)?) },
        _ => return None,
    })
}
