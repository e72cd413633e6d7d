//! Valid streams of random tasks: what is found does not depend on where exactly a recording begins and ends, nor on what it
//! is written as.

use std::fmt::Write;

use proptest::prelude::*;
use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, EventSet, EventType, Issuer, MemorySource, Names, PrevState, Prio, TaskRef,
    Tid, Time, TraceInfo,
};

/// What a task does again and again: works, then sleeps, in ms.
#[derive(Clone, Debug)]
struct Habit {
    prio: i32,
    works: u64,
    sleeps: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Sleeps { until: u64 },
    Ready { since: u64 },
    Runs { since: u64 },
}

struct Task {
    habit: Habit,
    state: State,
    cpu: usize,
    left: u64,
    named: bool,
}

/// A scheduler of its own: real-time first, else turns of 3 ms in the order of arrival; an idle CPU pulls.
struct Machine {
    tasks: Vec<Task>,
    current: Vec<Option<usize>>,
    events: Vec<Event>,
    now: u64,
    offset: u64,
}

const TURN: u64 = 3;
const LENGTH: u64 = 1500;

impl Machine {
    fn new(habits: &[Habit], cpus: usize) -> Machine {
        let task = |(index, habit): (usize, &Habit)| Task {
            habit: habit.clone(),
            state: State::Sleeps { until: 1 + index as u64 },
            cpu: index % cpus,
            left: habit.works,
            named: false,
        };
        let tasks = habits.iter().enumerate().map(task).collect();
        Machine { tasks, current: vec![None; cpus], events: Vec::new(), now: 0, offset: 0 }
    }

    fn task_ref(&self, task: Option<usize>) -> TaskRef {
        let Some(index) = task else {
            return TaskRef::new(Tid::IDLE, Comm::from("swapper"), Some(Prio::NORMAL));
        };
        let name = if self.tasks[index].named { format!("work{index}") } else { format!("task{index}") };
        let prio = Some(Prio(self.tasks[index].habit.prio));
        TaskRef::new(Tid(100 + index as u32), Comm::from(name.as_str()), prio)
    }

    fn emit(&mut self, cpu: usize, context: Context, kind: EventKind) {
        self.offset += 1;
        let current = Some(self.task_ref(self.current[cpu]).tid());
        let time = Time(1_000_000_000 + self.now * 1_000_000 + self.offset * 1000);
        self.events.push(Event { time, cpu: CpuId(cpu as u32), issuer: Issuer::new(current, context), kind });
    }

    fn wake(&mut self, index: usize) {
        let (cpu, task) = (self.tasks[index].cpu, self.task_ref(Some(index)));
        let target_cpu = CpuId(cpu as u32);
        self.emit(cpu, Context::Hardirq, EventKind::Waking { task, target_cpu });
        self.emit(cpu, Context::Hardirq, EventKind::Wakeup { task, target_cpu });
        self.tasks[index].state = State::Ready { since: self.now };
        self.tasks[index].left = self.tasks[index].habit.works;
    }

    /// Who is to run on the CPU: real-time before others, then who came first.
    fn first(&self, cpu: usize) -> Option<usize> {
        let ready = self.tasks.iter().enumerate().filter_map(|(index, task)| match task.state {
            State::Ready { since } if task.cpu == cpu => Some((task.habit.prio >= 100, since, index)),
            _ => None,
        });
        ready.min().map(|(_, _, index)| index)
    }

    fn switch(&mut self, cpu: usize, state: PrevState, next: Option<usize>) {
        let (prev, to) = (self.task_ref(self.current[cpu]), self.task_ref(next));
        self.emit(cpu, Context::Task, EventKind::Switch { prev, prev_state: state, next: to });
        self.current[cpu] = next;
        if let Some(next) = next {
            self.tasks[next].state = State::Runs { since: self.now };
        }
    }

    fn pull(&mut self, cpu: usize) {
        let from = (0..self.current.len()).find(|from| *from != cpu && self.first(*from).is_some());
        let Some((from, index)) = from.and_then(|from| Some((from, self.first(from)?))) else { return };
        let (task, orig_cpu, dest_cpu) = (self.task_ref(Some(index)), CpuId(from as u32), CpuId(cpu as u32));
        self.emit(cpu, Context::Softirq, EventKind::Migrate { task, orig_cpu, dest_cpu });
        self.tasks[index].cpu = cpu;
    }

    fn step_cpu(&mut self, cpu: usize) {
        if self.current[cpu].is_none() && self.first(cpu).is_none() {
            self.pull(cpu);
        }
        let next = self.first(cpu);
        let Some(index) = self.current[cpu] else {
            if next.is_some() {
                self.switch(cpu, PrevState::Runnable, next);
            }
            return;
        };
        if self.tasks[index].left == 0 {
            self.tasks[index].state = State::Sleeps { until: self.now + self.tasks[index].habit.sleeps };
            self.switch(cpu, PrevState::Sleeping, next);
            return;
        }
        let State::Runs { since } = self.tasks[index].state else { return };
        let real_time = |index: usize| self.tasks[index].habit.prio < 100;
        let pushed = next
            .is_some_and(|next| real_time(next) && !real_time(index) || !real_time(index) && self.now - since >= TURN);
        if pushed {
            self.tasks[index].state = State::Ready { since: self.now };
            self.switch(cpu, PrevState::Preempted, next);
        }
    }

    fn run(mut self) -> Vec<Event> {
        for now in 0..LENGTH {
            (self.now, self.offset) = (now, 0);
            for index in 0..self.tasks.len() {
                if matches!(self.tasks[index].state, State::Sleeps { until } if until <= now) {
                    self.wake(index);
                }
            }
            (0..self.current.len()).for_each(|cpu| self.step_cpu(cpu));
            for cpu in 0..self.current.len() {
                let Some(index) = self.current[cpu] else { continue };
                self.tasks[index].left = self.tasks[index].left.saturating_sub(1);
                // Once, in the middle: a program of another name.
                if now > LENGTH / 2 && !self.tasks[index].named && index == 0 {
                    self.tasks[index].named = true;
                    let task = self.task_ref(Some(index));
                    let (tid, comm) = (task.tid(), *task.comm());
                    self.emit(cpu, Context::Task, EventKind::Exec { tid, comm });
                }
            }
        }
        self.events
    }
}

const RECORDED: [EventType; 5] =
    [EventType::Switch, EventType::Waking, EventType::Wakeup, EventType::Migrate, EventType::Exec];

fn explained(events: Vec<Event>, cpus: usize) -> Report {
    let info = TraceInfo {
        cpus: Some(cpus as u32),
        recorded: Some(RECORDED.into_iter().collect::<EventSet>()),
        ..TraceInfo::default()
    };
    explain(Box::new(MemorySource::new(info, events, Names::default())), &Options::default(), |_| {}).expect("events")
}

/// As tracefs prints it.
fn text_of(events: &[Event]) -> String {
    let mut text = "# tracer: nop\n".to_owned();
    for event in events {
        let micros = event.time.0 / 1000;
        let (current, cpu) = (event.issuer.current().map_or(0, |tid| tid.0), event.cpu.0);
        let flags = match event.issuer.context() {
            Context::Hardirq => "d.h2.",
            Context::Softirq => "d.s2.",
            _ => "d..2.",
        };
        let _ = write!(text, "  x-{current} [{cpu:03}] {flags} {}.{:06}: ", micros / 1_000_000, micros % 1_000_000);
        let of = |task: &TaskRef, p: &str| {
            format!("{p}comm={} {p}pid={} {p}prio={}", task.comm(), task.tid(), task.prio().map_or(120, |prio| prio.0))
        };
        let _ = match &event.kind {
            EventKind::Switch { prev, prev_state, next } => {
                let state = match prev_state {
                    PrevState::Sleeping => "S",
                    PrevState::Preempted => "R+",
                    _ => "R",
                };
                writeln!(text, "sched_switch: {} prev_state={state} ==> {}", of(prev, "prev_"), of(next, "next_"))
            }
            EventKind::Waking { task, target_cpu } => {
                writeln!(text, "sched_waking: {} target_cpu={:03}", of(task, ""), target_cpu.0)
            }
            EventKind::Wakeup { task, target_cpu } => {
                writeln!(text, "sched_wakeup: {} target_cpu={:03}", of(task, ""), target_cpu.0)
            }
            EventKind::Migrate { task, orig_cpu, dest_cpu } => {
                writeln!(text, "sched_migrate_task: {} orig_cpu={orig_cpu} dest_cpu={dest_cpu}", of(task, ""))
            }
            EventKind::Exec { tid, comm } => {
                writeln!(text, "sched_process_exec: filename=/usr/bin/{comm} pid={tid} old_pid={tid}")
            }
            other => panic!("{other:?} does not occur"),
        };
    }
    text
}

/// The alarms: kind, and the process ids of those who wait (names change).
fn alarms(report: &Report) -> Vec<String> {
    let loud = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let mut alarms: Vec<String> =
        loud.map(|finding| format!("{} by {:?}", finding.id, finding.culprits.first().map(|row| &row.tids))).collect();
    alarms.sort();
    alarms
}

/// Fair tasks of which each leaves the CPU again, and perhaps a real-time one that keeps it for 120 ms now and then.
fn habits() -> impl Strategy<Value = Vec<Habit>> {
    let fair = (1..8_u64, 20..90_u64).prop_map(|(works, sleeps)| Habit { prio: 120, works, sleeps });
    let hog = prop_oneof![Just(None), Just(Some(Habit { prio: 49, works: 120, sleeps: 280 }))];
    (prop::collection::vec(fair, 2..6), hog).prop_map(|(mut habits, hog)| {
        habits.extend(hog);
        habits
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_few_events_at_the_ends_change_no_alarm(habits in habits(), cpus in 1..3_usize, head in 0..12_usize, tail in 0..12_usize) {
        let events = Machine::new(&habits, cpus).run();
        let whole = alarms(&explained(events.clone(), cpus));
        let hog = habits.iter().any(|habit| habit.prio < 100);
        prop_assert!(hog || whole.is_empty(), "a healthy machine: {:?}", whole);
        prop_assert!(!hog || cpus > 1 || !whole.is_empty(), "a hog on the only CPU");
        let cut = events[head..events.len() - tail].to_vec();
        prop_assert_eq!(&alarms(&explained(cut, cpus)), &whole);
        let text = text_of(&events);
        let input = unstarve_readers::Input::from_stream(Box::new(std::io::Cursor::new(text.into_bytes())), "x".into());
        let source = unstarve_readers::open_input(input.expect("a text")).expect("ftrace text");
        let of_text = explain(source, &Options::default(), |_| {}).expect("events");
        prop_assert_eq!(&alarms(&of_text), &whole);
    }
}
