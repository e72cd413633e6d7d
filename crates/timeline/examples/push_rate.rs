//! How fast the timeline alone takes events that are already in memory: `push_rate FILE [TIMES]`.
//!
//! For profiling by hand (`perf record`); whole-process ratios against peers are `make bench`.

use std::time::Instant;

use unstarve_model::{Batch, Event};
use unstarve_timeline::{NoSettings, Sink, Timeline, Wait, World};

#[derive(Default)]
struct Count {
    waits: u64,
    pieces: u64,
    total: u64,
}

impl Sink for Count {
    fn wait(&mut self, _: &World, wait: &Wait<'_>) {
        self.waits += 1;
        self.pieces += wait.pieces.len() as u64;
        self.total += wait.length().0;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: push_rate FILE [TIMES]")?;
    let times: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let mut source = unstarve_readers::open(path.as_ref())?;
    let mut events: Vec<Event> = Vec::new();
    let mut names = Vec::new();
    let mut batch = Batch::default();
    while source.read(&mut batch)? {
        events.append(&mut batch.events);
        names.append(&mut batch.names);
    }
    for _ in 0..times {
        let mut timeline = Timeline::new(None, None, Box::new(NoSettings));
        timeline.names(names.iter().cloned());
        let mut count = Count::default();
        let began = Instant::now();
        for event in &events {
            timeline.push(event, &mut count);
        }
        timeline.finish(&mut count);
        let each = began.elapsed().as_nanos() as f64 / events.len() as f64;
        println!(
            "{} events, {each:.0} ns each, {:.1} ms; {} waits, {:.1} pieces each, {:.3} s waited, lost {:?}",
            events.len(),
            began.elapsed().as_secs_f64() * 1e3,
            count.waits,
            count.pieces as f64 / count.waits.max(1) as f64,
            count.total as f64 / 1e9,
            timeline.losses(),
        );
    }
    Ok(())
}
