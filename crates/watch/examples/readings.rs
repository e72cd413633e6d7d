//! Prints a few readings of this machine: `cargo run --example readings --features bpf -- SECONDS COUNT`.
#![allow(clippy::print_stdout, reason = "an example")]

use std::time::Duration;

use unstarve_watch::{Ebpf, Engine, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let number = |index: usize| std::env::args().nth(index)?.parse().ok();
    let (every, count) = (number(1).unwrap_or(1.0), number(2).unwrap_or(3.0) as u32);
    let mut engine = Ebpf::open(Options::default())?;
    for _ in 0..count {
        std::thread::sleep(Duration::from_secs_f64(every));
        let reading = engine.read()?;
        let total: u64 = reading.waits.iter().map(|waits| waits.waited.0).sum();
        let blamed: u64 = reading.blame.iter().map(|blame| blame.ns.0).sum();
        println!("at {}, {} ns: waited {total} ns, blamed {blamed} ns", reading.at.wall, reading.at.trace.0);
        for (index, waits) in reading.waits.iter().enumerate() {
            let Some(role) = &reading.roles[index] else { continue };
            if waits.waited.0 == 0 {
                continue;
            }
            let sum =
                reading.blame.iter().filter(|blame| blame.victim.index() == index).map(|blame| blame.ns.0).sum::<u64>();
            println!(
                "{:24} {:>10} {} waits, {} now, blame {:+}",
                role.name(),
                waits.waited.to_string(),
                waits.count,
                waits.waiting,
                sum as i64 - waits.waited.0 as i64
            );
            let mut pieces: Vec<_> = reading.blame.iter().filter(|blame| blame.victim.index() == index).collect();
            pieces.sort_by_key(|blame| std::cmp::Reverse(blame.ns));
            for blame in pieces.iter().take(4) {
                let occupant = reading.role(blame.occupant).map_or("?".to_owned(), |role| role.name());
                println!("    {:>10} {occupant} {}", blame.ns.to_string(), blame.rule);
            }
        }
        for oldest in reading.oldest.iter().take(5) {
            println!("  {oldest:?}");
        }
        println!("{:?}\n{:?}\n", reading.lost, reading.cost);
    }
    Ok(())
}
