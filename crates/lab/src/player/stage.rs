//! The threads of a program: made, placed, begun together, and asked what they did.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex;
use unstarve_executor::sched;
use unstarve_host::SchedAttr;
use unstarve_model::{Nanos, SchedPolicy, Tid};
use unstarve_sim::{Class, Placement, Program};

use super::costs::Costs;
use super::groups::Groups;
use super::own_time::monotonic;
use super::part::{Progress, Step, perform, sleep_until, steps};
use super::tokens::Tokens;
use super::{PlayError, Played, PlayedActor};

/// What all threads share. It is never freed: threads that are not done when the program ends still use it.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) costs: Costs,
    /// Whether wakes may come from another CPU.
    pub(super) is_multiprocessor: bool,
    pub(super) tokens: Vec<Tokens>,
    progress: Vec<Progress>,
    steps: Vec<Vec<Step>>,
    /// For each step, when the run before it ended; empty unless this is a calibration.
    run_ends: Vec<Vec<AtomicU64>>,
    placements: Vec<Placement>,
    groups: Groups,
    tids: Vec<AtomicU32>,
    /// Threads that have taken their places or failed.
    ready: AtomicU32,
    /// Threads that are not done.
    playing: AtomicU32,
    /// 1 from when T0 is known.
    open: AtomicU32,
    t0: AtomicU64,
    over: AtomicBool,
    failed: Mutex<Option<PlayError>>,
}

/// What one thread needs.
pub(super) struct Entered<'a> {
    pub(super) steps: &'a [Step],
    pub(super) tokens: &'a Tokens,
    pub(super) progress: &'a Progress,
    pub(super) run_ends: &'a [AtomicU64],
}

/// Small: hundreds of them are locked in a guest's memory.
const STACK: usize = 64 << 10;

/// Between the opening and T0: each thread sets out to its first sleep.
const HEAD_START: Duration = Duration::from_millis(20);
const HEAD_START_EACH: Duration = Duration::from_micros(100);

impl Stage {
    pub(super) fn set(program: &Program, costs: &Costs, groups: Groups) -> &'static Stage {
        let actors = program.actors.len();
        let mut placements: Vec<Placement> = program.actors.iter().map(|actor| actor.placement.clone()).collect();
        placements.iter_mut().for_each(|placement| placement.cpus = program.places_of(&placement.cpus));
        let steps: Vec<Vec<Step>> = program.actors.iter().map(|actor| steps(actor, costs)).collect();
        // Without known costs this is the run that measures them.
        let run_ends = |steps: &Vec<Step>| match *costs == Costs::default() {
            true => steps.iter().map(|_| AtomicU64::new(0)).collect(),
            false => Vec::new(),
        };
        Box::leak(Box::new(Stage {
            costs: *costs,
            is_multiprocessor: program.cpus.len() > 1,
            run_ends: steps.iter().map(run_ends).collect(),
            tokens: (0..actors).map(|_| Tokens::default()).collect(),
            progress: (0..actors).map(|_| Progress::default()).collect(),
            steps,
            placements,
            groups,
            tids: (0..actors).map(|_| AtomicU32::new(0)).collect(),
            ready: AtomicU32::new(0),
            playing: AtomicU32::new(actors as u32),
            open: AtomicU32::new(0),
            t0: AtomicU64::new(0),
            over: AtomicBool::new(false),
            failed: Mutex::new(None),
        }))
    }

    /// Makes all threads, and waits until each has its settings.
    pub(super) fn enter(&'static self, program: &Program) -> Result<(), PlayError> {
        for (index, actor) in program.actors.iter().enumerate() {
            let (name, comm) = (actor.comm.clone(), actor.comm.clone());
            let thread = std::thread::Builder::new().name(name).stack_size(STACK);
            let made = thread.spawn(move || self.play_one(index, comm));
            if let Err(source) = made {
                self.give_up();
                return Err(PlayError::Io { doing: "make a thread", source });
            }
        }
        let all = program.actors.len() as u32;
        wait_until(&self.ready, |ready| ready == all, None);
        let failed = self.failed.lock().ok().and_then(|mut failed| failed.take());
        match failed {
            Some(error) => {
                self.give_up();
                Err(error)
            }
            None => Ok(()),
        }
    }

    fn give_up(&self) {
        self.over.store(true, Ordering::Release);
        self.unlock();
    }

    fn unlock(&self) {
        self.open.store(1, Ordering::Release);
        let _ = futex::wake(&self.open, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    fn play_one(&self, index: usize, comm: String) {
        self.tids[index].store(own_tid(), Ordering::Release);
        let placed = self.take_place(index);
        if let Err((doing, source)) = placed
            && let Ok(mut failed) = self.failed.lock()
        {
            failed.get_or_insert(PlayError::Actor { comm, doing, source });
        }
        self.ready.fetch_add(1, Ordering::AcqRel);
        let _ = futex::wake(&self.ready, futex::Flags::PRIVATE, 1);
        wait_until(&self.open, |open| open == 1, None);
        if self.is_over() {
            return;
        }
        let entered = Entered {
            steps: &self.steps[index],
            tokens: &self.tokens[index],
            progress: &self.progress[index],
            run_ends: &self.run_ends[index],
        };
        perform(self, &entered);
        // The end of a thread is work that the recording does not have.
        loop {
            std::thread::park();
        }
    }

    fn take_place(&self, index: usize) -> Result<(), (&'static str, io::Error)> {
        let placement = &self.placements[index];
        // SAFETY: sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
        if let Some(group) = placement.cgroup {
            self.groups.enter(group).map_err(|error| ("enter its cgroup", error))?;
        }
        // The kernel refuses deadline tasks with an affinity.
        if !matches!(placement.class, Class::Deadline(_)) {
            sched::set_affinity(Tid(0), &placement.cpus).map_err(|error| ("use its CPUs", error))?;
        }
        sched::set(Tid(0), attributes(placement)).map_err(|error| ("take its policy", error))
    }

    /// Opens the stage; returns T0.
    pub(super) fn begin(&self) -> u64 {
        let head_start = HEAD_START + HEAD_START_EACH * self.tids.len() as u32;
        let t0 = monotonic() + head_start.as_nanos() as u64;
        self.t0.store(t0, Ordering::Release);
        self.unlock();
        t0
    }

    /// Returns when `length` is over, or all threads are done.
    pub(super) fn wait_for_end(&self, t0: u64, length: Duration) {
        sleep_until(t0);
        let end = t0 + length.as_nanos() as u64;
        wait_until(&self.playing, |playing| playing == 0, Some(end));
        self.over.store(true, Ordering::Release);
    }

    pub(super) fn t0(&self) -> u64 {
        self.t0.load(Ordering::Acquire)
    }

    /// Whether nobody needs to go on.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// A thread is done.
    pub(super) fn leave(&self) {
        if self.playing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = futex::wake(&self.playing, futex::Flags::PRIVATE, 1);
        }
    }

    pub(super) fn played(&self, t0: u64) -> Played {
        let actor = |((tid, progress), ends): ((&AtomicU32, &Progress), &Vec<AtomicU64>)| PlayedActor {
            run_ends: ends.iter().map(|at| at.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Nanos).collect(),
            tid: Tid(tid.load(Ordering::Acquire)),
            finished: progress.finished.load(Ordering::Acquire).checked_sub(1).map(Nanos),
            operations: progress.operations.load(Ordering::Relaxed),
        };
        Played { t0: Nanos(t0), actors: self.tids.iter().zip(&self.progress).zip(&self.run_ends).map(actor).collect() }
    }
}

/// Sleeps until the number is as wanted, or until a moment on CLOCK_MONOTONIC.
fn wait_until(word: &AtomicU32, wanted: impl Fn(u32) -> bool, end: Option<u64>) {
    loop {
        let now = word.load(Ordering::Acquire);
        if wanted(now) {
            return;
        }
        let rest = end.map(|end| end.saturating_sub(monotonic()));
        if rest == Some(0) {
            return;
        }
        let rest = rest.map(|ns| rustix::time::Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        let _ = futex::wait(word, futex::Flags::PRIVATE, now, rest.as_ref());
    }
}

fn own_tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn attributes(placement: &Placement) -> SchedAttr {
    match placement.class {
        Class::Fair { policy, nice } => SchedAttr {
            policy: policy.number().unwrap_or(0),
            nice,
            runtime: placement.slice.map_or(0, |slice| slice.0),
            ..SchedAttr::default()
        },
        Class::Realtime { policy, priority } => {
            SchedAttr { policy: policy.number().unwrap_or(1), priority, ..SchedAttr::default() }
        }
        Class::Deadline(times) => SchedAttr {
            policy: SchedPolicy::Deadline.number().unwrap_or(6),
            runtime: times.runtime.0,
            deadline: times.deadline.0,
            period: times.period.0,
            ..SchedAttr::default()
        },
    }
}
