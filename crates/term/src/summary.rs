//! The table of `unstarve timeline --summary`.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use unstarve_model::{Comm, Nanos, Tid, counted};
use unstarve_timeline::{Migration, Run, Selection, Sink, Task, Wait, WaitKind, World};

use crate::timehist::{chosen, msec};

/// A table of tasks: runs, waits and migrations, comparable to `perf sched timehist -s`.
pub struct Summary {
    selection: Selection,
    rows: FxHashMap<(Tid, Comm), Row>,
    others: Row,
}

/// One task's numbers.
#[derive(Clone, Copy, Default, Debug)]
struct Row {
    runs: u64,
    run: Nanos,
    longest_run: Nanos,
    waits: u64,
    wait: Nanos,
    longest_wait: Nanos,
    preempted: Nanos,
    migrations: u64,
}

/// Maximum rows; further tasks share one. Only fork bombs and hostile files have more.
const MAX_SUMMARY_ROWS: usize = 1 << 17;

impl Summary {
    /// A summary of the tasks that `selection` selects.
    pub fn new(selection: Selection) -> Summary {
        Summary { selection, rows: FxHashMap::default(), others: Row::default() }
    }

    fn row(&mut self, task: &Task) -> &mut Row {
        let key = (task.tid, task.comm);
        if self.rows.len() >= MAX_SUMMARY_ROWS && !self.rows.contains_key(&key) {
            return &mut self.others;
        }
        self.rows.entry(key).or_default()
    }

    /// Writes the table, longest total wait first.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:>30}  {:>8}  {:>11} {:>9} {:>9}  {:>8}  {:>11} {:>9} {:>9}  {:>11}  {:>10}",
            "task[tid]",
            "sched-in",
            "run-time",
            "avg-run",
            "max-run",
            "waits",
            "wait-time",
            "avg-wait",
            "max-wait",
            "preempted",
            "migrations"
        )?;
        writeln!(
            out,
            "{:>30}  {:>8}  {:>11} {:>9} {:>9}  {:>8}  {:>11} {:>9} {:>9}  {:>11}",
            "", "(count)", "(msec)", "(msec)", "(msec)", "(count)", "(msec)", "(msec)", "(msec)", "(msec)"
        )?;
        writeln!(out, "{:-<138}", "")?;
        let mut rows: Vec<(&(Tid, Comm), &Row)> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(key, row)| (std::cmp::Reverse(row.wait), **key));
        let mut all = Row::default();
        for ((tid, comm), row) in rows {
            write_row(&mut out, &format!("{comm}[{tid}]"), row)?;
            all.add(row);
        }
        if self.others.runs + self.others.waits > 0 {
            write_row(&mut out, "(others)", &self.others)?;
            all.add(&self.others);
        }
        writeln!(out, "{:-<138}", "")?;
        write_row(&mut out, &counted(self.rows.len() as u64, "task"), &all)?;
        out.flush()
    }
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.runs += other.runs;
        self.run += other.run;
        self.longest_run = self.longest_run.max(other.longest_run);
        self.waits += other.waits;
        self.wait += other.wait;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.preempted += other.preempted;
        self.migrations += other.migrations;
    }
}

fn write_row(out: &mut impl Write, name: &str, row: &Row) -> io::Result<()> {
    let average = |sum: Nanos, count: u64| msec(Nanos(sum.0.checked_div(count).unwrap_or_default()));
    writeln!(
        out,
        "{name:>30}  {:>8}  {:>11} {:>9} {:>9}  {:>8}  {:>11} {:>9} {:>9}  {:>11}  {:>10}",
        row.runs,
        msec(row.run),
        average(row.run, row.runs),
        msec(row.longest_run),
        row.waits,
        msec(row.wait),
        average(row.wait, row.waits),
        msec(row.longest_wait),
        msec(row.preempted),
        row.migrations,
    )
}

impl Sink for Summary {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        if !chosen(&self.selection, world, task, wait.cpu, (wait.start, wait.end)) {
            return;
        }
        let length = wait.length();
        let row = self.row(task);
        row.waits += 1;
        row.wait += length;
        row.longest_wait = row.longest_wait.max(length);
        if wait.kind == WaitKind::Preemption {
            row.preempted += length;
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let task = world.tasks.get(run.task);
        if !chosen(&self.selection, world, task, run.cpu, (run.start, run.end)) {
            return;
        }
        let row = self.row(task);
        row.runs += 1;
        row.run += run.length();
        row.longest_run = row.longest_run.max(run.length());
    }

    fn migration(&mut self, world: &World, migration: &Migration) {
        let task = world.tasks.get(migration.task);
        if chosen(&self.selection, world, task, migration.to, (migration.time, migration.time)) {
            self.row(task).migrations += 1;
        }
    }
}
