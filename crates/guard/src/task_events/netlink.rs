//! The kernel's process connector (CONFIG_PROC_EVENTS, CAP_NET_ADMIN, initial namespaces). It reports forks, execs, changes of
//! user ids, and names that a task sets for itself. It does not report work items, policies and cgroups; the reconciler scans
//! for those.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with};
use unstarve_model::Tid;

use super::{Born, Interest, Programs, Signal, Source, SourceName};

/// `include/uapi/linux/connector.h`, `cn_proc.h`.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const UID: u32 = 0x4;
const COMM: u32 = 0x200;

/// Events of programs that are passed on per second and in a burst; the limit that eBPF applies to one user. Netlink does not
/// report the user.
const PER_SECOND: u32 = 3000;
const AT_ONCE: u32 = 4000;

/// Rate limit of events.
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
            // A cast from a float saturates.
            self.left = self.left.saturating_add(gained as u32).min(AT_ONCE);
            self.since = now;
        }
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

/// Size of the kernel's socket buffer.
const BUFFER: usize = 4 << 20;

/// `struct nlmsghdr` and `struct cn_msg` before the event.
const HEADERS: usize = 16 + 20;

pub(super) struct Netlink {
    socket: OwnedFd,
    programs: bool,
    owners: bool,
    allowance: Allowance,
    buffer: Vec<u8>,
    gaps: Vec<String>,
}

impl Netlink {
    pub(super) fn open(interest: &Interest) -> io::Result<Netlink> {
        if super::pid_namespace().is_some() {
            // The kernel would accept the request and send nothing (`cn_proc_mcast_ctl()`, drivers/connector/cn_proc.c).
            return Err(io::Error::other("the kernel notifies only the initial PID namespace"));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
        // 0: the kernel chooses the port.
        bind(&socket, &SocketAddrNetlink::new(0, CN_IDX_PROC))?;
        // More than net.core.rmem_max requires CAP_NET_ADMIN; a smaller buffer loses events earlier, and losses are reported.
        let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
        let source = Netlink {
            socket,
            programs: interest.programs != Programs::None,
            owners: interest.owners,
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
        send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }
}

impl Source for Netlink {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn drain(&mut self, into: &mut Vec<Signal>) -> io::Result<()> {
        loop {
            let message = match recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((count, _)) => &self.buffer[..count],
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                // The kernel does not report how many were lost.
                Err(Errno::NOBUFS) => {
                    into.push(Signal::Lost(1));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let Some(signal) = message.get(HEADERS..).and_then(|event| decode(event, self.programs, self.owners))
            else {
                continue;
            };
            // Only events of programs are limited, because users decide how many there are.
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

/// A `struct proc_event`: type, CPU, time, and from offset 16 data that depends on the type.
fn decode(event: &[u8], programs: bool, owners: bool) -> Option<Signal> {
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    let time = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    Some(match word(0)? {
        FORK => {
            // kthreadd forks all kernel threads.
            let kernel = word(16)? == 2;
            if !kernel && !programs {
                return None;
            }
            let (tid, tgid) = (Tid(word(24)?), Tid(word(28)?));
            // A new thread has its process's parent, so the event does not identify the thread that created it.
            let creator = (tid == tgid).then_some(Tid(word(16)?));
            Signal::Born(Born { tid, tgid, time, kernel: Some(kernel), creator, will_execute: false })
        }
        EXEC if programs => Signal::Executed { tid: Tid(word(16)?), time },
        UID if owners => Signal::Reowned { tid: Tid(word(16)?), tgid: Tid(word(20)?) },
        COMM if programs => Signal::Renamed { tid: Tid(word(16)?), tgid: Tid(word(20)?) },
        _ => return None,
    })
}
