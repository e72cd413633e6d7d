use clap::Args;
use unstarve_timeline::{CpuSet, Moment, Selection, TaskPattern};

/// What part of a recording to look at, as typed.
#[derive(Args)]
pub struct LowSelection {
    /// Only tasks of this id or name; * stands for anything, as in 'kworker/*'
    #[arg(long, value_name = "TID|NAME", value_delimiter = ',')]
    task: Vec<TaskPattern>,
    /// Only these CPUs, as in 0,2-3
    #[arg(long, value_name = "LIST")]
    cpu: Option<CpuSet>,
    /// From here on: 812.5 (as in the trace), +1.2s or 1200ms (from its start)
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Up to here
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
}

impl LowSelection {
    pub fn raise(self) -> Selection {
        Selection { tasks: self.task, cpus: self.cpu, from: self.from, to: self.to }
    }
}
