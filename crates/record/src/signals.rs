use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

/// The signals that end a recording, made into a file descriptor that can be polled.
///
/// Installing a handler also overrides a SIGINT that was ignored at start, as shells do for commands in the background.
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
            // The number is stored before the wakeup is sent: handlers run in the order of their registration.
            signals.ids.push(flag::register_usize(signal, Arc::clone(&signals.last), signal as usize)?);
            signals.ids.push(pipe::register(signal, signals.sender.try_clone()?)?);
        }
        Ok(signals)
    }

    /// The signal that came last, if any.
    pub(crate) fn received(&self) -> Option<i32> {
        let signal = self.last.load(Ordering::SeqCst);
        (signal != 0).then_some(signal as i32)
    }

    /// What becomes readable when a signal or a [`Waker`] calls.
    pub(crate) fn descriptor(&self) -> &UnixStream {
        &self.wake
    }

    /// Takes the calls that have come, so that the next poll waits for new ones.
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

/// Ends the wait of the recording's main thread from another thread.
pub(crate) struct Waker(UnixStream);

impl Waker {
    pub(crate) fn wake(&self) {
        // A full socket is as good a call as any.
        let _ = (&self.0).write(&[1]);
    }
}
