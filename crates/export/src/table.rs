//! The tables of waits, of their pieces, and of blame: columns declared once, from which CSV headers, Arrow schemas and the
//! documentation follow.

use unstarve_diagnose::report::Report;
use unstarve_model::NameId;
use unstarve_timeline::{Selection, Sink, Wait, WaitEnd, WaitKind, World};

use crate::blame::{Blame, Row};
use crate::cast::{Cast, Who};
use crate::{Export, ExportError};

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// UTF-8.
    Text,
}

/// Whether a cell may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Never.
    Always,
    /// Where it is not known, or does not apply.
    Optional,
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a cell may be empty.
    pub presence: Presence,
    /// `ns`, or nothing.
    pub unit: &'static str,
    /// For people.
    pub meaning: &'static str,
}

/// One value of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// A number, of whatever width its column has.
    Number(i128),
    /// A text.
    Text(&'a str),
    /// Not known, or does not apply.
    Empty,
}

impl<T: Into<i128>> From<T> for Cell<'_> {
    fn from(number: T) -> Self {
        Cell::Number(number.into())
    }
}

fn number<'a>(number: Option<impl Into<i128>>) -> Cell<'a> {
    number.map_or(Cell::Empty, |number| Cell::Number(number.into()))
}

fn text<'a>(text: Option<&'a str>) -> Cell<'a> {
    text.map_or(Cell::Empty, Cell::Text)
}

/// A writer of rows.
pub trait Rows {
    /// The next row, a cell for each column.
    ///
    /// # Errors
    /// If it cannot be written.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError>;

    /// There are no more.
    ///
    /// # Errors
    /// If what is left cannot be written.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// A table that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// A row for each wait.
    Waits,
    /// A row for each wait, occupant and rule.
    Pieces,
    /// A row for each victim, occupant and rule: sums.
    Blame,
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 3] = [Table::Waits, Table::Pieces, Table::Blame];

    /// Its name, as in file names.
    pub fn word(self) -> &'static str {
        match self {
            Table::Waits => "waits",
            Table::Pieces => "pieces",
            Table::Blame => "blame",
        }
    }

    /// Its columns.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Waits => WAITS,
            Table::Pieces => PIECES,
            Table::Blame => BLAME,
        }
    }
}

const fn column(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Always, unit, meaning }
}

const fn optional(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Optional, unit, meaning }
}

use Kind::{I32, Text, U32, U64};

const WAITS: &[Column] = &[
    column("wait", U64, "", "number of the wait in this export, from 0; `pieces` refers to it"),
    column("start_ns", U64, "ns", "when the task became runnable, on the trace's clock"),
    column("end_ns", U64, "ns", "when it got the CPU, or the trace ended"),
    column("wait_ns", U64, "ns", "`end_ns` − `start_ns`; the pieces add up to it"),
    optional("queued_ns", U64, "ns", "when it was put on a runqueue (`sched_wakeup`), where recorded"),
    column("comm", Text, "", "the task's name"),
    column("tid", U32, "", "its thread id"),
    column("kind", Text, "", "`kworker`, `ksoftirqd`, `rcu`, … by its name, else `task`"),
    column("policy", Text, "", "`fair`, `rt`, `deadline`"),
    column("prio", I32, "", "the kernel's priority: 0–99 real-time, 100–139 fair, −1 deadline"),
    optional("group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("cpu", U32, "", "the CPU on which the wait ended"),
    column("begun", Text, "", "`wakeup`, `new` or `preemption`"),
    column("ended", Text, "", "`ran`, or `trace-end` if it waited still"),
    optional("culprit", Text, "", "who had the CPU for the longest piece; empty for a wait of no length"),
    optional("rule", Text, "", "the rule of that piece"),
    column("owed_ns", U64, "ns", "what an equal share of the CPU would have given it during the wait"),
    optional(
        "idle_elsewhere_ns",
        U64,
        "ns",
        "how long another CPU that it may use was idle, where its affinity is known",
    ),
    column("migrations", U32, "", "how often it was moved while it waited"),
    column("queue_length", U32, "", "tasks that waited on that CPU at the end, this one included"),
    optional("preempted_by", Text, "", "who took the CPU from it, for preemption waits"),
    optional("work_function", Text, "", "the work item of a worker, where known"),
    optional("workqueue", Text, "", "its workqueue, where known"),
];

const PIECES: &[Column] = &[
    column("wait", U64, "", "number of the wait, as in `waits`"),
    column("start_ns", U64, "ns", "when that wait began, on the trace's clock"),
    column("comm", Text, "", "who waited"),
    column("tid", U32, "", "its thread id"),
    column("cpu", U32, "", "the CPU on which the wait ended"),
    column(
        "occupant",
        Text,
        "",
        "who or what had the CPU: a task's name, `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`",
    ),
    column("occupant_kind", Text, "", "`task`, `kworker`, …, `irq`, `softirq`, `idle`, `unknown`, `others`"),
    optional("occupant_policy", Text, "", "`fair`, `rt`, `deadline`, `idle`; empty for what is no task"),
    optional("occupant_prio", I32, "", "the kernel's priority of a task"),
    optional("occupant_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("rule", Text, "", "why the occupant had it: `class`, `weight`, `wakeup-preemption`, … (docs/blame.md)"),
    column("piece_ns", U64, "ns", "how long, in this wait"),
];

const BLAME: &[Column] = &[
    column("victim", Text, "", "who waited"),
    column("victim_kind", Text, "", "`kworker`, `ksoftirqd`, `rcu`, … by its name, else `task`"),
    optional("victim_policy", Text, "", "`fair`, `rt`, `deadline`"),
    optional("victim_prio", I32, "", "the kernel's priority"),
    optional("victim_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("occupant", Text, "", "who or what had the CPU"),
    column("occupant_kind", Text, "", "`task`, `kworker`, …, `irq`, `softirq`, `idle`, `unknown`, `others`"),
    optional("occupant_policy", Text, "", "`fair`, `rt`, `deadline`, `idle`; empty for what is no task"),
    optional("occupant_prio", I32, "", "the kernel's priority of a task"),
    optional("occupant_group_weight", U32, "", "load weight of its top-level cgroup, where known and not the root's"),
    column("rule", Text, "", "why the occupant had it (docs/blame.md)"),
    column("waits", U64, "", "in how many waits"),
    column("total_ns", U64, "ns", "how long, in all"),
    column("longest_ns", U64, "ns", "the most in one wait"),
];

/// Whether the wait is asked for.
pub(crate) fn is_chosen(selection: &Selection, world: &World, wait: &Wait<'_>) -> bool {
    let task = world.tasks.get(wait.task);
    selection.has_task(&task.comm, task.tid)
        && selection.has_cpu(wait.cpu)
        && selection.has_span(wait.start, wait.end, world.start)
}

/// How a wait began, in a word.
pub(crate) fn begun(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Wakeup => "wakeup",
        WaitKind::New => "new",
        WaitKind::Preemption => "preemption",
    }
}

/// Writes one or more tables.
pub struct Tables {
    selection: Selection,
    waits: Option<Box<dyn Rows>>,
    pieces: Option<Box<dyn Rows>>,
    blame: Option<Box<dyn Rows>>,
    sums: Blame,
    cast: Cast,
    count: u64,
    failed: Option<ExportError>,
}

impl Tables {
    /// The waits in `selection`, to no table yet.
    pub fn new(selection: Selection) -> Tables {
        Tables {
            selection,
            waits: None,
            pieces: None,
            blame: None,
            sums: Blame::default(),
            cast: Cast::default(),
            count: 0,
            failed: None,
        }
    }

    /// Writes this table, too.
    pub fn add(&mut self, table: Table, rows: Box<dyn Rows>) {
        match table {
            Table::Waits => self.waits = Some(rows),
            Table::Pieces => self.pieces = Some(rows),
            Table::Blame => self.blame = Some(rows),
        }
    }

    fn write(&mut self, world: &World, wait: &Wait<'_>) -> Result<(), ExportError> {
        let number = self.count;
        self.count += 1;
        let task = world.tasks.get(wait.task);
        let comm = task.comm.to_string();
        if let Some(waits) = &mut self.waits {
            let longest = wait.pieces.first().map(|piece| piece.occupant);
            for id in [longest, wait.preempted_by].into_iter().flatten() {
                self.cast.who(world, id);
            }
            self.cast.who(world, wait.actor);
            waits.row(&wait_cells(world, wait, number, &comm, &self.cast))?;
        }
        if let Some(pieces) = &mut self.pieces {
            for piece in wait.pieces {
                let occupant = self.cast.who(world, piece.occupant);
                let [name, kind, policy, prio, weight] = people(occupant);
                pieces.row(&[
                    number.into(),
                    wait.start.0.into(),
                    Cell::Text(&comm),
                    task.tid.0.into(),
                    wait.cpu.0.into(),
                    name,
                    kind,
                    policy,
                    prio,
                    weight,
                    Cell::Text(piece.rule.word()),
                    piece.length.0.into(),
                ])?;
            }
        }
        if self.blame.is_some() {
            self.sums.add(world, wait);
        }
        Ok(())
    }
}

fn wait_cells<'a>(world: &'a World, wait: &Wait<'_>, count: u64, comm: &'a str, cast: &'a Cast) -> [Cell<'a>; 23] {
    let task = world.tasks.get(wait.task);
    let name = |id| cast.known(id).map(|who| who.name.as_str());
    let long = |id: Option<NameId>| text(id.map(|id| world.names.get(id)));
    let who = cast.known(wait.actor);
    let (function, workqueue) = task.work.unwrap_or_default();
    let longest = wait.pieces.first();
    [
        count.into(),
        wait.start.0.into(),
        wait.end.0.into(),
        wait.length().0.into(),
        number(wait.queued.map(|time| time.0)),
        Cell::Text(comm),
        task.tid.0.into(),
        text(who.map(|who| who.kind)),
        // Of the time of the wait: the task's own may have changed since.
        text(who.and_then(|who| who.policy.as_deref())),
        number(who.and_then(|who| who.prio)),
        number(who.and_then(|who| who.group_weight)),
        wait.cpu.0.into(),
        Cell::Text(begun(wait.kind)),
        Cell::Text(match wait.ended {
            WaitEnd::Ran => "ran",
            WaitEnd::TraceEnd => "trace-end",
        }),
        text(longest.and_then(|piece| name(piece.occupant))),
        text(longest.map(|piece| piece.rule.word())),
        wait.owed.0.into(),
        number(wait.idle_elsewhere.map(|idle| idle.0)),
        wait.migrations.into(),
        wait.queue_length.into(),
        text(wait.preempted_by.and_then(name)),
        long(function),
        long(workqueue),
    ]
}

fn people(who: &Who) -> [Cell<'_>; 5] {
    [
        Cell::Text(&who.name),
        Cell::Text(who.kind),
        text(who.policy.as_deref()),
        number(who.prio),
        number(who.group_weight),
    ]
}

fn blame_cells<'a>(row: &Row<'a>) -> Vec<Cell<'a>> {
    let sums = [Cell::Text(row.rule.word()), row.sum.waits.into(), row.sum.total.0.into(), row.sum.longest.0.into()];
    people(row.victim).into_iter().chain(people(row.occupant)).chain(sums).collect()
}

impl Sink for Tables {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if self.failed.is_none() && is_chosen(&self.selection, world, wait) {
            self.failed = self.write(world, wait).err();
        }
    }
}

impl Export for Tables {
    fn finish(mut self, _: &Report) -> Result<(), ExportError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if let Some(blame) = &mut self.blame {
            for row in self.sums.rows() {
                blame.row(&blame_cells(&row))?;
            }
        }
        [self.waits, self.pieces, self.blame].into_iter().flatten().try_for_each(|rows| rows.finish())
    }
}
