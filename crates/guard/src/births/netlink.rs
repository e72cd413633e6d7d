//! The kernel's process connector (CONFIG_PROC_EVENTS, CAP_NET_ADMIN, initial namespaces). It tells of births and programs, of
//! names only if a task changes its own, of work and policies nothing; the keeper looks again for those.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use unstarve_model::Tid;

use super::{Born, Interest, Signal, Source, SourceName};

/// `include/uapi/linux/connector.h`, `cn_proc.h`.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const FORK: u32 = 0x1;
const EXEC: u32 = 0x2;
const COMM: u32 = 0x200;

/// `struct nlmsghdr` and `struct cn_msg` before the event.
const HEADERS: usize = 16 + 20;

pub(super) struct Netlink {
    socket: OwnedFd,
    interest: Interest,
    buffer: Vec<u8>,
    gaps: Vec<String>,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Netlink {
    pub(super) fn open(interest: Interest) -> io::Result<Netlink> {
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
            interest,
            buffer: vec![0; 1 << 16],
            gaps: vec![
                "what workers work on and who changes what is seen only when everything is looked at again".to_owned(),
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
            into.extend(message.get(HEADERS..).and_then(|event| decode(event, self.interest)));
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
fn decode(event: &[u8], interest: Interest) -> Option<Signal> {
    let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
    let time = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    Some(match word(0)? {
        FORK => {
            // kthreadd makes all kernel threads.
            let kernel = word(16)? == 2;
            if !kernel && !interest.programs {
                return None;
            }
            Signal::Born(Born { tid: Tid(word(24)?), tgid: Tid(word(28)?), time, kernel: Some(kernel) })
        }
        EXEC if interest.programs => Signal::Executed { tid: Tid(word(16)?), time },
        COMM if interest.programs => Signal::Renamed { tid: Tid(word(16)?), tgid: Tid(word(20)?) },
        _ => return None,
    })
}
