//! Exports tables of waits, pieces, blame and findings.

use unstarve_diagnose::report::Report;
use unstarve_model::NameId;
use unstarve_tables::{Cell, Rows, Schema};
use unstarve_timeline::{Selection, Sink, Wait, WaitEnd, WaitKind, World};

use crate::actors::{ActorCache, ActorInfo};
use crate::blame::{Blame, Row};
use crate::findings::write_finding;
use crate::origin::Origin;
use crate::{Export, ExportError};

/// A table that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// A row for each wait.
    Waits,
    /// A row for each wait, occupant and rule.
    Pieces,
    /// A row for each victim, occupant and rule: sums.
    Blame,
    /// A row for each finding.
    Findings,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 4] = [Table::Waits, Table::Pieces, Table::Blame, Table::Findings];

    /// Its name and columns.
    pub fn schema(self) -> &'static Schema {
        match self {
            Table::Waits => &unstarve_tables::WAITS,
            Table::Pieces => &unstarve_tables::PIECES,
            Table::Blame => &unstarve_tables::BLAME,
            Table::Findings => &unstarve_tables::FINDINGS,
        }
    }
}

/// Whether the wait is in the selection.
pub(crate) fn is_chosen(selection: &Selection, world: &World, wait: &Wait<'_>) -> bool {
    let task = world.tasks.get(wait.task);
    selection.has_task(&task.comm, task.tid)
        && selection.has_cpu(wait.cpu)
        && selection.has_span(wait.start, wait.end, world.start)
}

/// How a wait began, in one word.
pub(crate) fn begun(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Wakeup => "wakeup",
        WaitKind::New => "new",
        WaitKind::Preemption => "preemption",
    }
}

/// Writes one or more tables.
#[derive(Default)]
pub struct Tables {
    selection: Selection,
    waits: Option<Box<dyn Rows>>,
    pieces: Option<Box<dyn Rows>>,
    blame: Option<Box<dyn Rows>>,
    findings: Option<Box<dyn Rows>>,
    sums: Blame,
    actors: ActorCache,
    count: u64,
    origin: Option<Origin>,
    trace_id: Option<String>,
    failed: Option<ExportError>,
}

impl Tables {
    /// Exports the waits in `selection`, without any table yet.
    pub fn new(selection: Selection) -> Tables {
        Tables { selection, ..Tables::default() }
    }

    /// Sets the recording's id, instead of one derived from its first events.
    #[must_use]
    pub fn called(mut self, trace_id: Option<String>) -> Tables {
        self.trace_id = trace_id;
        self
    }

    /// Adds a table to write.
    pub fn add(&mut self, table: Table, rows: Box<dyn Rows>) {
        match table {
            Table::Waits => self.waits = Some(rows),
            Table::Pieces => self.pieces = Some(rows),
            Table::Blame => self.blame = Some(rows),
            Table::Findings => self.findings = Some(rows),
        }
    }

    fn write(&mut self, world: &World, wait: &Wait<'_>) -> Result<(), ExportError> {
        let number = self.count;
        self.count += 1;
        let task = world.tasks.get(wait.task);
        let comm = task.comm.to_string();
        let Some(origin) = &self.origin else { return Ok(()) };
        if let Some(waits) = &mut self.waits {
            let longest = wait.pieces.first().map(|piece| piece.occupant);
            for id in [longest, wait.preempted_by].into_iter().flatten() {
                self.actors.who(world, id);
            }
            self.actors.who(world, wait.actor);
            let known = VictimInfo::of(world, wait);
            let cells = wait_cells(world, wait, number, (&comm, &known), &self.actors);
            waits
                .row(&[&cells[..], &origin.cells(world.settings().wall().map(|wall| wall.at(wait.start)))].concat())?;
        }
        if let Some(pieces) = &mut self.pieces {
            let utc = utc(world, wait);
            for piece in wait.pieces {
                let occupant = self.actors.who(world, piece.occupant);
                let [name, kind, policy, prio, weight] = people(occupant);
                let cells = [
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
                    Cell::text(utc.as_deref()),
                    Cell::text(occupant.tids.as_deref()),
                    Cell::text(occupant.tgids.as_deref()),
                    Cell::text(occupant.cgroups.as_deref()),
                ];
                let at = world.settings().wall().map(|wall| wall.at(wait.start));
                pieces.row(&[&cells[..], &origin.cells(at)].concat())?;
            }
        }
        if self.blame.is_some() {
            self.sums.add(world, wait);
        }
        Ok(())
    }
}

/// Facts about the waiting task other than its events.
struct VictimInfo {
    utc: Option<String>,
    tgid: Option<u32>,
    cgroup: Option<String>,
}

impl VictimInfo {
    fn of(world: &World, wait: &Wait<'_>) -> VictimInfo {
        let (tid, settings) = (world.tasks.get(wait.task).tid, world.settings());
        let cgroup = settings.cgroup_of(tid).map(|path| unstarve_model::clean(path).into_owned());
        VictimInfo { utc: utc(world, wait), tgid: settings.process_of(tid).map(|tgid| tgid.0), cgroup }
    }
}

/// The beginning of the wait, in UTC.
pub(crate) fn utc(world: &World, wait: &Wait<'_>) -> Option<String> {
    Some(world.settings().wall()?.at(wait.start).to_string())
}

fn wait_cells<'a>(
    world: &'a World,
    wait: &Wait<'_>,
    count: u64,
    (comm, known): (&'a str, &'a VictimInfo),
    actors: &'a ActorCache,
) -> [Cell<'a>; 29] {
    let task = world.tasks.get(wait.task);
    let name = |id| actors.known(id).map(|who| who.name.as_str());
    let long = |id: Option<NameId>| Cell::text(id.map(|id| world.names.get(id)));
    let who = actors.known(wait.actor);
    let (function, workqueue) = task.work.unwrap_or_default();
    let longest = wait.pieces.first();
    let culprit = longest.and_then(|piece| actors.known(piece.occupant));
    [
        count.into(),
        wait.start.0.into(),
        wait.end.0.into(),
        wait.length().0.into(),
        Cell::number(wait.queued.map(|time| time.0)),
        Cell::Text(comm),
        task.tid.0.into(),
        Cell::text(who.map(|who| who.kind)),
        // At the time of the wait: the task's own policy may have changed since.
        Cell::text(who.and_then(|who| who.policy.as_deref())),
        Cell::number(who.and_then(|who| who.prio)),
        Cell::number(who.and_then(|who| who.group_weight)),
        wait.cpu.0.into(),
        Cell::Text(begun(wait.kind)),
        Cell::Text(match wait.ended {
            WaitEnd::Ran => "ran",
            WaitEnd::TraceEnd => "trace-end",
        }),
        Cell::text(longest.and_then(|piece| name(piece.occupant))),
        Cell::text(longest.map(|piece| piece.rule.word())),
        wait.owed.0.into(),
        Cell::number(wait.idle_elsewhere.map(|idle| idle.0)),
        wait.migrations.into(),
        wait.queue_length.into(),
        Cell::text(wait.preempted_by.and_then(name)),
        long(function),
        long(workqueue),
        Cell::text(known.utc.as_deref()),
        Cell::number(known.tgid),
        Cell::text(known.cgroup.as_deref()),
        Cell::text(culprit.and_then(|who| who.tids.as_deref())),
        Cell::text(culprit.and_then(|who| who.tgids.as_deref())),
        Cell::text(culprit.and_then(|who| who.cgroups.as_deref())),
    ]
}

fn people(who: &ActorInfo) -> [Cell<'_>; 5] {
    [
        Cell::Text(&who.name),
        Cell::Text(who.kind),
        Cell::text(who.policy.as_deref()),
        Cell::number(who.prio),
        Cell::number(who.group_weight),
    ]
}

fn places(who: &ActorInfo) -> [Cell<'_>; 3] {
    [Cell::text(who.tids.as_deref()), Cell::text(who.tgids.as_deref()), Cell::text(who.cgroups.as_deref())]
}

fn blame_cells<'a>(row: &Row<'a>, origin: &'a Origin) -> Vec<Cell<'a>> {
    let sums = [Cell::Text(row.rule.word()), row.sum.waits.into(), row.sum.total.0.into(), row.sum.longest.0.into()];
    let people = people(row.victim).into_iter().chain(people(row.occupant));
    people.chain(sums).chain(places(row.victim)).chain(places(row.occupant)).chain(origin.cells(origin.begun)).collect()
}

impl Sink for Tables {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        // From the first wait, selected or not, so that every export of a recording yields the same id.
        self.origin.get_or_insert_with(|| Origin::of(world, wait, self.trace_id.take()));
        if self.failed.is_none() && is_chosen(&self.selection, world, wait) {
            self.failed = self.write(world, wait).err();
        }
    }
}

impl Export for Tables {
    fn finish(mut self, report: &Report) -> Result<(), ExportError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        // A recording without waits has no findings either.
        let origin = self.origin.unwrap_or_default();
        if let Some(blame) = &mut self.blame {
            for row in self.sums.rows() {
                blame.row(&blame_cells(&row, &origin))?;
            }
        }
        if let Some(findings) = &mut self.findings {
            let mut write = |finding| write_finding(findings.as_mut(), finding, report, &origin);
            report.findings.iter().try_for_each(&mut write)?;
        }
        [self.waits, self.pieces, self.blame, self.findings].into_iter().flatten().try_for_each(|rows| rows.finish())
    }
}
