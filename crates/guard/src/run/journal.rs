//! Compacts the journal, and recreates it and its directory if they were removed.

use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::host::ThisHost;
use unstarve_executor::journal::Journal;
use unstarve_executor::state::StateError;

use super::{Guard, RunError};

impl Guard {
    pub(super) fn shorten_journal(&mut self, limit: u64) -> Result<(), RunError> {
        // A journal that cannot become much shorter is not compacted again and again.
        if self.keeper.journal().length() > limit.max(2 * self.shortest) {
            let journal = self.state.shorten(&ThisHost, self.keeper.journal())?;
            self.shortest = journal.length();
            self.use_journal(journal)?;
        }
        Ok(())
    }

    /// Switches to another journal. The dead-man process first: it must know the journal before anything is written to it.
    pub(super) fn use_journal(&mut self, journal: Journal) -> Result<(), RunError> {
        let given = self.dead_man.as_ref().map_or(Ok(()), |dead_man| dead_man.give_journal(&journal));
        self.keeper.continue_in(journal);
        match given {
            Ok(()) => Ok(()),
            Err(error) => self.replace_dead_man(&format!("the dead-man took no journal ({error})")),
        }
    }

    /// Recreates a removed state directory. Until that is possible, only this process and its dead-man know the open changes.
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
            // Another guard has the lock by now: two would fight over the tasks.
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
