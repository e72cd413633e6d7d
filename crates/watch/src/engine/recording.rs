//! An engine that reads a recording instead of the running kernel: shows what `watch` would have reported.

use std::sync::Arc;

use unstarve_facts::{Bandwidth, Snapshot, Throttled};
use unstarve_model::{Batch, ClockPair, Event, EventSource, Nanos, SourceError, Tid, Time, WallClock, WallTime};
use unstarve_timeline::Timeline;

use crate::engine::limits::Stops;
use crate::engine::reading::{Cost, LimitedGroup, Lost, Reading};
use crate::engine::role_table::RoleTable;
use crate::engine::task_lookup::RecordedTasks;
use crate::engine::tracefs::{Lasting, Sums};
use crate::engine::{Engine, EngineError, Options};

/// Reads a recording in time steps.
pub struct Recording {
    source: Box<dyn EventSource>,
    timeline: Timeline,
    sums: Sums,
    roles: RoleTable,
    batch: Batch,
    /// Index of the next event in `batch`.
    next: usize,
    step: Nanos,
    /// The end of the current step.
    until: Option<Time>,
    wall: Option<WallClock>,
    oldest_from: Nanos,
    began: Option<ClockPair>,
    limits: RecordedLimits,
    stops: Stops,
    at_end: bool,
}

impl Recording {
    /// Opens a recording; [`Engine::read`] returns a reading per `step` of its time.
    ///
    /// # Errors
    /// If the beginning of the recording cannot be read.
    pub fn new(mut source: Box<dyn EventSource>, step: Nanos, options: Options) -> Result<Recording, EngineError> {
        let mut batch = Batch::with_room();
        // Some sources know their properties only after reading the first events.
        let at_end = !source.read(&mut batch).map_err(unreadable)?;
        let info = source.info();
        let timeline = unstarve_diagnose::timeline(info);
        let snapshot = info.snapshot.as_deref().and_then(|text| Snapshot::from_json(text).ok()).map(Arc::new);
        let clocks = match &snapshot {
            Some(snapshot) if info.clocks.is_empty() => &snapshot.clock_pairs,
            _ => &info.clocks,
        };
        let wall = WallClock::of(clocks);
        let limits = RecordedLimits::of(snapshot.as_deref());
        let host = RecordedTasks(snapshot);
        let mut roles = RoleTable::new();
        let groups = host.top_groups();
        let mut sums = Sums::new(Box::new(host));
        roles.update(&groups, &sums.totals, &[]);
        sums.renew(&roles);
        Ok(Recording {
            timeline,
            sums,
            roles,
            next: 0,
            step: Nanos(step.0.max(1)),
            until: None,
            wall,
            oldest_from: options.oldest_from,
            began: None,
            limits,
            stops: Stops::default(),
            at_end,
            source,
            batch,
        })
    }

    /// Time of the first event.
    pub fn start(&self) -> Time {
        self.timeline.world().start
    }

    /// The next event, if it is before the end of this step.
    fn take(&mut self) -> Result<Option<Event>, SourceError> {
        while self.next == self.batch.events.len() && !self.at_end {
            self.at_end = !self.source.read(&mut self.batch)?;
            self.next = 0;
        }
        if self.next == 0 {
            self.timeline.names(self.batch.names.drain(..));
        }
        let Some(event) = self.batch.events.get(self.next) else { return Ok(None) };
        // The first reading ends after the first event, with empty sums: later readings are compared with it.
        let until = *self.until.get_or_insert(event.time + Nanos(1));
        if event.time >= until {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(*event))
    }

    fn moment(&self, time: Time) -> ClockPair {
        // Without a wall clock, the recording starts in 1970.
        ClockPair { trace: time, wall: self.wall.map_or(WallTime(time.0), |wall| wall.at(time)) }
    }
}

impl Engine for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn read(&mut self) -> Result<Reading, EngineError> {
        if self.at_end && self.next == self.batch.events.len() {
            return Err(EngineError::Ended);
        }
        while let Some(event) = self.take().map_err(unreadable)? {
            self.timeline.push(&event, &mut self.sums);
        }
        // Steps without events are merged into one.
        self.until = self.batch.events.get(self.next).map(|event| event.time + self.step);
        let now = self.timeline.world().now;
        let at = self.moment(now);
        let since = *self.began.get_or_insert(at);
        let mut lasting = Lasting::of(&mut self.sums, self.oldest_from);
        self.timeline.so_far(Nanos::ZERO, |_, _| true, &mut lasting);
        let (mut totals, workloads, oldest) = lasting.finish(&self.timeline);
        let limits = self.limits.at(self.start(), now, &self.roles);
        self.stops.settle(&mut totals, &limits);
        let (roles, blame, waits) = self.roles.report(&totals);
        let (cpus, real_time, real_time_tasks) = (totals.cpus(), totals.real_time(), totals.real_time_tasks(now));
        let lost = Lost { groups_in_other: self.roles.without_id, ..Lost::default() };
        let cost = Cost::default();
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
        }
        .without_occupant(Tid(0)))
    }
}

/// Quotas from a recording's snapshot. It has only the growth of the throttling counters during the recording, which is assumed to be uniform
/// between its two looks at the host. If their times are unknown: over as many periods as were counted, from the first event on.
struct RecordedLimits {
    groups: Vec<(String, Bandwidth, Throttled)>,
    between: Option<(Time, Time)>,
}

impl RecordedLimits {
    fn of(snapshot: Option<&Snapshot>) -> RecordedLimits {
        let limited = |snapshot: &Snapshot| -> Vec<_> {
            let groups = snapshot.cgroups.iter().filter_map(|group| {
                Some((group.path.clone(), group.limit?, snapshot.throttled_meanwhile(&group.path).unwrap_or_default()))
            });
            groups.collect()
        };
        let times = snapshot.into_iter().flat_map(|snapshot| &snapshot.clock_pairs).map(|pair| pair.trace);
        let between = times.clone().min().zip(times.max()).filter(|(first, last)| first < last);
        let mut groups: Vec<_> = snapshot.map(limited).unwrap_or_default();
        // In the order that engines use.
        groups.sort_by(|a, b| a.0.cmp(&b.0));
        RecordedLimits { groups, between }
    }

    fn at(&self, start: Time, now: Time, roles: &RoleTable) -> Vec<LimitedGroup> {
        let of = |(path, limit, all): &(String, Bandwidth, Throttled)| {
            let periods = Nanos::from_micros(limit.period_us.saturating_mul(all.periods).max(1));
            let (first, last) = self.between.unwrap_or((start, start + periods));
            let part = (now.since(first).0 as f64 / last.since(first).0 as f64).min(1.0);
            let up_to = |count: u64| (count as f64 * part) as u64;
            let ns = Nanos(up_to(all.ns.0));
            LimitedGroup {
                path: path.as_str().into(),
                role: roles.of_path(path),
                limit: *limit,
                counted: Throttled { periods: up_to(all.periods), count: up_to(all.count), ns },
                read: now,
            }
        };
        self.groups.iter().map(of).collect()
    }
}

fn unreadable(error: SourceError) -> EngineError {
    EngineError::Read { what: "the recording", source: std::io::Error::other(error) }
}
