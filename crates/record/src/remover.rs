//! A process that removes a tracing instance when the process that made it is killed.
//!
//! The kernel keeps an instance and its enabled events whoever has made it, and each switch of the machine costs their price for ever.
//! A second process waits at a socket: a byte means that the instance is gone, its end that the maker is. It is made by fork(2)
//! and calls nothing but the kernel: other threads of the maker may have held any lock at that moment.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The process at work.
#[derive(Debug)]
pub(crate) struct Remover {
    pid: libc::pid_t,
    /// Closed by the kernel when this process ends, however it ends.
    alive: UnixStream,
}

/// `/proc` and `ps` show it so; a name has 15 bytes.
const NAME: &CStr = c"unstarve-remove";

/// What it needs, made before the fork.
struct Errand {
    /// The directory of instances.
    instances: RawFd,
    /// The socket.
    maker: RawFd,
    name: CString,
    enable: CString,
    tracing_on: CString,
}

impl Remover {
    /// Starts one for an instance in a directory of instances.
    ///
    /// # Errors
    /// If there can be no more processes or files.
    pub(crate) fn start(instances: &Path, name: &str) -> io::Result<Remover> {
        let instances = std::fs::File::open(instances)?;
        let (alive, maker) = UnixStream::pair()?;
        let errand = Errand {
            instances: above_the_first(&instances)?,
            maker: above_the_first(&maker)?,
            name: CString::new(name)?,
            enable: CString::new(format!("{name}/events/enable"))?,
            tracing_on: CString::new(format!("{name}/tracing_on"))?,
        };
        // SAFETY: the child calls only functions that are safe after a fork of a process with threads, and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            errand.wait_and_remove();
        }
        let result = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Remover { pid, alive }) };
        for descriptor in [errand.instances, errand.maker] {
            // SAFETY: both were made above, and nobody else has them.
            unsafe { libc::close(descriptor) };
        }
        result
    }

    /// The instance is gone, so it has nothing to do. Waits for its end, a moment.
    pub(crate) fn dismiss(mut self) {
        let _ = self.alive.write_all(b".");
        let mut status = 0;
        // SAFETY: a child of ours that nobody else waits for, and a place for its status.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

/// A copy of a descriptor beyond those that the child replaces.
fn above_the_first(descriptor: &impl AsRawFd) -> io::Result<RawFd> {
    // SAFETY: it is open for as long as it is borrowed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor.as_raw_fd()) };
    let copy = rustix::io::fcntl_dupfd_cloexec(borrowed, KEPT)?;
    Ok(std::os::fd::IntoRawFd::into_raw_fd(copy))
}

/// Descriptors that the child keeps: the socket and the directory.
const KEPT: RawFd = 2;
const MAKER: RawFd = 0;
const INSTANCES: RawFd = 1;
/// `Documentation/admin-guide/sysctl/fs.rst`: no process has more by default (`nr_open`). Only before 5.9 each is closed.
const MOST_FILES: RawFd = 1 << 20;

/// For how long the maker's locks and files are waited for, in steps of [`PAUSE`]: they are closed one after another.
const STEPS: u32 = 2000;
static PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };

impl Errand {
    /// In the child alone. Nothing here allocates, locks or unwinds.
    fn wait_and_remove(&self) -> ! {
        // SAFETY: system calls by their wrappers, which are async-signal-safe, over descriptors and strings that were made before.
        unsafe {
            // What ends the maker by its terminal or its service is not for us: the maker says when to go.
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGUSR1] {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::setsid();
            libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
            libc::dup2(self.maker, MAKER);
            libc::dup2(self.instances, INSTANCES);
            // The maker's lock and buffers, its output, what it has of others: nothing of it must live on by us.
            if libc::syscall(libc::SYS_close_range, KEPT, RawFd::MAX, 0) != 0 {
                for descriptor in KEPT..MOST_FILES {
                    libc::close(descriptor);
                }
            }
            libc::chdir(c"/".as_ptr());
            if self.maker_has_ended() {
                self.remove();
            }
            libc::_exit(0)
        }
    }

    /// Waits for the maker's byte, or its end.
    unsafe fn maker_has_ended(&self) -> bool {
        let mut byte = 0_u8;
        loop {
            // SAFETY: one byte for one byte.
            match unsafe { libc::read(MAKER, (&raw mut byte).cast(), 1) } {
                0 => return true,
                -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
                _ => return false,
            }
        }
    }

    unsafe fn remove(&self) {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: a name in a directory that is open.
        let directory = unsafe { libc::openat(INSTANCES, self.name.as_ptr(), flags) };
        if directory < 0 {
            return;
        }
        // The maker's own lock goes with it. Somebody who has it afterwards removes the instance already.
        let mut locked = false;
        for _ in 0..STEPS {
            // SAFETY: the directory is open.
            locked = unsafe { libc::flock(directory, libc::LOCK_EX | libc::LOCK_NB) } == 0;
            if locked {
                break;
            }
            // SAFETY: a time to sleep, and nobody asks how much of it was left.
            unsafe { libc::nanosleep(&raw const PAUSE, std::ptr::null_mut()) };
        }
        if !locked {
            return;
        }
        for (file, value) in [(&self.enable, b"0"), (&self.tracing_on, b"0")] {
            // SAFETY: a name in a directory that is open, and one byte of it written.
            unsafe {
                let file = libc::openat(INSTANCES, file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file >= 0 {
                    libc::write(file, value.as_ptr().cast(), 1);
                    libc::close(file);
                }
            }
        }
        // Somebody may be reading one of its files at this moment, which makes it busy.
        for _ in 0..STEPS {
            // SAFETY: as above.
            let removed = unsafe { libc::unlinkat(INSTANCES, self.name.as_ptr(), libc::AT_REMOVEDIR) } == 0;
            if removed || io::Error::last_os_error().raw_os_error() != Some(libc::EBUSY) {
                return;
            }
            // SAFETY: as above.
            unsafe { libc::nanosleep(&raw const PAUSE, std::ptr::null_mut()) };
        }
    }
}
