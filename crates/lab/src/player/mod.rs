//! Plays a [`Program`] with real threads, so that the running kernel's own scheduler decides who waits.
//!
//! One process, one thread for each actor with the actor's name and settings, cgroups made for it. All start at one moment,
//! T0, on CLOCK_MONOTONIC, which is the clock of a guest's trace. Nothing is allocated between T0 and the end.

mod costs;
mod groups;
mod own_time;
mod part;
mod stage;
mod tokens;

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use unstarve_files::{Limit, ReadError, read_text};
use unstarve_model::{Nanos, Tid};
use unstarve_sim::{Actor, NotationError, Op, Program, ProgramError};

pub use costs::Costs;
pub(crate) use costs::{Shown, calibration, measure};

/// The name by which this program is the player in a guest.
pub(crate) const PLAYER: &str = "play";

/// More threads than this are not played.
pub const MAX_ACTORS: usize = 1_000;

/// The size limit of a program's file.
const PROGRAM_LIMIT: Limit = Limit { bytes: 256 << 20, expected: "a program of `unstarve reproduce`" };

/// Why a program was not played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The program is not sound.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its file is no program.
    #[error("{path}: {source}")]
    Notation {
        /// Its name.
        path: String,
        /// Why.
        source: NotationError,
    },
    /// A guest has no device that answers.
    #[error("actor `{comm}` waits for a device, which no guest has: only the model can play it")]
    Device {
        /// The actor that passes requests to it.
        comm: String,
    },
    /// More threads than can be played.
    #[error("{actors} threads: at most {MAX_ACTORS} can be played")]
    TooManyActors {
        /// How many.
        actors: usize,
    },
    /// A cgroup could not be made as it was.
    #[error("cgroup `{path}`: {what}")]
    Cgroup {
        /// Its path.
        path: String,
        /// Why.
        what: String,
    },
    /// A thread could not be given its settings.
    #[error("actor `{comm}`: cannot {doing}: {source}")]
    Actor {
        /// Its name.
        comm: String,
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A system call of the player failed.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// What was played.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Played {
    /// When it began, on CLOCK_MONOTONIC.
    pub t0: Nanos,
    /// By [`unstarve_sim::ActorId`].
    pub actors: Vec<PlayedActor>,
}

/// What one actor's thread did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayedActor {
    /// Its thread.
    pub tid: Tid,
    /// When it was done with all of its operations, from T0; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Nanos>,
    /// How many operations it began.
    pub operations: u64,
    /// When each of its runs reached its length, on CLOCK_MONOTONIC; only where no costs were given, which are measured by this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_ends: Vec<Nanos>,
}

/// Reads a program's file.
///
/// # Errors
/// If it cannot be read or is no sound program of at most [`MAX_ACTORS`] threads.
pub fn read_program(path: &Path) -> Result<Program, PlayError> {
    let text = read_text(path, PROGRAM_LIMIT)?;
    let not_one = |source| PlayError::Notation { path: path.display().to_string(), source };
    let program = Program::read(&text).map_err(not_one)?;
    check(&program)?;
    Ok(program)
}

/// Whether the program is sound, and not too large.
pub(crate) fn check(program: &Program) -> Result<(), PlayError> {
    let actors = program.actors.len();
    if actors > MAX_ACTORS {
        return Err(PlayError::TooManyActors { actors });
    }
    let asks = |actor: &&Actor| actor.ops.iter().any(|op| matches!(op, Op::WakeAfter(..)));
    if let Some(actor) = program.actors.iter().find(asks) {
        return Err(PlayError::Device { comm: actor.comm.clone() });
    }
    Ok(program.check()?)
}

/// Plays the program until its length is over or all threads are done; makes its cgroups in a guest.
///
/// The threads stay, asleep or on their way there: the caller ends the process.
///
/// # Errors
/// If the program is not sound, or the system refuses a thread or one of its settings.
pub fn play(program: &Program, costs: &Costs) -> Result<Played, PlayError> {
    check(program)?;
    let groups = groups::make(program)?;
    let stage = stage::Stage::set(program, costs, groups);
    stage.enter(program)?;
    let t0 = stage.begin();
    stage.wait_for_end(t0, Duration::from_nanos(program.length.0));
    Ok(stage.played(t0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use unstarve_model::{CpuId, CpuSet, SchedPolicy};
    use unstarve_sim::{ActorId, Class, Placement, SwitchCosts};

    use super::*;

    const MS: u64 = 1_000_000;

    /// A program of fair threads, on as many CPUs as this process may use.
    fn program(length_ms: u64, actors: &[(&str, Vec<Op>)]) -> Program {
        let cpus: CpuSet = unstarve_executor::sched::affinity(Tid(0)).expect("an affinity");
        let all = (0..=cpus.last().expect("a CPU").0).map(CpuId).collect();
        let actor = |(comm, ops): &(&str, Vec<Op>)| Actor {
            tid: Tid(1),
            process: None,
            comm: (*comm).to_owned(),
            is_kernel_thread: false,
            begins_on: None,
            is_born: false,
            costs: SwitchCosts::default(),
            placement: Placement {
                class: Class::Fair { policy: SchedPolicy::Other, nice: 0 },
                cpus: cpus.clone(),
                cgroup: None,
                slice: None,
            },
            ops: ops.clone(),
        };
        let (length, actors) = (Nanos(length_ms * MS), actors.iter().map(actor).collect());
        Program { cpus: all, length, actors, ..Program::default() }
    }

    /// Costs that are known: nothing is measured.
    fn costs() -> Costs {
        Costs { wake: 1, ..Costs::default() }
    }

    fn finished(played: &Played) -> Vec<Option<u64>> {
        played.actors.iter().map(|actor| actor.finished.map(|at| at.0)).collect()
    }

    #[test]
    fn threads_wake_each_other_until_all_are_done() {
        const ROUNDS: usize = 1_000;
        let first = [Op::Wake(ActorId(1)), Op::Block].repeat(ROUNDS);
        let second = [Op::Block, Op::Wake(ActorId(0))].repeat(ROUNDS);
        // Takes three tokens that were given before it came to take them.
        let late = vec![Op::SleepFor(Nanos(20 * MS)), Op::Block, Op::Block, Op::Block];
        let early = [Op::Wake(ActorId(2))].repeat(3);
        let program = program(20_000, &[("first", first), ("second", second), ("late", late), ("early", early)]);
        let played = play(&program, &costs()).expect("played");
        let operations: Vec<u64> = played.actors.iter().map(|actor| actor.operations).collect();
        assert_eq!(operations, [2_000, 2_000, 4, 3]);
        assert!(finished(&played).iter().all(Option::is_some), "{played:?}");
        assert!(finished(&played)[2] >= Some(20 * MS));
        let name = |actor: &PlayedActor| fs::read_to_string(format!("/proc/self/task/{}/comm", actor.tid.0));
        assert_eq!(name(&played.actors[2]).expect("it is still there"), "late\n");
    }

    #[test]
    fn sleeps_and_runs_last_as_long_as_they_should() {
        let ms = |ms| Nanos(ms * MS);
        let runs = vec![Op::Run(ms(20)), Op::SleepFor(ms(1)), Op::Run(ms(10)), Op::Run(ms(10)), Op::SleepFor(ms(1))];
        let sleeps = vec![Op::SleepUntil(ms(30)), Op::SleepUntil(ms(10)), Op::SleepFor(ms(20))];
        let by_clock = vec![Op::RunByClock(ms(15)), Op::RunByClock(ms(15))];
        let program = program(20_000, &[("runs", runs), ("sleeps", sleeps), ("clock", by_clock)]);
        let played = play(&program, &costs()).expect("played");
        let at_least = [42, 50, 30].map(|ms| ms * MS);
        for (finished, least) in finished(&played).into_iter().zip(at_least) {
            // T0 is read a little earlier than the thread can be awake.
            assert!(finished >= Some(least), "{played:?}");
        }
        let schedstat = fs::read_to_string(format!("/proc/self/task/{}/schedstat", played.actors[0].tid.0));
        let schedstat = schedstat.expect("the thread is still there");
        let ran: u64 = schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("its CPU time");
        // Its own start and end beside the 40 ms; a loss of the CPU shorter than the player sees is at most 1.5 µs.
        assert!((40 * MS..42 * MS).contains(&ran), "{ran} ns");
    }

    #[test]
    fn a_program_ends_at_its_length() {
        let program = program(50, &[("waits", vec![Op::Block]), ("runs", vec![Op::Run(Nanos(60_000 * MS))])]);
        let played = play(&program, &costs()).expect("played");
        assert_eq!(finished(&played), [None, None]);
    }

    #[test]
    fn what_cannot_be_played_is_refused_with_words() {
        let one = || vec![("a", vec![Op::Run(Nanos(1))])];
        let of = |actors: usize| (0..actors).flat_map(|_| one()).collect::<Vec<_>>();
        let many = program(1, &of(10_000));
        assert_eq!(text(play(&many, &costs())), "10000 threads: at most 1000 can be played");
        let mut elsewhere = program(1, &one());
        elsewhere.actors[0].placement.cpus = [CpuId(4_000)].into_iter().collect();
        let said = text(play(&elsewhere, &costs()));
        assert!(said.starts_with("actor 0 `a`: may use CPUs 4000, of which the program has none"), "{said}");
        let mut grouped = program(1, &one());
        grouped.cgroups.push(unstarve_sim::Cgroup { path: "/a".into(), parent: None, load_weight: 1024, quota: None });
        assert_eq!(text(play(&grouped, &costs())), "cgroup `/a`: groups are made in a guest only");
    }

    #[test]
    fn a_damaged_file_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("program.json");
        let whole = serde_json::to_string(&program(1, &[("a", vec![Op::Block])])).expect("JSON");
        fs::write(&file, &whole).expect("written");
        assert_eq!(read_program(&file).expect("sound").operations(), 1);
        for damaged in [&whole[..whole.len() / 2], "", "[]", &whole.replace("block", "blok")] {
            fs::write(&file, damaged).expect("written");
            let said = read_program(&file).map(drop).expect_err("damaged").to_string();
            assert!(said.starts_with(&format!("{}: the program is not ", file.display())), "{said}");
        }
    }

    fn text(played: Result<Played, PlayError>) -> String {
        played.map(drop).expect_err("it cannot be played").to_string()
    }
}
