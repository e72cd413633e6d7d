//! The latency part of `unstarve compare`.

use std::fmt::Write as _;

use unstarve_latency::{Latency, Spike};
use unstarve_model::Nanos;

/// Which spikes of each log to show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spikes {
    /// The worst ones.
    Worst,
    /// Every one.
    All,
}

/// Maximum spikes shown without `--all`.
const MAX_SHOWN_SPIKES: usize = 8;

/// Formats the latency of both sides, below the comparison.
pub fn latency_page(a: &[Latency], b: &[Latency], shown: Spikes) -> String {
    let shown = match shown {
        Spikes::Worst => MAX_SHOWN_SPIKES,
        Spikes::All => usize::MAX,
    };
    let mut text = String::new();
    for (side, logs) in [("A", a), ("B", b)] {
        for log in logs {
            // Writing to a String does not fail.
            let _ = write(&mut text, side, log, shown);
        }
    }
    text
}

fn write(out: &mut String, side: &str, log: &Latency, shown: usize) -> std::fmt::Result {
    let known = |ns: Option<u64>| ns.map_or_else(|| "?".to_owned(), |ns| Nanos(ns).to_string());
    let stats = &log.stats;
    writeln!(out, "\nLatency during {side}: {} ({})", log.file, log.format)?;
    writeln!(
        out,
        "  {} latencies, median {}, 99 % up to {}, longest {}",
        stats.count,
        known(stats.p50_ns),
        known(stats.p99_ns),
        Nanos(stats.max_ns)
    )?;
    let Some(aligned) = &log.aligned else {
        return writeln!(out, "  no times in it, so nothing can be set against waits (fio: --write_lat_log)");
    };
    let explained = log.spikes.iter().filter(|spike| spike.wait.is_some()).count();
    writeln!(out, "  time: {aligned}")?;
    let (within, limit) = (log.spikes.len(), known(log.threshold_ns));
    let unexplained = within - explained;
    match within {
        0 => writeln!(out, "  no spike ({limit} and more) within the recording")?,
        _ => writeln!(
            out,
            "  {explained} of the {within} worst spikes ({limit} and more) coincide with waits, {unexplained} do not"
        )?,
    }
    if log.spikes_outside > 0 {
        writeln!(out, "  {} more lie outside the recording, and were not examined", log.spikes_outside)?;
    }
    let mut worst: Vec<&Spike> = log.spikes.iter().collect();
    worst.sort_by_key(|spike| std::cmp::Reverse(spike.latency_ns));
    for spike in worst.iter().take(shown) {
        let at = format!("{:.6} s", spike.start_ns as f64 / 1e9);
        let why = match &spike.wait {
            Some(wait) => {
                format!(
                    "{}[{}] waited {} of it for {} ({})",
                    wait.victim,
                    wait.tid,
                    Nanos(wait.ns),
                    wait.culprit,
                    wait.rule
                )
            }
            None => "no wait explains it".to_owned(),
        };
        writeln!(out, "    {at:>16}  {:>8}  {why}", Nanos(spike.latency_ns).to_string())?;
    }
    if worst.len() > shown {
        writeln!(out, "    … and {} more (--all)", worst.len() - shown)?;
    }
    Ok(())
}
