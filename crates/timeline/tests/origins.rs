//! Who is a kernel thread, who was created by whom, and who pays for what kernel threads wait.

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time};
use unstarve_timeline::{Nature, NoSettings, Settings, Sink, Timeline, Wake, World};

fn task(tid: u32, comm: &str) -> TaskRef {
    TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio::NORMAL))
}

fn idle() -> TaskRef {
    task(0, "swapper/0")
}

/// Prices as `payer pays 20 for victim`.
#[derive(Default)]
struct Prices(Vec<String>);

impl Sink for Prices {
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let payer = world.tasks.get(wake.wakee).comm;
        let lines =
            wake.prices.iter().map(|price| format!("{payer} pays {} for {}", price.length.0, world.name(price.victim)));
        self.0.extend(lines);
    }
}

/// Events of one CPU.
fn play(events: &[(u64, EventKind)], settings: Box<dyn Settings>) -> (Timeline, Vec<String>) {
    let mut timeline = Timeline::new(Some(1), None, settings);
    let mut prices = Prices::default();
    for (time, kind) in events {
        let event =
            Event { time: Time(*time), cpu: CpuId(0), issuer: Issuer::new(None, Context::Unknown), kind: *kind };
        timeline.push(&event, &mut prices);
    }
    timeline.finish(&mut prices);
    (timeline, prices.0)
}

fn switch(prev: TaskRef, prev_state: PrevState, next: TaskRef) -> EventKind {
    EventKind::Switch { prev, prev_state, next }
}

fn waking(task: TaskRef) -> EventKind {
    EventKind::Waking { task, target_cpu: CpuId(0) }
}

fn wakeup(task: TaskRef) -> EventKind {
    EventKind::Wakeup { task, target_cpu: CpuId(0) }
}

fn nature(timeline: &Timeline, tid: u32) -> (Nature, bool) {
    let tasks = &timeline.world().tasks;
    let task = tasks.get(tasks.find(Tid(tid)).expect("a living task"));
    (task.nature, task.kernel_thread.is_some())
}

#[test]
fn a_program_with_a_kernel_threads_name_is_told_from_the_kernel_thread() {
    let fork = |parent: u32, child: u32, comm: &str| EventKind::Fork {
        parent: Tid(parent),
        child: Tid(child),
        child_comm: Comm::from(comm),
    };
    let (real, fake, renamed) = (task(17, "ksoftirqd/0"), task(121, "ksoftirqd/0"), task(300, "kworker/0:1"));
    let events = [
        (0, fork(120, 121, "bash")),
        (1, fork(2, 200, "kthreadd")),
        (10, switch(idle(), PrevState::Runnable, fake)),
        (20, switch(fake, PrevState::Sleeping, real)),
        (30, switch(real, PrevState::Sleeping, task(200, "kworker/0:3"))),
        (40, switch(task(200, "kworker/0:3"), PrevState::Sleeping, task(300, "perl"))),
        (50, switch(renamed, PrevState::Sleeping, idle())),
    ];
    let (timeline, _) = play(&events, Box::new(NoSettings));
    assert_eq!(nature(&timeline, 17), (Nature::Unknown, true), "only its name tells");
    assert_eq!(nature(&timeline, 121), (Nature::Program, false), "a shell created it");
    assert_eq!(nature(&timeline, 200), (Nature::Kernel, true), "kthreadd created it");
    assert_eq!(nature(&timeline, 300), (Nature::Program, false), "it was called perl before");
    let world = timeline.world();
    let called = world.actors.iter().filter(|(_, actor)| actor.comm() == Some(Comm::from("ksoftirqd/0")));
    let called: Vec<_> = called.map(|(_, actor)| (actor.tids.clone(), actor.kernel_thread.is_some())).collect();
    assert_eq!(called, [(vec![Tid(121)], false), (vec![Tid(17)], true)]);
}

/// A snapshot that knows of all tasks what they are.
struct Told;
impl Settings for Told {
    fn is_kernel_thread(&self, tid: Tid) -> Option<bool> {
        Some(tid == Tid(17))
    }
}

#[test]
fn what_the_snapshot_says_goes_before_the_name() {
    let (a, b) = (task(17, "ksoftirqd/0"), task(121, "kworker/0:1"));
    let events = [(10, switch(idle(), PrevState::Runnable, a)), (20, switch(a, PrevState::Sleeping, b))];
    let (timeline, _) = play(&events, Box::new(Told));
    assert_eq!(nature(&timeline, 17), (Nature::Kernel, true));
    assert_eq!(nature(&timeline, 121), (Nature::Program, false));
}

/// A snapshot of the recording's end: `HEAVY` is in a heavy cgroup; `MOVED` had been put into the root group by then.
struct AtTheEnd;
const HEAVY: Tid = Tid(50);
const MOVED: Tid = Tid(53);
impl Settings for AtTheEnd {
    fn groups(&self) -> unstarve_sched::Groups {
        let mut groups = NoSettings.groups();
        groups.add(None, 200_000);
        groups
    }
    fn knows(&self, tid: Tid) -> bool {
        [HEAVY, MOVED].contains(&tid)
    }
    fn group(&self, tid: Tid) -> Option<unstarve_sched::GroupId> {
        (tid == HEAVY).then(|| unstarve_sched::Groups::default().add(None, 200_000))
    }
    fn has_bandwidth_limit(&self, tid: Tid) -> Option<bool> {
        Some(tid == HEAVY)
    }
}

#[test]
fn what_was_gone_before_the_snapshot_has_its_creators_settings() {
    let fork = |time, parent: Tid, child: u32| {
        (time, EventKind::Fork { parent, child: Tid(child), child_comm: Comm::from("worker") })
    };
    let new = |tid: u32| task(tid, "worker");
    let events = [
        (10, switch(idle(), PrevState::Runnable, new(HEAVY.0))),
        fork(20, HEAVY, 51),
        fork(30, HEAVY, MOVED.0),
        (40, switch(new(HEAVY.0), PrevState::Runnable, new(51))),
        // Its child's settings are its own creator's.
        fork(50, Tid(51), 52),
        // Renamed, and of a creator that nobody knows.
        fork(60, Tid(77), 78),
        (70, EventKind::Rename { tid: Some(Tid(52)), comm: Comm::from("other") }),
    ];
    let (timeline, _) = play(&events, Box::new(AtTheEnd));
    let world = timeline.world();
    let is_heavy = |tid: u32| {
        let key = world.tasks.find(Tid(tid)).expect("a task");
        world.actors.get(world.tasks.get(key).actor).group().is_some()
    };
    assert_eq!([HEAVY.0, 51, 52, MOVED.0, 78].map(is_heavy), [true, true, true, false, false]);
}

#[test]
fn an_actor_is_the_kernel_s_if_more_than_a_name_shows_it_of_all_its_tasks() {
    let (real, fake) = (task(17, "ksoftirqd/0"), task(121, "ksoftirqd/0"));
    let is_kernel = |events: &[(u64, EventKind)], settings: Box<dyn Settings>, tid: u32| {
        let (timeline, _) = play(events, settings);
        let world = timeline.world();
        let mut actors = world.actors.iter().filter(|(_, actor)| actor.tids.contains(&Tid(tid)));
        let (_, actor) = actors.next().expect("its actor");
        actor.is_kernel()
    };
    let ran = [(10, switch(idle(), PrevState::Runnable, real)), (20, switch(real, PrevState::Sleeping, idle()))];
    assert_eq!(is_kernel(&ran, Box::new(Told), 17), Some(true));
    assert_eq!(is_kernel(&ran, Box::new(NoSettings), 17), None, "its name alone");
    let program = [(10, switch(idle(), PrevState::Runnable, fake)), (20, switch(fake, PrevState::Sleeping, idle()))];
    assert_eq!(is_kernel(&program, Box::new(Told), 121), Some(false));
    // It ends: a snapshot of the recording's end would have seen another task of its number.
    let died = [(10, switch(idle(), PrevState::Runnable, real)), (20, switch(real, PrevState::Dead, idle()))];
    assert_eq!(is_kernel(&died, Box::new(Told), 17), None);
    // One of which it was seen who created it is what it is.
    let fork = EventKind::Fork { parent: Tid(2), child: Tid(17), child_comm: Comm::from("kthreadd") };
    let born = [(5, fork), died[0], died[1]];
    assert_eq!(is_kernel(&born, Box::new(NoSettings), 17), Some(true));
    // One that has the name alone does not take the mark away, and does not get it.
    let fork = EventKind::Fork { parent: Tid(2), child: Tid(200), child_comm: Comm::from("kthreadd") };
    let other = task(200, "ksoftirqd/0");
    let mixed =
        [(5, fork), (10, switch(idle(), PrevState::Runnable, real)), (20, switch(real, PrevState::Sleeping, other))];
    assert_eq!(is_kernel(&mixed, Box::new(NoSettings), 17), None);
    assert_eq!(is_kernel(&mixed, Box::new(NoSettings), 200), Some(true));
}

#[test]
fn who_sleeps_until_a_new_thread_is_there_pays_for_the_waits_of_its_creator() {
    let (mounter, kthreadd, child, hog) =
        (task(100, "mounter"), task(2, "kthreadd"), task(200, "kthreadd"), task(101, "hog"));
    let events = [
        (0, switch(idle(), PrevState::Runnable, mounter)),
        (10, waking(kthreadd)),
        (10, wakeup(kthreadd)),
        (20, switch(mounter, PrevState::Uninterruptible, hog)),
        (600, switch(hog, PrevState::Sleeping, kthreadd)),
        (605, EventKind::Fork { parent: Tid(2), child: Tid(200), child_comm: Comm::from("kthreadd") }),
        (605, EventKind::WakeupNew { task: child, target_cpu: CpuId(0) }),
        (610, switch(kthreadd, PrevState::Sleeping, child)),
        (615, waking(mounter)),
        (615, wakeup(mounter)),
        (620, switch(child, PrevState::Sleeping, mounter)),
    ];
    let (_, prices) = play(&events, Box::new(NoSettings));
    // 20..600 for kthreadd itself, 605..610 for its child, which has its name still.
    assert_eq!(prices, ["mounter pays 585 for kthreadd"]);
}

/// `configd` sleeps in synchronize_rcu() while rcu_preempt waits behind a hog; the RCU softirq wakes it.
fn grace_period(state: PrevState, vec: u8) -> Vec<String> {
    let (configd, rcu, hog) = (task(100, "configd"), task(15, "rcu_preempt"), task(101, "hog"));
    let events = [
        (0, switch(idle(), PrevState::Runnable, configd)),
        (10, switch(configd, state, hog)),
        (20, waking(rcu)),
        (20, wakeup(rcu)),
        (60, switch(hog, PrevState::Sleeping, rcu)),
        (65, switch(rcu, PrevState::Idle, idle())),
        (70, EventKind::SoftirqEntry { vec }),
        (71, waking(configd)),
        (71, wakeup(configd)),
        (72, EventKind::SoftirqExit { vec }),
        (75, switch(idle(), PrevState::Runnable, configd)),
    ];
    play(&events, Box::new(NoSettings)).1
}

#[test]
fn who_sleeps_for_a_grace_period_pays_for_the_waits_of_the_thread_that_drives_it() {
    assert_eq!(grace_period(PrevState::Uninterruptible, 9), ["configd pays 40 for rcu_preempt"]);
    assert!(grace_period(PrevState::Sleeping, 9).is_empty(), "it may have waited for anything");
    assert!(grace_period(PrevState::Uninterruptible, 4).is_empty(), "a disk, not RCU");
}

#[test]
fn names_from_a_list_beside_the_events_make_no_members() {
    let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
    (500..600).for_each(|tid| timeline.name_task(Tid(tid), Comm::from("worker")));
    let (a, b) = (task(500, "worker"), task(501, "worker"));
    for (time, kind) in [(0, switch(idle(), PrevState::Runnable, a)), (10, switch(a, PrevState::Sleeping, b))] {
        let event = Event { time: Time(time), cpu: CpuId(0), issuer: Issuer::new(None, Context::Unknown), kind };
        timeline.push(&event, &mut Prices::default());
    }
    let actors = &timeline.world().actors;
    let (_, worker) = actors.iter().find(|(_, actor)| actor.comm() == Some(Comm::from("worker"))).expect("an actor");
    assert_eq!((worker.members, worker.tids.as_slice()), (2, &[Tid(500), Tid(501)][..]));
}

#[test]
fn many_members_are_counted_and_not_capped() {
    let mut timeline = Timeline::new(Some(1), None, Box::new(NoSettings));
    for round in 0..2u64 {
        for tid in 0..300 {
            let (one, next) = (task(1000 + tid, "nfsd"), task(1000 + (tid + 1) % 300, "nfsd"));
            let time = Time(round * 3000 + u64::from(tid) * 10);
            let kind = switch(one, PrevState::Sleeping, next);
            let event = Event { time, cpu: CpuId(0), issuer: Issuer::new(None, Context::Unknown), kind };
            timeline.push(&event, &mut Prices::default());
        }
    }
    let actors = &timeline.world().actors;
    let (_, nfsd) = actors.iter().find(|(_, actor)| actor.comm() == Some(Comm::from("nfsd"))).expect("an actor");
    assert_eq!((nfsd.members, nfsd.tids.len()), (300, 128));
}
