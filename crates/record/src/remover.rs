//! A helper process that removes a tracing instance if the recorder is killed.
//!
//! The kernel keeps an instance and its enabled events even after its creator has exited, and they slow down every
//! context switch of the machine. So a second process waits on a socket: a byte means that the instance is gone, end of
//! file that the recorder has died. It is created by fork(2) and only makes system calls, because other threads of the
//! recorder may hold any lock at that moment.

use std::ffi::{CStr, CString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The helper process.
#[derive(Debug)]
pub(crate) struct Remover {
    pid: libc::pid_t,
    /// Closed by the kernel when this process ends, however it ends.
    alive: UnixStream,
}

/// The name in `/proc` and `ps`, at most 15 bytes.
const PROCESS_NAME: &CStr = c"unstarve-remove";

/// What the helper needs, created before the fork.
struct RemovalTask {
    /// The `instances` directory.
    instances: RawFd,
    /// The socket to the recorder.
    maker: RawFd,
    name: CString,
    enable: CString,
    tracing_on: CString,
}

impl Remover {
    /// Starts a helper for an instance in the directory `instances`.
    ///
    /// # Errors If no more processes or files can be created.
    pub(crate) fn start(instances: &Path, name: &str) -> io::Result<Remover> {
        let instances = std::fs::File::open(instances)?;
        let (alive, maker) = UnixStream::pair()?;
        let errand = RemovalTask {
            instances: above_the_first(&instances)?,
            maker: above_the_first(&maker)?,
            name: CString::new(name)?,
            enable: CString::new(format!("{name}/events/enable"))?,
            tracing_on: CString::new(format!("{name}/tracing_on"))?,
        };
        // SAFETY: the child calls only async-signal-safe functions, as it must after fork in a process with threads,
        // and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            errand.wait_and_remove();
        }
        let result = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Remover { pid, alive }) };
        for descriptor in [errand.instances, errand.maker] {
            // SAFETY: both were created above, and nothing else uses them.
            unsafe { libc::close(descriptor) };
        }
        result
    }

    /// Ends the helper, whose instance is gone, and waits for it briefly.
    pub(crate) fn dismiss(mut self) {
        let _ = self.alive.write_all(b".");
        let mut status = 0;
        // SAFETY: a child of ours that nobody else waits for, and a variable for its status.
        unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
    }
}

/// Duplicates a descriptor to a number above those that the child reuses.
fn above_the_first(descriptor: &impl AsRawFd) -> io::Result<RawFd> {
    // SAFETY: it is open while it is borrowed here.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor.as_raw_fd()) };
    let copy = rustix::io::fcntl_dupfd_cloexec(borrowed, KEPT_DESCRIPTORS)?;
    Ok(std::os::fd::IntoRawFd::into_raw_fd(copy))
}

/// Descriptors that the child keeps: the socket and the directory.
const KEPT_DESCRIPTORS: RawFd = 2;
const RECORDER_FD: RawFd = 0;
const INSTANCES_FD: RawFd = 1;
/// The default maximum of file descriptors per process (`nr_open`, `Documentation/admin-guide/sysctl/fs.rst`). Only
/// before 5.9 each is closed separately.
const MAX_FILES: RawFd = 1 << 20;

/// How many steps of [`RETRY_PAUSE`] to wait for the recorder's locks and files, which are closed one after another.
const RETRY_STEPS: u32 = 2000;
static RETRY_PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 5_000_000 };

impl RemovalTask {
    /// Runs in the child only. Nothing here allocates, locks or unwinds.
    fn wait_and_remove(&self) -> ! {
        // SAFETY: async-signal-safe system calls, on descriptors and strings created before the fork.
        unsafe {
            // Signals to the recorder's terminal or service must not end the helper before its work.
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE, libc::SIGUSR1] {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::setsid();
            libc::prctl(libc::PR_SET_NAME, PROCESS_NAME.as_ptr());
            libc::dup2(self.maker, RECORDER_FD);
            libc::dup2(self.instances, INSTANCES_FD);
            // Close everything inherited from the recorder: its lock, buffers and output must not stay open through
            // this process.
            if libc::syscall(libc::SYS_close_range, KEPT_DESCRIPTORS, RawFd::MAX, 0) != 0 {
                for descriptor in KEPT_DESCRIPTORS..MAX_FILES {
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

    /// Waits for the recorder's byte, or its end. Returns whether it ended.
    unsafe fn maker_has_ended(&self) -> bool {
        let mut byte = 0_u8;
        loop {
            // SAFETY: reads one byte into a variable of one byte.
            match unsafe { libc::read(RECORDER_FD, (&raw mut byte).cast(), 1) } {
                0 => return true,
                -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
                _ => return false,
            }
        }
    }

    unsafe fn remove(&self) {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        // SAFETY: a name relative to an open directory.
        let directory = unsafe { libc::openat(INSTANCES_FD, self.name.as_ptr(), flags) };
        if directory < 0 {
            return;
        }
        // The recorder's lock is released when it dies. Another process that gets it then is already removing the
        // instance.
        let mut locked = false;
        for _ in 0..RETRY_STEPS {
            // SAFETY: the directory is open.
            locked = unsafe { libc::flock(directory, libc::LOCK_EX | libc::LOCK_NB) } == 0;
            if locked {
                break;
            }
            // SAFETY: a valid duration; the remaining time is not requested.
            unsafe { libc::nanosleep(&raw const RETRY_PAUSE, std::ptr::null_mut()) };
        }
        if !locked {
            return;
        }
        for (file, value) in [(&self.enable, b"0"), (&self.tracing_on, b"0")] {
            // SAFETY: a name relative to an open directory, and one byte of it written.
            unsafe {
                let file = libc::openat(INSTANCES_FD, file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if file >= 0 {
                    libc::write(file, value.as_ptr().cast(), 1);
                    libc::close(file);
                }
            }
        }
        // The instance is busy while another process reads one of its files.
        for _ in 0..RETRY_STEPS {
            // SAFETY: as above.
            let removed = unsafe { libc::unlinkat(INSTANCES_FD, self.name.as_ptr(), libc::AT_REMOVEDIR) } == 0;
            if removed || io::Error::last_os_error().raw_os_error() != Some(libc::EBUSY) {
                return;
            }
            // SAFETY: as above.
            unsafe { libc::nanosleep(&raw const RETRY_PAUSE, std::ptr::null_mut()) };
        }
    }
}
