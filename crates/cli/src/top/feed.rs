use std::time::Duration;

use anyhow::Result;
use unstarve_model::{Comm, Tid};
use unstarve_top::{App, View};

/// Where events come from: this machine, or a recording.
pub trait Feed {
    /// Takes what happened until `to`, counted from the beginning on the feed's own clock.
    ///
    /// Returns whether more may come.
    fn advance(&mut self, to: Duration) -> Result<bool>;

    /// Whether its clock is the machine's, so that it has to be waited for.
    fn is_live(&self) -> bool;

    /// Whether all up to `to` has been taken; for what is not live.
    fn has_reached(&self, to: Duration) -> bool;

    /// What is shown now.
    fn view(&mut self, app: &App) -> View;

    /// The name of a living task.
    fn name(&self, tid: Tid) -> Option<Comm>;
}
