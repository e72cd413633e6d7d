//! What an extraction inferred, from how many observations, and what it could not see.

use serde::Serialize;
use unstarve_model::{Nanos, counted};

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
    pub in_interrupts: Nanos,
    pub is_too_long: bool,
}

impl Losses {
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
        let rows = [
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
    pub(super) fn new(what: impl Into<String>, observations: u64) -> Inference {
        Inference { what: what.into(), observations }
    }

    /// A sentence about so many threads; `None` for none.
    pub(super) fn of_threads(count: usize, what: &str, observations: u64) -> Option<Inference> {
        (count > 0).then(|| Inference::new(format!("{} {what}", counted(count as u64, "thread")), observations))
    }
}
