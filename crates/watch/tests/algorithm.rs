//! The way in which `watch.bpf.c` counts, in plain Rust and apart from the kernel, on every trace in `testdata`: its sums are those of
//! the waits to the nanosecond, and its waits are those of `explain`'s timeline.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use unstarve_model::{Batch, Event, EventKind, EventType, Policy, Prio, TaskRef, Tid, Time};
use unstarve_sched::KernelThread;
use unstarve_timeline::{NoSettings, Sink, Timeline, Wait, WaitKind, World};

const UNKNOWN: usize = 0;
const IDLE: usize = 1;
const ROLES: usize = 12;

/// From, to, who.
type Span = (Time, Time, Tid);

#[derive(Clone, Copy)]
struct Queue {
    n: i64,
    moments: i128,
    /// What was counted of both, and when.
    counted: (i64, i128, Time),
}

impl Queue {
    /// How long all that were here have waited here.
    fn waited(n: i64, moments: i128, at: Time) -> i128 {
        i128::from(n) * i128::from(at.0) - moments
    }
}

struct Cpu {
    run_start: Time,
    current: Option<Tid>,
    role: usize,
    queues: [Queue; ROLES],
    blame: [[i128; ROLES]; ROLES],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NeverSeen,
    Sleeping,
    Waiting,
    Running,
}

#[derive(Clone, Copy)]
struct Task {
    state: State,
    was_woken: bool,
    start: Time,
    since: Time,
    cpu: usize,
    slot: usize,
}

/// What the programs do, event by event.
#[derive(Default)]
struct Counter {
    cpus: Vec<Cpu>,
    tasks: HashMap<Tid, Task>,
    waits: Vec<Span>,
    /// How much of the waits was not certain: a switch was missing.
    doubted: u64,
    now: Time,
}

fn role_of(task: &TaskRef) -> usize {
    let prio = task.prio().unwrap_or(Prio::NORMAL);
    match KernelThread::of(task.comm()) {
        Some(KernelThread::Ksoftirqd { .. }) => 2,
        Some(KernelThread::BoundWorker { .. } | KernelThread::UnboundWorker | KernelThread::Rescuer) => 3,
        Some(KernelThread::Rcu) => 4,
        Some(KernelThread::Storage) => 5,
        Some(KernelThread::Nfsd) => 6,
        Some(_) => 7,
        None if prio.policy() > Policy::Fair => 8,
        None => 9,
    }
}

impl Counter {
    fn cpu(&mut self, index: usize) -> &mut Cpu {
        while self.cpus.len() <= index {
            self.cpus.push(Cpu {
                run_start: self.now,
                current: None,
                role: UNKNOWN,
                queues: [Queue { n: 0, moments: 0, counted: (0, 0, Time(0)) }; ROLES],
                blame: [[0; ROLES]; ROLES],
            });
        }
        &mut self.cpus[index]
    }

    /// Counts what has been waited up to now for who had the CPU since it was last counted.
    fn account(&mut self, index: usize, occupant: usize) {
        let now = self.now;
        let cpu = self.cpu(index);
        for (role, queue) in cpu.queues.iter_mut().enumerate() {
            let (n, moments, at) = queue.counted;
            cpu.blame[role][occupant] += Queue::waited(queue.n, queue.moments, now) - Queue::waited(n, moments, at);
            queue.counted = (queue.n, queue.moments, now);
        }
    }

    fn join(&mut self, tid: Tid, index: usize, slot: usize, was_woken: bool) {
        let now = self.now;
        let queue = &mut self.cpu(index).queues[slot];
        queue.n += 1;
        queue.moments += i128::from(now.0);
        let task = Task { state: State::Waiting, was_woken, start: now, since: now, cpu: index, slot };
        self.tasks.insert(tid, task);
    }

    fn leave(&mut self, task: Task, end: Time) {
        let queue = &mut self.cpu(task.cpu).queues[task.slot];
        queue.n -= 1;
        queue.moments -= i128::from(end.0);
    }

    fn task(&self, tid: Tid) -> Task {
        let fresh =
            Task { state: State::NeverSeen, was_woken: false, start: self.now, since: self.now, cpu: 0, slot: 0 };
        self.tasks.get(&tid).copied().unwrap_or(fresh)
    }

    fn set(&mut self, tid: Tid, state: State) {
        let task = Task { state, ..self.task(tid) };
        self.tasks.insert(tid, task);
    }

    fn switch(&mut self, index: usize, prev: &TaskRef, stays: bool, next: &TaskRef) {
        let now = self.now;
        let (role, run_start) = (self.cpu(index).role, self.cpu(index).run_start);
        let as_thought = self.cpu(index).current.is_none_or(|current| current == prev.tid());
        if !prev.tid().is_idle() {
            let task = self.task(prev.tid());
            if task.state == State::Waiting {
                let end = if task.cpu == index && role == IDLE { task.since.max(run_start) } else { now };
                self.leave(task, end);
                self.waits.push((task.start, end, prev.tid()));
                self.doubted += 1;
            }
        }
        // The idle CPU switches: it was idle, or somebody ran unseen.
        self.account(index, if role == IDLE && !as_thought { UNKNOWN } else { role });
        if !prev.tid().is_idle() {
            if stays {
                self.join(prev.tid(), index, role_of(prev), false);
            } else {
                self.set(prev.tid(), State::Sleeping);
            }
        }
        if !next.tid().is_idle() {
            let task = self.task(next.tid());
            if task.state == State::Waiting {
                self.leave(task, now);
                self.waits.push((task.start, now, next.tid()));
            }
            self.set(next.tid(), State::Running);
        }
        let cpu = self.cpu(index);
        cpu.current = Some(next.tid());
        cpu.role = if next.tid().is_idle() { IDLE } else { role_of(next) };
        cpu.run_start = now;
    }

    fn wake(&mut self, task: &TaskRef, target: usize) {
        let known = self.task(task.tid());
        match known.state {
            State::Running => return,
            State::Waiting if !known.was_woken => return,
            State::Waiting => {
                self.leave(known, self.now);
                self.waits.push((known.start, self.now, task.tid()));
                self.doubted += 1;
            }
            State::NeverSeen | State::Sleeping => {}
        }
        self.join(task.tid(), target, role_of(task), true);
    }

    fn migrate(&mut self, tid: Tid, to: usize) {
        let task = self.task(tid);
        if task.state != State::Waiting || task.cpu == to {
            return;
        }
        let now = self.now;
        self.leave(task, now);
        let queue = &mut self.cpu(to).queues[task.slot];
        queue.n += 1;
        queue.moments += i128::from(now.0);
        self.tasks.insert(tid, Task { cpu: to, since: now, ..task });
    }

    fn push(&mut self, event: &Event) {
        self.now = self.now.max(event.time);
        match &event.kind {
            EventKind::Switch { prev, prev_state, next } => {
                self.switch(event.cpu.index(), prev, prev_state.is_runnable(), next);
            }
            EventKind::Wakeup { task, target_cpu } | EventKind::WakeupNew { task, target_cpu }
                if !task.tid().is_idle() =>
            {
                self.wake(task, target_cpu.index());
            }
            EventKind::Migrate { task, dest_cpu, .. } => self.migrate(task.tid(), dest_cpu.index()),
            _ => {}
        }
    }

    /// Counts up to now, and checks that the sums are those of the waits, of each role.
    fn finish(&mut self, trace: &Path) {
        let mut waited = [0_i128; ROLES];
        for index in 0..self.cpus.len() {
            let role = self.cpu(index).role;
            self.account(index, role);
        }
        for (role, sum) in waited.iter_mut().enumerate() {
            let blame: i128 = self.cpus.iter().map(|cpu| cpu.blame[role].iter().sum::<i128>()).sum();
            let queues = self.cpus.iter().map(|cpu| cpu.queues[role]);
            *sum = queues.map(|queue| Queue::waited(queue.n, queue.moments, self.now)).sum();
            assert_eq!(blame, *sum, "{}: role {role}", trace.display());
        }
        let open: Vec<Span> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.state == State::Waiting)
            .map(|(tid, task)| (task.start, self.now, *tid))
            .collect();
        self.waits.extend(open);
        let single: i128 = self.waits.iter().map(|(start, end, _)| i128::from(end.since(*start).0)).sum();
        assert_eq!(waited.iter().sum::<i128>(), single, "{}: the sum of the single waits", trace.display());
    }
}

/// The timeline's waits, from when they were put on a queue.
#[derive(Default)]
struct Seen(Vec<Span>);

impl Sink for Seen {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        // At the end of the recording an idle CPU may yet have to take up whom another CPU woke for it.
        if wait.kind == WaitKind::Wakeup && wait.queued.is_none() && wait.end == world.now {
            return;
        }
        self.0.push((wait.queued.unwrap_or(wait.start), wait.end, world.tasks.get(wait.task).tid));
    }
}

/// What two lists of spans have in common, and what each has alone, in ns.
struct Compared {
    common: u64,
    ours: Vec<Span>,
    theirs: Vec<Span>,
}

fn length(spans: &[Span]) -> u64 {
    spans.iter().map(|(start, end, _)| end.since(*start).0).sum()
}

fn compare(mut ours: Vec<Span>, mut theirs: Vec<Span>) -> Compared {
    // A wait of no time is nothing.
    ours.retain(|(start, end, _)| start < end);
    theirs.retain(|(start, end, _)| start < end);
    let mut count: HashMap<Span, i64> = HashMap::new();
    theirs.iter().for_each(|span| *count.entry(*span).or_default() += 1);
    let mut take = |span: &Span| {
        let left = count.entry(*span).or_default();
        *left -= 1;
        *left >= 0
    };
    let (common, alone): (Vec<Span>, Vec<Span>) = ours.into_iter().partition(|span| take(span));
    theirs.retain(|span| {
        let left = count.get_mut(span);
        left.is_some_and(|left| {
            *left -= 1;
            *left >= 0
        })
    });
    Compared { common: length(&common), ours: alone, theirs }
}

fn traces() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut found: Vec<PathBuf> = ["traces", "truth"]
        .iter()
        .filter_map(|part| std::fs::read_dir(folder.join(part)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains(".dat"))
        .collect();
    found.sort();
    found
}

#[test]
fn sums_and_waits_are_those_of_the_timeline() {
    let (mut judged, mut all, mut alone) = (0, 0, 0);
    for path in traces() {
        let mut source = unstarve_readers::open(&path).expect("a readable trace");
        let info = source.info().clone();
        let has = |event| info.recorded.is_none_or(|set| set.contains(event));
        if ![EventType::Switch, EventType::Wakeup, EventType::Migrate].into_iter().all(has) {
            continue;
        }
        let mut timeline = Timeline::new(info.cpus, info.recorded, Box::new(NoSettings));
        let (mut counter, mut seen, mut batch) = (Counter::default(), Seen::default(), Batch::default());
        while source.read(&mut batch).expect("a sound trace") {
            timeline.names(batch.names.drain(..));
            for event in &batch.events {
                counter.push(event);
                timeline.push(event, &mut seen);
            }
        }
        timeline.finish(&mut seen);
        counter.finish(&path);
        let start = timeline.world().start;
        let compared = compare(counter.waits, seen.0);
        // The timeline guesses what was before a CPU's first event; who counts live has asked the kernel.
        let theirs: Vec<Span> = compared.theirs.into_iter().filter(|span| span.0 > start).collect();
        let (ours, theirs) = (length(&compared.ours), length(&theirs));
        println!(
            "{}: {} ns in common, {ours} ns counted alone, {theirs} ns by the timeline alone; {} waits doubted",
            path.file_name().unwrap_or_default().display(),
            compared.common,
            counter.doubted
        );
        judged += 1;
        all += compared.common;
        alone += ours + theirs;
    }
    assert!(judged >= 40, "{judged} traces");
    // A task that is woken while it is falling asleep waits from the switch here, and from the end of its wakeup there.
    assert!(alone < all / 1_000_000, "{alone} ns of {all} are not the same");
}
