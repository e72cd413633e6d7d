//! The status and metrics files of a running guard.

use std::io;
use std::path::Path;

use unstarve_executor::deadman::DeadMan;
use unstarve_executor::state::{self, StateError};

use super::Guard;
use crate::metrics;

impl Guard {
    /// Writes both files. A failure is ignored: undo needs only the journal.
    pub(super) fn write_status(&mut self) {
        let (source, policy) = (self.source_name(), self.options.policy_path.clone());
        let mut gaps = self.gaps.clone();
        gaps.extend(self.unpinned.clone());
        let (_, _, audit) = self.keeper.for_taking_back();
        let (lost, trouble) = (audit.lost(), audit.trouble().map(ToString::to_string));
        self.keeper.metrics.counts.audit_lost = lost;
        gaps.extend(trouble.map(|error| format!("the audit cannot be written: {error}")));
        gaps.extend(self.metrics_trouble.as_ref().map(|error| format!("the metrics cannot be written: {error}")));
        if self.dead_man.is_none() {
            gaps.push("there is no dead-man process now: nothing puts things right if this one is killed".to_owned());
        }
        let dead_man = self.dead_man.as_ref().map(DeadMan::pid);
        let mut status = self.keeper.metrics.status(&policy, source, &gaps, dead_man);
        // While nothing happens, nothing is written.
        let counts = std::mem::take(&mut status.counts);
        let last = (format!("{}{dead_man:?}{gaps:?}", policy.display()), counts.clone());
        if self.last_status.as_ref() == Some(&last) {
            return;
        }
        status.counts = counts;
        if let Ok(text) = serde_json::to_string_pretty(&status) {
            self.state.write_status(&text);
        }
        if let Some(outlet) = &mut self.metrics {
            self.metrics_trouble = outlet.write(&self.keeper.metrics.prometheus()).err().map(|error| error.to_string());
        }
        self.last_status = Some(last);
    }
}

/// Reads the status of a running guard from its state directory; `None` if none runs.
///
/// # Errors
/// If it cannot be read, or is not trusted.
pub fn status(directory: &Path) -> Result<Option<metrics::Status>, StateError> {
    let fail = |error| StateError::Io {
        path: directory.join(unstarve_executor::state::STATUS),
        source: io::Error::other(error),
    };
    state::status_text(directory)?.map(|text| serde_json::from_str(&text).map_err(fail)).transpose()
}
