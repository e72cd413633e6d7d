//! Traces QEMU with ptrace and runs its threads one at a time ([`super::turns`]).
//!
//! With several virtual CPUs the guest depends on *which* thread runs a due timer: the main loop's timers make the
//! virtual CPUs leave their round early, and which of the two is first depends on the host. Here the main loop runs
//! only while all virtual CPUs are idle, and so does the thread that frees memory, which kicks virtual CPUs as well.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, mem, ptr};

use libc::{c_int, c_long, c_void, pid_t};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::turns::{Side, Turns, Verdict};

/// The first argument of a process of this program that is to be QEMU's tracer.
pub const SUPERVISE_ROLE: &str = "@lab-supervise";

/// Sent to the tracer after the measurement: from then on all threads run freely, so that results are written quickly.
pub(super) const LET_GO: Signal = Signal::USR1;

/// How often the tracer checks for a standstill.
const LOOK_US: libc::suseconds_t = 300_000;

/// After this many checks without an event all threads may be waiting for one that does not come. Not earlier: an
/// overloaded host may delay a woken thread for a second, and turns must not depend on that.
const LOOKS_WITHOUT_EVENT: u32 = 10;

static GO: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(signal: c_int) {
    if signal == LET_GO.as_raw() {
        GO.store(true, Ordering::Relaxed);
    }
}

/// Runs a command to its end; returns its exit code, or 128 plus the signal that ended it. `argv` is its name, the
/// program and its arguments.
///
/// The lab has checked the program and passes it as a descriptor of this process.
pub fn supervise(argv: &[OsString]) -> io::Result<u8> {
    let [called, program, arguments @ ..] = argv else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program"));
    };
    let mut command = Command::new(program);
    command.arg0(called).args(arguments);
    // SAFETY: between fork and exec only these system calls are made.
    unsafe {
        command.pre_exec(|| {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            checked(libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<c_void>(), ptr::null_mut::<c_void>()))
        });
    }
    let child = command.spawn()?;
    interrupt_waits()?;
    Tracer::new(child.id() as pid_t).run()
}

/// A timer's signal interrupts waits regularly.
fn interrupt_waits() -> io::Result<()> {
    for signal in [LET_GO.as_raw(), libc::SIGALRM] {
        // SAFETY: all zeros is a valid sigaction (no flags, so waits are not restarted), and the handler only stores.
        let result = unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            libc::sigaction(signal, &action, ptr::null_mut())
        };
        checked(result.into())?;
    }
    let every = libc::timeval { tv_sec: 0, tv_usec: LOOK_US };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the timer lives across the call.
    checked(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) }.into())
}

fn checked(result: c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The role of a QEMU thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It has no name yet.
    Unknown,
    Side(Side),
    /// It does not affect virtual time.
    Free,
}

struct Thread {
    role: Role,
    /// The address of the futex that it waits on; 0 for other waiting system calls.
    waits: Option<u64>,
}

struct Tracer {
    leader: pid_t,
    threads: HashMap<pid_t, Thread>,
    turns: Turns,
    began: bool,
    /// Whether the first thread after the leader was seen.
    second: bool,
    /// The number of checks in a row without an event.
    quiet: u32,
}

/// The next step of a stopped thread.
enum Next {
    Resume,
    Stay,
}

impl Tracer {
    fn new(leader: pid_t) -> Tracer {
        Tracer { leader, threads: HashMap::new(), turns: Turns::default(), began: false, second: false, quiet: 0 }
    }

    fn run(&mut self) -> io::Result<u8> {
        loop {
            let mut status = 0;
            // SAFETY: the status lives across the call.
            let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
            if tid < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
                self.on_alarm();
            } else if libc::WIFSTOPPED(status) {
                self.quiet = 0;
                self.on_stop(tid, status);
            } else {
                self.on_end(tid);
                if tid == self.leader {
                    let signal = || 128 + libc::WTERMSIG(status);
                    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { signal() };
                    return Ok(code as u8);
                }
            }
        }
    }

    fn on_alarm(&mut self) {
        if GO.load(Ordering::Relaxed) {
            while let Some(side) = self.turns.let_go() {
                self.resume_side(side);
            }
            return;
        }
        self.quiet += 1;
        if self.quiet > LOOKS_WITHOUT_EVENT
            && let Some(side) = self.turns.unstick()
        {
            self.quiet = 0;
            self.resume_side(side);
        }
    }

    fn on_end(&mut self, tid: pid_t) {
        if let Some(Thread { role: Role::Side(side), .. }) = self.threads.remove(&tid)
            && let Some(next) = self.turns.ends(side)
        {
            self.resume_side(next);
        }
    }

    fn on_stop(&mut self, tid: pid_t, status: c_int) {
        let signal = libc::WSTOPSIG(status);
        if !self.threads.contains_key(&tid) {
            let role = self.role_of_new(tid);
            if let Role::Side(side) = role {
                self.turns.appears(side);
            }
            self.threads.insert(tid, Thread { role, waits: None });
        }
        if !self.began && tid == self.leader {
            self.began = true;
            let options = libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACESYSGOOD;
            // SAFETY: the thread is stopped; the call takes no pointers. Without the options nothing is held.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, tid, ptr::null_mut::<c_void>(), options as usize) };
            return self.resume(tid, 0);
        }
        if signal == libc::SIGTRAP | 0x80 {
            match self.on_system_call(tid) {
                Next::Resume => self.resume(tid, 0),
                Next::Stay => {}
            }
        } else {
            // A new thread begins with SIGSTOP, an event is a SIGTRAP; neither is for QEMU.
            let ours = signal == libc::SIGTRAP || signal == libc::SIGSTOP;
            self.resume(tid, if ours { 0 } else { signal });
        }
    }

    fn on_system_call(&mut self, tid: pid_t) -> Next {
        let Some(call) = system_call(tid) else { return Next::Resume };
        let role = self.role(tid);
        match (role, call) {
            (Role::Side(side), Call::Begins(Doing::Waits(on))) => {
                if let Some(thread) = self.threads.get_mut(&tid) {
                    thread.waits = Some(on);
                }
                // It blocks before the next thread runs.
                self.resume(tid, 0);
                if let Some(next) = self.turns.blocks(side) {
                    self.resume_side(next);
                }
                Next::Stay
            }
            (Role::Side(side), Call::Ends) => {
                let waited = self.threads.get_mut(&tid).and_then(|thread| thread.waits.take());
                match waited.map(|_| self.turns.returns(side)) {
                    Some(Verdict::Hold) => Next::Stay,
                    Some(Verdict::Run) | None => Next::Resume,
                }
            }
            (_, Call::Begins(Doing::Wakes(address))) => {
                let woken = self.threads.values().find(|thread| thread.waits == Some(address));
                if let Some(Thread { role: Role::Side(side), .. }) = woken {
                    self.turns.wakes(*side);
                }
                Next::Resume
            }
            _ => Next::Resume,
        }
    }

    /// QEMU starts the thread that frees memory before it parses its options, including the one that names threads.
    fn role_of_new(&mut self, tid: pid_t) -> Role {
        if tid == self.leader {
            Role::Side(Side::Main)
        } else if !mem::replace(&mut self.second, true) {
            Role::Side(Side::Rcu)
        } else {
            Role::Unknown
        }
    }

    /// A thread has a name only after it has run.
    fn role(&mut self, tid: pid_t) -> Role {
        let Some(thread) = self.threads.get_mut(&tid) else { return Role::Free };
        if thread.role != Role::Unknown {
            return thread.role;
        }
        let name =
            |tid: pid_t| fs::read_to_string(format!("/proc/{}/task/{tid}/comm", self.leader)).unwrap_or_default();
        let own = name(tid);
        thread.role = match own.trim_end() {
            "ALL CPUs/TCG" => Role::Side(Side::Cpus),
            _ if own == name(self.leader) => Role::Unknown,
            _ => Role::Free,
        };
        if let Role::Side(side) = thread.role {
            self.turns.appears(side);
        }
        thread.role
    }

    fn resume_side(&self, side: Side) {
        let held = self.threads.iter().find(|(_, thread)| thread.role == Role::Side(side));
        if let Some((&tid, _)) = held {
            self.resume(tid, 0);
        }
    }

    /// If the thread has died meanwhile, the next wait reports it.
    fn resume(&self, tid: pid_t, signal: c_int) {
        let free = self.threads.get(&tid).is_some_and(|thread| thread.role == Role::Free);
        let request = if free { libc::PTRACE_CONT } else { libc::PTRACE_SYSCALL };
        // SAFETY: the thread is stopped; the call takes no pointers.
        unsafe { libc::ptrace(request, tid, ptr::null_mut::<c_void>(), signal as usize) };
    }
}

enum Call {
    Begins(Doing),
    Ends,
}

#[derive(Debug, PartialEq, Eq)]
enum Doing {
    /// On the futex at this address; 0 for other calls.
    Waits(u64),
    Wakes(u64),
    Else,
}

fn system_call(tid: pid_t) -> Option<Call> {
    // SAFETY: all zeros is valid: it holds integers alone.
    let mut info: libc::ptrace_syscall_info = unsafe { mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    // SAFETY: the thread is stopped, and at most `size` bytes are written.
    let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, tid, size, &raw mut info) };
    match info.op {
        _ if got <= 0 => None,
        libc::PTRACE_SYSCALL_INFO_ENTRY => {
            // SAFETY: `op` says that this is the part that was written.
            let (number, arguments) = unsafe { (info.u.entry.nr, info.u.entry.args) };
            Some(Call::Begins(doing(number as c_long, &arguments)))
        }
        libc::PTRACE_SYSCALL_INFO_EXIT => Some(Call::Ends),
        _ => None,
    }
}

fn doing(number: c_long, arguments: &[u64; 6]) -> Doing {
    match number {
        libc::SYS_futex => match arguments[1] as c_int & libc::FUTEX_CMD_MASK {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Doing::Waits(arguments[0]),
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => Doing::Wakes(arguments[0]),
            _ => Doing::Else,
        },
        libc::SYS_ppoll | libc::SYS_clock_nanosleep => Doing::Waits(0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_nanosleep => Doing::Waits(0),
        _ => Doing::Else,
    }
}
