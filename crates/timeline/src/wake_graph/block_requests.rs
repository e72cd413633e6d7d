//! Block device requests: which waits delayed them, and so delayed the tasks that sleep until they are done.
//!
//! The interrupt in which a device completes a request wakes the sleeping task, and does not show whose waits delayed it. But a
//! task gave the request to the device, and may have waited for a CPU before that; and some drivers (loop, nvme-tcp, tcm-loop)
//! pass each request to a work item, whose worker may have waited. The debts of both travel with the request. At its completion
//! they pass to the tasks that are woken and the requests that are issued there. A request is identified by its device and
//! first sector, as in its events. Requests without a sector (flushes, passthrough commands) all have the same key, and are not
//! followed.

use rustc_hash::FxHashMap;
use unstarve_model::{BlockRequest, Context, Event, Nanos, Tid, Time};

use crate::TaskKey;
use crate::World;
use crate::machine::Machine;
use crate::opt_time::OptTime;
use crate::tasks::Life;
use crate::wake_graph::wake_chain::{Basis, Debt, Debts, latest_first};

/// A wakeup follows its completion within this time if no event shows the end of the completing context: interrupts without
/// handler events (timers, IPIs), and tasks. The same for a work item that a driver queues for a request while it is issued.
const FOLLOWS_WITHIN: Nanos = Nanos::from_micros(50);

/// The stage of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// In the device's queue.
    Inserted,
    /// Passed to the driver.
    Issued,
}

/// Block requests, from submission to completion.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Whether any was seen.
    recorded: bool,
    under_way: FxHashMap<Place, Request>,
    /// Work items that drivers have queued for requests.
    handlers: FxHashMap<u64, WorkOfDriver>,
    /// The last such item by device and submitting CPU.
    last_handler: FxHashMap<(u64, usize), u64>,
    /// By CPU.
    cpus: Vec<OnCpu>,
}

/// The device and first sector of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Place {
    device: u64,
    sector: u64,
}

#[derive(Clone, Debug)]
struct Request {
    stage: Stage,
    since: Time,
    sectors: u32,
    /// The debts of its submitters, the latest first.
    debts: Vec<Debt>,
    /// The work item that its driver queued for it, and the run of that item that executes the request.
    handler: Option<(u64, u64)>,
}

/// A work item that executes a driver's requests, and the last worker that ran it.
#[derive(Clone, Copy, Debug, Default)]
struct WorkOfDriver {
    /// How often a worker has started it.
    runs: u64,
    /// Whether it is queued, and no worker has started it.
    waits: bool,
    worker: Option<(TaskKey, Life)>,
    start: OptTime,
    end: OptTime,
}

/// The state of a CPU.
#[derive(Clone, Debug, Default)]
struct OnCpu {
    /// The last request that its current task submitted.
    submitted: Option<(Place, Section)>,
    /// The last completion in a hard interrupt, and in any other context, which the former may interrupt.
    completed: [Option<Completed>; 2],
}

/// The last completed request, and in which section.
#[derive(Clone, Debug)]
struct Completed {
    section: Section,
    debts: Vec<Debt>,
}

/// A section of a CPU's time with one context: a handler, or a run of a task outside of handlers.
#[derive(Clone, Copy, Debug)]
struct Section {
    level: Level,
    /// The handler, if events show it.
    handler: Option<(u32, Time)>,
    /// The running task.
    tid: Option<Tid>,
    run_start: Time,
    /// The time of the event.
    at: Time,
    basis: Basis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Hardirq,
    Softirq,
    Task,
}

impl Section {
    /// The section of an event on this CPU.
    fn of(machine: &Machine, index: usize, event: &Event) -> Section {
        let (cpu, handlers) = machine.at(index);
        let level = match event.issuer.context() {
            Context::Hardirq | Context::Nmi => Level::Hardirq,
            Context::Softirq => Level::Softirq,
            Context::Task => Level::Task,
            Context::Unknown if handlers.in_hardirq() => Level::Hardirq,
            Context::Unknown if handlers.in_softirq() => Level::Softirq,
            Context::Unknown => Level::Task,
        };
        let handler = match level {
            Level::Hardirq => handlers.hardirq(),
            Level::Softirq => handlers.softirq(),
            Level::Task => None,
        };
        let certain = event.issuer.context() != Context::Unknown || handler.is_some();
        let basis = if certain { Basis::Seen } else { Basis::Inferred };
        Section { level, handler, tid: cpu.tid(), run_start: cpu.run_start(), at: machine.world.now, basis }
    }

    /// Whether `later`, on the same CPU, is in the same section.
    fn goes_on_in(&self, later: &Section) -> bool {
        let same_handler = (self.level, self.handler) == (later.level, later.handler);
        let same_stay = (self.tid, self.run_start) == (later.tid, later.run_start);
        let ends_by_itself = self.handler.is_none();
        same_handler && same_stay && (!ends_by_itself || later.at.since(self.at) <= FOLLOWS_WITHIN)
    }

    fn slot(&self) -> usize {
        usize::from(self.level != Level::Hardirq)
    }
}

impl Requests {
    /// Maximum number of requests, and of work items. Requests that are never completed, or whose completion is not recorded,
    /// would accumulate. A host with more requests in flight gets no prices for them: beyond the limit all are dropped.
    const LIMIT: usize = 1 << 13;

    /// Whether any request was seen.
    #[inline(always)]
    pub fn are_recorded(&self) -> bool {
        self.recorded
    }

    /// Events of this CPU are missing: any request may have completed, and its sector may belong to another one.
    pub fn lose(&mut self, index: usize) {
        // A cleared map keeps its capacity, and clearing takes time by its capacity, which would repeat at each of many losses.
        self.under_way = FxHashMap::default();
        self.handlers = FxHashMap::default();
        self.last_handler = FxHashMap::default();
        if let Some(cpu) = self.cpus.get_mut(index) {
            *cpu = OnCpu::default();
        }
    }

    fn on(&mut self, index: usize) -> &mut OnCpu {
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, OnCpu::default);
        }
        &mut self.cpus[index]
    }

    /// What is being completed in `section`.
    fn completed(&self, index: usize, section: &Section) -> Option<&Completed> {
        let completed = self.cpus.get(index)?.completed[section.slot()].as_ref()?;
        completed.section.goes_on_in(section).then_some(completed)
    }

    /// A request is put into a queue, or passed to a driver: its submitter's debts are attached to it.
    pub fn submit(&mut self, machine: &Machine, index: usize, event: &Event, request: &BlockRequest, stage: Stage) {
        self.recorded = true;
        if request.sectors == 0 {
            return;
        }
        let (now, place) = (machine.world.now, Place { device: request.device, sector: request.sector });
        let section = Section::of(machine, index, event);
        let mut debts = self.owed_by(machine, index, &section);
        let before = self.under_way.remove(&place);
        // A request that its driver already had is issued again, or is another one and a completion is missing.
        if let Some(inserted) = before.filter(|before| before.stage == Stage::Inserted && stage == Stage::Issued) {
            debts.extend(inserted.debts);
        }
        keep_latest(&mut debts);
        if self.under_way.len() >= Requests::LIMIT {
            self.under_way.clear();
        }
        let last = self.last_handler.get(&(request.device, index)).copied();
        let next_run = |work| Some((work, self.handlers.get(&work).filter(|handler| handler.waits)?.runs + 1));
        let handler = last.and_then(next_run);
        let sectors = request.sectors;
        self.under_way.insert(place, Request { stage, since: now, sectors, debts, handler });
        self.on(index).submitted = (section.level == Level::Task).then_some((place, section));
    }

    /// The debts of those that act in `section`: the task, unless it was only interrupted, and the requests that are being
    /// completed there.
    fn owed_by(&self, machine: &Machine, index: usize, section: &Section) -> Vec<Debt> {
        let cpu = &machine.cpus[index];
        let acts = match section.level {
            Level::Task => true,
            Level::Softirq => cpu.serves_softirqs(),
            Level::Hardirq => false,
        };
        let mut debts = Vec::new();
        if let (true, Some(key)) = (acts, cpu.task()) {
            machine.world.tasks.get(key).debts.open_since(Time(0), section.basis, &mut debts);
        }
        if let Some(completed) = self.completed(index, section) {
            debts.extend(&completed.debts);
        }
        debts
    }

    /// A request is completed. What the same handler or task wakes now has waited for it.
    pub fn complete(&mut self, machine: &Machine, index: usize, event: &Event, done: &BlockRequest) {
        self.recorded = true;
        let section = Section::of(machine, index, event);
        let place = Place { device: done.device, sector: done.sector };
        let request = self.under_way.remove(&place).filter(|_| done.sectors > 0);
        let debts = request.map_or_else(Vec::new, |request| {
            let debts = self.owed_for(&machine.world, &request);
            if let Some(left) = request.sectors.checked_sub(done.sectors).filter(|left| *left > 0) {
                let rest = Place { sector: place.sector.saturating_add(u64::from(done.sectors)), ..place };
                self.under_way.insert(rest, Request { sectors: left, ..request });
            }
            debts
        });
        // Also for an unknown request: later wakeups do not belong to the previous one.
        self.on(index).completed[section.slot()] = Some(Completed { section, debts });
    }

    /// The debts of a request's submitters, and of the worker of its driver's work item.
    fn owed_for(&self, world: &World, request: &Request) -> Vec<Debt> {
        let mut debts = request.debts.clone();
        // A later run of the item is for other requests.
        let of_run = |(work, run)| self.handlers.get(&work).filter(|handler| handler.runs == run);
        let handler = request.handler.and_then(of_run);
        if let Some(WorkOfDriver { worker: Some((worker, life)), start, end, .. }) = handler
            && start.get().is_some_and(|start| start >= request.since)
        {
            let task = world.tasks.get(*worker);
            let end = end.get().unwrap_or(world.now);
            if task.life == *life {
                let own = debts.len();
                // Any item queued right after a request looks like its driver's.
                task.debts.open_since(request.since, Basis::Inferred, &mut debts);
                let mut place = 0;
                debts.retain(|debt| {
                    place += 1;
                    place <= own || debt.began_before(end)
                });
            }
        }
        keep_latest(&mut debts);
        debts
    }

    /// The debts of the request that is being completed where this event is issued, and how that is known.
    pub fn completed_by(&self, machine: &Machine, index: usize, event: &Event) -> Option<(&[Debt], Basis)> {
        let section = Section::of(machine, index, event);
        let completed = self.completed(index, &section)?;
        Some((&completed.debts, section.basis))
    }

    /// A work item is queued, perhaps by the driver of the request that the task has just submitted.
    #[inline(never)]
    pub fn note_handler(&mut self, machine: &Machine, index: usize, event: &Event, work: u64) {
        if let Some(handler) = self.handlers.get_mut(&work) {
            handler.waits = true;
        }
        let section = Section::of(machine, index, event);
        // An interrupt in between may queue items, too.
        let submitted = &mut self.on(index).submitted;
        let Some((place, _)) = submitted.take_if(|(_, submission)| submission.goes_on_in(&section)) else { return };
        if !self.under_way.contains_key(&place) {
            return;
        }
        if self.handlers.len() >= Requests::LIMIT {
            self.handlers.clear();
            self.last_handler.clear();
        }
        let handler = self.handlers.entry(work).or_default();
        handler.waits = true;
        let run = handler.runs + 1;
        if let Some(request) = self.under_way.get_mut(&place) {
            request.handler = Some((work, run));
        }
        self.last_handler.insert((place.device, index), work);
    }

    /// A worker starts a work item. Completions of its previous item are over.
    #[inline(never)]
    pub fn begin_handler(&mut self, index: usize, work: u64, worker: Option<(TaskKey, Life)>, now: Time) {
        self.end_task_s_completion(index);
        let Some(worker) = worker else { return };
        if let Some(handler) = self.handlers.get_mut(&work) {
            let start = OptTime::some(now);
            let runs = handler.runs.saturating_add(1);
            *handler = WorkOfDriver { runs, waits: false, worker: Some(worker), start, end: OptTime::NONE };
        }
    }

    /// A worker finished a work item.
    pub fn end_handler(&mut self, index: usize, work: u64, now: Time) {
        self.end_task_s_completion(index);
        if let Some(handler) = self.handlers.get_mut(&work) {
            handler.end = OptTime::some(now);
        }
    }

    fn end_task_s_completion(&mut self, index: usize) {
        let completed = &mut self.on(index).completed[1];
        if completed.as_ref().is_some_and(|completed| completed.section.level == Level::Task) {
            *completed = None;
        }
    }
}

/// Keeps as many debts as a task does.
fn keep_latest(debts: &mut Vec<Debt>) {
    latest_first(debts);
    debts.truncate(Debts::KEPT);
}
