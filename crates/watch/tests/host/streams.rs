//! Random streams of scheduler events, counted in three ways: by the eBPF programs, by the timeline, and by the reference run queue. All
//! three have to blame the same roles, by the same rules, to the nanosecond.
//!
//! The streams are what Linux does: who runs next is what [`RunQueue::pick_next`] says, a task of a higher class or priority preempts
//! within microseconds, a CPU with work is not idle. Tasks of one role and band of nice values weigh the same, because the programs know a
//! queue's mean alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use unstarve_model::{Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, TaskRef, Tid, Time};
use unstarve_sched::counted::{COUNTED_RULES, Yields, as_counted, place};
use unstarve_sched::queue::{Charge, RunQueue};
use unstarve_sched::{Contender, GroupId, Groups, Rule, precedes};
use unstarve_timeline::{ActorId, ActorKind, Settings, Sink, Timeline, Wait, World};

const CPUS: usize = 2;
/// `enum role` of counted.h.
const IDLE: usize = 1;
const KWORKER: usize = 4;
const REAL_TIME: usize = 9;
const OTHER: usize = 10;
const FIRST_GROUP: usize = 12;
const GROUP_WEIGHTS: [u32; 2] = [4096, 300];

/// Sums in nanoseconds by the role that waited, the role that had the CPU, and the place of the rule.
type Blame = BTreeMap<(usize, usize, usize), u64>;

#[derive(Clone, Copy, Debug)]
struct Task {
    tid: u32,
    prio: Prio,
    role: usize,
}

impl Task {
    fn group(&self) -> Option<usize> {
        self.role.checked_sub(FIRST_GROUP)
    }

    fn contender(&self, ids: &[GroupId]) -> Contender {
        Contender::of_prio(self.prio, self.group().map(|group| ids[group]))
    }

    fn named(&self) -> TaskRef {
        let name = if self.role == KWORKER { format!("kworker/0:{}", self.tid) } else { format!("t{}", self.tid) };
        TaskRef::new(Tid(self.tid), Comm::from(name.as_str()), Some(self.prio))
    }
}

/// A generator of numbers that is the same everywhere (a linear congruence).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// What happens, in the words of `follow_stream` of counts.c, and as events.
struct Stream {
    tasks: Vec<Task>,
    groups: Groups,
    ids: Vec<GroupId>,
    now: Time,
    queues: Vec<RunQueue<u32>>,
    lines: String,
    events: Vec<Event>,
    blame: Blame,
}

impl Stream {
    fn new(random: &mut Random) -> Stream {
        let (light, heavy) = (random.one_of(&[1, 5, 19]), random.one_of(&[-1, -5, -20]));
        let mut groups = Groups::default();
        let ids = GROUP_WEIGHTS.map(|weight| groups.add(None, weight)).to_vec();
        let mut tasks = Vec::new();
        for tid in 1..=10 {
            let role = random.one_of(&[OTHER, OTHER, KWORKER, REAL_TIME, FIRST_GROUP, FIRST_GROUP + 1]);
            let nice = random.one_of(&[0, 0, light, heavy]);
            let prio = match role {
                REAL_TIME => Prio(89),
                KWORKER if random.below(4) == 0 => Prio(49),
                _ => Prio(120 + nice),
            };
            tasks.push(Task { tid, prio, role });
        }
        let mut lines = String::new();
        for Task { tid, prio, role } in &tasks {
            let weight = unstarve_sched::load_weight_of_prio(*prio).unwrap_or(1024);
            lines += &format!("T {tid} {} {weight} {role}\n", prio.0);
        }
        for (index, weight) in GROUP_WEIGHTS.iter().enumerate() {
            lines += &format!("G {} {weight}\n", FIRST_GROUP + index);
        }
        let now = Time(1_000_000_000);
        let queues = vec![RunQueue::new(now); CPUS];
        Stream { tasks, groups, ids, now, queues, lines, events: Vec::new(), blame: Blame::new() }
    }

    fn task(&self, tid: u32) -> Task {
        self.tasks[tid as usize - 1]
    }

    fn event(&mut self, cpu: usize, kind: EventKind) {
        let issuer = Issuer::new(None, Context::Unknown);
        self.events.push(Event { time: self.now, cpu: CpuId(cpu as u32), issuer, kind });
    }

    /// Adds to a sum what the reference run queue charges.
    fn charging<'a>(tasks: &'a [Task], blame: &'a mut Blame) -> impl FnMut(&Charge<u32>) + 'a {
        |charge| {
            let victim = tasks[charge.waiting.key as usize - 1];
            let occupant = charge.occupant.map(|task| tasks[task.key as usize - 1].role);
            add(blame, &victim, occupant.unwrap_or(IDLE), charge.rule, charge.length.0);
        }
    }

    fn wake(&mut self, tid: u32, cpu: usize) {
        let task = self.task(tid);
        self.queues[cpu].wake(self.now, tid, task.contender(&self.ids));
        self.lines += &format!("W {} {cpu} {tid}\n", self.now.0);
        self.event(cpu, EventKind::Wakeup { task: task.named(), target_cpu: CpuId(cpu as u32) });
    }

    fn switch(&mut self, cpu: usize, next: Option<u32>, stays: bool) {
        let idle = TaskRef::new(Tid::IDLE, Comm::from("swapper"), Some(Prio::NORMAL));
        let prev = self.queues[cpu].current().map(|task| task.key);
        let named = |tid: Option<u32>| tid.map_or(idle, |tid| self.task(tid).named());
        let prev_state = if stays || prev.is_none() { PrevState::Preempted } else { PrevState::Sleeping };
        let kind = EventKind::Switch { prev: named(prev), prev_state, next: named(next) };
        let number = |tid: Option<u32>| tid.unwrap_or_default();
        let sleeps = u32::from(prev.is_some() && !stays);
        self.lines += &format!("S {} {cpu} {} {} {sleeps}\n", self.now.0, number(prev), number(next));
        self.event(cpu, kind);
        let mut charge = Stream::charging(&self.tasks, &mut self.blame);
        self.queues[cpu].switch(self.now, next, stays, &self.groups, &mut charge);
    }

    fn migrate(&mut self, tid: u32, from: usize, to: usize) {
        let task = self.task(tid);
        let mut charge = Stream::charging(&self.tasks, &mut self.blame);
        self.queues[from].move_away(self.now, tid, &self.groups, &mut charge);
        drop(charge);
        self.queues[to].move_here(self.now, tid, task.contender(&self.ids));
        // User space polls just before: of a task that comes and goes between two counts the programs know the band alone.
        self.lines += &format!("P {0} {from}\nM {0} {tid} {to}\n", self.now.0);
        let (orig_cpu, dest_cpu) = (CpuId(from as u32), CpuId(to as u32));
        self.event(from, EventKind::Migrate { task: task.named(), orig_cpu, dest_cpu });
    }

    fn pass(&mut self, random: &mut Random, at_most: usize) {
        self.now = Time(self.now.0 + 1 + random.below(at_most) as u64);
    }

    /// Somebody sleeps, is woken, has had its turn, or is moved.
    fn step(&mut self, random: &mut Random) {
        self.pass(random, 4_000_000);
        let cpu = random.below(CPUS);
        let current = self.queues[cpu].current().map(|task| task.key);
        match random.below(8) {
            0..=3 => {
                let Some(tid) = self.sleeper(random) else { return };
                self.wake(tid, cpu);
                self.pass(random, 40_000);
                let woken = self.task(tid);
                match current.map(|current| self.task(current)) {
                    None => self.switch(cpu, Some(tid), false),
                    Some(current) if precedes(woken.prio, current.prio) => self.switch(cpu, Some(tid), true),
                    Some(current) if !precedes(current.prio, woken.prio) && woken.prio.nice().is_some() => {
                        if random.below(3) == 0 {
                            self.switch(cpu, Some(tid), true);
                        }
                    }
                    Some(_) => {}
                }
            }
            4 | 5 if current.is_some() => self.switch(cpu, self.queues[cpu].pick_next(self.now, false), false),
            6 if current.is_some() => {
                let next = self.queues[cpu].pick_next(self.now, true);
                if next != current {
                    self.switch(cpu, next, true);
                }
            }
            7 => {
                let to = 1 - cpu;
                let waiting = self.queues[cpu].waiting();
                // Fair tasks are moved by the load balancer, to a CPU that is busy with others of their class.
                let fits = self.queues[to].current().is_some_and(|task| self.task(task.key).prio.nice().is_some());
                let movable = waiting.iter().find(|task| !task.has_lost_to_a_wakeup() && self.is_fair(task.key));
                if let Some(tid) = movable.map(|task| task.key).filter(|_| fits) {
                    self.migrate(tid, cpu, to);
                }
            }
            _ => {}
        }
    }

    fn is_fair(&self, tid: u32) -> bool {
        self.task(tid).prio.nice().is_some()
    }

    fn sleeper(&self, random: &mut Random) -> Option<u32> {
        let is_here = |queue: &RunQueue<u32>, tid| {
            queue.current().is_some_and(|task| task.key == tid) || queue.waiting().iter().any(|task| task.key == tid)
        };
        let sleeps = |tid: &u32| !self.queues.iter().any(|queue| is_here(queue, *tid));
        let sleepers: Vec<u32> = self.tasks.iter().map(|task| task.tid).filter(sleeps).collect();
        (!sleepers.is_empty()).then(|| random.one_of(&sleepers))
    }

    /// All that waits is charged up to the last event, where a recording ends.
    fn end(&mut self) {
        self.now = self.events.last().map_or(self.now, |event| event.time);
        for cpu in 0..CPUS {
            let mut charge = Stream::charging(&self.tasks, &mut self.blame);
            self.queues[cpu].charge(self.now, &self.groups, &mut charge);
        }
        for cpu in 0..CPUS {
            self.lines += &format!("P {} {cpu}\n", self.now.0);
        }
    }
}

fn add(blame: &mut Blame, victim: &Task, occupant: usize, rule: Rule, ns: u64) {
    let alone = victim.group().is_none() || victim.role == occupant;
    let has_reservation = victim.prio.0 < 0;
    let rule = as_counted(rule, Yields::of(victim.prio), alone, has_reservation);
    *blame.entry((victim.role, occupant, place(rule))).or_default() += ns;
}

/// The timeline's waits, summed up.
struct ByTimeline<'a> {
    tasks: &'a [Task],
    blame: Blame,
}

impl ByTimeline<'_> {
    fn role(&self, world: &World, actor: ActorId) -> usize {
        match world.actors.get(actor).kind {
            ActorKind::Tasks { comm, .. } => {
                let named = |task: &&Task| *task.named().comm() == comm;
                self.tasks.iter().find(named).map_or(0, |task| task.role)
            }
            ActorKind::Idle => IDLE,
            _ => 0,
        }
    }
}

impl Sink for ByTimeline<'_> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let victim = self.tasks[world.tasks.get(wait.task).tid.0 as usize - 1];
        for piece in wait.pieces {
            let occupant = self.role(world, piece.occupant);
            add(&mut self.blame, &victim, occupant, piece.rule, piece.length.0);
        }
    }
}

/// Who is in which group.
struct Grouped {
    tasks: Vec<Task>,
    groups: Groups,
    ids: Vec<GroupId>,
}

impl Settings for Grouped {
    fn groups(&self) -> Groups {
        self.groups.clone()
    }

    fn group(&self, tid: Tid) -> Option<GroupId> {
        self.tasks.iter().find(|task| task.tid == tid.0)?.group().map(|group| self.ids[group])
    }

    fn has_bandwidth_limit(&self, _: Tid) -> Option<bool> {
        Some(false)
    }
}

fn by_timeline(stream: &Stream) -> Blame {
    let settings = Grouped { tasks: stream.tasks.clone(), groups: stream.groups.clone(), ids: stream.ids.clone() };
    let mut timeline = Timeline::new(Some(CPUS as u32), None, Box::new(settings));
    let mut sink = ByTimeline { tasks: &stream.tasks, blame: Blame::new() };
    for event in &stream.events {
        timeline.push(event, &mut sink);
    }
    timeline.finish(&mut sink);
    sink.blame
}

fn by_programs(program: &Path, stream: &Stream) -> Blame {
    let mut child = Command::new(program)
        .arg("follow_stream")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the programs run");
    child.stdin.take().expect("its input").write_all(stream.lines.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}: {text}", output.status);
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    let mut blame = Blame::new();
    for line in text.lines() {
        let words: Vec<u64> = line.split(' ').map(number).collect();
        let &[victim, occupant, rule, ns] = words.as_slice() else { panic!("{line}") };
        assert!(rule < COUNTED_RULES as u64, "{line}");
        *blame.entry((victim as usize, occupant as usize, rule as usize)).or_default() += ns;
    }
    blame
}

#[test]
fn programs_timeline_and_reference_blame_the_same() {
    let place = tempfile::tempdir().expect("a directory");
    let program = super::compile(place.path());
    let (mut all, mut rules) = (0, BTreeMap::<usize, u64>::new());
    for seed in 0..100 {
        let mut random = Random(seed);
        let mut stream = Stream::new(&mut random);
        // A CPU is known from its first switch on.
        for cpu in 0..CPUS {
            let tid = stream.sleeper(&mut random).expect("all sleep");
            stream.wake(tid, cpu);
            stream.pass(&mut random, 10_000);
            stream.switch(cpu, Some(tid), false);
        }
        for _ in 0..400 {
            stream.step(&mut random);
        }
        stream.end();
        assert_eq!(by_programs(&program, &stream), stream.blame, "seed {seed}: programs, reference");
        assert_eq!(by_timeline(&stream), stream.blame, "seed {seed}: timeline, reference");
        for ((_, _, rule), ns) in &stream.blame {
            all += ns;
            *rules.entry(*rule).or_default() += ns;
        }
    }
    for rule in [Rule::Idle, Rule::Class, Rule::WakeupPreemption, Rule::Weight, Rule::Fair] {
        let sum = rules.get(&self::place(rule)).copied().unwrap_or_default();
        assert!(sum > 0, "no stream has a wait by {rule}: {rules:?} of {all} ns");
    }
}
