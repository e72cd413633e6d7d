//! Finds which latency spikes coincide with which waits.

use rustc_hash::FxHashMap;
use serde::Serialize;
use thiserror::Error;
use unstarve_model::{Comm, Nanos, Tid, Time, clean};
use unstarve_timeline::{Run, Sink, Wait, World};

use crate::log::{Log, Stats};

/// How many spikes are examined: the worst ones within the recording.
const MAX_SPIKES: usize = 64;
/// How many tasks are tracked for each spike.
const MAX_TASKS_PER_SPIKE: usize = 256;
/// A wait explains a spike if it takes at least this part of it, …
const MIN_PART_OF_SPIKE: f64 = 0.5;
/// … and if the task waits this many times its usual share during the spike, or this part of the spike.
const MIN_TIMES_USUAL: f64 = 2.0;
const MOSTLY_WAITS: f64 = 0.8;

/// How the log's times are converted to trace times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// The clocks are the same.
    Absolute,
    /// The log begins at the trace's first event, plus this offset in nanoseconds.
    First(i64),
}

/// Why spikes cannot be compared with waits.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "its times ({log}) do not overlap those of the trace ({trace}); if both began together, use --align first, or log on the trace's \
     clock (fio: log_alternate_epoch=1, log_alternate_epoch_clock_id=1)"
)]
pub struct AlignError {
    log: String,
    trace: String,
}

/// A wait that takes most of a spike.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct Coincidence {
    /// The task that waited.
    pub victim: String,
    /// Its thread id.
    pub tid: u32,
    /// How much of the spike it waited.
    pub ns: u64,
    /// What had the CPU longest during the longest of these waits.
    pub culprit: String,
    /// The rule.
    pub rule: String,
    /// The part of the whole trace for which this task waited.
    pub usual_share: f64,
}

/// A latency that stands out.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct Spike {
    /// Its beginning, on the trace clock.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Its length. Less than the time between beginning and end if the log's times are coarser than its latencies.
    pub latency_ns: u64,
    /// The wait that explains it; `None` if no wait does.
    pub wait: Option<Coincidence>,
}

/// An application's latencies compared with a trace.
#[derive(Clone, PartialEq, Debug, Serialize, schemars::JsonSchema)]
pub struct Latency {
    /// The file.
    pub file: String,
    /// Its format.
    pub format: String,
    /// How its times were aligned with the trace, in words; `None` if it has no times.
    pub aligned: Option<String>,
    /// The distribution of all its latencies.
    pub stats: Stats,
    /// Latencies from here on are spikes; `None` if the log does not say enough.
    pub threshold_ns: Option<u64>,
    /// The number of spikes within the recording.
    pub spikes_found: usize,
    /// How many more are at least half outside the recording, so that no wait could explain them.
    pub spikes_outside: usize,
    /// The worst spikes within the recording, by time.
    pub spikes: Vec<Spike>,
}

/// Begin, end and length of a spike.
type Times = (u64, u64, Nanos);

/// How long each task waited during a spike.
type Shares = FxHashMap<(Tid, Comm), Share>;

#[derive(Clone, Debug, Default)]
struct Share {
    waited: Nanos,
    longest: Nanos,
    culprit: String,
    rule: &'static str,
}

/// Collects the waits during the spikes of one log.
pub struct Watch {
    file: String,
    log: Log,
    align: Align,
    threshold: Option<Nanos>,
    /// Beginning, end and length, on the trace clock once it is known; sorted by beginning.
    spikes: Vec<Times>,
    longest: u64,
    shares: Vec<Shares>,
    totals: FxHashMap<(Tid, Comm), Nanos>,
    began: bool,
    span: (Time, Time),
}

impl Watch {
    /// Looks for latencies of at least `threshold`; without one, of at least the 99th percentile and three times the
    /// median.
    pub fn new(file: String, log: Log, align: Align, threshold: Option<Nanos>) -> Watch {
        let usual = log.stats.p99_ns.max(log.stats.p50_ns.map(|median| median.saturating_mul(3)));
        let threshold = threshold.or_else(|| usual.map(|usual| Nanos(usual.min(log.stats.max_ns))));
        let is_spike = |latency| threshold.is_some_and(|threshold| latency >= threshold);
        // Which spikes are within the recording is known only at its end, so all are examined.
        let over = log.worst.iter().filter(|point| is_spike(point.latency));
        let mut spikes: Vec<Times> = over.map(|point| (point.start, point.end, point.latency)).collect();
        spikes.sort_unstable();
        let shares = vec![FxHashMap::default(); spikes.len()];
        Watch {
            file,
            log,
            align,
            threshold,
            spikes,
            longest: 0,
            shares,
            totals: FxHashMap::default(),
            began: false,
            span: (Time(0), Time(0)),
        }
    }

    /// The log's file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Notes that the recording lasts at least until now.
    fn see(&mut self, world: &World) {
        if !self.began {
            self.begin(world.start);
        }
        self.span = (world.start, world.now);
    }

    /// Converts the spikes to the trace clock.
    fn begin(&mut self, start: Time) {
        self.began = true;
        if let Align::First(shift) = self.align
            && let Some(zero) = self.log.zero
        {
            let moved = |at: u64| at.saturating_sub(zero).saturating_add(start.0).saturating_add_signed(shift);
            self.spikes.iter_mut().for_each(|spike| (spike.0, spike.1) = (moved(spike.0), moved(spike.1)));
        }
        self.longest = self.spikes.iter().map(|spike| spike.1 - spike.0).max().unwrap_or(0);
    }

    /// The result.
    ///
    /// # Errors [`AlignError`] if no time of the log is within the trace.
    pub fn finish(self) -> Result<Latency, AlignError> {
        self.check()?;
        let span = self.span.1.since(self.span.0);
        let (all, found) = self.within();
        // If several tasks fit, prefer one that fits other spikes too: the application's own task.
        let mut fits: FxHashMap<(Tid, Comm), usize> = FxHashMap::default();
        for ((who, share), spike) in
            all.iter().flat_map(|(spike, shares)| shares.iter().map(move |share| (share, spike)))
        {
            *fits.entry(*who).or_default() += usize::from(self.explains(*who, share, spike, span));
        }
        let spike = |(spike, shares): &(&Times, &FxHashMap<(Tid, Comm), Share>)| {
            let fitting = shares.iter().filter(|(who, share)| self.explains(**who, share, spike, span));
            let best = fitting.max_by_key(|(who, share)| (fits.get(who), share.waited, std::cmp::Reverse(**who)));
            let wait = best.map(|(who, share)| self.coincidence(*who, share, span));
            Spike { start_ns: spike.0, end_ns: spike.1, latency_ns: spike.2.0, wait }
        };
        let spikes = all.iter().map(spike).collect();
        let aligned = self.log.span.map(|_| match self.align {
            Align::Absolute => "absolute: the log is on the trace's clock".to_owned(),
            Align::First(0) => "first: the log's beginning is the trace's first event".to_owned(),
            Align::First(shift) => {
                let (word, span) = (if shift < 0 { "before" } else { "after" }, Nanos(shift.unsigned_abs()));
                format!("first: the log begins {span} {word} the trace's first event")
            }
        });
        Ok(Latency {
            file: clean(&self.file).into_owned(),
            format: self.log.format.to_owned(),
            aligned,
            stats: self.log.stats,
            threshold_ns: self.threshold.map(|threshold| threshold.0),
            spikes_found: found,
            spikes_outside: self.spikes.len() - found,
            spikes,
        })
    }

    /// The worst spikes within the recording, by time, and how many spikes are within it.
    fn within(&self) -> (Vec<(&Times, &Shares)>, usize) {
        let mut all: Vec<_> =
            self.spikes.iter().zip(&self.shares).filter(|(spike, _)| self.mostly_recorded(spike)).collect();
        let found = all.len();
        all.sort_by_key(|(spike, _)| std::cmp::Reverse(spike.2));
        all.truncate(MAX_SPIKES);
        all.sort_by_key(|(spike, _)| **spike);
        (all, found)
    }

    /// Whether enough of a spike is recorded for a wait to explain it.
    fn mostly_recorded(&self, &(start, end, _): &Times) -> bool {
        let recorded = end.min(self.span.1.0).saturating_sub(start.max(self.span.0.0));
        recorded as f64 > MIN_PART_OF_SPIKE * (end - start) as f64
    }

    fn check(&self) -> Result<(), AlignError> {
        let (Some((first, last)), Align::Absolute) = (self.log.span, self.align) else { return Ok(()) };
        if first <= self.span.1.0 && self.span.0.0 <= last {
            return Ok(());
        }
        let words = |from: u64, to: u64| format!("{:.3} to {:.3} s", from as f64 / 1e9, to as f64 / 1e9);
        Err(AlignError { log: words(first, last), trace: words(self.span.0.0, self.span.1.0) })
    }

    fn usual(&self, who: (Tid, Comm), span: Nanos) -> f64 {
        self.totals.get(&who).copied().unwrap_or_default().share_of(span)
    }

    fn explains(&self, who: (Tid, Comm), share: &Share, spike: &Times, span: Nanos) -> bool {
        let usual = self.usual(who, span);
        let waited = share.waited.0 as f64;
        let (of_latency, of_spike) = (waited / spike.2.0.max(1) as f64, waited / (spike.1 - spike.0).max(1) as f64);
        // A task that waits all the time explains nothing by waiting now.
        of_latency >= MIN_PART_OF_SPIKE
            && of_spike >= (usual * MIN_TIMES_USUAL).min(MOSTLY_WAITS)
            && usual < MOSTLY_WAITS
    }

    fn coincidence(&self, who: (Tid, Comm), share: &Share, span: Nanos) -> Coincidence {
        Coincidence {
            victim: who.1.to_string(),
            tid: who.0.0,
            ns: share.waited.0,
            culprit: share.culprit.clone(),
            rule: share.rule.to_owned(),
            usual_share: self.usual(who, span),
        }
    }
}

impl Sink for Watch {
    fn run(&mut self, world: &World, _: &Run) {
        self.see(world);
    }

    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        self.see(world);
        let task = world.tasks.get(wait.task);
        let who = (task.tid, task.comm);
        *self.totals.entry(who).or_default() += wait.length();
        let (start, end) = (wait.start.0, wait.end.0);
        let from = self.spikes.partition_point(|spike| spike.0 < start.saturating_sub(self.longest));
        for (spike, shares) in self.spikes[from..].iter().zip(&mut self.shares[from..]) {
            if spike.0 >= end {
                break;
            }
            let overlap = Nanos(end.min(spike.1).saturating_sub(start.max(spike.0)));
            if overlap == Nanos::ZERO || shares.len() >= MAX_TASKS_PER_SPIKE && !shares.contains_key(&who) {
                continue;
            }
            let share = shares.entry(who).or_default();
            share.waited += overlap;
            if overlap > share.longest
                && let Some(piece) = wait.pieces.first()
            {
                share.longest = overlap;
                share.culprit = clean(&world.name(piece.occupant)).into_owned();
                share.rule = piece.rule.word();
            }
        }
    }
}
