//! The options that select part of a recording: tasks, CPUs, time.

use anyhow::{Result, bail};
use clap::Args;
use unstarve_model::{CpuId, CpuSet, CpuSetError, Time, clean};
use unstarve_timeline::{Moment, Run, Selection, Sink, Task, TaskPattern, Wait, World};

use crate::output;

/// The selection, as typed.
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

/// Detects a selection that matches nothing: an empty answer must not look healthy.
pub struct UnmetSelection {
    tasks: Vec<TaskPattern>,
    /// The CPUs and times seen, if CPUs or a time were selected.
    seen: Option<Seen>,
}

#[derive(Default)]
struct Seen {
    cpus: u32,
    span: Option<(Time, Time)>,
}

impl UnmetSelection {
    pub fn of(selection: &Selection) -> UnmetSelection {
        let is_part = selection.cpus.is_some() || selection.from.is_some() || selection.to.is_some();
        UnmetSelection { tasks: selection.tasks.clone(), seen: is_part.then(Seen::default) }
    }

    fn meet(&mut self, task: &Task) {
        self.tasks.retain(|pattern| !pattern.matches(&task.comm, task.tid));
    }

    /// Reports selected tasks that the recording lacks; an error if it has none of the selected tasks, CPUs or times.
    pub fn report_unmet(&self, selection: &Selection, recording: &str) -> Result<()> {
        if let Some(seen) = &self.seen {
            seen.check(selection, recording)?;
        }
        let name = |pattern: &TaskPattern| match pattern {
            TaskPattern::Tid(tid) => format!("thread {tid}"),
            TaskPattern::Name(name) => format!("task called {}", clean(name.as_str())),
        };
        let Some((first, more)) = self.tasks.split_first() else { return Ok(()) };
        let what = std::iter::once(first).chain(more).map(name).collect::<Vec<_>>().join(", no ");
        if self.tasks.len() == selection.tasks.len() {
            bail!("{recording}: no {what} ran or waited in it; `unstarve timeline -s FILE` lists those that did");
        }
        output::remark(&format!("no {what} ran or waited in it"));
        Ok(())
    }
}

impl Seen {
    fn check(&self, selection: &Selection, recording: &str) -> Result<()> {
        let Some((start, end)) = self.span else { return Ok(()) };
        if !(0..self.cpus).map(CpuId).any(|cpu| selection.has_cpu(cpu)) {
            let asked = selection.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
            let all: CpuSet = (0..self.cpus).map(CpuId).collect();
            bail!("{recording}: it has no CPU {asked}, but CPU {all}");
        }
        if !selection.has_span(start, end, start) {
            let seconds = |time: Time| time.0 as f64 / 1e9;
            bail!(
                "{recording}: the selected time is not in it; it goes from {:.6} to {:.6} s, which is +0s to +{:.6}s",
                seconds(start),
                seconds(end),
                seconds(Time(end.0 - start.0))
            );
        }
        Ok(())
    }
}

impl Sink for UnmetSelection {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if !self.tasks.is_empty() {
            self.meet(world.tasks.get(wait.task));
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        if !self.tasks.is_empty() {
            self.meet(world.tasks.get(run.task));
        }
        if let Some(seen) = &mut self.seen {
            seen.cpus = world.cpus;
            let (start, end) = seen.span.unwrap_or((world.start, run.end));
            seen.span = Some((start, end.max(run.end)));
        }
    }
}
