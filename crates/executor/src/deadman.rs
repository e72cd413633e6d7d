//! A second, tiny process that reverts everything when the guard dies, or when ordinary tasks no longer run.
//!
//! The guard sends a heartbeat as long as one of its threads with ordinary priority makes progress: if all ordinary tasks of a
//! machine starve, that is as bad as a dead guard. The dead-man process has a real-time priority above the guard and everything
//! that it sets, answers each heartbeat, and otherwise sleeps in poll(2). If it does not answer or exits, the guard replaces
//! it. It gets descriptors, not paths: of the lock, which no other guard gets before it exits; of the journal, which it can
//! read even after an unlink; and of the audit log.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use unstarve_model::{SchedPolicy, Tid};

use crate::act;
use crate::audit::{Audit, Entry, Event};
use crate::host::Watched;
use crate::journal::Journal;
use crate::registry::Registry;
use crate::sched;
use crate::state::{self, Role, State, StateError};

/// Messages, one byte each; the first five carry a descriptor.
mod word {
    pub const LOCK: u8 = b'l';
    pub const JOURNAL: u8 = b'j';
    pub const AUDIT: u8 = b'a';
    /// The map of managed tasks, and the links that maintain it.
    pub const KEPT: u8 = b'k';
    pub const LINK: u8 = b'n';
    /// A heartbeat, and its answer.
    pub const ALIVE: u8 = b'.';
    /// The guard has reverted everything itself.
    pub const DONE: u8 = b'q';
}

/// The process name.
pub(crate) const NAME: &CStr = c"unstarve-undo";

/// A thread of ordinary priority that shows whether ordinary tasks make progress.
#[derive(Debug)]
pub struct Canary {
    ticks: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    seen: u64,
    last: Instant,
}

impl Canary {
    /// Starts the thread.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn start() -> io::Result<Canary> {
        let (ticks, stop) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicBool::new(false)));
        let (own, ended) = (ticks.clone(), stop.clone());
        thread::Builder::new().name("unstarve-canary".to_owned()).stack_size(64 << 10).spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                own.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(500));
            }
        })?;
        Ok(Canary { ticks, stop, seen: 0, last: Instant::now() })
    }

    /// Whether it has run since the last call.
    pub fn has_run(&mut self) -> bool {
        let now = self.ticks.load(Ordering::Relaxed);
        if now == self.seen {
            return false;
        }
        self.seen = now;
        self.last = Instant::now();
        true
    }

    /// Time since it was last seen to run.
    pub fn silent_for(&self) -> Duration {
        self.last.elapsed()
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The guard's side of the dead-man process.
#[derive(Debug)]
pub struct DeadMan {
    /// `None` after the process was left on its own.
    child: Option<Child>,
    socket: OwnedFd,
    heard: Instant,
}

impl DeadMan {
    /// Starts the process, raises it, and sends it the descriptors.
    ///
    /// # Errors
    /// If it cannot be started, or does not take the descriptors.
    pub fn start(
        mut command: Command,
        priority: u32,
        state: &State,
        journal: &Journal,
        audit: &Audit,
    ) -> io::Result<DeadMan> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let child = command.stdin(Stdio::from(its)).stdout(Stdio::null()).spawn()?;
        // It also raises itself, but while ordinary tasks starve it would not get that far.
        let _ = sched::set_class(Tid(child.id()), SchedPolicy::Fifo, priority, None);
        let mut dead_man = DeadMan { child: Some(child), socket, heard: Instant::now() };
        let given = dead_man.give(state, journal, audit);
        if given.is_err() {
            dead_man.kill();
        }
        given.map(|()| dead_man)
    }

    fn give(&self, state: &State, journal: &Journal, audit: &Audit) -> io::Result<()> {
        send(&self.socket, word::LOCK, Some(state.share_lock()?.as_fd()))?;
        self.give_journal(journal)?;
        match audit.share() {
            Some(audit) => Ok(send(&self.socket, word::AUDIT, Some(audit.as_fd()))?),
            None => Ok(()),
        }
    }

    /// Sends it the registry of inherited changes.
    ///
    /// # Errors
    /// If it does not take the descriptors.
    pub fn give_registry(&self, registry: &Registry) -> io::Result<()> {
        for (index, descriptor) in registry.descriptors().enumerate() {
            send(&self.socket, if index == 0 { word::KEPT } else { word::LINK }, Some(descriptor))?;
        }
        Ok(())
    }

    /// Sends it the lock to hold from now on.
    ///
    /// # Errors
    /// If it does not take it; then a new process must be started.
    pub fn give_lock(&self, state: &State) -> io::Result<()> {
        Ok(send(&self.socket, word::LOCK, Some(state.share_lock()?.as_fd()))?)
    }

    /// Sends it the journal to use from now on.
    ///
    /// # Errors
    /// If it does not take it; then a new process must be started.
    pub fn give_journal(&self, journal: &Journal) -> io::Result<()> {
        Ok(send(&self.socket, word::JOURNAL, Some(journal.file().as_fd()))?)
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Sends a heartbeat, and reads the answers to earlier ones.
    pub fn sign(&mut self) {
        // A process that does not read must not stop the guard; the missing answers are noticed.
        let _ = send(&self.socket, word::ALIVE, None);
        let mut byte = [0];
        while matches!(rustix::net::recv(&self.socket, &mut byte, RecvFlags::DONTWAIT), Ok((1.., _))) {
            self.heard = Instant::now();
        }
    }

    /// Why the process has failed, if it has; then it is killed.
    pub fn failure(&mut self, patience: Duration) -> Option<String> {
        if let Some(Ok(Some(status))) = self.child.as_mut().map(Child::try_wait) {
            return Some(format!("the dead-man ended ({status})"));
        }
        if self.heard.elapsed() <= patience {
            return None;
        }
        self.kill();
        Some(format!("the dead-man did not answer for {} s and was killed", patience.as_secs()))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Leaves it to retry what could not be reverted: it notices that the guard has exited.
    pub fn leave_to_it(mut self) {
        self.child = None;
    }

    /// Everything was reverted; ends the process.
    pub fn dismiss(mut self) {
        let sent = send(&self.socket, word::DONE, None);
        let began = Instant::now();
        while sent.is_ok() && began.elapsed() < Duration::from_secs(1) {
            if matches!(self.child.as_mut().map(Child::try_wait), None | Some(Ok(Some(_)) | Err(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        // It is stopped or starved, and has nothing left to do.
        self.kill();
    }
}

impl Drop for DeadMan {
    /// Without the kill, the process would take the closed socket for the guard's death, and revert what the guard sets later.
    fn drop(&mut self) {
        self.kill();
    }
}

fn send(socket: &OwnedFd, word: u8, with: Option<BorrowedFd>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd> = with.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(&[word])], &mut ancillary, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
}

/// Why the watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The guard has reverted everything.
    Dismissed,
    /// The guard died.
    Died,
    /// No heartbeat within the limit.
    Silent,
}

/// The descriptors that the guard sent.
#[derive(Default)]
struct Given {
    /// Held until this process exits.
    _lock: Option<File>,
    journal: Option<File>,
    audit: Option<File>,
    kept: Option<File>,
    links: Vec<OwnedFd>,
}

/// How often failed reverts are retried.
const TRIES: usize = 5;

/// The dead-man process itself: waits, and reverts what a dead or silent guard left.
///
/// # Errors
/// If the journal cannot be read.
pub fn watch(directory: &Path, role: Role, limit: Duration, priority: u32, guard: u32) -> Result<End, StateError> {
    // Above everything that the guard sets. Without the permission, a normal priority is better than none.
    let _ = sched::become_realtime(priority);
    let _ = rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT);
    // A Ctrl-C at the terminal is for the guard, which then dismisses this process.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(NAME);
    let (end, given) = listen(&io::stdin(), limit);
    if end == End::Dismissed {
        return Ok(end);
    }
    if end == End::Silent
        && rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() as u32 == guard)
    {
        // A silent guard must not set again what is reverted. It is the parent of this process, so its pid cannot have been
        // reused.
        if let Some(pid) = rustix::process::Pid::from_raw(guard as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        // What it is setting now is set before it exits.
        let (stdin, began) = (io::stdin(), Instant::now());
        while began.elapsed() < Duration::from_secs(1) {
            let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let ready = poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait));
            if matches!(ready, Ok(1..)) && receive(&stdin).is_err() {
                break;
            }
        }
    }
    let mut audit = match given.audit {
        Some(audit) => Audit::to(audit),
        None => Audit::none(),
    };
    let reason = if end == End::Silent { "dead-man: no sign of life" } else { "dead-man: the guard died" };
    audit.log(&Entry { reason: Some(reason), ..Entry::of(Event::Stopped) });
    let Some(journal) = given.journal else { return Ok(end) };
    let registry = given.kept.map(|kept| Registry::new(kept.into(), given.links));
    take_back(&journal, directory, role, &mut Watched { registry, at_work: false }, &mut audit)?;
    // Last, because writing may block if the log has no reader.
    audit.finish(Duration::from_secs(2));
    Ok(end)
}

fn take_back(
    journal: &File,
    directory: &Path,
    role: Role,
    host: &mut Watched,
    audit: &mut Audit,
) -> Result<(), StateError> {
    let fail = |source| StateError::Io { path: directory.to_owned(), source };
    for attempt in 0..TRIES {
        let contents = state::contents_of(journal).map_err(fail)?;
        let (undone, _) = act::restore(host, audit, &contents.open);
        if undone.is_complete() {
            // An empty journal means the same as none, and truncating needs no space.
            let _ = journal.set_len(0);
            if role == Role::Guard {
                Registry::unpin();
            }
            state::remove_left(directory, role, journal.metadata().map(|meta| meta.ino()).ok());
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20 << attempt));
    }
    // The rest stays in the journal, for `guard undo` or the next start.
    Ok(())
}

fn listen(socket: &impl AsFd, limit: Duration) -> (End, Given) {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: 0 };
    let mut given = Given::default();
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return (End::Silent, given),
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => {}
        }
        match receive(socket) {
            Ok((word::DONE, _)) => return (End::Dismissed, given),
            Ok((word::ALIVE, _)) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = rustix::net::send(socket, &[word::ALIVE], flags);
            }
            Ok((word::LOCK, descriptor)) => given._lock = descriptor,
            Ok((word::JOURNAL, descriptor)) => given.journal = descriptor,
            Ok((word::AUDIT, descriptor)) => given.audit = descriptor,
            Ok((word::KEPT, descriptor)) => given.kept = descriptor,
            Ok((word::LINK, descriptor)) => given.links.extend(descriptor.map(OwnedFd::from)),
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return (End::Died, given),
        }
    }
}

/// Receives a message and its descriptor. A closed socket is an error.
fn receive(socket: &impl AsFd) -> Result<(u8, Option<File>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(Errno::PIPE);
    }
    let mut descriptor = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            descriptor = descriptors.last().map(File::from);
        }
    }
    Ok((byte[0], descriptor))
}
