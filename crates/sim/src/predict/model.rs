//! The model of the scheduler as the engine that plays programs.

use unstarve_diagnose::{ExplainError, Options, Proofs, explain};
use unstarve_facts::Snapshot;
use unstarve_model::{Event, EventSet, EventType, MemorySource, Names, Nanos, TraceInfo};

use super::{Engine, Replayed, Starved};
use crate::Program;
use crate::engine::{EngineError, Replica, SchedulerModel, play_recorded};

/// Plays programs by the model of one kernel's scheduler.
#[derive(Clone, Debug)]
pub struct Model {
    /// `uname -r` of the kernel.
    pub release: String,
    /// The host's snapshot, by which the rules judge what is played.
    pub snapshot: Option<Snapshot>,
}

/// Why the model could not play a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The engine could not play it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What was played could not be judged.
    #[error(transparent)]
    Explain(#[from] ExplainError),
}

/// How many replicas: the first as recorded, the others with shifted timers.
const REPLICAS: u32 = 8;

impl Engine for Model {
    type Error = ModelError;

    fn play(&mut self, program: &Program, replica: u32) -> Result<Replayed, ModelError> {
        let mut scheduler = SchedulerModel::of_kernel(&self.release, program.cpus.len(), &program.knobs)?;
        let hz = self.snapshot.as_ref().and_then(|snapshot| snapshot.config.as_ref()?.get("HZ")?.parse::<u64>().ok());
        if let Some(hz) = hz.filter(|hz| (24..=10_000).contains(hz)) {
            scheduler.tick = Nanos(1_000_000_000 / hz);
        }
        let replica = if replica == 0 { Replica::AS_RECORDED } else { Replica::seeded(u64::from(replica)) };
        let (played, events) = play_recorded(program, &scheduler, replica)?;
        Ok(Replayed { felt: played.felt.with_dispatch(program.dispatch), starved: self.starved(program, events)? })
    }

    fn replicas(&self) -> u32 {
        REPLICAS
    }

    fn without_effect(&self, program: &Program) -> Vec<String> {
        let is_read = |name: &str| {
            let alone = program.knobs.iter().filter(|(knob, _)| knob == name).cloned().collect::<Vec<_>>();
            SchedulerModel::of_kernel(&self.release, program.cpus.len(), &alone).is_ok_and(|model| model.has(name))
        };
        program.knobs.iter().map(|(name, _)| name.clone()).filter(|name| !is_read(name)).collect()
    }
}

impl Model {
    /// Who is starved, by the rules that judge recordings.
    fn starved(&self, program: &Program, events: Vec<Event>) -> Result<Vec<Starved>, ModelError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let recorded = [EventType::Switch, EventType::Waking, EventType::Wakeup].into_iter().collect::<EventSet>();
        let info = TraceInfo {
            format: "a played program".to_owned(),
            cpus: program.cpus.last().map(|cpu| cpu.0 + 1),
            cpus_recorded: Some(program.cpus.len() as u32),
            recorded: Some(recorded),
            snapshot: self.snapshot.as_ref().map(|snapshot| settings_of(program, snapshot).to_json()),
            kernel_release: Some(self.release.clone()),
            nothing_overwritten: true,
            ..TraceInfo::default()
        };
        let options = Options { proofs: Proofs::PutAside, ..Options::default() };
        let source = Box::new(MemorySource::new(info, events, Names::default()));
        let report = explain(source, &options, |_| {})?;
        Ok(Starved::of(&report))
    }
}

/// The snapshot with the settings of the program, which may have been changed.
fn settings_of(program: &Program, snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for group in &program.cgroups {
        if let Some(facts) = snapshot.cgroups.iter_mut().find(|facts| facts.path == group.path) {
            // In load weights, of which `cpu.shares` is the unit.
            (facts.shares, facts.weight, facts.idle) = (Some(group.load_weight), None, false);
        }
    }
    for actor in &program.actors {
        let found = snapshot.tasks.iter_mut().find(|facts| facts.tid == actor.tid);
        let Some(facts) = found else { continue };
        facts.allowed = Some(actor.placement.cpus.clone());
        facts.policy = actor.placement.class.policy();
    }
    snapshot
}
