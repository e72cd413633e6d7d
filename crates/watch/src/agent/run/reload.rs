//! What a configuration switches on, at the start and on SIGHUP.

use std::sync::Arc;
use std::time::Instant;

use super::{RunError, Watch};
use crate::agent::alert_sender::Alert;
use crate::agent::board::{Board, Published};
use crate::agent::config::{Config, ConfigError, DEFAULT_PATH};
use crate::agent::outputs::all::Outputs;
use crate::agent::outputs::log::Log;
use crate::agent::outputs::{Deliveries, DeliveryQueue, otlp, webhook};
use crate::agent::trace_writer::Job;
use crate::engine::error_chain;

/// Its name among the problems.
const PROBLEM: &str = "configuration";

/// What a new configuration says and what is not so before the next start, likewise.
const RESTART: &str = "restart";

pub(crate) fn outputs(config: &Config, board: &Arc<Board>, deliveries: &Deliveries) -> Result<Outputs, RunError> {
    let failed = |source| RunError::System { action: "cannot start a thread", source };
    let webhook = config.webhook.clone().map(|webhook| webhook::start(webhook, Arc::clone(board)));
    let webhook = webhook.transpose().map_err(failed)?.map(Arc::new);
    webhook.iter().for_each(|webhook| deliveries.add(webhook));
    let ignored = config.thresholds.role.iter().filter(|(_, own)| own.ignore).map(|(name, _)| name.clone());
    Ok(Outputs {
        log: Arc::new(Log::open(config.sinks.log)),
        webhook,
        store: config.store.clone(),
        ignored: ignored.collect(),
    })
}

pub(super) struct Push {
    pub courier: DeliveryQueue<Arc<Published>>,
    pub next: Instant,
}

pub(super) fn push(config: &Config, board: &Arc<Board>, deliveries: &Deliveries) -> Result<Option<Push>, RunError> {
    let Some(otlp) = config.otlp.clone() else { return Ok(None) };
    let next = Instant::now() + otlp.interval.0;
    let courier = otlp::start(otlp, Arc::clone(board));
    let courier = courier.map_err(|source| RunError::System { action: "cannot start a thread", source })?;
    deliveries.add(&courier);
    Ok(Some(Push { courier, next }))
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

    /// All of the new configuration holds, or nothing of it: what can fail comes first.
    fn reloaded(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let mut config = Config::find(self.path.as_deref()).map_err(Box::<ConfigError>::new)?;
        config.write_tables_in(self.tables.as_deref());
        let otlp = push(&config, &self.board, &self.deliveries)?;
        let outputs = outputs(&config, &self.board, &self.deliveries)?;

        let mut old = std::mem::replace(&mut self.config, config);
        // By the thresholds of before.
        self.calm_since = None;
        self.say_what_awaits_a_restart();
        // Until then it is the open one that is meant.
        self.config.store.directory = std::mem::take(&mut old.store.directory);
        self.otlp = otlp;
        self.forget_former_outputs(outputs.webhook.is_some());
        self.detector.judge_by(self.config.thresholds.clone());
        let _ = self.words.send(Alert::Configure(outputs.clone()));
        let _ = self.jobs.send(Job::Configure(outputs));
        // What hindered it may be over.
        (self.tried, self.last_try) = (None, None);
        self.see_to_recorder();
        Ok(())
    }

    /// What is no output any more has no problem, and will not be well again.
    fn forget_former_outputs(&mut self, has_webhook: bool) {
        let is_there = [("otlp", self.otlp.is_some()), ("webhook", has_webhook)];
        self.deliveries.replace_all_but(is_there.iter().filter(|(_, is_there)| *is_there).count());
        let gone = is_there.into_iter().filter(|(_, is_there)| !is_there).map(|(output, _)| output);
        for output in gone {
            self.troubles.forget(output);
            self.board.write(|published| drop(published.problems.remove(output)));
        }
    }

    /// In `status` until it is so, or is asked for no more.
    fn say_what_awaits_a_restart(&self) {
        let (began, is) = (&self.began_with, &self.config);
        let differs = [
            (began.listen != is.listen, format!("[listen] address = \"{}\"", is.listen.address)),
            (began.store.directory != is.store.directory, "[store] directory".to_owned()),
            (began.tables != is.tables, "[tables]".to_owned()),
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
