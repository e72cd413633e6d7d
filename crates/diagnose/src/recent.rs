use std::sync::Arc;

use unstarve_facts::{Facts, Snapshot};
use unstarve_model::{Nanos, Time, TraceInfo};
use unstarve_timeline::{Interrupt, Migration, Moment, Run, Selection, Sink, Timeline, Wait, Wake, WorkItem, World};

use crate::case::Case;
use crate::drive::read_snapshot;
use crate::finding;
use crate::ledger::Ledger;
use crate::report::Finding;

/// What is wrong now, of a trace that goes on: a ledger that begins anew after each length of time.
///
/// Findings are those of the length in progress and of the one before it, so that the picture does not fall apart each time
/// the ledger begins anew.
#[derive(Debug)]
pub struct Recent {
    length: Nanos,
    format: String,
    snapshot: Option<Arc<Snapshot>>,
    began: Option<Time>,
    ledger: Ledger,
    before: Vec<Finding>,
}

impl Recent {
    /// Findings of the last one to two of these lengths, in a trace that says this about itself.
    pub fn new(info: &TraceInfo, length: Nanos) -> Recent {
        let (snapshot, _) = read_snapshot(info);
        let (format, ledger) = (info.format.clone(), Ledger::new(Selection::default()));
        Recent { length, format, snapshot, began: None, ledger, before: Vec::new() }
    }

    /// What is wrong now, worst first.
    pub fn findings(&mut self, timeline: &Timeline) -> Vec<Finding> {
        let world = timeline.world();
        let snapshot = self.snapshot.as_deref();
        let facts = snapshot.map_or_else(|| Facts::of_release(None), Facts::of_host);
        let losses = timeline.losses();
        let case = Case::new(&self.ledger, world, snapshot, facts, &losses, self.ledger.runs, &self.format);
        let fresh = finding::find(&case);
        // Of the same trouble in both lengths the worse is told: one that has only begun anew looks harmless at first.
        let is_same = |a: &Finding, b: &Finding| a.id == b.id && a.victim.comm == b.victim.comm;
        let worse_before =
            |new: &Finding| self.before.iter().any(|old| is_same(new, old) && old.severity > new.severity);
        let as_bad_now = |old: &Finding| fresh.iter().any(|new| is_same(new, old) && new.severity >= old.severity);
        let mut all: Vec<Finding> = fresh.iter().filter(|new| !worse_before(new)).cloned().collect();
        all.extend(self.before.iter().filter(|old| !as_bad_now(old)).cloned());
        all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let began = *self.began.get_or_insert(world.start);
        if world.now.since(began) >= self.length {
            self.began = Some(world.now);
            self.ledger = Ledger::new(Selection { from: Some(Moment::At(world.now)), ..Selection::default() });
            self.before = fresh;
        }
        all
    }
}

impl Sink for Recent {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.ledger.wait(world, wait);
    }
    fn run(&mut self, world: &World, run: &Run) {
        self.ledger.run(world, run);
    }
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        self.ledger.wake(world, wake);
    }
    fn migration(&mut self, world: &World, migration: &Migration) {
        self.ledger.migration(world, migration);
    }
    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        self.ledger.interrupt(world, interrupt);
    }
    fn work_item(&mut self, world: &World, item: &WorkItem) {
        self.ledger.work_item(world, item);
    }
}
