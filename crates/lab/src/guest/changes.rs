//! Applies changes in a guest through the executor, which journals each before it is made.

use std::fs::File;
use std::io;
use std::path::Path;

use unstarve_change::{Aspect, Change, Value};
use unstarve_executor::act::{self, Outcome, Undone};
use unstarve_executor::audit::Audit;
use unstarve_executor::authority::Authority;
use unstarve_executor::host::{Host, ThisHost};
use unstarve_executor::journal::{Contents, Journal, JournalFile, Step, boot_id};
use unstarve_executor::plan::{Ids, Look, Obstacle, plan};

use super::GuestError;

/// Applies changes in the guest.
pub(super) struct Changes {
    journal: Journal,
    /// The purpose written to the journal.
    purpose: &'static str,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotMade {
    #[error(transparent)]
    Obstacle(Obstacle),
    #[error("{0}")]
    Failed(String),
}

/// Whether a change was necessary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ApplyResult {
    Now,
    /// The value was set already, or its target has ended.
    Nothing,
}

impl Changes {
    /// Starts with an empty journal.
    pub(super) fn with_journal(purpose: &'static str) -> Result<Changes, GuestError> {
        let path = format!("/run/unstarve-{purpose}.journal");
        let path = Path::new(&path);
        let opened = || {
            let file = JournalFile::new(File::options().create(true).append(true).open(path)?)?;
            Journal::over(file, path, &boot_id()?, Contents::default()).map_err(io::Error::other)
        };
        let journal = opened().map_err(GuestError::doing(path.display()))?;
        Ok(Changes { journal, purpose })
    }

    /// Applies a change unless something is in the way.
    pub(super) fn make(&mut self, change: &Change) -> Result<ApplyResult, NotMade> {
        let plans = plan(&ThisHost, std::slice::from_ref(change), self.purpose, &Authority::own(Ids::Hold));
        let mut steps = Vec::new();
        for planned in plans {
            if let Some(obstacle) = planned.obstacle {
                return Err(NotMade::Obstacle(obstacle));
            }
            steps.extend(planned.steps);
        }
        self.carry_out(&mut steps).map_err(NotMade::Failed)
    }

    /// Writes a file of the kernel's settings. Harmful values are allowed: a scenario's fault may be one.
    pub(super) fn write(&mut self, path: &str, text: &str) -> Result<(), GuestError> {
        let failed = |error: String| GuestError(format!("cannot write `{text}` to {path}: {error}"));
        let place = ThisHost.file(path).ok_or_else(|| failed("it is not there".to_owned()))?;
        self.set(place, text).map_err(failed)
    }

    /// Sets a scheduler feature to this word.
    pub(super) fn set_feature(&mut self, path: &str, name: &str, word: &str) -> Result<(), GuestError> {
        let place = unstarve_change::Place::Feature { path: path.to_owned(), name: name.to_owned(), root: None };
        self.set(place, word).map_err(|error| GuestError(format!("cannot write `{word}` to {path}: {error}")))
    }

    fn set(&mut self, place: unstarve_change::Place, text: &str) -> Result<(), String> {
        let new = Value::Text(text.to_owned());
        let old = ThisHost.read(&place, Aspect::Text).map_err(|error| error.to_string())?;
        let old = old.ok_or_else(|| "it cannot be read".to_owned())?;
        if old.same(&new) {
            return Ok(());
        }
        self.carry_out(&mut [Step::new(place, "", self.purpose, old, new)]).map(drop)
    }

    fn carry_out(&mut self, steps: &mut [Step]) -> Result<ApplyResult, String> {
        if steps.is_empty() {
            return Ok(ApplyResult::Nothing);
        }
        let outcomes = act::apply(&mut ThisHost, &mut self.journal, &mut Audit::none(), steps);
        let mut made = ApplyResult::Nothing;
        for outcome in outcomes.map_err(|error| error.to_string())? {
            match outcome {
                Outcome::Done => made = ApplyResult::Now,
                Outcome::Gone => {}
                Outcome::Failed(error) => return Err(error.to_string()),
            }
        }
        Ok(made)
    }

    /// Restores every value that nobody else has changed since.
    pub(super) fn take_back(&mut self) -> Undone {
        let open = self.journal.open_changes();
        act::undo(&mut ThisHost, &mut self.journal, &mut Audit::none(), &open)
    }
}
