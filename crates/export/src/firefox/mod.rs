//! Exports the Firefox Profiler's processed profile format: a thread for each task that waited, a marker for each wait,
//! and samples whose weights make the call tree and flame graph show blame.
//!
//! The format has columns per thread, so nothing can be written before all waits are known. The longest [`MAX_MARKERS`] waits
//! are kept. Of shorter ones only sums are kept, as one sample per thread, occupant and rule. So memory is bounded, and
//! sums are exact.

mod profile;
mod schema;

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use unstarve_diagnose::report::Report;
use unstarve_model::{Comm, CpuId, Nanos, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, Selection, Sink, Wait, WaitKind, World};

use self::profile::Profile;
use crate::cast::Cast;
use crate::table::is_chosen;
use crate::{Export, ExportError, Out};

/// How many waits get markers: as many as the profiler's page handles without trouble.
const MAX_MARKERS: usize = 1 << 19;

/// Index of a thread in the profile.
type Thread = u32;

/// A wait with a marker.
struct Marked {
    thread: Thread,
    start: Time,
    end: Time,
    cpu: CpuId,
    kind: WaitKind,
    pieces: Box<[(ActorId, Rule, Nanos)]>,
}

impl Marked {
    fn length(&self) -> Nanos {
        self.end.since(self.start)
    }
}

/// Writes the profile at the end.
pub struct Firefox<W> {
    out: W,
    selection: Selection,
    kept: usize,
    notes: Notes,
}

/// The waits collected so far.
#[derive(Default)]
struct Notes {
    cast: Cast,
    threads: Vec<(Tid, Comm)>,
    by_task: FxHashMap<(Tid, Comm), Thread>,
    waits: Vec<Marked>,
    /// Sums of waits without a marker.
    rest: FxHashMap<(Thread, ActorId, Rule), Nanos>,
    untold: u64,
    start: Time,
    end: Time,
}

impl<W: Out> Firefox<W> {
    /// Writes a profile of the waits in `selection` to `out`.
    pub fn new(out: W, selection: Selection) -> Firefox<W> {
        Firefox::keeping(MAX_MARKERS, out, selection)
    }

    /// Like [`Firefox::new`], with another limit of markers.
    #[doc(hidden)]
    pub fn keeping(kept: usize, out: W, selection: Selection) -> Firefox<W> {
        Firefox { out, selection, kept, notes: Notes::default() }
    }
}

impl Notes {
    fn add(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        let thread = *self.by_task.entry((task.tid, task.comm)).or_insert_with(|| {
            self.threads.push((task.tid, task.comm));
            self.threads.len() as Thread - 1
        });
        for piece in wait.pieces {
            self.cast.who(world, piece.occupant);
        }
        self.waits.push(Marked {
            thread,
            start: wait.start,
            end: wait.end,
            cpu: wait.cpu,
            kind: wait.kind,
            pieces: wait.pieces.iter().map(|piece| (piece.occupant, piece.rule, piece.length)).collect(),
        });
    }

    /// Keeps the longest waits, and the sums of the others.
    fn keep(&mut self, kept: usize) {
        self.waits.sort_by_key(|wait| Reverse(wait.length()));
        for wait in self.waits.drain(kept.min(self.waits.len())..) {
            self.untold += 1;
            for &(occupant, rule, length) in &wait.pieces {
                *self.rest.entry((wait.thread, occupant, rule)).or_default() += length;
            }
        }
    }
}

impl<W: Out> Sink for Firefox<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        (self.notes.start, self.notes.end) = (world.start, world.now);
        if !is_chosen(&self.selection, world, wait) {
            return;
        }
        self.notes.add(world, wait);
        if self.notes.waits.len() >= self.kept.saturating_mul(2) {
            self.notes.keep(self.kept);
        }
    }
}

impl<W: Out> Export for Firefox<W> {
    fn finish(mut self, report: &Report) -> Result<(), ExportError> {
        if self.notes.waits.len() > self.kept {
            self.notes.keep(self.kept);
        }
        self.notes.waits.sort_by_key(|wait| (wait.thread, wait.start, wait.end));
        let profile = Profile::new(&self.notes, report);
        serde_json::to_writer(&mut self.out, &profile).map_err(std::io::Error::from)?;
        self.out.flush()?;
        Ok(())
    }
}
