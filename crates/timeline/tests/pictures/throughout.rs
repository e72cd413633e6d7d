//! Tasks that were runnable before the recording.

use insta::assert_snapshot;
use unstarve_model::{CpuId, Tid};
use unstarve_sched::{GroupId, Groups};
use unstarve_timeline::{Settings, Sink, Throughout, Timeline, Wait, World};

use crate::scene;

/// Waits that fill the whole trace, by task and how that is known.
#[derive(Default)]
struct Whole(Vec<(Tid, Option<Throughout>, u64, u64)>);

impl Sink for Whole {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let tid = world.tasks.get(wait.task).tid;
        assert!(world.actors.get(wait.actor).tids.contains(&tid), "{tid}: nobody could look up its cgroup");
        self.0.push((tid, wait.throughout, wait.start.0, wait.length().0));
    }
}

/// The host shows b as runnable at both ends, and c has weight 10 where a has 102400.
struct Starving(Groups, GroupId, GroupId);

impl Starving {
    fn timeline() -> Timeline {
        let mut groups = Groups::default();
        let (light, heavy) = (groups.add(None, 10), groups.add(None, 102_400));
        Timeline::new(Some(1), None, Box::new(Starving(groups, light, heavy)))
    }
}

impl Settings for Starving {
    fn groups(&self) -> Groups {
        self.0.clone()
    }
    fn group(&self, tid: Tid) -> Option<GroupId> {
        Some(if tid == Tid(1) { self.2 } else { self.1 })
    }
    fn has_only_waited(&self, tid: Tid) -> bool {
        tid == Tid(2)
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        Some(false)
    }
}

#[test]
fn who_was_runnable_before_the_trace_waits_from_its_start() {
    //  a ████████████████████
    //  b ····················   seen as runnable at both ends, and no event names it
    //  c ··········██           seen as runnable at the beginning, and gets the CPU at 60
    //  d          ·             seen as runnable, but that was after it woke
    let mut timeline = Starving::timeline();
    for name in ["a", "b", "c", "d", "e"] {
        timeline.runnable_before(scene::task(name), CpuId(0));
    }
    let mut whole = Whole::default();
    scene::run(
        timeline,
        "
        10 0 switch a R > a
        50 0 wake d @0
        60 0 switch a R > c
        70 0 switch c S > d
        80 0 switch d S > a
        1010 0 switch a R > a
    ",
        &mut whole,
    );
    whole.0.sort_by_key(|wait| (wait.0, wait.2));
    let b = (Tid(2), Some(Throughout::Seen), 10, 1000);
    assert_eq!(whole.0, [(Tid(1), None, 60, 20), b, (Tid(3), None, 10, 50), (Tid(4), None, 50, 20)]);
}

#[test]
fn who_was_runnable_and_turns_out_to_run_had_the_cpu_from_the_start() {
    let mut timeline = Starving::timeline();
    timeline.runnable_before(scene::task("a"), CpuId(1));
    timeline.runnable_before(scene::task("b"), CpuId(1));
    let mut whole = Whole::default();
    let timeline = scene::run(
        timeline,
        "
        10 0 switch idle S > c
        40 1 switch a S > b
        90 0 switch c S > idle
    ",
        &mut whole,
    );
    assert_eq!(whole.0, [(Tid(2), None, 10, 30)]);
    assert!(!timeline.world().idle_until_heard.contains(CpuId(1)));
    assert_snapshot!(waits_of(Starving::timeline(), "
        10 0 switch idle S > c
        40 1 switch a S > b
    "), @"b preemption 10..40 cpu 1: a 30 weight");
}

fn waits_of(mut timeline: Timeline, text: &str) -> String {
    timeline.runnable_before(scene::task("a"), CpuId(1));
    timeline.runnable_before(scene::task("b"), CpuId(1));
    scene::notes(timeline, text)
}

#[test]
fn who_could_not_have_had_a_turn_may_have_waited_all_the_time() {
    let whole = |text: &str| {
        let mut timeline = Starving::timeline();
        timeline.quiet_before(scene::task("c"), CpuId(0));
        let mut whole = Whole::default();
        scene::run(timeline, text, &mut whole);
        whole.0.retain(|wait| wait.1.is_some());
        whole.0
    };
    let guessed = (Tid(3), Some(Throughout::Guessed), 10, 1_000_000_000);
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        1000000010 0 switch a R > a
    "
        ),
        [guessed]
    );
    assert_eq!(
        whole(
            "
        10 0 switch a S > idle
        20 0 switch idle R > a
        1000000010 0 switch a R > a
    "
        ),
        [],
        "the CPU was idle for a moment"
    );
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        900000010 0 switch a R > d
        1000000010 0 switch d S > a
    "
        ),
        [],
        "others of its weight had turns"
    );
    assert_eq!(
        whole(
            "
        10 0 switch a R > a
        1000000010 0 wake c @0
    "
        ),
        [],
        "it slept"
    );
}
