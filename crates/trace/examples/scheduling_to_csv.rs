//! Waits and runs of a recording as CSV, by a sink of its own: `scheduling_to_csv FILE > scheduling.csv`.
//!
//! One line for each wait and run: `what,start_ns,length_ns,cpu,tid,task,why`; `start_ns` counts from the first event; for a wait
//! `why` is the rule under which most of it passed, for a run it is how the run ended. What is not certain goes to standard
//! error.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use unstarve_trace::{CpuId, Nanos, Run, RunEnd, Sink, TaskKey, Time, Wait, World, analyse, open};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let path = std::env::args().nth(1).ok_or("usage: scheduling_to_csv FILE")?;
    ends_well(write_csv(path.as_ref(), BufWriter::new(io::stdout().lock()), &mut io::stderr().lock()))
}

/// A closed pipe (`| head`) is no error.
pub fn ends_well(result: Result<(), Box<dyn Error + Send + Sync>>) -> Result<(), Box<dyn Error + Send + Sync>> {
    match result {
        Err(error)
            if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Writes the lines, and to `remarks` what makes them uncertain.
pub fn write_csv(path: &Path, out: impl Write, remarks: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut lines = CsvLines { out, result: Ok(()) };
    writeln!(lines.out, "what,start_ns,length_ns,cpu,tid,task,why")?;
    let analysis = analyse(open(path)?, &mut lines)?;
    lines.result?;
    lines.out.flush()?;
    for loss in &analysis.losses {
        writeln!(remarks, "not certain: {loss}")?;
    }
    Ok(())
}

struct CsvLines<W> {
    out: W,
    /// The first error: a sink cannot return it.
    result: io::Result<()>,
}

impl<W: Write> CsvLines<W> {
    fn line(
        &mut self,
        world: &World,
        what: &str,
        task: TaskKey,
        (start, length): (Time, Nanos),
        cpu: CpuId,
        why: &str,
    ) {
        let task = world.tasks.get(task);
        // Names may hold commas and quotes; `Display` has escaped control characters.
        let name = task.comm.to_string().replace('"', "\"\"");
        if self.result.is_ok() {
            let (start, length, tid) = (start.since(world.start).0, length.0, task.tid);
            self.result = writeln!(self.out, "{what},{start},{length},{cpu},{tid},\"{name}\",{why}");
        }
    }
}

impl<W: Write> Sink for CsvLines<W> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.line(world, "wait", wait.task, (wait.start, wait.length()), wait.cpu, wait.main_rule().word());
    }

    fn run(&mut self, world: &World, run: &Run) {
        let why = match run.ended {
            RunEnd::Slept => "slept",
            RunEnd::Died => "died",
            RunEnd::Preempted { .. } => "preempted",
            RunEnd::Cut => "recording-ended",
        };
        self.line(world, "run", run.task, (run.start, run.length()), run.cpu, why);
    }
}
