//! For traces of any shape, twice as many events take twice as many steps, or the limit is reached and a loss reports it.

use proptest::prelude::*;
use unstarve_model::{
    BlockRequest, Comm, Context, CpuId, CpuSet, Event, EventKind, Issuer, Nanos, PrevState, Prio, TaskRef, Tid, Time,
};
use unstarve_sched::{GroupId, Groups};

use super::*;
use crate::{Settings, Sink, Timeline, Wait, World};

/// A host whose tasks are in cgroups of 50 kinds, have a limit, and may each use half of the CPUs.
struct Limited {
    groups: Groups,
    ids: Vec<GroupId>,
}

impl Limited {
    fn new() -> Limited {
        let mut groups = Groups::default();
        let ids = (0..50).map(|weight| groups.add(None, 100 + weight)).collect();
        Limited { groups, ids }
    }
}

const CPUS: u32 = 64;

impl Settings for Limited {
    fn groups(&self) -> Groups {
        self.groups.clone()
    }
    fn group(&self, tid: Tid) -> Option<GroupId> {
        Some(self.ids[tid.0 as usize % self.ids.len()])
    }
    fn allowed_cpus(&self, tid: Tid) -> Option<CpuSet> {
        Some((0..CPUS).map(CpuId).filter(|cpu| cpu.0 % 2 == tid.0 % 2).collect())
    }
    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        Some(true)
    }
}

/// Checks the sum of each wait, and counts steps for what a sink would look up.
#[derive(Default)]
struct Pieces;

impl Sink for Pieces {
    fn wait(&mut self, _: &World, wait: &Wait<'_>) {
        assert_eq!(wait.pieces.iter().map(|piece| piece.length).sum::<Nanos>(), wait.length());
        count_steps(wait.pieces.len());
    }
}

/// The task of an event.
#[derive(Clone, Copy, Debug)]
enum Who {
    One,
    Few,
    /// A different one in each round.
    Many,
}

/// An event of each round.
#[derive(Clone, Copy, Debug)]
enum Move {
    Wake(Who, Rank),
    /// On a CPU, from its current task.
    Switch(Who, Rank, PrevState),
    SwitchAtOnce(Who, Rank, PrevState),
    Idle(PrevState),
    Migrate(Who),
    MigrateRecent(u32),
    Fork(Who),
    Rename(Who),
    SetPrio(Who, Rank),
    Exit(Who),
    WakeByTask(Who),
    Interrupt(Who),
    InterruptEnd,
    Softirq,
    SoftirqEnd,
    WorkQueued,
    WorkStart,
    WorkEnd,
    BlockIssue(u32),
    BlockComplete(u32),
    OtherCpu,
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum Rank {
    Fair,
    RealTime,
}

struct Trace {
    timeline: Timeline,
    time: u64,
    current: Tid,
    events: usize,
    other: u32,
}

impl Trace {
    fn task(&self, who: Who, rank: Rank, round: u32) -> TaskRef {
        let number = match who {
            Who::One => 0,
            Who::Few => round % 5,
            Who::Many => round,
        };
        let (base, prio) = match rank {
            Rank::Fair => (1_000, Prio::NORMAL),
            Rank::RealTime => (2_000_000, Prio(49)),
        };
        let tid = base + number * 3;
        TaskRef::new(Tid(tid), Comm::from(format!("t{tid}").as_str()), Some(prio))
    }

    fn push(&mut self, cpu: u32, current: Tid, kind: EventKind) {
        let event =
            Event { time: Time(self.time), cpu: CpuId(cpu), issuer: Issuer::new(Some(current), Context::Task), kind };
        self.timeline.push(&event, &mut Pieces);
        self.events += 1;
    }

    fn switch(&mut self, next: TaskRef, prev_state: PrevState) {
        let tid = self.current;
        let prio = if tid.0 >= 2_000_000 { Prio(49) } else { Prio::NORMAL };
        let prev = TaskRef::new(tid, Comm::from(format!("t{}", tid.0).as_str()), Some(prio));
        self.push(0, tid, EventKind::Switch { prev, prev_state, next });
        self.current = next.tid();
    }

    fn play(&mut self, step: Move, round: u32) {
        let here = self.current;
        match step {
            Move::SwitchAtOnce(..) => {}
            _ => self.time += 7_000,
        }
        match step {
            Move::Wake(who, rank) => {
                let task = self.task(who, rank, round);
                self.push(0, here, EventKind::Waking { task, target_cpu: CpuId(0) });
                self.push(0, here, EventKind::Wakeup { task, target_cpu: CpuId(0) });
            }
            Move::Switch(who, rank, state) | Move::SwitchAtOnce(who, rank, state) => {
                self.switch(self.task(who, rank, round.wrapping_mul(7) % 100_000), state);
            }
            Move::Idle(state) => self.switch(TaskRef::new(Tid::IDLE, Comm::from("swapper/0"), Some(Prio(120))), state),
            Move::Migrate(who) => {
                let task = self.task(who, Rank::Fair, round);
                self.push(0, here, EventKind::Migrate { task, orig_cpu: CpuId(0), dest_cpu: CpuId(round % 3) });
            }
            Move::MigrateRecent(back) => {
                let task = self.task(Who::Many, Rank::Fair, round.saturating_sub(back));
                self.push(0, here, EventKind::Migrate { task, orig_cpu: CpuId(0), dest_cpu: CpuId(round % 2) });
            }
            Move::Fork(who) => {
                let child = self.task(who, Rank::Fair, round).tid();
                self.push(0, here, EventKind::Fork { parent: here, child, child_comm: Comm::from("child") });
            }
            Move::Rename(who) => {
                let tid = self.task(who, Rank::Fair, round).tid();
                let comm = Comm::from(format!("n{round}").as_str());
                self.push(0, here, EventKind::Rename { tid: Some(tid), comm });
            }
            Move::SetPrio(who, rank) => {
                let tid = self.task(who, Rank::Fair, round).tid();
                let prio = self.task(who, rank, round).prio().unwrap_or(Prio::NORMAL);
                self.push(0, here, EventKind::SetPrio { tid, prio });
            }
            Move::Exit(who) => {
                let tid = self.task(who, Rank::Fair, round).tid();
                self.push(0, here, EventKind::Exit { tid, comm: Comm::default() });
            }
            Move::WakeByTask(who) => {
                // Each woken task wakes the next one: a chain of tasks that sleep until another has run.
                let (task, next) = (self.task(who, Rank::Fair, round), self.task(Who::Many, Rank::Fair, round + 1));
                self.switch(task, PrevState::Sleeping);
                self.push(0, task.tid(), EventKind::Waking { task: next, target_cpu: CpuId(0) });
            }
            Move::Interrupt(who) => {
                let irq = self.task(who, Rank::Fair, round).tid().0;
                self.push(0, here, EventKind::IrqEntry { irq, name: None });
            }
            Move::InterruptEnd => self.push(0, here, EventKind::IrqExit { irq: 1_000 }),
            Move::Softirq => self.push(0, here, EventKind::SoftirqEntry { vec: (round % 10) as u8 }),
            Move::SoftirqEnd => self.push(0, here, EventKind::SoftirqExit { vec: (round % 10) as u8 }),
            Move::WorkQueued => {
                self.push(0, here, EventKind::WorkQueued { work: u64::from(round), function: None, workqueue: None });
            }
            Move::WorkStart => self.push(0, here, EventKind::WorkStart { work: u64::from(round), function: None }),
            Move::WorkEnd => self.push(0, here, EventKind::WorkEnd { work: u64::from(round), function: None }),
            Move::BlockIssue(places) => {
                let request = BlockRequest { device: 1, sector: u64::from(round % places), sectors: 8 };
                self.push(0, here, EventKind::BlockIssue(request));
            }
            Move::BlockComplete(places) => {
                let request = BlockRequest { device: 1, sector: u64::from(round % places), sectors: 4 };
                self.push(0, here, EventKind::BlockComplete(request));
            }
            Move::OtherCpu => {
                self.other = 1 + (self.other + 1) % (CPUS - 1);
                self.push(self.other, Tid::IDLE, EventKind::SoftirqRaise { vec: 1 });
            }
            Move::Lost => self.push(0, here, EventKind::Lost { count: None }),
        }
    }
}

/// Steps and events of this many rounds, and whether the limit was reached.
fn steps(moves: &[Move], lacks_cpus: bool, rounds: u32) -> (usize, usize, bool) {
    let mut timeline = Timeline::new(Some(CPUS), None, Box::new(Limited::new()));
    timeline.limit_effort(Effort::of(1 << 12));
    if lacks_cpus {
        timeline.lacks_cpus();
    }
    let mut trace = Trace { timeline, time: 1_000, current: Tid(5), events: 0, other: 0 };
    STEPS.set(0);
    for round in 0..rounds {
        moves.iter().for_each(|step| trace.play(*step, round));
    }
    trace.timeline.finish(&mut Pieces);
    let is_said = trace.timeline.losses().iter().any(|loss| loss.kind == LossKind::TooMuchWork);
    (STEPS.get(), trace.events, is_said)
}

/// Steps allowed for each event: searching a part among a few others, for as many of them, and the event's own grant.
const OF_AN_EVENT: usize = UNCOUNTED_STEPS * UNCOUNTED_STEPS + BY_CHANGE as usize;
/// Steps allowed for every trace, and for waits that are settled together.
const OF_A_TRACE: usize = 1 << 18;

fn takes_steps_by_its_length(moves: &[Move], lacks_cpus: bool, rounds: u32) {
    let (few, _, _) = steps(moves, lacks_cpus, rounds);
    let (many, events, is_said) = steps(moves, lacks_cpus, 2 * rounds);
    assert!(many <= events * OF_AN_EVENT + OF_A_TRACE, "{many} steps of {events} events: {moves:?}");
    // A few steps for each event do not count as growth.
    let grows = many > few * 5 / 2 && many > events * UNCOUNTED_STEPS * 4 + OF_A_TRACE;
    assert!(!grows || is_said, "{few} steps became {many} of {events} events, and no loss is said: {moves:?}");
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![1 => Just(Who::One), 1 => Just(Who::Few), 3 => Just(Who::Many)]
}

fn rank() -> impl Strategy<Value = Rank> {
    prop_oneof![2 => Just(Rank::Fair), 1 => Just(Rank::RealTime)]
}

fn state() -> impl Strategy<Value = PrevState> {
    prop_oneof![3 => Just(PrevState::Preempted), 1 => Just(PrevState::Sleeping), 1 => Just(PrevState::Dead)]
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => (who(), rank()).prop_map(|(who, rank)| Move::Wake(who, rank)),
        4 => (who(), rank(), state()).prop_map(|(who, rank, state)| Move::Switch(who, rank, state)),
        1 => (who(), rank(), state()).prop_map(|(who, rank, state)| Move::SwitchAtOnce(who, rank, state)),
        2 => state().prop_map(Move::Idle),
        1 => who().prop_map(Move::Migrate),
        2 => (0..1000u32).prop_map(Move::MigrateRecent),
        1 => who().prop_map(Move::Fork),
        1 => who().prop_map(Move::Rename),
        1 => (who(), rank()).prop_map(|(who, rank)| Move::SetPrio(who, rank)),
        1 => who().prop_map(Move::Exit),
        1 => who().prop_map(Move::WakeByTask),
        1 => who().prop_map(Move::Interrupt),
        1 => Just(Move::InterruptEnd),
        1 => Just(Move::Softirq),
        1 => Just(Move::SoftirqEnd),
        1 => Just(Move::WorkQueued),
        1 => Just(Move::WorkStart),
        1 => Just(Move::WorkEnd),
        1 => prop::sample::select(vec![1, 7, u32::MAX]).prop_map(Move::BlockIssue),
        1 => prop::sample::select(vec![1, 7, u32::MAX]).prop_map(Move::BlockComplete),
        1 => Just(Move::OtherCpu),
        1 => Just(Move::Lost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_takes_steps_by_its_length(
        moves in prop::collection::vec(any_move(), 1..7), lacks_cpus in prop::bool::weighted(0.2),
    ) {
        takes_steps_by_its_length(&moves, lacks_cpus, 3_000);
    }
}

#[test]
fn shapes_that_took_the_square_take_steps_by_their_length() {
    use Move::{Idle, MigrateRecent, Switch, SwitchAtOnce, Wake};
    use PrevState::{Preempted, Sleeping};
    let real_time = Wake(Who::Many, Rank::RealTime);
    let fair = Wake(Who::Many, Rank::Fair);
    let shapes: [&[Move]; 7] = [
        // n real-time waiters, and n times a lower class goes first.
        &[real_time, Switch(Who::One, Rank::RealTime, Preempted), Switch(Who::One, Rank::Fair, Preempted)],
        // n throttled waiters, and their CPU goes idle n times.
        &[fair, Switch(Who::Few, Rank::Fair, Preempted), Idle(Sleeping)],
        // n waiters behind n kinds of tasks.
        &[fair, Switch(Who::Many, Rank::Fair, Preempted)],
        &[real_time, Switch(Who::Many, Rank::Fair, Sleeping), Switch(Who::Many, Rank::RealTime, Preempted)],
        // The same at one moment.
        &[fair, SwitchAtOnce(Who::Many, Rank::Fair, Preempted), SwitchAtOnce(Who::Many, Rank::RealTime, Preempted)],
        // Each wait is interrupted by migrations.
        &[fair, Switch(Who::Many, Rank::Fair, Preempted), MigrateRecent(500), MigrateRecent(90)],
        &[fair, Switch(Who::Many, Rank::Fair, Preempted), Move::OtherCpu, MigrateRecent(7)],
    ];
    for moves in shapes {
        takes_steps_by_its_length(moves, false, 8_000);
        takes_steps_by_its_length(moves, true, 8_000);
    }
}

#[test]
fn the_limit_is_reached_and_said() {
    let moves = [
        Move::Wake(Who::Many, Rank::RealTime),
        Move::Switch(Who::One, Rank::RealTime, PrevState::Preempted),
        Move::Switch(Who::One, Rank::Fair, PrevState::Preempted),
    ];
    let (_, _, is_said) = steps(&moves, false, 1_000);
    assert!(is_said);
    let (_, _, is_said) = steps(&moves, false, 20);
    assert!(!is_said, "few waits are all looked at");
}
