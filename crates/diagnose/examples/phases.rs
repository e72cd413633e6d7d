//! One part of `explain` at a time, for counting instructions: `phases open|read|timeline|explain FILE`.
//!
//! Each part includes those before it, so that differences tell what each takes: opening the file, reading and decoding all
//! of it, the timeline with nobody listening, all of `explain`. Prints the number of events. `bench/instructions.py` runs it.

use std::error::Error;

use unstarve_diagnose::{Options, drive, explain};
use unstarve_model::Batch;
use unstarve_timeline::Sink;

struct Nobody;

impl Sink for Nobody {}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [part, path] = &arguments[..] else { return Err("usage: phases open|read|timeline|explain FILE".into()) };
    let mut source = unstarve_readers::open(path.as_ref())?;
    let events = match part.as_str() {
        "open" => 0,
        "read" => {
            let (mut batch, mut events) = (Batch::with_room(), 0);
            while source.read(&mut batch)? {
                events += batch.events.len() as u64;
            }
            events
        }
        "timeline" => drive(source, &mut Nobody, |_| {})?.events,
        "explain" => explain(source, &Options::default(), |_| {})?.trace.events,
        other => return Err(format!("{other}: not one of open, read, timeline, explain").into()),
    };
    println!("{events}");
    Ok(())
}
