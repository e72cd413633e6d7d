//! The lines of `unstarve timeline`.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos, Time};
use unstarve_timeline::{Run, Selection, Sink, Task, TaskKey, Wait, WaitEnd, WaitKind, World};

use crate::text::seconds;
use unstarve_model::clean;

/// A line for each run of a task with the wait before it, in the columns of `perf sched timehist`, followed by the
/// occupants during the wait with rule and nanoseconds.
///
/// A line is written when the run ends, as in perf; its time is the end of the run. Memory grows with the number of
/// living tasks only.
pub struct Timehist<W> {
    out: W,
    selection: Selection,
    /// The wait before the run in progress.
    waits: FxHashMap<TaskKey, Waited>,
    failed: Option<io::Error>,
}

struct Waited {
    kind: WaitKind,
    length: Nanos,
    occupants: String,
}

const TABLE_HEAD: &str = "\
\x20          time cpu     task name                       wait             wait   run time  who had the CPU during the wait,\n\
\x20                       [tid]                           kind           (msec)     (msec)  rule and nanoseconds\n\
--------------- ------  ------------------------------  ----------  ---------  ---------  --------------------------------\n";

impl<W: Write> Timehist<W> {
    /// Writes the table's head.
    pub fn new(mut out: W, selection: Selection) -> Timehist<W> {
        let failed = out.write_all(TABLE_HEAD.as_bytes()).err();
        Timehist { out, selection, waits: FxHashMap::default(), failed }
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

    fn line(&mut self, at: Time, cpu: CpuId, task: &Task, waited: Option<&Waited>, run: Option<Nanos>) {
        if self.failed.is_some() {
            return;
        }
        let name = format!("{}[{}]", task.comm, task.tid);
        let (kind, wait, occupants) = match waited {
            Some(waited) => (word(waited.kind), msec(waited.length), waited.occupants.as_str()),
            None => ("-", "-".to_owned(), ""),
        };
        let run = run.map_or_else(|| "-".to_owned(), msec);
        let at = seconds(at.0);
        let line = format!("{at:>15} [{:04}]  {name:<30}  {kind:<10}  {wait:>9}  {run:>9}  {occupants}", cpu.0);
        self.failed = writeln!(self.out, "{}", line.trim_end()).err();
    }
}

impl<W: Write> Sink for Timehist<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let waited = Waited { kind: wait.kind, length: wait.length(), occupants: occupants(world, wait) };
        // A wait that was held back until a run ended comes after its own run began or even ended.
        let is_late = wait.end < world.now;
        if wait.ended == WaitEnd::TraceEnd || is_late {
            let task = world.tasks.get(wait.task);
            if chosen(&self.selection, world, task, wait.cpu, (wait.start, wait.end)) {
                self.line(wait.end, wait.cpu, task, Some(&waited), None);
            }
            return;
        }
        self.waits.insert(wait.task, waited);
    }

    fn run(&mut self, world: &World, run: &Run) {
        let waited = self.waits.remove(&run.task);
        let task = world.tasks.get(run.task);
        if chosen(&self.selection, world, task, run.cpu, (run.start, run.end)) {
            self.line(run.end, run.cpu, task, waited.as_ref(), Some(run.length()));
        }
    }
}

/// Whether a wait or run of the task on the CPU is selected.
pub(crate) fn chosen(selection: &Selection, world: &World, task: &Task, cpu: CpuId, span: (Time, Time)) -> bool {
    selection.has_task(&task.comm, task.tid)
        && selection.has_cpu(cpu)
        && selection.has_span(span.0, span.1, world.start)
}

fn occupants(world: &World, wait: &Wait<'_>) -> String {
    let mut text = String::new();
    for piece in wait.pieces {
        if !text.is_empty() {
            text.push_str(", ");
        }
        let name = world.name(piece.occupant);
        let rule = piece.rule.word();
        text.push_str(&clean(&name));
        // `idle idle` and `softirq NET_RX softirq` would repeat the word.
        if !name.starts_with(rule) {
            text.push(' ');
            text.push_str(rule);
        }
        text.push_str(&format!(" {}", piece.length.0));
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
