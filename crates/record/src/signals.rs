//! Signals and wakeups of the recording's main thread.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

/// The signals that end a recording, as a file descriptor that can be polled.
///
/// Installing a handler also overrides an ignored SIGINT, which shells set for background commands.
pub(crate) struct Signals {
    wake: UnixStream,
    sender: UnixStream,
    last: Arc<AtomicUsize>,
    ids: Vec<SigId>,
}

impl Signals {
    pub(crate) fn install() -> io::Result<Signals> {
        let (wake, sender) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        let mut signals = Signals { wake, sender, last: Arc::default(), ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The signal number is stored before the wakeup is sent: handlers run in the order in which they were
            // registered.
            signals.ids.push(flag::register_usize(signal, Arc::clone(&signals.last), signal as usize)?);
            signals.ids.push(pipe::register(signal, signals.sender.try_clone()?)?);
        }
        Ok(signals)
    }

    /// The last signal received, if any.
    pub(crate) fn received(&self) -> Option<i32> {
        let signal = self.last.load(Ordering::SeqCst);
        (signal != 0).then_some(signal as i32)
    }

    /// Becomes readable on a signal or a [`Waker::wake`].
    pub(crate) fn descriptor(&self) -> &UnixStream {
        &self.wake
    }

    /// Reads all wakeups so far, so that the next poll waits for new ones.
    pub(crate) fn acknowledge(&self) {
        let mut calls = [0; 64];
        while matches!((&self.wake).read(&mut calls), Ok(count) if count > 0) {}
    }

    pub(crate) fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.sender.try_clone()?))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}

/// Wakes the recording's main thread from another thread.
pub(crate) struct Waker(UnixStream);

impl Waker {
    pub(crate) fn wake(&self) {
        // If the socket is full, the main thread is woken anyway.
        let _ = (&self.0).write(&[1]);
    }
}
