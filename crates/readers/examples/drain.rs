//! Reads a recording to its end and says what it held and how long that took.

use std::time::Instant;

use unstarve_model::Batch;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for path in std::env::args().skip(1) {
        let start = Instant::now();
        let mut source = unstarve_readers::open(path.as_ref())?;
        let opened = start.elapsed();
        let (mut batch, mut events) = (Batch::default(), 0);
        while source.read(&mut batch)? {
            events += batch.events.len();
        }
        let took = start.elapsed();
        let each = took.as_nanos() / (events as u128).max(1);
        println!("{path}: {events} events in {took:?} ({each} ns each, {opened:?} of it for opening)");
        for loss in source.losses() {
            println!("  {loss}");
        }
    }
    Ok(())
}
