use std::collections::BTreeMap;
use std::path::Path;

use unstarve_model::{Loss, Nanos, Tid};
use unstarve_timeline::{Sink, Wait, World};

use crate::stage::Stop;

/// Each task's waits, from when the kernel put it on a runqueue, as the kernel's own accounts have it.
#[derive(Default)]
pub struct Queued(pub BTreeMap<Tid, Nanos>);

impl Sink for Queued {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let from = wait.queued.unwrap_or(wait.start);
        *self.0.entry(world.tasks.get(wait.task).tid).or_default() += wait.end.since(from);
    }
}

impl Queued {
    /// Of a whole recording, and what it could not say.
    pub fn of(file: &Path) -> Result<(Queued, Vec<Loss>), Stop> {
        let mut queued = Queued::default();
        let source = unstarve_readers::open(file).map_err(|error| error.to_string())?;
        let driven = unstarve_diagnose::drive(source, &mut queued, |_| {}).map_err(|error| error.to_string())?;
        Ok((queued, driven.losses))
    }
}
