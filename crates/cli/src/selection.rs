use anyhow::{Result, bail};
use clap::Args;
use unstarve_model::{CpuSet, CpuSetError, clean};
use unstarve_timeline::{Moment, Run, Selection, Sink, Task, TaskPattern, Wait, World};

use crate::output;

/// What part of a recording to look at, as typed.
#[derive(Args)]
pub struct LowSelection {
    /// Only tasks of this id or name; * stands for anything, as in 'kworker/*'
    #[arg(long, value_name = "TID|NAME", value_delimiter = ',')]
    task: Vec<TaskPattern>,
    /// Only these CPUs, as in 0,2-3
    #[arg(long, value_name = "LIST", value_parser = some_cpus)]
    cpu: Option<CpuSet>,
    /// Start here: 812.5 (as in the trace), +1.2s or 1200ms (from its start)
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// End here
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
}

/// An empty list would select nothing.
fn some_cpus(text: &str) -> Result<CpuSet, String> {
    let cpus: CpuSet = text.parse().map_err(|error: CpuSetError| error.to_string())?;
    if cpus.is_empty() { Err("expected a list of CPUs such as 0,2-3".to_owned()) } else { Ok(cpus) }
}

impl LowSelection {
    pub fn raise(self) -> Selection {
        Selection { tasks: self.task, cpus: self.cpu, from: self.from, to: self.to }
    }
}

/// Tasks that were asked for and have not been met in the recording: an empty answer must not pass for a healthy one.
pub struct Unmet(Vec<TaskPattern>);

impl Unmet {
    pub fn of(selection: &Selection) -> Unmet {
        Unmet(selection.tasks.clone())
    }

    fn meet(&mut self, task: &Task) {
        self.0.retain(|pattern| !pattern.matches(&task.comm, task.tid));
    }

    /// Says which tasks a whole recording does not have; an error if it has none of those asked for.
    pub fn tell(&self, selection: &Selection, recording: &str) -> Result<()> {
        let name = |pattern: &TaskPattern| match pattern {
            TaskPattern::Tid(tid) => format!("thread {tid}"),
            TaskPattern::Name(name) => format!("task called {}", clean(name.as_str())),
        };
        let Some((first, more)) = self.0.split_first() else { return Ok(()) };
        let what = std::iter::once(first).chain(more).map(name).collect::<Vec<_>>().join(", no ");
        if self.0.len() == selection.tasks.len() {
            bail!("{recording}: no {what} ran or waited in it; `unstarve timeline -s` lists those that did");
        }
        output::remark(&format!("no {what} ran or waited in it"));
        Ok(())
    }
}

impl Sink for Unmet {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if !self.0.is_empty() {
            self.meet(world.tasks.get(wait.task));
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        if !self.0.is_empty() {
            self.meet(world.tasks.get(run.task));
        }
    }
}
