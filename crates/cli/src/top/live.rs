//! `top` with rows of tasks, from this machine's events.

use std::time::{Duration, Instant};

use anyhow::Result;
use unstarve_diagnose::{Recent, timeline};
use unstarve_model::{Batch, Comm, Nanos, Tid};
use unstarve_record::Live;
use unstarve_timeline::{Both, Selection, Timeline};
use unstarve_top::{App, View, ViewContext, Window};

use super::feed::{Feed, OwnCpuUsage, real_time_policy};
use unstarve_watch::SchedstatCheck;

/// This machine, event by event.
pub struct LiveFeed {
    live: Live,
    timeline: Timeline,
    window: Window,
    recent: Recent,
    check: SchedstatCheck,
    batch: Batch,
    events: u64,
    began: Instant,
    own: OwnCpuUsage,
}

impl LiveFeed {
    pub fn new(live: Live, length: Nanos, selection: Selection) -> LiveFeed {
        let timeline = timeline(live.info());
        let recent = Recent::new(live.info(), length).selecting(selection.clone());
        let window = Window::new(length).selecting(selection);
        let (check, batch) = (SchedstatCheck::default(), Batch::default());
        LiveFeed {
            live,
            timeline,
            window,
            recent,
            check,
            batch,
            events: 0,
            began: Instant::now(),
            own: OwnCpuUsage::new(),
        }
    }
}

/// A wait that is younger is not asked about.
const ASKED_FROM: Nanos = Nanos::from_millis(10);

impl Feed for LiveFeed {
    fn advance(&mut self, _: Duration) -> Result<bool> {
        self.live.poll(&mut self.batch)?;
        self.timeline.names(self.batch.names.drain(..));
        for event in &self.batch.events {
            self.timeline.push(event, &mut Both(&mut self.window, &mut self.recent));
        }
        self.events += self.batch.events.len() as u64;
        let world = self.timeline.world();
        let claims = world.tasks.iter().filter_map(|(_, task)| {
            let (since, _) = task.waiting_since()?;
            (world.now.since(since) >= ASKED_FROM).then_some((task.tid, since))
        });
        self.check.hear(claims);
        Ok(true)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn has_reached(&self, to: Duration) -> bool {
        self.began.elapsed() >= to
    }

    fn view(&mut self, app: &App) -> View {
        let is_runnable = |tid| self.check.agrees_on(tid);
        let findings = self.recent.findings(&self.timeline, &is_runnable);
        let beside = ViewContext { is_runnable: &is_runnable, findings, ..ViewContext::nothing() };
        let view = View::of(&mut self.window, &self.timeline, app, "live", beside).with_policies(&real_time_policy);
        View {
            events: self.events,
            lost: self.live.lost(),
            own_cpu: Some(self.own.part()),
            engine: Some("tracefs"),
            ..view
        }
    }

    fn name(&self, tid: Tid) -> Option<Comm> {
        let tasks = &self.timeline.world().tasks;
        tasks.find(tid).map(|key| tasks.get(key).comm)
    }
}
