//! The journal and its directory are kept short, and made anew where somebody has removed them.

use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::host::ThisHost;
use unstarve_executor::journal::Journal;
use unstarve_executor::state::StateError;

use super::{Guard, RunError};

impl Guard {
    pub(super) fn shorten_journal(&mut self, limit: u64) -> Result<(), RunError> {
        // One that cannot be made much shorter is not tried again and again.
        if self.keeper.journal().length() > limit.max(2 * self.shortest) {
            let journal = self.state.shorten(&ThisHost, self.keeper.journal())?;
            self.shortest = journal.length();
            self.use_journal(journal)?;
        }
        Ok(())
    }

    /// The dead-man first: what is written into the new one must be known to it.
    pub(super) fn use_journal(&mut self, journal: Journal) -> Result<(), RunError> {
        let given = self.dead_man.as_ref().map_or(Ok(()), |dead_man| dead_man.give_journal(&journal));
        self.keeper.continue_in(journal);
        match given {
            Ok(()) => Ok(()),
            Err(error) => self.replace_dead_man(&format!("the dead-man took no journal ({error})")),
        }
    }

    /// Makes anew what somebody has removed. Until that is possible, what is open is known to this process and its dead-man.
    pub(super) fn heal_state(&mut self) -> Result<(), RunError> {
        if !self.state.is_lost(self.keeper.journal()) {
            return Ok(());
        }
        let text = format!("{} was removed", self.state.directory().display());
        self.keeper.audit().log(&Entry { reason: Some(&text), ..Entry::of(Event::StateLost) });
        match self.state.heal(self.keeper.journal()) {
            Ok(journal) => {
                (self.options.say)(&format!("{text}, and was made anew with everything that is changed now"));
                self.last_status = None;
                self.use_journal(journal)?;
                let given = self.dead_man.as_ref().map_or(Ok(()), |dead_man| dead_man.give_lock(&self.state));
                given.or_else(|error| self.replace_dead_man(&format!("the dead-man took no lock ({error})")))
            }
            // The lock is another guard's by now: two would fight.
            Err(error @ StateError::Busy { .. }) => Err(error.into()),
            Err(error) => {
                (self.options.say)(&format!(
                    "{text}: {error}; only this process and its dead-man know what is changed"
                ));
                Ok(())
            }
        }
    }
}
