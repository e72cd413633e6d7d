//! What a configuration switches on, at the start and on SIGHUP.

use std::sync::Arc;
use std::time::Instant;

use super::{RunError, Watch};
use crate::config::{Config, ConfigError, RecorderMode};
use crate::scribe::{Job, Outputs, chain};
use crate::tell::log::Log;
use crate::tell::{Board, Courier, Published, otlp, webhook};

pub(super) fn outputs(config: &Config, board: &Arc<Board>) -> Result<Outputs, RunError> {
    let failed = |source| RunError::System { action: "cannot start a thread", source };
    let webhook = config.webhook.clone().map(|webhook| webhook::start(webhook, Arc::clone(board)));
    Ok(Outputs {
        log: Log::open(config.sinks.log),
        webhook: webhook.transpose().map_err(failed)?,
        store: config.store.clone(),
    })
}

pub(super) struct Push {
    pub courier: Courier<Arc<Published>>,
    pub next: Instant,
}

pub(super) fn push(config: &Config, board: &Arc<Board>) -> Result<Option<Push>, RunError> {
    let Some(otlp) = config.otlp.clone() else { return Ok(None) };
    let next = Instant::now() + otlp.interval.0;
    let courier = otlp::start(otlp, Arc::clone(board));
    let courier = courier.map_err(|source| RunError::System { action: "cannot start a thread", source })?;
    Ok(Some(Push { courier, next }))
}

impl Watch {
    pub(super) fn reload(&mut self) {
        match self.reloaded() {
            Ok(()) => (self.say)("configuration reloaded"),
            Err(error) => (self.say)(&format!("the configuration stays as it was: {}", chain(error.as_ref()))),
        }
    }

    pub(super) fn reloaded(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let config = Config::find(self.path.as_deref()).map_err(Box::<ConfigError>::new)?;
        let old = std::mem::replace(&mut self.config, config);
        let (was, is) = (&old, &self.config);
        if was.listen != is.listen || was.store.directory != is.store.directory || was.tables != is.tables {
            (self.say)("another address, store or [tables] takes effect at the next start");
        }
        self.detector.judge_by(self.config.thresholds.clone());
        self.otlp = push(&self.config, &self.board)?;
        let _ = self.jobs.send(Job::Configure(outputs(&self.config, &self.board)?));
        let (before, now) = (&old.recorder, &self.config.recorder);
        let needs_other = (before.keep, before.buffer_mib) != (now.keep, now.buffer_mib);
        if needs_other || now.mode == RecorderMode::Off || self.flight.is_none() {
            self.flight = None;
            self.prepare();
        }
        Ok(())
    }
}
