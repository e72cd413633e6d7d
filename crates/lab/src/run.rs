//! One run: what is asked for, what comes back.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::scenario::Scenario;

/// One guest to boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What happens in the guest.
    pub scenario: Scenario,
    /// The kernel's name in the store (`6.1`, `6.12`, or a user's own).
    pub kernel: String,
    /// Whether the scenario's fault is present; without it the scenario is its own healthy twin.
    pub fault: bool,
    /// The scenario's remedy to apply, by id.
    pub remedy: Option<String>,
    /// Knobs to set before the loads start: `sched_feature.WAKEUP_PREEMPTION=off`, `sysctl.kernel.sched_rr_timeslice_ms=10`,
    /// `debugfs.sched/base_slice_ns=1000000`, `cmdline.preempt=full`.
    pub knobs: Vec<(String, String)>,
    /// Shifts the phases of the loads against each other and seeds their random numbers. The same request gives the same
    /// bytes.
    pub seed: u64,
}

/// What a guest brought back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The request.
    pub request: Request,
    /// The guest kernel's own release string.
    pub kernel_release: String,
    /// Numbers.
    pub metrics: Vec<Metric>,
    /// The directory with `trace.dat`, `metrics.json`, `console.log`, the loads' own output and this as `outcome.json`.
    pub directory: PathBuf,
    /// SHA-256 of `trace.dat` in hex: equal for equal requests.
    pub trace_digest: String,
    /// Host seconds it took.
    pub wall_seconds: f64,
}

/// Runs requests; the real one boots QEMU, tests use a model.
pub trait Runner {
    /// Why a run failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Boots, waits and collects.
    fn run(&mut self, request: &Request) -> Result<Outcome, Self::Error>;
}
