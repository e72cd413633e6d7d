//! Replays a program in a guest: under the real scheduler of any kernel.

use std::path::Path;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::{ExplainError, Options, Proofs, drive, explain};
use unstarve_files::{Limit, ReadError, read_text};
use unstarve_model::{LossKind, Nanos, Tid, Time};
use unstarve_readers::OpenError;
use unstarve_sim::predict::{self, Engine};
use unstarve_sim::{ActorFelt, ActorId, Felt, Op, Program};
use unstarve_timeline::{Interrupt, Run, RunEnd, Sink, TaskKey, Wake, Waker, World};

use crate::felt::{LostToInterrupts, Window};
use crate::player::{self, Costs, PLAYER, PlayError, Played, Shown};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::{Expect, GuestFile, Load, Scenario};

/// More CPUs than this are not played: guests take turns with them, and what one CPU does takes time of the others.
pub const MAX_CPUS: usize = 4;

/// Longer programs are not played.
pub const MAX_LENGTH: Nanos = Nanos(59_000_000_000);

/// The program's file in the guest.
const PROGRAM_FILE: &str = "/program.json";

/// What the player prints.
const PLAYED_LIMIT: Limit = Limit { bytes: 64 << 20, expected: "what the player prints" };

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError<E: std::error::Error> {
    /// The program cannot be played.
    #[error(transparent)]
    Play(#[from] PlayError),
    /// It is too large for a guest.
    #[error("{what}; a guest plays at most {limit}")]
    TooLarge {
        /// How large.
        what: String,
        /// The limit.
        limit: String,
    },
    /// The guest failed.
    #[error(transparent)]
    Run(E),
    /// What the player printed cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file is not what it should be.
    #[error("{path}: {source}")]
    Json {
        /// Which.
        path: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The guest's trace cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The guest's trace cannot be analysed.
    #[error(transparent)]
    Explain(#[from] ExplainError),
    /// The kernel overwrote events that the recorder had not read.
    #[error("the replay's trace lost {events} events: play a shorter program")]
    Lost {
        /// How many.
        events: u64,
    },
    /// The guest's trace does not show what the player's operations cost.
    #[error("the calibration on {kernel} shows no costs: its trace lacks wakes or switches of the player")]
    NoCosts {
        /// The kernel.
        kernel: String,
    },
}

/// A program to be played, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The program.
    pub program: Program,
    /// The kernel's name in the store.
    pub kernel: String,
    /// Knobs beside the program's own, as in [`Request::knobs`].
    pub knobs: Vec<(String, String)>,
    /// Moves the absolute timers of the actors against each other by up to 2 ms; 0 moves none.
    pub seed: u64,
}

/// A program that was played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// What its actors felt, from T0 for the program's length.
    pub felt: Felt,
    /// What the player did.
    pub played: Played,
    /// What the player's operations cost on this kernel, which was taken out of runs.
    pub costs: Costs,
    /// The guest.
    pub outcome: Outcome,
}

impl Replay {
    /// The program on the kernel, with its own knobs and as it was recorded.
    pub fn new(program: Program, kernel: impl Into<String>) -> Replay {
        Replay { program, kernel: kernel.into(), knobs: Vec::new(), seed: 0 }
    }

    /// Plays it. Guests of which results are stored are not booted again.
    ///
    /// # Errors
    /// If the program cannot be played, or a guest fails.
    pub fn run<R: Runner>(&self, runner: &mut R) -> Result<Replayed, ReplayError<R::Error>> {
        let costs = calibrate(runner, &self.kernel, self.program.cpus.len() as u32)?;
        self.run_with(runner, costs)
    }

    fn run_with<R: Runner>(&self, runner: &mut R, costs: Costs) -> Result<Replayed, ReplayError<R::Error>> {
        let outcome = runner.run(&self.request(&costs)?).map_err(ReplayError::Run)?;
        let played = read_played(&outcome)?;
        let actors = played.actors.iter().zip(0..).map(|(actor, index)| (actor.tid, ActorId(index))).collect();
        let window = Window { start: Time(played.t0.0), length: self.program.length, actors };
        let (mut felt, losses) = window.felt(unstarve_readers::open(&trace_of(&outcome))?)?;
        let lost = losses.iter().filter(|loss| loss.kind == LossKind::LostEvents).map(|loss| loss.count);
        if let Some(events) = Some(lost.sum()).filter(|events| *events > 0) {
            return Err(ReplayError::Lost { events });
        }
        for ((felt, actor), played) in felt.actors.iter_mut().zip(&self.program.actors).zip(&played.actors) {
            felt.items = items_begun(&actor.ops, played.operations);
        }
        Ok(Replayed { felt, played, costs, outcome })
    }

    /// The guest: a scenario with the player as its only load.
    fn request<E: std::error::Error>(&self, costs: &Costs) -> Result<Request, ReplayError<E>> {
        player::check(&self.program)?;
        let too_large = |what, limit| Err(ReplayError::TooLarge { what, limit });
        if self.program.cpus.len() > MAX_CPUS {
            return too_large(format!("the program has {} CPUs", self.program.cpus.len()), MAX_CPUS.to_string());
        }
        if self.program.length > MAX_LENGTH {
            return too_large(format!("the program lasts {}", self.program.length), MAX_LENGTH.to_string());
        }
        let json = |path: &str| {
            let path = path.to_owned();
            |source| ReplayError::Json { path, source }
        };
        let text = serde_json::to_string(&self.program.shifted(self.seed)).map_err(json(PROGRAM_FILE))?;
        let costs = serde_json::to_string(costs).map_err(json("the costs"))?;
        let argv = [PLAYER, PROGRAM_FILE, &costs].map(str::to_owned).into();
        let knobs = self.program.knobs.iter().filter(|(name, _)| !self.knobs.iter().any(|(other, _)| other == name));
        let knobs = knobs.chain(&self.knobs).cloned().collect();
        Ok(Request { knobs, ..Request::faulty(scenario(&self.program, text, argv), &self.kernel, 1) })
    }
}

fn scenario(program: &Program, text: String, argv: Vec<String>) -> Scenario {
    // The request holds the text, and the guest the program; both are read while the other is there.
    // The recorder is stopped meanwhile: the kernel's buffers, an eighth of the memory, hold the whole trace.
    let buffers = 512 * program.cpus.len() as u32;
    let mebibytes = 512 + buffers + (text.len() >> 20) as u32 * 16 + program.actors.len() as u32 / 4;
    let load = Load {
        name: PLAYER.to_owned(),
        when: None,
        argv,
        count: 1,
        cpus: None,
        policy: None,
        nice: None,
        cgroup: None,
        start_ms: 0,
        jitter_ms: 0,
        main: true,
        metrics: None,
    };
    Scenario {
        name: "replay".to_owned(),
        title: "A recording's program".to_owned(),
        source: String::new(),
        cpus: program.cpus.len() as u32,
        memory_mib: mebibytes,
        seconds: program.length.as_secs_f64() + 1.0,
        instruction_ns: 1,
        modules: Vec::new(),
        tools: Vec::new(),
        file: vec![GuestFile { path: PROGRAM_FILE.to_owned(), text: Some(text), from: None, executable: false }],
        kernels: Vec::new(),
        setup: Vec::new(),
        load: vec![load],
        knob: Vec::new(),
        remedy: Vec::new(),
        expect: Expect::default(),
    }
}

/// How many items of work an actor began with its first operations; runs that follow each other are one.
fn items_begun(ops: &[Op], operations: u64) -> u64 {
    let is_run = |op: &Op| matches!(op, Op::Run(_));
    let steps = ops.chunk_by(|one, next| is_run(one) && is_run(next));
    steps.take(usize::try_from(operations).unwrap_or(usize::MAX)).filter(|step| step[0].begins_item()).count() as u64
}

fn trace_of(outcome: &Outcome) -> std::path::PathBuf {
    outcome.directory.join("trace.dat")
}

fn read_played<E: std::error::Error>(outcome: &Outcome) -> Result<Played, ReplayError<E>> {
    let path = outcome.directory.join(format!("{PLAYER}.out"));
    let text = read_text(&path, PLAYED_LIMIT)?;
    serde_json::from_str(&text).map_err(|source| ReplayError::Json { path: path.display().to_string(), source })
}

/// What the player's operations cost on this kernel with so many CPUs: from a guest that measures it, whose result is stored.
fn calibrate<R: Runner>(runner: &mut R, kernel: &str, cpus: u32) -> Result<Costs, ReplayError<R::Error>> {
    let replay = Replay::new(player::calibration(cpus), kernel);
    let outcome = runner.run(&replay.request(&Costs::default())?).map_err(ReplayError::Run)?;
    let played = read_played(&outcome)?;
    let shown = shown_in(&trace_of(&outcome), &played, replay.program.length)?;
    player::measure(&played, &shown).ok_or_else(|| ReplayError::NoCosts { kernel: kernel.to_owned() })
}

fn shown_in<E: std::error::Error>(trace: &Path, played: &Played, length: Nanos) -> Result<Vec<Shown>, ReplayError<E>> {
    let mut watch = Watch {
        start: Time(played.t0.0),
        end: Time(played.t0.0) + length,
        tids: played.actors.iter().map(|actor| actor.tid).collect(),
        stretch: vec![Nanos::ZERO; played.actors.len()],
        lost: LostToInterrupts::default(),
        shown: vec![Shown::default(); played.actors.len()],
    };
    drive(unstarve_readers::open(trace)?, &mut watch, |_| {})?;
    Ok(watch.shown)
}

/// Collects what a calibration's trace shows.
struct Watch {
    start: Time,
    /// The process ends later, and who ends it works long at that.
    end: Time,
    tids: Vec<Tid>,
    /// CPU time since the last sleep.
    stretch: Vec<Nanos>,
    lost: LostToInterrupts,
    shown: Vec<Shown>,
}

impl Watch {
    fn index(&self, world: &World, task: TaskKey) -> Option<usize> {
        let tid = world.tasks.get(task).tid;
        self.tids.iter().position(|other| *other == tid)
    }
}

impl Sink for Watch {
    fn run(&mut self, world: &World, run: &Run) {
        let time = run.length().saturating_sub(self.lost.take(run.task));
        let Some(index) = self.index(world, run.task).filter(|_| self.start <= run.start && run.end < self.end) else {
            return;
        };
        let (shown, stretch) = (&mut self.shown[index], &mut self.stretch[index]);
        shown.ran += time;
        *stretch += time;
        match run.ended {
            RunEnd::Slept => shown.sleeps.push((run.end, std::mem::take(stretch))),
            RunEnd::Preempted { .. } => shown.preemptions += 1,
            RunEnd::Died | RunEnd::Cut => {}
        }
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        if let Waker::Task(task) = wake.waker
            && wake.time >= self.start
            && let Some(index) = self.index(world, task)
        {
            self.shown[index].wakes.push(wake.time);
        }
    }

    fn interrupt(&mut self, _: &World, interrupt: &Interrupt) {
        self.lost.note(interrupt);
    }
}

/// How near a replay came: what each actor felt, recorded and replayed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nearness {
    /// The actors with most waiting on either side, the most first.
    pub actors: Vec<NearActor>,
    /// All actors together.
    pub all: Pairs,
}

/// One actor of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearActor {
    /// Its name.
    pub comm: String,
    /// Its thread in the recording.
    pub tid: Tid,
    /// Its numbers.
    #[serde(flatten)]
    pub pairs: Pairs,
}

/// Numbers, recorded and replayed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pairs {
    /// Wait for each wakeup in ns; absent without wakeups.
    pub wait_per_item: Pair,
    /// The longest wait in ns.
    pub longest: Pair,
    /// 99 of 100 waits are not longer, in ns.
    pub p99: Pair,
    /// CPU time in ns.
    pub ran: Pair,
    /// How often it got the CPU.
    pub switches: Pair,
}

/// A number, recorded and replayed; absent if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// In the recording.
    pub recorded: Option<f64>,
    /// In the replay.
    pub replayed: Option<f64>,
}

impl Pair {
    /// How much the replayed number is above the recorded one, in per cent.
    pub fn difference(&self) -> Option<f64> {
        let (recorded, replayed) = (self.recorded?, self.replayed?);
        (recorded > 0.0).then(|| (replayed / recorded - 1.0) * 100.0)
    }
}

impl Nearness {
    /// Compares what was felt, of at most `rows` actors.
    pub fn of(program: &Program, recorded: &Felt, replayed: &Felt, rows: usize) -> Nearness {
        let mut order: Vec<usize> = (0..program.actors.len()).collect();
        let felt = |side: &Felt, index: usize| side.actors.get(index).copied().unwrap_or_default();
        let waited = |index: &usize| felt(recorded, *index).waited.max(felt(replayed, *index).waited);
        order.sort_by_key(|index| std::cmp::Reverse(waited(index)));
        let actor = |index: usize| NearActor {
            comm: program.actors[index].comm.clone(),
            tid: program.actors[index].tid,
            pairs: Pairs::of(&felt(recorded, index), &felt(replayed, index)),
        };
        let actors = order.into_iter().take(rows).filter(|index| waited(index) > Nanos::ZERO).map(actor).collect();
        Nearness { actors, all: Pairs::of(&together(recorded), &together(replayed)) }
    }
}

impl Pairs {
    fn of(recorded: &ActorFelt, replayed: &ActorFelt) -> Pairs {
        let pair = |of: fn(&ActorFelt) -> Option<f64>| Pair { recorded: of(recorded), replayed: of(replayed) };
        Pairs {
            wait_per_item: pair(ActorFelt::wait_per_item),
            longest: pair(|felt| Some(felt.longest.0 as f64)),
            p99: pair(|felt| Some(felt.p99.0 as f64)),
            ran: pair(|felt| Some(felt.ran.0 as f64)),
            switches: pair(|felt| Some(felt.switches as f64)),
        }
    }
}

/// All actors as one: sums, and the longest of all; no p99.
fn together(felt: &Felt) -> ActorFelt {
    let mut all = ActorFelt::default();
    for actor in &felt.actors {
        all.wakeups += actor.wakeups;
        all.waited += actor.waited;
        all.longest = all.longest.max(actor.longest);
        all.p99 = all.p99.max(actor.p99);
        all.ran += actor.ran;
        all.switches += actor.switches;
        all.preemptions += actor.preemptions;
    }
    all
}
/// Guests of the lab as the engine that plays programs.
pub struct LabEngine<'r, R> {
    /// Boots guests.
    pub runner: &'r mut R,
    /// The kernel's name in the store.
    pub kernel: String,
    /// How often a program is played, with its timers shifted in another way each time.
    pub replicas: u32,
}

impl<R: Runner> Engine for LabEngine<'_, R> {
    type Error = ReplayError<R::Error>;

    fn play(&mut self, program: &Program, replica: u32) -> Result<predict::Replayed, Self::Error> {
        let replay = Replay { seed: u64::from(replica), ..Replay::new(program.clone(), self.kernel.clone()) };
        let replayed = replay.run(self.runner)?;
        let options = Options { proofs: Proofs::PutAside, ..Options::default() };
        let report = explain(unstarve_readers::open(&trace_of(&replayed.outcome))?, &options, |_| {})?;
        Ok(predict::Replayed { felt: replayed.felt, starved: predict::Starved::of(&report) })
    }

    fn replicas(&self) -> u32 {
        self.replicas
    }

    /// A guest has all settings of its kernel, or fails.
    fn without_effect(&self, _: &Program) -> Vec<String> {
        Vec::new()
    }
}
