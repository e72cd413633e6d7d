//! A load of a dispatcher that wakes the threads of a pool.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::spin::until;

/// The parameters of a pool.
pub(crate) struct Calls {
    pub threads: usize,
    pub burst: usize,
    pub every: Duration,
    pub work: Duration,
}

/// Each call wakes the next thread of the pool, as knfsd did before it counted threads already woken. A thread that has
/// not run before its next call is not woken again: the call is dropped, as on a busy server.
pub(crate) fn pool(lasts: Duration, calls: &Calls) {
    let end = Instant::now() + lasts;
    thread::scope(|scope| {
        let mut inboxes: Vec<SyncSender<()>> = Vec::new();
        for _ in 0..calls.threads {
            let (inbox, calls_in) = mpsc::sync_channel(1);
            let thread = thread::Builder::new().name("pool".to_owned()).stack_size(64 << 10);
            // A pool with fewer threads than requested still serves.
            if thread.spawn_scoped(scope, move || serve(&calls_in, calls.work)).is_ok() {
                inboxes.push(inbox);
            }
        }
        let mut turn = (0..inboxes.len()).cycle();
        while Instant::now() < end {
            for index in turn.by_ref().take(calls.burst) {
                let _ = inboxes[index].try_send(());
            }
            thread::sleep(calls.every);
        }
        // Closes the channels, so the threads end.
    });
}

fn serve(calls: &Receiver<()>, work: Duration) {
    while calls.recv().is_ok() {
        until(Instant::now() + work);
    }
}
