//! How fast a file is read and decoded, without any analysis: `read_rate FILE [TIMES]`.
//!
//! For profiling by hand (`perf record`); whole-process ratios against peers are `make bench`.

use std::time::Instant;

use unstarve_model::Batch;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read_rate FILE [TIMES]")?;
    let times: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    for _ in 0..times {
        let began = Instant::now();
        let mut source = unstarve_readers::open(path.as_ref())?;
        let opened = began.elapsed();
        let mut batch = Batch::default();
        let mut events = 0;
        while source.read(&mut batch)? {
            events += batch.events.len();
        }
        let all = began.elapsed();
        println!(
            "{events} events, {:.0} ns each, {:.1} ms, of which {:.1} ms to open",
            all.as_nanos() as f64 / events.max(1) as f64,
            all.as_secs_f64() * 1e3,
            opened.as_secs_f64() * 1e3,
        );
    }
    Ok(())
}
