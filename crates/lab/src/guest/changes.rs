//! Changes in a guest, by the executor: each is in a journal before it is made.

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

/// Makes changes on the guest.
pub(super) struct Changes {
    journal: Journal,
    /// What the journal says that they are for.
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

/// Whether anything had to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    Now,
    /// It was so already, or what it is of has ended meanwhile.
    Nothing,
}

impl Changes {
    /// With an empty journal of its own.
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

    /// Makes a change, if nothing stands in its way.
    pub(super) fn make(&mut self, change: &Change) -> Result<Made, NotMade> {
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

    /// Writes a file of the kernel's settings. Whether it does harm is not asked: that is what a scenario's fault is for.
    pub(super) fn write(&mut self, path: &str, text: &str) -> Result<(), GuestError> {
        let failed = |error: String| GuestError(format!("cannot write `{text}` to {path}: {error}"));
        let place = ThisHost.file(path).ok_or_else(|| failed("it is not there".to_owned()))?;
        self.set(place, text).map_err(failed)
    }

    /// Sets a feature of the scheduler to this word.
    pub(super) fn set_feature(&mut self, path: &str, name: &str, word: &str) -> Result<(), GuestError> {
        let place = unstarve_change::Place::Feature { path: path.to_owned(), name: name.to_owned(), root: None };
        self.set(place, word).map_err(|error| GuestError(format!("cannot write `{word}` to {path}: {error}")))
    }

    fn set(&mut self, place: unstarve_change::Place, text: &str) -> Result<(), String> {
        let new = Value::content(text);
        let old = ThisHost.read(&place, Aspect::Content).map_err(|error| error.to_string())?;
        let old = old.ok_or_else(|| "it cannot be read".to_owned())?;
        if old.same(&new) {
            return Ok(());
        }
        self.carry_out(&mut [Step::new(place, "", self.purpose, old, new)]).map(drop)
    }

    fn carry_out(&mut self, steps: &mut [Step]) -> Result<Made, String> {
        if steps.is_empty() {
            return Ok(Made::Nothing);
        }
        let outcomes = act::apply(&mut ThisHost, &mut self.journal, &mut Audit::none(), steps);
        let mut made = Made::Nothing;
        for outcome in outcomes.map_err(|error| error.to_string())? {
            match outcome {
                Outcome::Done => made = Made::Now,
                Outcome::Gone => {}
                Outcome::Failed(error) => return Err(error.to_string()),
            }
        }
        Ok(made)
    }

    /// Takes everything back that nobody else has changed since.
    pub(super) fn take_back(&mut self) -> Undone {
        let open = self.journal.open_changes();
        act::undo(&mut ThisHost, &mut self.journal, &mut Audit::none(), &open)
    }
}
