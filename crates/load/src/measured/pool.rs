//! A pool of server threads like knfsd's old one: every call wakes one more idle thread, up to a limit of woken ones
//! (the gate).

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::pacing::sleep_until;
use super::{Doing, LoadError};
use crate::metric::{self, Better};
use crate::spin::until as compute_until;

/// Calls come in groups, like packets.
const GROUP_SIZE: u64 = 64;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Woken,
    Busy,
}

struct Server {
    state: Mutex<State>,
    call: Condvar,
}

struct Pool {
    servers: Vec<Server>,
    /// Woken and not yet running: what the gate counts (commit 59a252ff8c0f, `sp_nwaking` there).
    waking: AtomicU64,
    done: AtomicU64,
    stop: AtomicBool,
}

/// Counts of the dispatcher.
#[derive(Default)]
struct Dispatched {
    calls: u64,
    held_back: u64,
    waking_max: u64,
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `threads` servers with `work_us` per call and `rate` calls a second in groups. With `gate`, no thread is woken while
/// that many are woken but not running.
pub(super) fn pool(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let threads = arguments.number("threads", 128, 1..=4096)?;
    let work = arguments.micros("work_us", 150)?;
    let rate = arguments.number("rate", 12_000, 1..=10_000_000)?;
    let (gate, name) = (arguments.number("gate", 0, 0..=4096)?, arguments.text("name", "nfsd"));
    let (length, _) = arguments.done()?;
    let server = |_| Server { state: Mutex::new(State::Idle), call: Condvar::new() };
    let pool = Pool {
        servers: (0..threads).map(server).collect(),
        waking: AtomicU64::new(0),
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let dispatched = thread::scope(|scope| {
        let started = pool.servers.iter().try_for_each(|server| {
            let serve = || serve(&pool, server, work);
            thread::Builder::new().name(name.clone()).spawn_scoped(scope, serve).map(drop).doing("start a thread")
        });
        let dispatched = started.map(|()| dispatch(&pool, rate, gate, Instant::now() + length));
        pool.stop.store(true, Ordering::SeqCst);
        for server in &pool.servers {
            // Under its lock, so that a server between checking and waiting does not miss it.
            let _state = server.lock();
            server.call.notify_one();
        }
        dispatched
    })?;
    write(&pool, &dispatched, length, out).doing("write")
}

fn serve(pool: &Pool, server: &Server, work: Duration) {
    let mut state = server.lock();
    loop {
        while *state != State::Woken {
            if pool.stop.load(Ordering::SeqCst) {
                return;
            }
            state = server.call.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        pool.waking.fetch_sub(1, Ordering::SeqCst);
        *state = State::Busy;
        drop(state);
        if !pool.stop.load(Ordering::SeqCst) {
            compute_until(Instant::now() + work);
            pool.done.fetch_add(1, Ordering::SeqCst);
        }
        state = server.lock();
        *state = State::Idle;
    }
}

fn dispatch(pool: &Pool, rate: u64, gate: u64, end: Instant) -> Dispatched {
    let mut seen = Dispatched::default();
    let mut last = 0;
    let pause = Duration::from_nanos(GROUP_SIZE * 1_000_000_000 / rate);
    let mut due = Instant::now();
    while Instant::now() < end {
        for _ in 0..GROUP_SIZE {
            let waking = pool.waking.load(Ordering::SeqCst);
            seen.waking_max = seen.waking_max.max(waking);
            if gate > 0 && waking >= gate {
                seen.held_back += 1;
            } else if wake_next(pool, &mut last) {
                seen.calls += 1;
            }
        }
        due += pause;
        let now = Instant::now();
        // After a late group, the next ones do not all come at once.
        due = due.max(now);
        sleep_until(due.min(end));
    }
    seen
}

/// Wakes the next idle server after `last`; `false` if all are busy.
fn wake_next(pool: &Pool, last: &mut usize) -> bool {
    for _ in 0..pool.servers.len() {
        *last = (*last + 1) % pool.servers.len();
        let server = &pool.servers[*last];
        let mut state = server.lock();
        if *state == State::Idle {
            *state = State::Woken;
            pool.waking.fetch_add(1, Ordering::SeqCst);
            server.call.notify_one();
            return true;
        }
    }
    false
}

fn write(pool: &Pool, seen: &Dispatched, length: Duration, out: &mut dyn Write) -> std::io::Result<()> {
    let rate = |count: u64| format!("{:.1}", count as f64 / length.as_secs_f64());
    let done = pool.done.load(Ordering::SeqCst);
    writeln!(out, "{}", metric::line("done", rate(done), "1/s", Better::Higher))?;
    writeln!(out, "{}", metric::line("woken", rate(seen.calls), "1/s", Better::Neither))?;
    writeln!(out, "{}", metric::line("held_back", rate(seen.held_back), "1/s", Better::Neither))?;
    writeln!(out, "{}", metric::line("woken_not_running_max", seen.waking_max, "tasks", Better::Lower))
}
