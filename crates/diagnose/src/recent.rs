//! Findings about the last seconds of a live trace.

use std::sync::Arc;

use unstarve_facts::{Facts, Snapshot};
use unstarve_model::{Nanos, Tid, Time, TraceInfo};
use unstarve_timeline::{
    Interrupt, Migration, Moment, OnCpu, Run, Selection, Sink, Task, Timeline, Wait, Wake, WorkItem, World,
};

use crate::case::Case;
use crate::drive::read_snapshot;
use crate::finding;
use crate::ledger::Ledger;
use crate::origin;
use crate::proofs;
use crate::report::{Boot, Finding};
use crate::selected::about_tasks;

/// What is wrong now, in a trace that continues: the ledger is restarted after each interval.
///
/// Findings are those of the current interval and of the previous one, so that they do not disappear at each restart.
#[derive(Debug)]
pub struct Recent {
    length: Nanos,
    format: String,
    snapshot: Option<Arc<Snapshot>>,
    /// The kernel's release, where the source names it.
    release: Option<String>,
    boot: Boot,
    /// The waits that count.
    selection: Selection,
    began: Option<Time>,
    ledger: Ledger,
    before: Vec<Finding>,
}

impl Recent {
    /// Findings of the last one to two intervals of this length, in a trace described by `info`.
    pub fn new(info: &TraceInfo, length: Nanos) -> Recent {
        let (snapshot, _) = read_snapshot(info);
        let release = snapshot.as_deref().and_then(|snapshot| snapshot.kernel_release());
        let release = release.map(str::to_owned).or_else(|| info.kernel_release.clone());
        let is_named = snapshot.is_some() && origin::host(info, snapshot.as_deref()).is_some();
        Recent {
            length,
            format: info.format.clone(),
            snapshot,
            release,
            boot: if is_named { Boot::Named } else { Boot::Unnamed },
            selection: Selection::default(),
            began: None,
            ledger: Ledger::new(Selection::default()),
            before: Vec::new(),
        }
    }

    /// Only waits and findings of this selection, as `explain` selects them.
    pub fn selecting(self, selection: Selection) -> Recent {
        Recent { ledger: Ledger::new(selection.clone()), selection, ..self }
    }

    /// Whether the trace says on which boot it was made.
    pub fn boot(&self) -> Boot {
        self.boot
    }

    /// What is wrong now, worst first: waits that are over and waits in progress. `is_runnable` asks the machine whether a task
    /// is runnable at this moment, because some kernels omit switches, and a task whose run was not recorded seems to wait.
    pub fn findings(&mut self, timeline: &Timeline, is_runnable: &dyn Fn(Tid) -> Option<bool>) -> Vec<Finding> {
        let world = timeline.world();
        let mut ledger = self.ledger.clone();
        let is_believed =
            |task: &Task, on: OnCpu| is_runnable(task.tid).unwrap_or_else(|| seems_to_wait(timeline, task, on));
        timeline.so_far(STILL, is_believed, &mut ledger);
        ledger.settle(world);
        let snapshot = self.snapshot.as_deref();
        let release = self.release.as_deref();
        let facts = snapshot.map_or_else(|| Facts::of_release(release), Facts::of_host);
        let losses = timeline.losses();
        let case = Case::new(&ledger, world, snapshot, facts, &losses, ledger.runs, &self.format);
        let mut fresh = finding::find(&case);
        about_tasks(&self.selection, &mut fresh);
        // The remedies in the order of `explain`: what helped on this kernel first.
        proofs::weigh(&mut fresh, release, proofs::shipped());
        // If both intervals have the same finding, keep the more severe one: a wait that has just begun looks harmless.
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
            let later = |from: Moment| from.on(world.start) > world.now;
            let from = self.selection.from.filter(|from| later(*from)).unwrap_or(Moment::At(world.now));
            let from = Selection { from: Some(from), ..self.selection.clone() };
            self.ledger = std::mem::replace(&mut self.ledger, Ledger::new(Selection::default())).followed_by(from);
            self.before = fresh;
        }
        all
    }
}

/// Whether a task that has not run since it became runnable is waiting, by events alone. Beside an idle CPU: only if it cannot
/// have run unrecorded, or may be throttled.
pub fn seems_to_wait(timeline: &Timeline, task: &Task, on: OnCpu) -> bool {
    on != OnCpu::Idle || task.may_be_throttled() == Some(true) || timeline.waits_beside_idle(task)
}

/// Shorter waits in progress are ignored, because each costs a query to the machine.
const STILL: Nanos = Nanos::from_millis(4);

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

#[cfg(test)]
mod tests {
    use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef};

    use super::*;

    const HOG: u32 = 7;
    const VICTIM: u32 = 8;

    /// A FIFO hog takes CPU 0 at 0 s, a victim is woken at 0.1 s, and then only ticks follow.
    fn starved(recent: &mut Recent, to: Time) -> Timeline {
        let mut timeline = crate::timeline(&TraceInfo { cpus: Some(1), ..TraceInfo::default() });
        let task = |tid: u32, prio| TaskRef::new(Tid(tid), Comm::from("task"), Some(Prio(prio)));
        let idle = TaskRef::new(Tid::IDLE, Comm::from("swapper/0"), Some(Prio::NORMAL));
        let mut push = |time: u64, current: u32, kind| {
            let (cpu, context) = (CpuId(0), Context::Task);
            timeline
                .push(&Event { time: Time(time), cpu, issuer: Issuer::new(Some(Tid(current)), context), kind }, recent);
        };
        push(0, 0, EventKind::Switch { prev: idle, prev_state: PrevState::Runnable, next: task(HOG, 79) });
        push(100_000_000, HOG, EventKind::Waking { task: task(VICTIM, 120), target_cpu: CpuId(0) });
        push(100_000_001, HOG, EventKind::Wakeup { task: task(VICTIM, 120), target_cpu: CpuId(0) });
        for tick in (200_000_000..=to.0).step_by(100_000_000) {
            push(tick, HOG, EventKind::IrqEntry { irq: 1, name: None });
            push(tick + 1, HOG, EventKind::IrqExit { irq: 1 });
        }
        timeline
    }

    #[test]
    fn who_waits_at_this_moment_is_among_the_victims() {
        let mut recent = Recent::new(&TraceInfo::default(), Nanos::from_millis(3000));
        let timeline = starved(&mut recent, Time(2_000_000_000));
        let words = |findings: Vec<Finding>| -> Vec<String> {
            findings.iter().map(|finding| format!("{} {}", finding.severity.word(), finding.id)).collect()
        };
        assert_eq!(words(recent.findings(&timeline, &|_| None)), ["critical rt-starvation"]);
        assert_eq!(words(recent.findings(&timeline, &|_| Some(false))), [""; 0], "the machine knows that it sleeps");
    }
}
