//! The model of the scheduler as the engine that plays programs.

use unstarve_sim::Program;
use unstarve_sim::engine::{EngineError, Replica, SchedulerModel, play};
use unstarve_sim::predict::{Engine, Replayed};

/// Plays programs by the model of one kernel's scheduler.
pub struct Model {
    /// `uname -r` of the kernel.
    pub release: String,
}

/// How many replicas: the first as recorded, the others with shifted timers.
const REPLICAS: u32 = 8;

impl Engine for Model {
    type Error = EngineError;

    fn play(&mut self, program: &Program, replica: u32) -> Result<Replayed, EngineError> {
        let scheduler = SchedulerModel::of_kernel(&self.release, program.cpus.len(), &program.knobs)?;
        let replica = if replica == 0 { Replica::AS_RECORDED } else { Replica::seeded(u64::from(replica)) };
        let played = play(program, &scheduler, replica)?;
        Ok(Replayed { felt: played.felt.with_dispatch(program.dispatch), starved: Vec::new() })
    }

    fn replicas(&self) -> u32 {
        REPLICAS
    }
}
