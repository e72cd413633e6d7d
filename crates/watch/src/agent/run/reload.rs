//! Applies a new configuration on SIGHUP.

use std::sync::Arc;
use std::time::Instant;

use super::{Watch, no_thread};
use crate::agent::alert_sender::Alert;
use crate::agent::config::{Config, ConfigError, DEFAULT_PATH};
use crate::agent::explainer::PipelineSettings;
use crate::agent::machine::Machine;
use crate::agent::outputs::{OutputKind, Outputs};
use crate::agent::trace_writer::Job;
use crate::engine::error_chain;

/// The key of this problem.
const PROBLEM: &str = "configuration";

/// The key for changes that take effect at the next start.
const RESTART: &str = "restart";

/// Time of the first push of metrics.
pub(super) fn first_push(config: &Config) -> Option<Instant> {
    config.otlp.as_ref().map(|otlp| Instant::now() + otlp.interval.0)
}

impl Watch {
    pub(super) fn reload(&mut self) {
        let refused = self.reloaded().err().map(|error| error_chain(error.as_ref()));
        let text = match &refused {
            None if Config::has_none(self.path.as_deref()) => format!("no {DEFAULT_PATH}: the defaults hold"),
            None => "configuration reloaded".to_owned(),
            Some(why) => format!("the configuration stays as it was: {why}"),
        };
        (self.say)(&text);
        self.board.write(|published| {
            published.counts.reload_refused = Some(refused.is_some());
            match refused {
                None => drop(published.problems.remove(PROBLEM)),
                Some(_) => drop(published.problems.insert(PROBLEM, text.clone())),
            }
        });
        if self.board.read().problems.contains_key(PROBLEM) {
            let _ = self.jobs.send(Job::Warn(text));
        }
    }

    /// Applies the new configuration completely or not at all: operations that can fail come first.
    fn reloaded(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let mut config = Config::find(self.path.as_deref()).map_err(Box::<ConfigError>::new)?;
        config.write_tables_in(self.tables.as_deref());
        let outputs = Outputs::open(&config, &self.board, &self.deliveries).map_err(no_thread)?;

        let mut old = std::mem::replace(&mut self.config, config);
        // Readings were calm by the old thresholds only.
        self.calm_since = None;
        self.say_what_awaits_a_restart();
        // The store changes only at a restart.
        self.config.store.directory = std::mem::take(&mut old.store.directory);
        self.next_push = first_push(&self.config);
        self.outputs = outputs.clone();
        self.forget_former_outputs();
        let series = self.config.metrics.limits();
        self.workloads.set_limit(series.workloads as usize);
        let machine = Arc::new(Machine::here(&self.config.labels));
        self.board.write(|published| (published.machine, published.series) = (machine, series));
        self.config.remarks().for_each(&self.say);
        self.detector.judge_by(self.config.thresholds.clone());
        let _ = self.alerts.send(Alert::Configure(outputs.clone()));
        let _ = self.jobs.send(Job::Configure(PipelineSettings::of(&self.config, outputs)));
        // The cause of the failure may be over.
        (self.tried, self.last_try) = (None, None);
        self.see_to_recorder();
        Ok(())
    }

    /// Removes the problems of outputs that are off now: they will not be solved.
    fn forget_former_outputs(&mut self) {
        self.deliveries.replace_all_but(self.outputs.queue_count());
        for output in OutputKind::queued().map(|kind| kind.name).filter(|name| self.outputs.queue_of(name).is_none()) {
            self.troubles.forget(output);
            self.board.write(|published| drop(published.problems.remove(output)));
        }
    }

    /// Shown in `status` until a restart, or until it is no longer wanted.
    fn say_what_awaits_a_restart(&self) {
        let (began, is) = (&self.began_with, &self.config);
        let differs = [
            (began.listen != is.listen, format!("[listen] address = \"{}\"", is.listen.address)),
            (began.store.directory != is.store.directory, "[store] directory".to_owned()),
            (began.tables != is.tables, "[tables]".to_owned()),
            (began.labels != is.labels && is.tables.is_some(), "[labels] in tables".to_owned()),
        ];
        let waiting: Vec<String> = differs.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what).collect();
        let text = format!("another {} takes effect at the next start", waiting.join(", "));
        if !waiting.is_empty() {
            (self.say)(&text);
        }
        self.board.write(|published| match waiting.is_empty() {
            true => drop(published.problems.remove(RESTART)),
            false => drop(published.problems.insert(RESTART, text)),
        });
    }
}
