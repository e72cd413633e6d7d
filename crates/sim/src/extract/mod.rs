//! Takes a [`Program`] from a recording.
//!
//! A [`Sink`] collects what each thread did, in order ([`thread`]). Then passes, each with what it inferred and from how much,
//! make operations of it: who is played ([`cast`]), under which settings ([`placement`]), which sleeps and runs are by the clock
//! ([`clocks`]), and what switches cost ([`costs`]).

mod cast;
mod clocks;
mod costs;
mod felt_log;
mod placement;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod thread;
mod timers;
mod tokens;
mod unended;

use std::collections::{BTreeMap, HashMap};

use unstarve_facts::Snapshot;
use unstarve_model::{Nanos, Tid, Time};
use unstarve_sched::KernelThread;
use unstarve_timeline::{
    Interrupt, Run, RunEnd, Sink, Step, StepKind, TaskKey, Wait, WaitEnd, WaitKind, Wake, Waker, WorkItem, World,
};

use crate::felt_waits::Felt;
use crate::predict::growth;
use crate::{Actor, ActorId, Op, Program, SwitchCosts};

use felt_log::{FeltLog, Part};
pub use report::{Evidence, Extraction, Inference, LossOfExtraction};
use thread::{Deed, Queued, RawOp, Sleep, Thread, WokenBy};
use timers::Timers;
use tokens::Tokens;

/// The most operations that are kept: a recording with more is too long to be played.
pub const MAX_OPERATIONS: usize = 4_000_000;

/// Collects what each thread of a recording did; the second sink of a pass.
#[derive(Debug, Default)]
pub struct Extractor {
    /// Of how many operations it keeps fewer than [`MAX_OPERATIONS`].
    fewer: usize,
    threads: Vec<Thread>,
    /// The thread behind each key of the timeline.
    by_key: HashMap<TaskKey, ThreadId>,
    tokens: Tokens,
    timers: Timers,
    softirqs: report::Softirqs,
    felt: FeltLog,
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
    /// Whether each actor's items of work are alike: three in four take no more than three times what one in four takes.
    pub alike: Vec<bool>,
    /// Whether each actor was gone again after a small part of the recording.
    pub short_lived: Vec<bool>,
    /// Whether each actor's priority changed again and again.
    pub sets_itself: Vec<bool>,
    /// Whether each actor may use several CPUs, and ran on several.
    pub moves: Vec<bool>,
    /// Whether each actor is kept on the CPU on which it stayed, although it may use others.
    pub kept: Vec<bool>,
    /// The same of each half of the recording: what the first one's program gives is held against the second.
    #[serde(skip)]
    pub halves: Option<Box<[Extracted; 2]>>,
}

/// Why no program can be taken from a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoProgram {
    /// The recording has no wakeups.
    #[error(
        "the recording has no wakeups (sched_waking), so nothing shows what its threads waited for: record again with `unstarve record`"
    )]
    NoWakeups,
    /// It has too many operations.
    #[error(
        "the recording has more than {MAX_OPERATIONS} runs and wakeups, too many to be played: record a shorter part, or take one with --from and --to"
    )]
    TooLong,
    /// Its scheduler is unknown.
    #[error("a BPF scheduler (sched_ext) had the recorded threads, and what it does is not known")]
    BpfScheduler,
    /// No thread did anything.
    #[error("no thread of the recording ran")]
    Nothing,
}

impl Extractor {
    /// One that gives up, and frees what it kept, at more operations than `most`: a longer recording costs no more.
    pub fn up_to(most: usize) -> Extractor {
        Extractor { fewer: MAX_OPERATIONS.saturating_sub(most), ..Extractor::default() }
    }

    /// The thread behind a key; a new one if the key belongs to another task than before. None once there is too much for a program.
    fn thread(&mut self, world: &World, key: TaskKey) -> Option<ThreadId> {
        if self.losses.is_too_long {
            (self.threads, self.by_key, self.tokens) = Default::default();
            return None;
        }
        let task = world.tasks.get(key);
        if task.tid.is_idle() {
            return None;
        }
        let id = self.known_thread(world, key).unwrap_or_else(|| {
            self.threads.push(Thread::new(task.tid));
            ThreadId(self.threads.len() as u32 - 1)
        });
        self.by_key.insert(key, id);
        self.threads[id.index()].is_now(task);
        self.start.get_or_insert(world.start);
        Some(id)
    }

    fn known_thread(&self, world: &World, key: TaskKey) -> Option<ThreadId> {
        let tid = world.tasks.get(key).tid;
        self.by_key.get(&key).copied().filter(|id| self.threads[id.index()].tid == tid)
    }

    fn add(&mut self, id: ThreadId, at: Time, op: RawOp) {
        if self.operations + self.fewer < MAX_OPERATIONS {
            self.operations += 1;
            self.threads[id.index()].ops.push((at, op));
        } else {
            self.losses.is_too_long = true;
        }
    }

    /// A thread was created: it begins when its parent has done so.
    fn born(&mut self, world: &World, child: TaskKey, parent: ThreadId, now: Time) -> Option<Deed> {
        let id = self.thread(world, child)?;
        let start = self.start.unwrap_or(world.start);
        self.threads[id.index()].wake(now, WokenBy::Thread(parent));
        self.threads[id.index()].is_born = true;
        let group = self.threads[parent.index()].group();
        self.threads[id.index()].begins_in(group);
        self.add(id, start, RawOp::Sleep(Sleep::ended_by(start, now, WokenBy::Thread(parent))));
        Some(Deed::Wake(id))
    }

    /// What is known by a step that is no deed of a thread.
    fn note_step(&mut self, world: &World, step: &Step, by: Option<ThreadId>) {
        match step.kind {
            StepKind::TimerStarted(start) => self.timers.start(start, by, step.time),
            StepKind::TimerExpired { timer, now } => self.timers.expire(step.cpu, timer, now, step.time),
            StepKind::TimeoutExpired => self.timers.time_out(step.cpu, step.time),
            StepKind::PrioInherited { task, from, to } => {
                // What the timeline knows of it now is the inherited priority.
                if let Some(id) = self.known_thread(world, task).or_else(|| self.thread(world, task)) {
                    self.threads[id.index()].changes_inherited(from, to);
                }
            }
            StepKind::Attached { task, hierarchy, group } => {
                if let Some(id) = self.thread(world, task) {
                    let is_known = hierarchy == UNIFIED && group.is_some();
                    self.threads[id.index()].is_moved(group.filter(|_| is_known));
                    self.losses.moves_unknown += u64::from(!is_known);
                }
            }
            _ => {}
        }
    }

    /// An interrupt wakes a thread: its own timer, the device that served its request, another's timer, or something else.
    fn woken_by_interrupt(&mut self, wake: &Wake<'_>, woken: ThreadId) -> WokenBy {
        let own = self.timers.own(wake.cpu, wake.time, woken).map(WokenBy::Timer);
        own.or_else(|| self.tokens.wake_by_interrupt(wake.cpu, wake.time, woken).map(WokenBy::Device))
            .or_else(|| self.timers.others(wake.cpu, wake.time).map(WokenBy::Timer))
            .unwrap_or(WokenBy::Interrupt)
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
    pub fn finish(mut self, world: &World, snapshot: Option<&Snapshot>) -> Result<Extracted, NoProgram> {
        if self.losses.is_too_long {
            return Err(NoProgram::TooLong);
        }
        if snapshot.and_then(Snapshot::ext_scheduler).is_some_and(|scheduler| scheduler.all_tasks) {
            return Err(NoProgram::BpfScheduler);
        }
        if self.losses.wakeups == 0 {
            return Err(NoProgram::NoWakeups);
        }
        let Some(start) = self.start else { return Err(NoProgram::Nothing) };
        let all = Part { start, end: world.now };
        let mut threads = std::mem::take(&mut self.threads);
        threads.iter_mut().for_each(|thread| thread.ends(world.now));
        let half = |part: Part| {
            let threads = threads.iter().map(|thread| thread.in_part(part)).collect();
            self.of_part(part, threads, world, snapshot)
        };
        let halves = Some(Box::new(all.halves().map(half)));
        Ok(Extracted { halves, ..self.of_part(all, threads, world, snapshot) })
    }

    /// What a part of the recording gives.
    fn of_part(&self, part: Part, mut threads: Vec<Thread>, world: &World, snapshot: Option<&Snapshot>) -> Extracted {
        let Extractor { tokens, timers, softirqs, felt, .. } = self;
        let mut losses = self.losses;
        let length = part.length();
        let mut inferences = clocks::timed_sleeps(&mut threads, timers);
        inferences.extend([clocks::constant_sleeps(&mut threads), clocks::runs_by_the_clock(&mut threads)]);
        inferences.extend(softirqs.inferences());
        let cast = cast::choose(&threads, snapshot, length);
        let mut places = placement::Places::new(world, snapshot, &threads, length);
        let mut actors = Vec::new();
        let by_thread: BTreeMap<usize, ActorId> = cast.played.iter().copied().zip((0..).map(ActorId)).collect();
        for &index in &cast.played {
            let thread = &threads[index];
            actors.push(Actor {
                tid: thread.tid,
                process: places.process_of(thread),
                comm: thread.comm(),
                is_kernel_thread: thread.is_kernel_thread,
                placement: places.of(thread),
                begins_on: thread.seen_first,
                is_born: thread.is_born,
                costs: SwitchCosts::default(),
                ops: operations(thread, part.start, tokens, &by_thread),
            });
        }
        let all = felt.felt(part, threads.len());
        let mut recorded = Felt { length, actors: cast.played.iter().map(|&index| all.actors[index]).collect() };
        let growths = cast.played.iter().map(|&index| growth(&threads[index].after_waits)).collect();
        let moves = cast.played.iter().map(|&index| threads[index].moves()).collect();
        let sets_itself = cast.played.iter().map(|&index| threads[index].sets_itself()).collect();
        let kept = cast.played.iter().map(|&index| places.keeps(&threads[index])).collect();
        let short_lived = cast.played.iter().map(|&index| threads[index].is_short_lived(length)).collect();
        inferences.extend(cast.inferences);
        let ((items, all_items), (requests, all_requests)) = (tokens.items(), tokens.requests());
        inferences.extend([
            Inference::seen(
                format!("{items} of {all_items} work items that threads queued were begun by a worker"),
                items as u64,
            ),
            Inference::seen(
                format!("{requests} of {all_requests} requests to block devices woke a thread or queued a work item"),
                requests as u64,
            ),
        ]);
        inferences.extend(places.inferences());
        places.note_losses(&mut losses);
        let inherited =
            || cast.played.iter().map(|&index| threads[index].ran_inherited).filter(|ran| *ran > Nanos::ZERO);
        losses.inherited = (inherited().count() as u64, inherited().sum());
        let cpus = places.cpus.len();
        let mut program = Program {
            kernel: snapshot.and_then(Snapshot::kernel_release).map(str::to_owned),
            cpus: places.cpus,
            length,
            dispatch: felt.quickest(),
            longest_interrupt: losses.longest_interrupt,
            interrupt_wait: losses.interrupt_wait(length, cpus),
            cgroup_mount: snapshot
                .and_then(|snapshot| snapshot.hierarchy.as_ref())
                .map(|hierarchy| hierarchy.mount.clone())
                .filter(|mount| mount != "/sys/fs/cgroup"),
            cgroups: places.cgroups,
            actors,
            knobs: settings::changed(snapshot, cpus),
        };
        inferences.extend(costs::infer(&mut program));
        for (felt, actor) in recorded.actors.iter_mut().zip(&program.actors) {
            felt.items = actor.ops.iter().filter(|op| op.begins_item()).count() as u64;
        }
        let unended = |index: &usize| threads[*index].is_runnable_at_end;
        inferences.extend(unended::extend(&mut program, cast.played.iter().map(unended)));
        let extraction = Extraction { inferences, losses: losses.of(&recorded) };
        let alike = program.actors.iter().map(|actor| costs::are_alike(&actor.ops)).collect();
        Extracted { program, extraction, recorded, growths, alike, short_lived, sets_itself, moves, kept, halves: None }
    }
}

/// What a thread does as operations; what it does for threads that are not played is left out, and what those do for it comes by
/// the clock.
fn operations(thread: &Thread, start: Time, tokens: &Tokens, by_thread: &BTreeMap<usize, ActorId>) -> Vec<Op> {
    let actor = |id: ThreadId| by_thread.get(&id.index()).copied();
    let mut ops = Vec::new();
    // Whether a worker has slept for want of work since its last item.
    let mut has_slept = false;
    for (at, raw) in &thread.ops {
        let op = match raw {
            RawOp::Run(run) if run.is_by_clock => Some(Op::RunByClock(run.passed)),
            RawOp::Run(run) => {
                if let Some(Op::Run(before)) = ops.last_mut() {
                    *before += run.cpu;
                    None
                } else {
                    Some(Op::Run(run.cpu))
                }
            }
            RawOp::Deed(Deed::Wake(woken)) => actor(*woken).map(Op::Wake),
            RawOp::Deed(Deed::Queue(token)) => tokens.taker_of_item(*token).and_then(actor).map(Op::Wake),
            RawOp::Deed(Deed::Issue(request)) => {
                tokens.taker_of_request(*request).and_then(|(taker, delay)| Some(Op::WakeAfter(actor(taker)?, delay)))
            }
            RawOp::Deed(Deed::Take(queued)) => {
                let giver = match queued {
                    Queued::ByThread(token) => Some(tokens.giver_of_item(*token)),
                    Queued::ByDevice(request) => Some(tokens.issuer_of(*request)),
                    Queued::At(_) => None,
                };
                let took = if std::mem::take(&mut has_slept) { Op::Block } else { Op::Take };
                let queued_at = if let Queued::At(at) = queued { at } else { at };
                Some(giver.and_then(actor).map_or(Op::SleepUntil(queued_at.since(start)), |_| took))
            }
            // It begins its next item as soon as there is one.
            RawOp::Sleep(Sleep { is_idle: true, .. }) => {
                has_slept = true;
                None
            }
            RawOp::Sleep(sleep) => match sleep.by {
                Some(WokenBy::Thread(waker)) if actor(waker).is_some() => Some(Op::Block),
                Some(WokenBy::Device(request)) if actor(tokens.issuer_of(request)).is_some() => Some(Op::Block),
                Some(_) if sleep.is_length => Some(Op::SleepFor(sleep.length())),
                Some(_) => Some(Op::SleepUntil(sleep.ended.since(start))),
                // It sleeps to the end.
                None => None,
            },
        };
        ops.extend(op);
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
        // A worker without work is woken because there is some: the item says who queued it.
        // One that is awake takes nothing from this wakeup: no later block is for it.
        let is_idle = self.threads[woken.index()].is_idle() || self.threads[woken.index()].is_awake();
        let by = match (waker, wake.waker) {
            (Some(waker), _) => {
                if !is_idle {
                    self.threads[waker.index()].deeds.push((wake.time, Deed::Wake(woken)));
                }
                WokenBy::Thread(waker)
            }
            (None, Waker::Interrupt(_)) if !is_idle => self.woken_by_interrupt(wake, woken),
            (None, Waker::Unknown) => {
                self.losses.wakers_unknown += 1;
                WokenBy::Unknown
            }
            _ => WokenBy::Interrupt,
        };
        self.felt.woke(woken, wake.time);
        let start = self.start.unwrap_or(world.start);
        match self.threads[woken.index()].wake(wake.time, by) {
            thread::Woken::Slept => {}
            thread::Woken::First => {
                self.add(woken, start, RawOp::Sleep(Sleep::ended_by(start, wake.time, by)));
            }
            thread::Woken::Awake => self.losses.woken_awake += 1,
        }
    }

    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let Some(id) = self.thread(world, wait.task) else { return };
        self.felt.waited(id, wait.end, wait.length());
        let thread = &mut self.threads[id.index()];
        thread.waited += wait.length();
        thread.last_wait = Some(wait.length());
        let is_first = thread.ops.is_empty() && thread.has_not_run();
        if wait.kind == WaitKind::New && is_first {
            self.losses.born += 1;
            self.threads[id.index()].is_born = true;
            let start = self.start.unwrap_or(world.start);
            let sleep = Sleep::ended_by(start, wait.start, WokenBy::Unknown);
            self.add(id, start, RawOp::Sleep(sleep));
        }
        if wait.ended == WaitEnd::TraceEnd {
            self.threads[id.index()].is_runnable_at_end = true;
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let Some(id) = self.thread(world, run.task) else { return };
        if self.threads[id.index()].sleeps() {
            self.losses.wakeups_unseen += 1;
            self.threads[id.index()].wake(run.start, WokenBy::Unknown);
        }
        let stayed = matches!(run.ended, RunEnd::Preempted { .. });
        self.threads[id.index()].is_runnable_at_end = run.ended == RunEnd::Cut;
        let before = self.threads[id.index()].ran;
        self.threads[id.index()].has_cpu(run.cpu, run.start, run.end);
        for (at, deed) in self.threads[id.index()].deeds_until(run.end) {
            self.threads[id.index()].runs_until(at);
            self.add_run(id, at);
            self.add(id, at, RawOp::Deed(deed));
        }
        self.threads[id.index()].runs_until(run.end);
        let used = self.threads[id.index()].ran.saturating_sub(before);
        self.felt.ran(id, run.end, used, stayed);
        if let Some(wait) = self.threads[id.index()].last_wait.take()
            && run.ended == RunEnd::Slept
        {
            self.threads[id.index()].after_waits.push((wait, used));
        }
        match run.ended {
            RunEnd::Slept => {
                self.add_run(id, run.end);
                self.threads[id.index()].ends_burst();
                let is_worker =
                    KernelThread::of(self.threads[id.index()].kernel_name()).is_some_and(KernelThread::is_worker);
                let is_idle = is_worker && self.tokens.has_items && !self.threads[id.index()].in_item;
                self.add(id, run.end, RawOp::Sleep(Sleep::begun(run.end, is_idle)));
            }
            RunEnd::Died => {
                self.add_run(id, run.end);
                self.threads[id.index()].died = Some(run.end);
                self.by_key.remove(&run.task);
            }
            RunEnd::Preempted { .. } => self.threads[id.index()].is_preempted(),
            RunEnd::Cut => self.add_run(id, run.end),
        }
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        if let Some(id) = self.thread(world, item.worker) {
            self.threads[id.index()].in_item = false;
        }
    }

    fn step(&mut self, world: &World, step: &Step) {
        if self.losses.is_too_long {
            return;
        }
        let by = step.by.and_then(|key| self.thread(world, key));
        self.note_step(world, step, by);
        let deed = match (step.kind, by) {
            (StepKind::WorkQueued(work), Some(giver)) => Some(Deed::Queue(self.tokens.queue(work, giver))),
            (StepKind::WorkQueued(work), None) => {
                self.tokens.queue_by_interrupt(work, step.cpu, step.time);
                None
            }
            (StepKind::WorkStarted(work), Some(worker)) => {
                self.threads[worker.index()].in_item = true;
                self.tokens.start(work, worker).map(Deed::Take)
            }
            (StepKind::RequestIssued(request), Some(issuer)) => {
                self.tokens.issue(&request, issuer, step.time).map(Deed::Issue)
            }
            (StepKind::RequestCompleted(request), None) => {
                self.tokens.complete(&request, step.cpu, step.time);
                None
            }
            (StepKind::Created(child), Some(parent)) => self.born(world, child, parent, step.time),
            _ => None,
        };
        if let (Some(deed), Some(by)) = (deed, by) {
            self.threads[by.index()].deeds.push((step.time, deed));
        }
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        self.softirqs.note(world, interrupt);
        self.timers.interrupt_ends(interrupt.cpu);
        let length = interrupt.end.since(interrupt.start);
        self.losses.longest_interrupt = self.losses.longest_interrupt.max(length);
        let Some(id) = interrupt.task.and_then(|key| self.thread(world, key)) else { return };
        if !interrupt.is_own_work {
            self.losses.in_interrupts += length;
            self.threads[id.index()].loses(interrupt.start, interrupt.end);
        }
    }
}

/// The hierarchy of cgroup v2, by its id. Of v1 hierarchies no event says which has the CPU controller.
const UNIFIED: u32 = 0;

/// The process and thread ids of the recorder, which is not played.
fn recorder_of(snapshot: Option<&Snapshot>) -> Option<Tid> {
    snapshot.and_then(|snapshot| snapshot.recorder)
}

/// Below this a share of the recording is nothing.
const NOTHING_SHARE: f64 = 0.00001;

fn is_nothing(time: Nanos, length: Nanos) -> bool {
    time.share_of(length) < NOTHING_SHARE
}
