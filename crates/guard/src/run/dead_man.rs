//! The guard and its dead-man process watch each other: if one dies, the other reverts everything.

use std::time::Instant;

use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::deadman::DeadMan;
use unstarve_model::Tid;

use super::{Guard, RunError};

impl Guard {
    /// Sends a heartbeat if ordinary tasks have run since the last one.
    pub(super) fn sign(&mut self) {
        if self.canary.has_run()
            && let Some(dead_man) = &mut self.dead_man
        {
            dead_man.sign();
        }
    }

    /// Starts a new dead-man process if it exited or does not answer.
    pub(super) fn watch_dead_man(&mut self) -> Result<(), RunError> {
        if self.canary.silent_for() > self.patience {
            return Err(RunError::Starving(self.patience.as_secs()));
        }
        // It answers heartbeats, and none are sent while ordinary tasks do not run.
        let patience = self.patience + self.canary.silent_for();
        let reason = match &mut self.dead_man {
            Some(dead_man) => dead_man.failure(patience),
            None => Some("there was none".to_owned()),
        };
        match reason {
            None => Ok(()),
            Some(reason) => self.replace_dead_man(&reason),
        }
    }

    pub(super) fn replace_dead_man(&mut self, reason: &str) -> Result<(), RunError> {
        self.dead_man = None;
        let since = *self.without_dead_man.get_or_insert_with(Instant::now);
        let command = (self.options.dead_man)(self.priority);
        let (host, journal, audit) = self.keeper.for_taking_back();
        let started = DeadMan::start(command, self.priority, &self.state, journal, audit).and_then(|dead_man| {
            host.registry.as_ref().map_or(Ok(()), |registry| dead_man.give_registry(registry))?;
            Ok(dead_man)
        });
        match started {
            Ok(dead_man) => {
                audit.log(&Entry { reason: Some(reason), ..Entry::of(Event::DeadMan) });
                audit.flush();
                self.keeper.own(vec![Tid(std::process::id()), Tid(dead_man.pid())]);
                self.keeper.metrics.counts.dead_man_restarts += 1;
                self.state.name_dead_man(dead_man.pid());
                self.dead_man = Some(dead_man);
                self.without_dead_man = None;
                (self.options.say)(&format!("{reason}; another one was started"));
                self.sign();
                Ok(())
            }
            // Retried with the next heartbeat, for a limited time: without a dead-man process nothing reverts the changes if
            // the guard dies.
            Err(_) if since.elapsed() <= self.patience => Ok(()),
            Err(error) => Err(RunError::NoDeadMan(since.elapsed().as_secs(), error)),
        }
    }
}
