//! How long all tasks waited in a recording between two moments of its clock, each from when it was on a queue, as the engine
//! counts: `cargo run --example queued -- trace.dat FROM_NS TO_NS`. `explain` counts from the beginning of the wakeup.
#![allow(clippy::print_stdout, reason = "an example")]

use unstarve_model::{Batch, Nanos, Time};
use unstarve_timeline::{Sink, Wait, World};

struct Queued {
    from: Time,
    to: Time,
    sum: Nanos,
    of_explain: Nanos,
}

impl Sink for Queued {
    fn wait(&mut self, _: &World, wait: &Wait<'_>) {
        let within = |start: Time| wait.end.min(self.to).since(start.max(self.from));
        self.sum += within(wait.queued.unwrap_or(wait.start));
        self.of_explain += within(wait.start);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("no recording is named")?;
    let mut moment = || -> Result<Time, Box<dyn std::error::Error>> {
        Ok(Time(arguments.next().ok_or("FROM_NS and TO_NS are missing")?.parse()?))
    };
    let mut queued = Queued { from: moment()?, to: moment()?, sum: Nanos(0), of_explain: Nanos(0) };
    let mut source = unstarve_readers::open(path.as_ref()).map_err(|error| error.to_string())?;
    let mut timeline = unstarve_diagnose::timeline(source.info());
    let mut batch = Batch::default();
    while source.read(&mut batch).map_err(|error| error.to_string())? {
        timeline.names(batch.names.drain(..));
        batch.events.iter().for_each(|event| timeline.push(event, &mut queued));
    }
    timeline.finish(&mut queued);
    println!("{} ns, {} ns with wakeups", queued.sum.0, queued.of_explain.0);
    Ok(())
}
