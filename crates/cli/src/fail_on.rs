//! `--fail-on`: the severity from which the exit code is 1.

use clap::ValueEnum;
use unstarve_model::Severity;

/// The severity from which the exit code is 1, as typed.
#[derive(Clone, Copy, ValueEnum)]
pub enum FailOn {
    Info,
    Warning,
    Critical,
    Never,
}

impl FailOn {
    /// The lowest severity that fails; `None` for `never`.
    pub fn severity(self) -> Option<Severity> {
        match self {
            FailOn::Info => Some(Severity::Info),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Critical => Some(Severity::Critical),
            FailOn::Never => None,
        }
    }
}
