//! The lines of `unstarve timeline`.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;
use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::{Piece, Run, Selection, Sink, Task, TaskKey, Wait, WaitEnd, WaitKind, World};

use crate::text::seconds;
use unstarve_model::clean;
use unstarve_sched::Rule;

/// How the lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// As a table.
    Text,
    /// An object of JSON on each line.
    Json,
}

/// A line as JSON: a run of a task, and the wait before it. A run or a wait of which nothing was recorded is absent.
#[derive(Serialize, schemars::JsonSchema)]
pub struct TimelineLine {
    /// When the run ended, in ns on the trace's clock; the wait, where nothing of the run was recorded.
    pub end_ns: u64,
    /// Where.
    pub cpu: u32,
    /// The task's name.
    pub comm: String,
    /// Its id.
    pub tid: u32,
    /// How long it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ns: Option<u64>,
    /// The wait before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<TimelineWait>,
}

/// A wait for a CPU.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub struct TimelineWait {
    /// What it came after: `wakeup`, `new`, `preemption`.
    pub kind: &'static str,
    /// How long.
    pub ns: u64,
    /// Who had the CPU meanwhile, in order: adds up to `ns`.
    pub blame: Vec<TimelinePiece>,
}

/// A part of a wait.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub struct TimelinePiece {
    /// `name[tid]`, `idle`, `softirq NET_RX`.
    pub occupant: String,
    /// The rule by which it had the CPU.
    #[schemars(with = "String")]
    #[serde(serialize_with = "by_word")]
    pub rule: Rule,
    /// How long.
    pub ns: u64,
}

fn by_word<S: serde::Serializer>(rule: &Rule, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(rule.word())
}

/// A line for each run of a task with the wait before it, in the columns of `perf sched timehist`, followed by the
/// occupants during the wait with rule and nanoseconds.
///
/// A line is written when the run ends, as in perf; its time is the end of the run. Memory grows with the number of
/// living tasks only.
pub struct Timehist<W> {
    out: W,
    selection: Selection,
    form: Lines,
    /// The wait before the run in progress.
    waits: FxHashMap<TaskKey, TimelineWait>,
    failed: Option<io::Error>,
}

const TABLE_HEAD: &str = "\
\x20          time cpu     task name                       wait             wait   run time  who had the CPU during the wait,\n\
\x20                       [tid]                           kind           (msec)     (msec)  rule and nanoseconds\n\
--------------- ------  ------------------------------  ----------  ---------  ---------  --------------------------------\n";

impl<W: Write> Timehist<W> {
    /// Writes the table's head; JSON has none.
    pub fn new(mut out: W, selection: Selection, form: Lines) -> Timehist<W> {
        let head = if form == Lines::Text { TABLE_HEAD } else { "" };
        let failed = out.write_all(head.as_bytes()).err();
        Timehist { out, selection, form, waits: FxHashMap::default(), failed }
    }

    /// Returns the first write error.
    ///
    /// # Errors
    /// The first error of the writer; nothing was written after it.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, at: Time, cpu: CpuId, task: &Task, wait: Option<TimelineWait>, run: Option<Nanos>) {
        if self.failed.is_some() {
            return;
        }
        let run_ns = run.map(|run| run.0);
        let line =
            TimelineLine { end_ns: at.0, cpu: cpu.0, comm: task.comm.to_string(), tid: task.tid.0, run_ns, wait };
        let text = match self.form {
            Lines::Text => Ok(text(&line)),
            Lines::Json => serde_json::to_string(&line).map_err(io::Error::from),
        };
        self.failed = text.and_then(|text| writeln!(self.out, "{text}")).err();
    }
}

/// A line of the table.
fn text(line: &TimelineLine) -> String {
    let name = format!("{}[{}]", clean(&line.comm), line.tid);
    let (kind, wait, occupants) = match &line.wait {
        Some(wait) => (wait.kind, msec(Nanos(wait.ns)), occupants(&wait.blame)),
        None => ("-", "-".to_owned(), String::new()),
    };
    let run = line.run_ns.map_or_else(|| "-".to_owned(), |run| msec(Nanos(run)));
    let at = seconds(line.end_ns);
    let line = format!("{at:>15} [{:04}]  {name:<30}  {kind:<10}  {wait:>9}  {run:>9}  {occupants}", line.cpu);
    line.trim_end().to_owned()
}

impl<W: Write> Sink for Timehist<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let waited = TimelineWait { kind: word(wait.kind), ns: wait.length().0, blame: pieces(world, wait) };
        // A wait that was held back until a run ended comes after its own run began or even ended.
        let is_late = wait.end < world.now;
        if wait.ended == WaitEnd::TraceEnd || is_late {
            let task = world.tasks.get(wait.task);
            if chosen(&self.selection, world, task, wait.cpu, (wait.start, wait.end)) {
                self.line(wait.end, wait.cpu, task, Some(waited), None);
            }
            return;
        }
        self.waits.insert(wait.task, waited);
    }

    fn run(&mut self, world: &World, run: &Run) {
        let waited = self.waits.remove(&run.task);
        let task = world.tasks.get(run.task);
        if chosen(&self.selection, world, task, run.cpu, (run.start, run.end)) {
            self.line(run.end, run.cpu, task, waited, Some(run.length()));
        }
    }
}

/// Whether a wait or run of the task on the CPU is selected.
pub(crate) fn chosen(selection: &Selection, world: &World, task: &Task, cpu: CpuId, span: (Time, Time)) -> bool {
    selection.has_task(&task.comm, task.tid)
        && selection.has_cpu(cpu)
        && selection.has_span(span.0, span.1, world.start)
}

fn pieces(world: &World, wait: &Wait<'_>) -> Vec<TimelinePiece> {
    let piece = |piece: &Piece| TimelinePiece {
        occupant: world.name(piece.occupant).to_string(),
        rule: piece.rule,
        ns: piece.length.0,
    };
    wait.pieces.iter().map(piece).collect()
}

fn occupants(blame: &[TimelinePiece]) -> String {
    let mut text = String::new();
    for piece in blame {
        if !text.is_empty() {
            text.push_str(", ");
        }
        let rule = piece.rule.word();
        text.push_str(&clean(&piece.occupant));
        // `idle idle` and `softirq NET_RX softirq` would repeat the word.
        if !piece.occupant.starts_with(rule) {
            text.push(' ');
            text.push_str(rule);
        }
        text.push_str(&format!(" {}", piece.ns));
    }
    text
}

fn word(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Wakeup => "wakeup",
        WaitKind::New => "new",
        WaitKind::Preemption => "preemption",
    }
}

/// Milliseconds with microseconds as decimals, as perf prints them.
pub(crate) fn msec(span: Nanos) -> String {
    format!("{}.{:03}", span.0 / 1_000_000, span.0 / 1_000 % 1_000)
}
