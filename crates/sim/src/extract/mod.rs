//! Takes a [`Program`] from a recording.
//!
//! A [`Sink`] collects what each thread did, in order ([`thread`]). Then passes, each with what it inferred and from how much,
//! make operations of it: who is played ([`cast`]), under which settings ([`placement`]), and which sleeps and runs are by the
//! clock ([`clocks`]).

mod cast;
mod clocks;
mod placement;
mod report;
mod thread;

use std::collections::{BTreeMap, HashMap};

use unstarve_facts::Snapshot;
use unstarve_model::{Nanos, Tid, Time};
use unstarve_timeline::{
    ActorKind, Interrupt, Run, RunEnd, Sink, TaskKey, Wait, WaitEnd, WaitKind, Wake, Waker, World,
};

use crate::felt::{Felt, FeltSoFar};
use crate::predict::growth;
use crate::{Actor, ActorId, Op, Program};

pub use report::{Extraction, Inference, LossOfExtraction};
use thread::{RawOp, Thread, WokenBy};

/// The most operations that are kept: a recording with more is too long to be played.
pub const MAX_OPERATIONS: usize = 4_000_000;

/// Collects what each thread of a recording did; the second sink of a pass.
#[derive(Debug, Default)]
pub struct Extractor {
    threads: Vec<Thread>,
    /// The thread behind each key of the timeline.
    by_key: HashMap<TaskKey, ThreadId>,
    felt: FeltSoFar,
    start: Option<Time>,
    operations: usize,
    losses: report::Losses,
}

/// The index of a thread in [`Extractor::threads`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct ThreadId(u32);

impl ThreadId {
    fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number among what was felt, before it is known who is an actor.
    fn felt(self) -> ActorId {
        ActorId(self.0)
    }
}

/// A program with how it was inferred, and what its actors felt in the recording.
#[derive(Debug, serde::Serialize)]
pub struct Extracted {
    /// The program.
    pub program: Program,
    /// How it was inferred.
    pub extraction: Extraction,
    /// What its actors felt.
    pub recorded: Felt,
    /// How many times as long each actor's runs are after long waits than after short ones; `None` where too few runs tell.
    pub growths: Vec<Option<f64>>,
}

/// Why no program can be taken from a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoProgram {
    /// Nothing shows who woke whom.
    #[error(
        "the recording has no wakeups (sched_waking), so nothing shows what its threads waited for: record again with `unstarve record`"
    )]
    NoWakeups,
    /// It has too many operations.
    #[error(
        "the recording has more than {MAX_OPERATIONS} runs and wakeups, too many to be played: record a shorter part, or take one with --from and --to"
    )]
    TooLong,
    /// No thread did anything.
    #[error("no thread of the recording ran")]
    Nothing,
}

impl Extractor {
    /// The thread behind a key; a new one if the key belongs to another task than before.
    fn thread(&mut self, world: &World, key: TaskKey) -> Option<ThreadId> {
        let task = world.tasks.get(key);
        if task.tid.is_idle() {
            return None;
        }
        let known = self.by_key.get(&key).copied().filter(|id| self.threads[id.index()].tid == task.tid);
        let id = known.unwrap_or_else(|| {
            self.threads.push(Thread::new(task.tid));
            ThreadId(self.threads.len() as u32 - 1)
        });
        self.by_key.insert(key, id);
        self.threads[id.index()].is_now(task);
        self.start.get_or_insert(world.start);
        Some(id)
    }

    fn add(&mut self, id: ThreadId, at: Time, op: RawOp) {
        if self.operations < MAX_OPERATIONS {
            self.operations += 1;
            self.threads[id.index()].ops.push((at, op));
        } else {
            self.losses.is_too_long = true;
        }
    }

    /// What the thread did since the last operation, up to `now`.
    fn add_run(&mut self, id: ThreadId, now: Time) {
        if let Some((began, run)) = self.threads[id.index()].take_run(now) {
            self.add(id, began, RawOp::Run(run));
        }
    }

    /// The end of the collection: the program, how it was inferred, and what was felt.
    ///
    /// # Errors
    /// If the recording has no wakeups, is too long, or is empty.
    pub fn finish(self, world: &World, snapshot: Option<&Snapshot>) -> Result<Extracted, NoProgram> {
        if self.losses.is_too_long {
            return Err(NoProgram::TooLong);
        }
        if self.losses.wakeups == 0 {
            return Err(NoProgram::NoWakeups);
        }
        let Some(start) = self.start else { return Err(NoProgram::Nothing) };
        let length = world.now.since(start);
        let Extractor { mut threads, felt, losses, .. } = self;
        let mut inferences = vec![clocks::constant_sleeps(&mut threads), clocks::runs_by_the_clock(&mut threads)];
        let cast = cast::choose(&threads, snapshot, length);
        let mut places = placement::Places::new(world, snapshot, &threads);
        let mut actors = Vec::new();
        let by_thread: BTreeMap<usize, ActorId> = cast.played.iter().copied().zip((0..).map(ActorId)).collect();
        for &index in &cast.played {
            threads[index].ends(world.now);
            let thread = &threads[index];
            actors.push(Actor {
                tid: thread.tid,
                process: places.process_of(thread),
                comm: thread.comm(),
                is_kernel_thread: thread.is_kernel_thread,
                placement: places.of(thread),
                ops: operations(thread, start, &by_thread),
            });
        }
        let all = felt.felt(threads.len(), length);
        let recorded = Felt { length, actors: cast.played.iter().map(|&index| all.actors[index]).collect() };
        let growths =
            cast.played.iter().map(|&index| growth(std::mem::take(&mut threads[index].after_waits))).collect();
        inferences.extend(cast.inferences);
        inferences.extend(places.inferences());
        let program = Program {
            kernel: snapshot.and_then(Snapshot::kernel_release).map(str::to_owned),
            cpus: places.cpus,
            length,
            cgroups: places.cgroups,
            actors,
            knobs: Vec::new(),
        };
        let extraction = Extraction { inferences, losses: losses.of(&recorded) };
        Ok(Extracted { program, extraction, recorded, growths })
    }
}

/// What a thread does as operations; wakes of threads that are not played are left out, and wakes by them come by the clock.
fn operations(thread: &Thread, start: Time, by_thread: &BTreeMap<usize, ActorId>) -> Vec<Op> {
    let mut ops = Vec::new();
    for (_, raw) in &thread.ops {
        match raw {
            RawOp::Run(run) if run.is_by_clock => ops.push(Op::RunByClock(run.passed)),
            RawOp::Run(run) => match ops.last_mut() {
                Some(Op::Run(before)) => *before = *before + run.cpu,
                _ => ops.push(Op::Run(run.cpu)),
            },
            RawOp::Wake(woken) => {
                if let Some(actor) = by_thread.get(&woken.index()) {
                    ops.push(Op::Wake(*actor));
                }
            }
            RawOp::Sleep(sleep) => ops.push(match sleep.by {
                Some(WokenBy::Thread(waker)) if by_thread.contains_key(&waker.index()) => Op::Block,
                Some(_) if sleep.is_constant => Op::SleepFor(sleep.length()),
                Some(_) => Op::SleepUntil(sleep.ended.since(start)),
                // It sleeps to the end.
                None => continue,
            }),
        }
    }
    ops
}

impl Sink for Extractor {
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let Some(woken) = self.thread(world, wake.wakee) else { return };
        self.losses.wakeups += 1;
        let waker = match wake.waker {
            Waker::Task(key) => self.thread(world, key),
            _ => None,
        };
        let by = match (waker, wake.waker) {
            (Some(waker), _) => {
                self.threads[waker.index()].wakes.push((wake.time, woken));
                WokenBy::Thread(waker)
            }
            (None, Waker::Unknown) => {
                self.losses.wakers_unknown += 1;
                WokenBy::Unknown
            }
            _ => WokenBy::Interrupt,
        };
        self.felt.woke(woken.felt());
        let start = self.start.unwrap_or(world.start);
        match self.threads[woken.index()].wake(wake.time, by) {
            thread::Woken::Slept => {}
            thread::Woken::First => {
                self.add(woken, start, RawOp::Sleep(thread::Sleep::ended_by(start, wake.time, by)));
            }
            thread::Woken::Awake => self.losses.woken_awake += 1,
        }
    }

    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let Some(id) = self.thread(world, wait.task) else { return };
        self.felt.waited(id.felt(), wait.length());
        let thread = &mut self.threads[id.index()];
        thread.waited = thread.waited + wait.length();
        thread.last_wait = Some(wait.length());
        let is_first = thread.ops.is_empty() && thread.has_not_run();
        if wait.kind == WaitKind::New && is_first {
            self.losses.born += 1;
            let start = self.start.unwrap_or(world.start);
            let sleep = thread::Sleep::ended_by(start, wait.start, WokenBy::Unknown);
            self.add(id, start, RawOp::Sleep(sleep));
        }
        if wait.ended == WaitEnd::TraceEnd {
            self.threads[id.index()].ends_waiting = true;
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let Some(id) = self.thread(world, run.task) else { return };
        if self.threads[id.index()].sleeps() {
            self.losses.wakeups_unseen += 1;
            self.threads[id.index()].wake(run.start, WokenBy::Unknown);
        }
        let stayed = matches!(run.ended, RunEnd::Preempted { .. });
        let before = self.threads[id.index()].ran;
        self.threads[id.index()].has_cpu(run.cpu, run.start, run.end);
        for (at, woken) in self.threads[id.index()].wakes_until(run.end) {
            self.threads[id.index()].runs_until(at);
            self.add_run(id, at);
            self.add(id, at, RawOp::Wake(woken));
        }
        self.threads[id.index()].runs_until(run.end);
        let used = self.threads[id.index()].ran.saturating_sub(before);
        self.felt.ran(id.felt(), used, stayed);
        if let Some(wait) = self.threads[id.index()].last_wait.take()
            && run.ended == RunEnd::Slept
        {
            self.threads[id.index()].after_waits.push((wait, used));
        }
        match run.ended {
            RunEnd::Slept => {
                self.add_run(id, run.end);
                self.threads[id.index()].ends_burst();
                self.add(id, run.end, RawOp::Sleep(thread::Sleep::begun(run.end)));
            }
            RunEnd::Died => {
                self.add_run(id, run.end);
                self.by_key.remove(&run.task);
            }
            RunEnd::Preempted { .. } => self.threads[id.index()].is_preempted(),
            RunEnd::Cut => self.add_run(id, run.end),
        }
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        let is_softirq = matches!(world.actors.get(interrupt.actor).kind, ActorKind::Softirq { .. });
        self.losses.in_interrupts = self.losses.in_interrupts + interrupt.end.since(interrupt.start);
        let Some(id) = interrupt.task.and_then(|key| self.thread(world, key)) else { return };
        // A softirq that no interrupt raised is the thread's own work: a send over loopback, say.
        if !is_softirq || interrupt.follows_handler {
            self.threads[id.index()].loses(interrupt.start, interrupt.end);
        }
    }
}

/// The process and thread ids of the recorder, which is not played.
fn recorder_of(snapshot: Option<&Snapshot>) -> Option<Tid> {
    snapshot.and_then(|snapshot| snapshot.recorder)
}

/// Below this a share of the recording is nothing.
const NOTHING_SHARE: f64 = 0.0003;

fn is_nothing(time: Nanos, length: Nanos) -> bool {
    time.share_of(length) < NOTHING_SHARE
}
