use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::Result;
use unstarve_diagnose::{Recent, timeline};
use unstarve_facts::Stat;
use unstarve_model::{Batch, Comm, Tid};
use unstarve_record::Live;
use unstarve_timeline::{Both, Timeline};
use unstarve_top::{App, Beside, View, Window};

use super::feed::Feed;

/// This machine.
pub struct LiveFeed {
    live: Live,
    timeline: Timeline,
    window: Window,
    recent: Recent,
    batch: Batch,
    events: u64,
    began: Instant,
    cpu_before: Duration,
}

impl LiveFeed {
    pub fn new(live: Live, window: Window) -> LiveFeed {
        let timeline = timeline(live.info());
        let recent = Recent::new(live.info(), window.length());
        let (began, cpu_before) = (Instant::now(), cpu_time());
        LiveFeed { live, timeline, window, recent, batch: Batch::default(), events: 0, began, cpu_before }
    }
}

/// What this process has used so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// Whether a thread of this machine is runnable at this moment; nothing if that cannot be read.
fn is_runnable(tid: Tid) -> Option<bool> {
    match fs::read(format!("/proc/{tid}/stat")) {
        Ok(stat) => Stat::parse(&String::from_utf8_lossy(&stat)).map(|stat| stat.state == 'R'),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
        Err(_) => None,
    }
}

impl Feed for LiveFeed {
    fn advance(&mut self, _: Duration) -> Result<bool> {
        self.live.poll(&mut self.batch)?;
        self.timeline.names(self.batch.names.drain(..));
        for event in &self.batch.events {
            self.timeline.push(event, &mut Both(&mut self.window, &mut self.recent));
        }
        self.events += self.batch.events.len() as u64;
        Ok(true)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn has_reached(&self, to: Duration) -> bool {
        self.began.elapsed() >= to
    }

    fn view(&mut self, app: &App) -> View {
        let own = (cpu_time() - self.cpu_before).as_secs_f64() / self.began.elapsed().as_secs_f64().max(1e-3);
        let beside = Beside { is_runnable: &is_runnable, findings: self.recent.findings(&self.timeline, &is_runnable) };
        let view = View::of(&mut self.window, &self.timeline, app, "live", beside);
        View { events: self.events, lost: self.live.lost(), own_cpu: Some(own), ..view }
    }

    fn name(&self, tid: Tid) -> Option<Comm> {
        let tasks = &self.timeline.world().tasks;
        tasks.find(tid).map(|key| tasks.get(key).comm)
    }
}
