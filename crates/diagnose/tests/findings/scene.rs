//! Pictures of who ran when, turned into events.
//!
//! A column is one unit of time. A CPU's row has a letter for the task that runs in that column and `.` for idle; a
//! task's row has `^` where the task is woken by whom its CPU's row shows, `!` where an interrupt wakes it, `?` where the event does
//! not say which of the two. A task that runs again without having been woken was preempted, otherwise it slept.
//!
//! ```text
//!         cpu 0   hhhhhhhhkk..    the hog h runs, then the worker k
//!         k       ..!.........    woken in an interrupt after two columns: waits for six
//! ```

use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, EventSet, EventType, Issuer, MemorySource, Names, PrevState, Prio, TaskRef,
    Tid, Time, TraceInfo,
};

pub struct Scene {
    unit_ns: u64,
    tasks: Vec<(char, TaskRef)>,
    cpus: Vec<Vec<char>>,
    wakes: Vec<(char, Vec<char>)>,
    items: Vec<(char, Vec<char>, &'static str)>,
    softirqs: Vec<(usize, Vec<char>)>,
    snapshot: Option<String>,
    release: Option<String>,
    omit: Vec<EventType>,
}

const EVENTS: [EventType; 14] = [
    EventType::Switch,
    EventType::Waking,
    EventType::Wakeup,
    EventType::WakeupNew,
    EventType::Migrate,
    EventType::Fork,
    EventType::Exec,
    EventType::Exit,
    EventType::IrqEntry,
    EventType::IrqExit,
    EventType::SoftirqEntry,
    EventType::SoftirqExit,
    EventType::WorkStart,
    EventType::WorkEnd,
];

impl Scene {
    /// A column lasts `unit_us` microseconds.
    pub fn new(unit_us: u64) -> Scene {
        Scene {
            unit_ns: unit_us * 1000,
            tasks: Vec::new(),
            cpus: Vec::new(),
            wakes: Vec::new(),
            items: Vec::new(),
            softirqs: Vec::new(),
            snapshot: None,
            release: None,
            omit: Vec::new(),
        }
    }

    /// A task: its letter, name, and the kernel's priority. Ids count from 100.
    pub fn task(mut self, letter: char, comm: &str, prio: i32) -> Scene {
        let tid = Tid(100 + self.tasks.len() as u32);
        self.tasks.push((letter, TaskRef::new(tid, Comm::from(comm), Some(Prio(prio)))));
        self
    }

    /// The next CPU's row.
    pub fn cpu(mut self, row: &str) -> Scene {
        self.cpus.push(row.chars().collect());
        self
    }

    /// Where a task is woken.
    pub fn wakes(mut self, letter: char, row: &str) -> Scene {
        self.wakes.push((letter, row.chars().collect()));
        self
    }

    /// Columns (`i`) in which the worker does one work item of this function.
    pub fn items(mut self, letter: char, function: &'static str, row: &str) -> Scene {
        self.items.push((letter, row.chars().collect(), function));
        self
    }

    /// Columns (`s`) in which a CPU serves the NET_RX softirq on top of its task, and in which (`d`) a device interrupts it before that.
    pub fn softirq(mut self, cpu: usize, row: &str) -> Scene {
        self.softirqs.push((cpu, row.chars().collect()));
        self
    }

    /// The host snapshot, as JSON without its schema.
    pub fn snapshot(mut self, mut json: serde_json::Value) -> Scene {
        json["schema"] = "unstarve.snapshot/1".into();
        self.snapshot = Some(json.to_string());
        self
    }

    /// The kernel's release.
    pub fn kernel(mut self, release: &str) -> Scene {
        self.release = Some(release.into());
        self
    }

    /// Leaves a kind of event out, as if it had not been recorded.
    pub fn without(mut self, event: EventType) -> Scene {
        self.omit.push(event);
        self
    }

    fn task_of(&self, letter: char) -> TaskRef {
        let found = self.tasks.iter().find(|(known, _)| *known == letter);
        found.unwrap_or_else(|| panic!("task {letter} is not declared")).1
    }

    fn next_cpu(&self, letter: char, column: usize) -> Option<usize> {
        let first = |row: &Vec<char>| row.iter().skip(column).position(|c| *c == letter);
        self.cpus.iter().enumerate().filter_map(|(cpu, row)| Some((first(row)?, cpu))).min().map(|(_, cpu)| cpu)
    }

    /// Whether the task that leaves a CPU at this column comes back without a wakeup.
    fn stays_runnable(&self, letter: char, column: usize) -> bool {
        let runs = self.cpus.iter().filter_map(|row| row.iter().skip(column).position(|c| *c == letter)).min();
        let woken = self
            .wakes
            .iter()
            .filter(|(task, _)| *task == letter)
            .filter_map(|(_, row)| row.iter().skip(column).position(|c| matches!(c, '^' | '!' | '?')))
            .min();
        runs.is_some_and(|runs| woken.is_none_or(|woken| woken > runs))
    }

    fn at(&self, cpu: usize, column: usize) -> TaskRef {
        match self.cpus[cpu].get(column) {
            Some('.') | None => TaskRef::new(Tid::IDLE, Comm::from("swapper"), Some(Prio::NORMAL)),
            Some(letter) => self.task_of(*letter),
        }
    }

    fn event(&self, column: usize, offset: u64, cpu: usize, context: Context, kind: EventKind) -> Event {
        Event {
            time: Time(1_000_000_000 + column as u64 * self.unit_ns + offset),
            cpu: CpuId(cpu as u32),
            issuer: Issuer::new(
                Some(self.at(cpu, column.saturating_sub(usize::from(offset == 0 && column > 0))).tid()),
                context,
            ),
            kind,
        }
    }

    fn events(&self, names: &mut Names) -> Vec<Event> {
        let mut events = Vec::new();
        for (letter, row) in &self.wakes {
            for (column, mark) in row.iter().enumerate().filter(|(_, mark)| matches!(mark, '^' | '!' | '?')) {
                let task = self.task_of(*letter);
                let Some(cpu) = self.next_cpu(*letter, column) else { continue };
                let context = match mark {
                    '!' => Context::Hardirq,
                    '?' => Context::Unknown,
                    _ => Context::Task,
                };
                let target_cpu = CpuId(cpu as u32);
                // Late in the column before: the switch that it may cause comes at the column's edge.
                let (before, late) = (column.saturating_sub(1), self.unit_ns - 2);
                events.push(self.event(before, late, cpu, context, EventKind::Waking { task, target_cpu }));
                events.push(self.event(before, late + 1, cpu, context, EventKind::Wakeup { task, target_cpu }));
            }
        }
        for (letter, row, function) in &self.items {
            let function = Some(names.find(function).unwrap_or_else(|| names.push(function)));
            for (column, _) in row.iter().enumerate().filter(|(_, mark)| **mark == 'i') {
                let Some(cpu) = self.next_cpu(*letter, column) else { continue };
                let work = column as u64;
                let end = self.unit_ns / 2;
                events.push(self.event(column, 1, cpu, Context::Task, EventKind::WorkStart { work, function }));
                events.push(self.event(column, end, cpu, Context::Task, EventKind::WorkEnd { work, function }));
            }
        }
        for (cpu, row) in &self.softirqs {
            for (column, mark) in row.iter().enumerate().filter(|(_, mark)| matches!(mark, 's' | 'd')) {
                let end = self.unit_ns - 3;
                if *mark == 'd' {
                    events.push(self.event(
                        column,
                        1,
                        *cpu,
                        Context::Hardirq,
                        EventKind::IrqEntry { irq: 24, name: None },
                    ));
                    events.push(self.event(column, 2, *cpu, Context::Hardirq, EventKind::IrqExit { irq: 24 }));
                }
                events.push(self.event(column, 3, *cpu, Context::Task, EventKind::SoftirqEntry { vec: 3 }));
                events.push(self.event(column, end, *cpu, Context::Task, EventKind::SoftirqExit { vec: 3 }));
            }
        }
        for (cpu, row) in self.cpus.iter().enumerate() {
            for column in 1..=row.len() {
                let (prev, next) = (self.at(cpu, column - 1), self.at(cpu, column));
                if prev.tid() == next.tid() {
                    continue;
                }
                let letter = row[column - 1];
                let runnable = letter == '.' || self.stays_runnable(letter, column);
                let prev_state = if runnable { PrevState::Preempted } else { PrevState::Sleeping };
                events.push(self.event(column, 0, cpu, Context::Task, EventKind::Switch { prev, prev_state, next }));
            }
        }
        events.sort_by_key(|event| event.time);
        events.retain(|event| event.kind.event_type().is_none_or(|kind| !self.omit.contains(&kind)));
        events
    }

    pub fn explain(&self) -> Report {
        self.explain_with(&Options::default())
    }

    /// Its events, as a recording has them.
    pub fn source(&self) -> MemorySource {
        let mut names = Names::default();
        let events = self.events(&mut names);
        let recorded: EventSet = EVENTS.into_iter().filter(|event| !self.omit.contains(event)).collect();
        let info = TraceInfo {
            format: "scene".into(),
            cpus: Some(self.cpus.len() as u32),
            recorded: Some(recorded),
            snapshot: self.snapshot.clone(),
            kernel_release: self.release.clone(),
            ..TraceInfo::default()
        };
        MemorySource::new(info, events, names)
    }

    pub fn explain_with(&self, options: &Options) -> Report {
        let source = self.source();
        let report = explain(Box::new(source), options, |_| {}).expect("a scene has events");
        for finding in &report.findings {
            let sum: u64 = finding.blame.iter().map(|row| row.ns).sum();
            assert_eq!(sum, finding.waits.total_ns, "{}", finding.id);
        }
        report
    }

    /// Findings in one line each: `critical rt-starvation: ksoftirqd/0 by hog (class)`.
    pub fn findings(&self) -> String {
        let lines = self.explain().findings.into_iter().map(|finding| {
            let by = finding.culprits.first().map_or("nobody".into(), |row| format!("{} ({})", row.comm, row.rule));
            format!("{} {}: {} by {by}\n", finding.severity.word(), finding.id, finding.victim.comm)
        });
        lines.collect()
    }

    /// Those that are more than a remark.
    pub fn alarms(&self) -> Vec<String> {
        let report = self.explain();
        let bad = report.findings.into_iter().filter(|finding| finding.severity > Severity::Info);
        bad.map(|finding| format!("{}: {}", finding.id, finding.sentence)).collect()
    }
}

/// A row repeated.
pub fn times(count: usize, row: &str) -> String {
    row.repeat(count)
}
