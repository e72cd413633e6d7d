//! The engine that decodes the scheduler's events from tracefs, for kernels that refuse the BPF programs.

mod at_once;
mod sums;
mod workload_sums;

use unstarve_model::{Batch, ClockPair, Nanos, Time};
use unstarve_record::{BufferSize, Live};
use unstarve_timeline::{OnCpu, Task, Timeline};

use crate::engine::groups::{Hierarchy, Lookout};
use crate::engine::limit_files::LimitLookout;
use crate::engine::reading::{Cost, Lost, Reading};
use crate::engine::role_table::RoleTable;
use crate::engine::task_lookup::HostTasks;
use crate::engine::{Engine, EngineError, Options, clocks, error_chain, proc};
pub(crate) use sums::{Lasting, Sums};

/// Waits shorter than this are accepted without a check in `/proc`.
const DOUBTED_FROM: Nanos = Nanos::from_millis(10);

/// The engine that decodes every scheduler event. Dropping it removes its tracefs instance.
///
/// It costs this process CPU time for each event, as `top` does, and must be read at least four times a second, otherwise the kernel's buffers
/// overflow. A task's group is found only if the task is still alive when it is first seen.
pub struct Tracefs {
    live: Live,
    timeline: Timeline,
    sums: Sums,
    roles: RoleTable,
    groups: Option<Lookout>,
    limits: Option<LimitLookout>,
    batch: Batch,
    since: ClockPair,
    options: Options,
    disproved: u64,
}

impl Tracefs {
    /// Starts recording.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if tracefs cannot be used: it requires root.
    pub fn open(options: Options) -> Result<Tracefs, EngineError> {
        let unavailable = |error: unstarve_record::RecordError| EngineError::Unavailable {
            engine: "tracefs",
            reason: error_chain(&error),
        };
        let live = Live::start(BufferSize::Auto, &mut |_| {}).map_err(unavailable)?;
        let timeline = unstarve_diagnose::timeline(live.info());
        let hierarchy = Hierarchy::find();
        let limits = hierarchy.as_ref().map(LimitLookout::new);
        let groups = hierarchy.map(Lookout::new);
        let host = HostTasks { unified: groups.as_ref().is_some_and(Lookout::is_unified) };
        let mut engine = Tracefs {
            live,
            timeline,
            sums: Sums::new(Box::new(host)),
            roles: RoleTable::new(),
            groups,
            limits,
            batch: Batch::default(),
            since: clocks::now(),
            options,
            disproved: 0,
        };
        engine.look_at_groups()?;
        Ok(engine)
    }

    fn look_at_groups(&mut self) -> Result<(), EngineError> {
        let Some(lookout) = &mut self.groups else { return Ok(()) };
        let groups = lookout.look_if_due();
        let Some(groups) = groups.map_err(|source| EngineError::Read { what: "the top-level cgroups", source })? else {
            return Ok(());
        };
        let mut totals = self.sums.totals.clone();
        if let Some(limits) = &self.limits {
            limits.repeat(&mut totals);
        }
        if !self.roles.update(&groups, &totals, &[]).is_empty() {
            self.sums.renew(&self.roles);
        }
        self.sums.ask_anew_if_due();
        Ok(())
    }

    fn listen(&mut self) -> Result<(), EngineError> {
        let read = |error: unstarve_record::RecordError| EngineError::Read {
            what: "the recording",
            source: std::io::Error::other(error_chain(&error)),
        };
        self.live.poll(&mut self.batch).map_err(read)?;
        self.timeline.names(self.batch.names.drain(..));
        for event in &self.batch.events {
            self.timeline.push(event, &mut self.sums);
        }
        Ok(())
    }
}

impl Engine for Tracefs {
    fn name(&self) -> &'static str {
        "tracefs"
    }

    fn read(&mut self) -> Result<Reading, EngineError> {
        self.listen()?;
        self.look_at_groups()?;
        let mut lasting = Lasting::of(&mut self.sums, self.options.oldest_from);
        let disproved = std::cell::Cell::new(0_u64);
        let now = self.timeline.world().now;
        let believes = |task: &Task, on: OnCpu| {
            let young = task.waiting_since().is_some_and(|(since, _)| now.since(since) < DOUBTED_FROM);
            // A task can wait for an idle CPU for long only if a quota keeps it off.
            let may_wait = on != OnCpu::Idle || task.may_be_throttled() == Some(true);
            let believed = young || may_wait && proc::is_runnable(task.tid) == Some(true);
            disproved.set(disproved.get() + u64::from(!believed));
            believed
        };
        self.timeline.so_far(Nanos::ZERO, believes, &mut lasting);
        self.disproved += disproved.get();
        let (mut totals, workloads, oldest) = lasting.finish(&self.timeline);
        let limits = self.limits.as_mut().map(|limits| limits.settle(&mut totals, &self.roles)).unwrap_or_default();
        let (roles, blame, waits) = self.roles.report(&totals);
        let (cpus, real_time, real_time_tasks) = (totals.cpus(), totals.real_time(), totals.real_time_tasks(now));
        let missing = self.timeline.losses().into_iter();
        let missing =
            missing.filter(|loss| loss.kind == unstarve_model::LossKind::MissingSwitch).map(|loss| loss.count);
        let lost = Lost {
            untracked_tasks: 0,
            events: self.live.lost(),
            missing_switches: missing.sum(),
            disbelieved: self.disproved,
            groups_in_other: self.roles.without_id,
        };
        let cost = Cost { programs: None, runs: None, process: clocks::process() };
        let wall = clocks::now();
        // Up to the last event, if the recording uses the monotonic clock.
        let is_monotonic = self.live.info().clock.as_deref() == Some("mono") && now > Time(0);
        let behind = if is_monotonic { wall.trace.since(now) } else { Nanos::ZERO };
        let at = ClockPair {
            trace: wall.trace - behind,
            wall: unstarve_model::WallTime(wall.wall.0.saturating_sub(behind.0)),
        };
        let since = self.since;
        Ok(Reading {
            at,
            since,
            roles,
            blame,
            waits,
            cpus,
            real_time,
            real_time_tasks,
            oldest,
            limits,
            workloads,
            lost,
            cost,
        })
    }
}
