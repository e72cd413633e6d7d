use clap::ValueEnum;
use unstarve_model::Severity;

/// From which severity on the exit code is 1, as typed.
#[derive(Clone, Copy, ValueEnum)]
pub enum FailOn {
    Info,
    Warning,
    Critical,
    Never,
}

impl FailOn {
    /// The least severity that fails; none if nothing does.
    pub fn severity(self) -> Option<Severity> {
        match self {
            FailOn::Info => Some(Severity::Info),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Critical => Some(Severity::Critical),
            FailOn::Never => None,
        }
    }
}
