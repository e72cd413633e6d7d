//! The tables of waits, of their pieces, and of blame.

use unstarve_diagnose::report::Report;
use unstarve_model::NameId;
use unstarve_timeline::{Selection, Sink, Wait, WaitEnd, WaitKind, World};

use crate::blame::{Blame, Row};
use crate::cast::{Cast, Who};
use crate::columns::{self, Column};
use crate::{Export, ExportError};

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
            Table::Waits => columns::WAITS,
            Table::Pieces => columns::PIECES,
            Table::Blame => columns::BLAME,
        }
    }
}

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
    host: Option<String>,
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
            host: None,
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
            let known = Known::of(world, wait);
            waits.row(&wait_cells(world, wait, number, (&comm, &known), &self.cast))?;
        }
        if let Some(pieces) = &mut self.pieces {
            let utc = utc(world, wait);
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
                    text(utc.as_deref()),
                    text(occupant.tids.as_deref()),
                    text(occupant.tgids.as_deref()),
                    text(occupant.cgroups.as_deref()),
                    text(world.settings().host()),
                ])?;
            }
        }
        if self.blame.is_some() {
            if self.host.is_none() {
                self.host = world.settings().host().map(str::to_owned);
            }
            self.sums.add(world, wait);
        }
        Ok(())
    }
}

/// What is known of the one who waits besides its events.
struct Known {
    utc: Option<String>,
    tgid: Option<u32>,
    cgroup: Option<String>,
}

impl Known {
    fn of(world: &World, wait: &Wait<'_>) -> Known {
        let (tid, settings) = (world.tasks.get(wait.task).tid, world.settings());
        let cgroup = settings.cgroup_of(tid).map(|path| unstarve_model::clean(path).into_owned());
        Known { utc: utc(world, wait), tgid: settings.process_of(tid).map(|tgid| tgid.0), cgroup }
    }
}

/// When the wait began, in UTC.
pub(crate) fn utc(world: &World, wait: &Wait<'_>) -> Option<String> {
    Some(world.settings().wall()?.at(wait.start).to_string())
}

fn wait_cells<'a>(
    world: &'a World,
    wait: &Wait<'_>,
    count: u64,
    (comm, known): (&'a str, &'a Known),
    cast: &'a Cast,
) -> [Cell<'a>; 30] {
    let task = world.tasks.get(wait.task);
    let name = |id| cast.known(id).map(|who| who.name.as_str());
    let long = |id: Option<NameId>| text(id.map(|id| world.names.get(id)));
    let who = cast.known(wait.actor);
    let (function, workqueue) = task.work.unwrap_or_default();
    let longest = wait.pieces.first();
    let culprit = longest.and_then(|piece| cast.known(piece.occupant));
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
        text(known.utc.as_deref()),
        number(known.tgid),
        text(known.cgroup.as_deref()),
        text(culprit.and_then(|who| who.tids.as_deref())),
        text(culprit.and_then(|who| who.tgids.as_deref())),
        text(culprit.and_then(|who| who.cgroups.as_deref())),
        text(world.settings().host()),
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

fn places(who: &Who) -> [Cell<'_>; 3] {
    [text(who.tids.as_deref()), text(who.tgids.as_deref()), text(who.cgroups.as_deref())]
}

fn blame_cells<'a>(row: &Row<'a>, host: Option<&'a str>) -> Vec<Cell<'a>> {
    let sums = [Cell::Text(row.rule.word()), row.sum.waits.into(), row.sum.total.0.into(), row.sum.longest.0.into()];
    let people = people(row.victim).into_iter().chain(people(row.occupant));
    people.chain(sums).chain(places(row.victim)).chain(places(row.occupant)).chain([text(host)]).collect()
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
                blame.row(&blame_cells(&row, self.host.as_deref()))?;
            }
        }
        [self.waits, self.pieces, self.blame].into_iter().flatten().try_for_each(|rows| rows.finish())
    }
}
