//! What an extraction inferred, from how many observations, and what it could not see.

use schemars::JsonSchema;
use serde::Serialize;
use unstarve_model::{Nanos, counted};
use unstarve_timeline::{ActorKind, Interrupt, World};

use crate::Felt;

/// How a program was inferred from a recording.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Extraction {
    /// What was inferred, pass by pass.
    pub inferences: Vec<Inference>,
    /// What the recording does not show.
    pub losses: Vec<LossOfExtraction>,
}

/// What a pass inferred.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Inference {
    /// A sentence.
    pub what: String,
    /// The number of observations that it is based on.
    pub observations: u64,
    /// Whether events show it.
    pub by: Evidence,
}

/// How something is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Events show it.
    Event,
    /// It is what explains the recording best.
    Guess,
}

/// Something that the recording does not show, and that the program therefore has not.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LossOfExtraction {
    /// A sentence.
    pub what: String,
    /// How many times, or nanoseconds for a share of time.
    pub count: u64,
    /// Its share of all wakeups, or of the CPU time that was recorded.
    pub share: f64,
    /// Whether it is time in interrupts.
    #[serde(skip)]
    pub is_of_interrupts: bool,
}

/// What is counted while a recording is collected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub wakeups: u64,
    /// It is unknown who issued them.
    pub wakers_unknown: u64,
    /// A thread ran after a sleep, and nothing woke it.
    pub wakeups_unseen: u64,
    /// A thread that did not sleep, as far as is known, was woken.
    pub woken_awake: u64,
    /// Threads that were created.
    pub born: u64,
    /// Moves to a cgroup that no event names.
    pub moves_unknown: u64,
    /// Threads whose settings changed so that no single value is right, with their CPU time under others.
    pub groups_changed: (u64, Nanos),
    pub cpus_changed: (u64, Nanos),
    pub inherited: (u64, Nanos),
    pub in_interrupts: Nanos,
    pub longest_interrupt: Nanos,
    pub is_too_long: bool,
}

impl Losses {
    /// What a wakeup waits for interrupts on average, at most.
    pub fn interrupt_wait(self, length: Nanos, cpus: usize) -> Nanos {
        let busy = self.in_interrupts.share_of(Nanos(length.0.saturating_mul(cpus.max(1) as u64)));
        Nanos((busy.min(1.0) * self.longest_interrupt.0 as f64) as u64)
    }

    pub fn of(self, recorded: &Felt) -> Vec<LossOfExtraction> {
        let all = self.wakeups + self.wakeups_unseen;
        let of_wakeups = |what: &str, count: u64| LossOfExtraction {
            what: what.to_owned(),
            count,
            share: count as f64 / all.max(1) as f64,
            is_of_interrupts: false,
        };
        let ran: Nanos = recorded.actors.iter().map(|felt| felt.ran).sum();
        let interrupts = LossOfExtraction {
            what: "time in interrupts, which are not played".to_owned(),
            count: self.in_interrupts.0,
            share: self.in_interrupts.share_of(ran + self.in_interrupts),
            is_of_interrupts: true,
        };
        let of_time = |what: &str, (count, time): (u64, Nanos)| LossOfExtraction {
            what: what.to_owned(),
            count,
            share: time.share_of(ran),
            is_of_interrupts: false,
        };
        let rows = [
            of_wakeups(
                "moves of threads to another cgroup, of which the recording does not say which",
                self.moves_unknown,
            ),
            of_time(
                "threads that were moved to another cgroup: they are played where they ran longest",
                self.groups_changed,
            ),
            of_time(
                "threads whose allowed CPUs changed: they are played with those of most of their time",
                self.cpus_changed,
            ),
            of_time("threads that ran with an inherited priority: they are played with their own", self.inherited),
            of_wakeups("wakeups by nobody that is known, which come by the clock", self.wakers_unknown),
            of_wakeups("threads ran after a sleep without a wakeup in the recording", self.wakeups_unseen),
            of_wakeups("wakeups of threads that did not sleep", self.woken_awake),
            of_wakeups("threads that were created, which begin by the clock", self.born),
            interrupts,
        ];
        rows.into_iter().filter(|row| row.count > 0).collect()
    }
}

impl Inference {
    /// Shown by events.
    pub(super) fn seen(what: impl Into<String>, observations: u64) -> Inference {
        Inference { what: what.into(), observations, by: Evidence::Event }
    }

    /// A guess.
    pub(super) fn guessed(what: impl Into<String>, observations: u64) -> Inference {
        Inference { what: what.into(), observations, by: Evidence::Guess }
    }

    /// A sentence about so many threads; `None` for none.
    pub(super) fn of_threads(count: usize, what: &str, by: Evidence) -> Option<Inference> {
        let what = || format!("{} {what}", counted(count as u64, "thread"));
        (count > 0).then(|| Inference { what: what(), observations: count as u64, by })
    }
}

/// What interrupted threads, and whose work it was.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Softirqs {
    /// By whether `softirq_raise` tells: those that are the interrupted thread's own work, and all.
    guessed: (u64, u64),
    seen: (u64, u64),
    /// The CPU's own interrupts, and their time.
    vectors: (u64, Nanos),
}

impl Softirqs {
    pub fn note(&mut self, world: &World, interrupt: &Interrupt) {
        match world.actors.get(interrupt.actor).kind {
            ActorKind::Softirq { .. } if interrupt.task.is_some() => {
                let of = if interrupt.raise_is_recorded { &mut self.seen } else { &mut self.guessed };
                *of = (of.0 + u64::from(interrupt.is_own_work), of.1 + 1);
            }
            ActorKind::Vector(_) => {
                self.vectors = (self.vectors.0 + 1, self.vectors.1 + interrupt.end.since(interrupt.start));
            }
            _ => {}
        }
    }

    pub fn inferences(self) -> impl Iterator<Item = Inference> {
        let own = |(own, all): (u64, u64), by| {
            let what = format!("{own} of {all} softirqs are the work of the thread that they interrupt");
            (all > 0).then_some(Inference { what, observations: all, by })
        };
        let vectors = match self.vectors {
            (0, _) => Inference::guessed("time in timer interrupts and in those between CPUs is the threads' own", 0),
            (count, time) => Inference::seen(
                format!("{} µs in timer interrupts and in those between CPUs are nobody's work", time.0 / 1000),
                count,
            ),
        };
        [own(self.seen, Evidence::Event), own(self.guessed, Evidence::Guess), Some(vectors)].into_iter().flatten()
    }
}
