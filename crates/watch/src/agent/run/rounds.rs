//! The main loop: reads the engine, judges, and passes all other work to threads. It never waits for them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use unstarve_guard::notify::{self, Manager};
use unstarve_model::Tid;

use super::reload::first_push;
use super::{Event, INTERVAL, LONGEST_REST, RunError, Watch};
use crate::agent::config::Blame;
use crate::agent::control::Request;
use crate::agent::machine_pause::{Lateness, OwnWait};
use crate::agent::outputs::Message;
use crate::agent::priority_boost::PriorityBoost;
use crate::engine::reading::{Quiet, Reading};
use crate::engine::{Engine, EngineError, error_chain};

/// Whether the loop continues.
#[derive(PartialEq, Eq)]
pub(super) enum Next {
    On,
    End,
}

impl Watch {
    /// Runs until the watch is to end.
    pub(super) fn go(
        &mut self,
        engine: &mut dyn Engine,
        inbox: &Receiver<Event>,
        manager: &Manager,
        time: Option<Duration>,
    ) -> Result<(), RunError> {
        self.see_to_recorder();
        // The first reading examines all groups and quotas, which takes long, and begins no episode.
        self.read(engine)?;
        // Starvation is seen only by readings, and with ordinary priority they would be late when many tasks compete for CPUs.
        let _boost = engine.is_bounded().then(PriorityBoost::raise).flatten();
        manager.tell("READY=1");
        let begun = Instant::now();
        let watchdog = notify::watchdog_interval();
        let (mut next, mut next_sign) = (begun + INTERVAL, begun);
        let mut own_wait = OwnWait::new();
        loop {
            let now = Instant::now();
            if time.is_some_and(|time| now - begun >= time) {
                return Ok(());
            }
            let due = self.waits.as_ref().map_or(next, |waiting| waiting.until.max(now).min(next));
            let heard = own_wait.around(|| inbox.recv_timeout(due.saturating_duration_since(now)));
            let late = now.max(due).elapsed();
            match heard {
                Ok(event) => {
                    if self.hear(event, manager) == Next::End {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.keep_if_due() {
                // A recorder requested by a new configuration meanwhile.
                self.see_to_recorder();
            }
            if Instant::now() >= next {
                let lateness = own_wait.judge(late);
                self.note_lateness(lateness, late);
                match self.rests(engine).filter(|_| lateness == Lateness::Usual) {
                    Some(quiet) => {
                        self.detector.note_rest(&quiet);
                        self.push_if_due();
                    }
                    None => self.read(engine)?,
                }
                self.see_to_recorder();
                self.serving.look(Instant::now(), &self.say);
                self.note_sent();
                self.troubles.look(&self.board.read().problems).iter().for_each(|news| (self.say)(news));
                // After a suspend, skip the missed intervals.
                next = (next + INTERVAL).max(Instant::now());
                if watchdog.is_some_and(|interval| next_sign.elapsed() >= interval.min(INTERVAL * 4)) {
                    manager.tell("WATCHDOG=1");
                    next_sign = Instant::now();
                }
            }
        }
    }

    /// Replaces a reading if none is needed yet: the last one showed nothing that can develop into an episode, and almost nothing has waited since
    /// then.
    fn rests(&self, engine: &dyn Engine) -> Option<Quiet> {
        let is_new = self.calm_since.is_some_and(|read| read.elapsed() + INTERVAL / 2 < LONGEST_REST);
        let may_rest = is_new && self.waits.is_none();
        may_rest.then(|| engine.quiet(self.config.thresholds.negligible(INTERVAL))).flatten()
    }

    fn note_lateness(&mut self, lateness: Lateness, late: Duration) {
        let seconds = late.as_secs();
        match lateness {
            Lateness::Usual => {}
            Lateness::MachineStood => {
                let ended = self.detector.forget();
                self.end_episodes(ended);
                (self.say)(&format!("this machine stood still for {seconds} s: what waited meanwhile is no episode"));
            }
            Lateness::ProcessStopped => {
                self.detector.span_gap();
                (self.say)(&format!(
                    "this process was stopped for {seconds} s: episodes of that time are seen now, and their traces may begin later"
                ));
            }
        }
    }

    pub(super) fn hear(&mut self, event: Event, manager: &Manager) -> Next {
        match event {
            Event::Signal(SIGHUP) => {
                manager.tell("RELOADING=1");
                self.reload();
                manager.tell("READY=1");
            }
            Event::Signal(_) => return Next::End,
            Event::Asked(Request::Status, reply) => {
                let _ = reply.send(self.status());
            }
            Event::Asked(Request::Dump, reply) => self.dump(reply),
            Event::Flight(buffers, flight) => self.has_flight(buffers, *flight),
            Event::Remark(text) => (self.say)(&text),
            Event::Roll(roll) => self.take_back(roll),
            Event::Room(begun) => begun.iter().for_each(|begun| self.may_begin_again(begun)),
        }
        Next::On
    }

    fn read(&mut self, engine: &mut dyn Engine) -> Result<(), RunError> {
        self.calm_since = None;
        let reading = match engine.read() {
            Ok(reading) => Arc::new(reading.without_occupant(Tid(std::process::id()))),
            Err(error @ EngineError::Ended) => return Err(RunError::Engine(error)),
            Err(error) => {
                self.board.write(|published| {
                    published.counts.engine_errors += 1;
                    published.problems.insert("engine", format!("engine: {}", error_chain(&error)));
                });
                self.push_if_due();
                return Ok(());
            }
        };
        let step = self.detector.see(Arc::clone(&reading));
        // Groups with quotas need readings of the kernel's counters.
        let is_calm = !step.armed && reading.oldest.is_empty() && reading.limits.is_empty();
        self.calm_since = is_calm.then(Instant::now);
        self.publish(reading);
        self.arm(step.armed);
        step.begun.iter().for_each(|begun| self.begin(begun));
        step.joined.iter().for_each(|joined| self.join(joined));
        self.end_episodes(step.ended);
        Ok(())
    }

    /// Publishes a reading on the board.
    fn publish(&mut self, reading: Arc<Reading>) {
        self.workloads.see(&reading);
        let workloads = Arc::new(self.workloads.rows());
        let worst_blame = match self.config.metrics.limits().blame {
            Blame::Worst(limit) => self.worst_blame.see(&reading, limit).map(Arc::new),
            Blame::All | Blame::Off => None,
        };
        self.board.write(|published| {
            published.problems.remove("engine");
            Arc::make_mut(&mut published.history).add(&reading);
            let is_new = published.reading.as_ref().is_none_or(|last| !reading.has_combinations_of(last));
            if let Some(admitted) = is_new.then(|| published.admitted.next(&reading)).flatten() {
                published.admitted = Arc::new(admitted);
            }
            published.workloads = workloads;
            if let Some(worst_blame) = worst_blame {
                published.worst_blame = worst_blame;
            }
            published.next(Arc::clone(&reading));
        });
        if let Some(rollups) = &mut self.rollups {
            rollups.see(&reading, &self.board);
        }
        self.push_if_due();
    }

    /// Pushes the metrics, even if the engine cannot be read.
    fn push_if_due(&mut self) {
        if self.next_push.is_some_and(|next| Instant::now() >= next) {
            self.next_push = first_push(&self.config);
            self.outputs.send(&Message::Metrics(Arc::new(self.board.read().to_push())));
        }
    }
}
