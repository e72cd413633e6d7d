//! Compares an application's own latency log with the recordings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use unstarve_files::{Limit, read_text};
use unstarve_latency::{Align, Latency, Log, Watch};
use unstarve_model::Nanos;
use unstarve_timeline::{Sink, Wait, World};

use crate::record::parse_time;

#[derive(Args)]
pub struct LowLatency {
    /// The application's latency during A: fio JSON, fio latency log, HdrHistogram log, or CSV like `time_s,latency_us`
    #[arg(long, value_name = "FILE")]
    latency_a: Vec<PathBuf>,
    /// The same during B
    #[arg(long, value_name = "FILE")]
    latency_b: Vec<PathBuf>,
    /// How times of a latency log become times of its recording
    #[arg(long, value_enum, default_value = "absolute")]
    align: LowAlign,
    /// With --align first: how long after the recording's first event the application began
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    shift: Option<Duration>,
    /// Latencies from here on are spikes [default: the 99th percentile, but at least three medians]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    spike: Option<Duration>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LowAlign {
    /// Both are on the same clock
    Absolute,
    /// The log's beginning is the recording's first event
    First,
}

/// The latency of both sides.
pub struct SideLatencies {
    pub a_watches: LatencyLogs,
    pub b_watches: LatencyLogs,
}

/// The latency logs of one side.
#[derive(Default)]
pub struct LatencyLogs(Vec<Watch>);

impl LowLatency {
    /// Reads the logs.
    pub fn raise(self) -> Result<SideLatencies> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let align = match (self.align, self.shift) {
            (LowAlign::Absolute, None) => Align::Absolute,
            (LowAlign::First, shift) => {
                Align::First(shift.map_or(0, |shift| i64::try_from(ns(shift)).unwrap_or(i64::MAX)))
            }
            (LowAlign::Absolute, Some(_)) => anyhow::bail!("--shift needs --align first"),
        };
        let spike = self.spike.map(|spike| Nanos(ns(spike)));
        let all = |files: &[PathBuf]| files.iter().map(|file| watch(file, align, spike)).collect::<Result<_>>();
        Ok(SideLatencies {
            a_watches: LatencyLogs(all(&self.latency_a)?),
            b_watches: LatencyLogs(all(&self.latency_b)?),
        })
    }
}

const LATENCY_LOG_LIMIT: Limit = Limit {
    bytes: 512 << 20,
    expected: "a latency log. Cut it to the time of the recording, or log less (fio: --log_avg_msec)",
};

fn watch(file: &Path, align: Align, spike: Option<Nanos>) -> Result<Watch> {
    let named = || file.display().to_string();
    let text = read_text(file, LATENCY_LOG_LIMIT)?;
    let log = Log::read(&text).with_context(named)?;
    Ok(Watch::new(named(), log, align, spike))
}

impl SideLatencies {
    pub fn is_empty(&self) -> bool {
        self.a_watches.0.is_empty() && self.b_watches.0.is_empty()
    }
}

impl LatencyLogs {
    pub fn finish(self) -> Result<Vec<Latency>> {
        let finish = |watch: Watch| {
            let file = watch.file().to_owned();
            watch.finish().context(file)
        };
        self.0.into_iter().map(finish).collect()
    }
}

impl Sink for LatencyLogs {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.0.iter_mut().for_each(|watch| watch.wait(world, wait));
    }
}
