//! Every labelled trace: pieces add up for each wait, and nothing in it contradicts itself.

use std::path::PathBuf;

use unstarve_model::{Batch, LossKind, Nanos, Policy};
use unstarve_sched::Rule;
use unstarve_timeline::{NoSettings, Run, Sink, Timeline, Wait, WaitEnd, WaitKind, World};

#[derive(Default)]
struct Totals {
    waits: u64,
    waited: Nanos,
    unknown: Nanos,
    ran: Nanos,
}

impl Sink for Totals {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let sum: Nanos = wait.pieces.iter().map(|piece| piece.length).sum();
        assert_eq!(sum, wait.length(), "{wait:?}");
        assert!(wait.start >= world.start && wait.end <= world.now);
        assert!(wait.queued.is_none_or(|queued| queued >= wait.start && queued <= wait.end));
        if wait.ended == WaitEnd::Ran && wait.kind == WaitKind::Preemption {
            assert!(wait.preempted_by.is_some(), "somebody took the CPU: {wait:?}");
        }
        self.waits += 1;
        self.waited += wait.length();
        // Nobody had a bandwidth limit in these guests; the fair server of 6.12 and later holds real-time tasks up.
        let is_fair = world.tasks.get(wait.task).prio.policy() == Policy::Fair;
        assert!(!is_fair || wait.pieces.iter().all(|piece| piece.rule != Rule::Throttled), "{wait:?}");
        let unknown = wait.pieces.iter().filter(|piece| piece.rule == Rule::Unknown);
        self.unknown += unknown.map(|piece| piece.length).sum();
    }

    fn run(&mut self, _: &World, run: &Run) {
        assert!(run.irq + run.softirq <= run.length(), "{run:?}");
        self.ran += run.length();
    }
}

#[test]
fn every_wait_in_the_labelled_traces_adds_up() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).expect("testdata/traces") {
        let path = entry.expect("an entry").path();
        if !path.to_string_lossy().contains(".dat") {
            continue;
        }
        files += 1;
        let mut source = unstarve_readers::open(&path).expect("a readable trace");
        let info = source.info().clone();
        let mut timeline = Timeline::new(info.cpus, info.recorded, Box::new(NoSettings));
        let (mut totals, mut batch) = (Totals::default(), Batch::default());
        while source.read(&mut batch).expect("a sound trace") {
            timeline.names(batch.names.drain(..));
            for event in &batch.events {
                timeline.push(event, &mut totals);
            }
        }
        timeline.finish(&mut totals);
        let world = timeline.world();
        let length = world.now.since(world.start);
        // The kernel that was recorded by perf issues no switch when its CPU 1 leaves idle.
        let gaps = path.to_string_lossy().contains("linux-6.18-perf-");
        for loss in timeline.losses() {
            assert!(gaps && loss.kind == LossKind::MissingSwitch, "{loss}: {}", path.display());
            assert!(loss.to_string().contains("mostly when a CPU left idle"), "{loss}");
        }
        assert!(totals.waits > 10, "{}: {} waits", path.display(), totals.waits);
        assert!(totals.ran <= Nanos(length.0 * u64::from(world.cpus)), "{}", path.display());
        // Only what was before each CPU's first event is unknown; beside gaps also what was between a CPU's last event and the
        // moment in which its task turned up on another one.
        let unknown = if gaps { 0.03 } else { 0.01 };
        assert!(
            totals.unknown.share_of(totals.waited) < unknown,
            "{}: {} of {} unknown",
            path.display(),
            totals.unknown,
            totals.waited
        );
        println!(
            "{}: {} CPUs, {length}; {} waits, {} waited, {} ran, {} unknown",
            path.file_name().expect("a name").display(),
            world.cpus,
            totals.waits,
            totals.waited,
            totals.ran,
            totals.unknown
        );
    }
    assert!(files >= 7, "{files} traces");
}
