//! Results of remedies on real kernels, from `unstarve lab prove SCENARIO --all`: `data/proofs.tsv`.

use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use unstarve_facts::Version;

use crate::report::{Finding, FindingId, Remedy, RemedyId, VictimKind};

/// The table of this version.
const SHIPPED: &str = include_str!("../data/proofs.tsv");

/// The columns, as in its first line.
const COLUMNS: [&str; 17] = [
    "remedy", "finding", "victim", "scenario", "kernel", "answer", "metric", "effect", "low", "high", "seeds", "costs",
    "release", "package", "unstarve", "date", "note",
];

/// Whether lab results affect the order and selection of remedies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Proofs {
    /// Remedies that helped come first; remedies that were useless on this kernel are left out.
    #[default]
    Shipped,
    /// All remedies, independent of results: to prove them.
    PutAside,
}

/// What a remedy did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub enum Answer {
    /// The main metric got better by what matters.
    Helped,
    /// It got worse.
    Harmed,
    /// No difference that matters.
    NoDifference,
    /// Too much spread, or as much drift as effect.
    NotShown,
    /// It could not be made, or was so already; the note says why.
    NotMade,
}

impl Answer {
    const ALL: [Answer; 5] = [Answer::Helped, Answer::Harmed, Answer::NoDifference, Answer::NotShown, Answer::NotMade];

    /// The word in the table and in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            Answer::Helped => "helped",
            Answer::Harmed => "harmed",
            Answer::NoDifference => "no-difference",
            Answer::NotShown => "not-shown",
            Answer::NotMade => "not-made",
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The remedy's id.
    pub remedy: RemedyId,
    /// The finding that offered it.
    pub finding: FindingId,
    /// The kind of its victim, as `victim.kind` of the report: `kworker`, `ksoftirqd`, `task`, ….
    pub victim: VictimKind,
    /// The lab's scenario.
    pub scenario: String,
    /// The kernel's series: `6.1`.
    pub kernel: String,
    /// The result.
    pub answer: Answer,
    /// The metric that `effect` is about.
    pub metric: String,
    /// The relative change of the metric by the remedy: −0.86 is 86 % less.
    pub effect: Option<f64>,
    /// Lower bound of the 95 % interval.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Pairs of runs.
    pub seeds: usize,
    /// Metrics that got worse.
    pub costs: Vec<String>,
    /// The kernel's own release string.
    pub release: String,
    /// Its package with the version, where it came from one.
    pub package: String,
    /// The version and commit of unstarve that proved it.
    pub unstarve: String,
    /// The day.
    pub date: String,
    /// Remarks.
    pub note: String,
}

/// What was proved of a remedy, beside it in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Proved {
    /// The kernel's series: `6.1`.
    pub kernel: String,
    /// Whether the recorded kernel is of that series.
    pub this_series: bool,
    /// The kind of the victim, which is this finding's.
    #[serde(default)]
    #[cfg_attr(feature = "typescript", ts(as = "String"))]
    pub victim: Option<VictimKind>,
    /// The lab's scenario.
    pub scenario: String,
    /// What it came to.
    pub answer: Answer,
    /// The metric.
    pub metric: String,
    /// What it was above that without the remedy, as a part of it.
    pub effect: Option<f64>,
    /// The 95 % interval's lower bound.
    pub low: Option<f64>,
    /// The upper one.
    pub high: Option<f64>,
    /// Pairs of runs.
    pub seeds: usize,
    /// What else is to be known of the proof: what could not be taken back, for instance.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A line of the table that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ProofError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// The parsed table of this version.
pub fn shipped() -> &'static [Proof] {
    static TABLE: OnceLock<Vec<Proof>> = OnceLock::new();
    // A test makes sure that the table can be parsed.
    TABLE.get_or_init(|| read(SHIPPED).unwrap_or_default())
}

/// Parses a table.
///
/// # Errors
/// If a line cannot be parsed.
pub fn read(text: &str) -> Result<Vec<Proof>, ProofError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    match lines.next() {
        None => return Ok(Vec::new()),
        Some((_, head)) if head.split('\t').eq(COLUMNS) => {}
        Some((index, _)) => {
            let what = format!("expected the columns {}", COLUMNS.join(", "));
            return Err(ProofError { line: index + 1, what });
        }
    }
    lines.map(|(index, line)| read_line(line).map_err(|what| ProofError { line: index + 1, what })).collect()
}

fn read_line(line: &str) -> Result<Proof, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let fields: [&str; 17] =
        fields.try_into().map_err(|fields: Vec<_>| format!("{} fields, expected {}", fields.len(), COLUMNS.len()))?;
    let [
        remedy,
        finding,
        victim,
        scenario,
        kernel,
        answer,
        metric,
        effect,
        low,
        high,
        seeds,
        costs,
        release,
        package,
        unstarve,
        date,
        note,
    ] = fields;
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| format!("`{text}` is no number")),
    };
    let text = str::to_owned;
    Ok(Proof {
        answer: Answer::ALL
            .into_iter()
            .find(|known| known.word() == answer)
            .ok_or_else(|| format!("`{answer}` is no answer"))?,
        effect: number(effect)?,
        low: number(low)?,
        high: number(high)?,
        seeds: seeds.parse().map_err(|_| format!("`{seeds}` is no number of seeds"))?,
        costs: costs.split(' ').filter(|cost| !cost.is_empty()).map(text).collect(),
        remedy: remedy.into(),
        finding: finding.into(),
        victim: victim.parse().map_err(|()| format!("`{victim}` is no kind of victim"))?,
        scenario: text(scenario),
        kernel: text(kernel),
        metric: text(metric),
        release: text(release),
        package: text(package),
        unstarve: text(unstarve),
        date: text(date),
        note: text(note),
    })
}

/// Writes a table in an order that does not depend on when the results were obtained.
pub fn write(proofs: &[Proof]) -> String {
    let mut sorted: Vec<&Proof> = proofs.iter().collect();
    sorted.sort_by_key(|proof| {
        (&proof.scenario, order_of(&proof.kernel), &proof.finding, proof.victim.word(), &proof.remedy)
    });
    let mut text =
        "# What `unstarve lab prove SCENARIO --all` found: bench/results/proofs.md. Made by bench/proofs.sh, not by hand.\n"
            .to_owned();
    text += &COLUMNS.join("\t");
    text.push('\n');
    for proof in sorted {
        let number = |value: Option<f64>| value.map(|value| format!("{value:.4}")).unwrap_or_default();
        let plain = |text: &str| text.replace(['\t', '\n'], " ");
        let fields = [
            plain(proof.remedy.as_str()),
            plain(proof.finding.as_str()),
            proof.victim.to_string(),
            plain(&proof.scenario),
            plain(&proof.kernel),
            proof.answer.word().to_owned(),
            plain(&proof.metric),
            number(proof.effect),
            number(proof.low),
            number(proof.high),
            proof.seeds.to_string(),
            plain(&proof.costs.join(" ")),
            plain(&proof.release),
            plain(&proof.package),
            plain(&proof.unstarve),
            plain(&proof.date),
            plain(&proof.note),
        ];
        text += &fields.join("\t");
        text.push('\n');
    }
    text
}

fn order_of(kernel: &str) -> Option<(u32, u32)> {
    kernel.parse::<Version>().ok().map(|version| (version.major, version.minor))
}

/// The series of a release: `6.1` of `6.1.0-50-cloud-amd64`.
pub fn series(release: &str) -> Option<String> {
    order_of(release).map(|(major, minor)| format!("{major}.{minor}"))
}

/// Adds its results to each remedy. Remedies that helped on this kernel's series come first, and remedies that were useless there
/// are removed. Otherwise the order stays: least invasive first.
pub(crate) fn weigh(findings: &mut [Finding], release: Option<&str>, proofs: &[Proof]) {
    let here = release.and_then(series);
    for finding in findings {
        for remedy in &mut finding.remedies {
            remedy.proved = proved((&finding.id, finding.victim.kind), remedy, here.as_deref(), proofs);
        }
        finding.remedies.retain(|remedy| verdict(remedy) != Some(Verdict::Useless));
        finding.remedies.sort_by_key(|remedy| verdict(remedy) != Some(Verdict::Helps));
        // The lab's workers complete what programs wait for: the numbers say nothing about other work.
        if finding.victim.kind == VictimKind::Kworker && finding.price.is_empty() {
            finding.remedies.iter_mut().for_each(|remedy| remedy.proved.clear());
        }
    }
}

/// Results for this kind of finding and victim on this kernel's series, else on other series. Results for another kind of victim
/// say nothing: a priority above the intruder helps a ksoftirqd that packets wait for, but not a kworker that waits for a pool.
fn proved(
    (finding, victim): (&FindingId, VictimKind),
    remedy: &Remedy,
    here: Option<&str>,
    proofs: &[Proof],
) -> Vec<Proved> {
    let is_about = |proof: &&Proof| proof.remedy == remedy.id && proof.finding == *finding && proof.victim == victim;
    let told: Vec<&Proof> = proofs.iter().filter(is_about).filter(|proof| proof.answer != Answer::NotMade).collect();
    let on_this = told.iter().copied().filter(|proof| Some(proof.kernel.as_str()) == here);
    let on_this: Vec<&Proof> = on_this.collect();
    let shown = if on_this.is_empty() { told } else { on_this };
    shown.into_iter().map(|proof| Proved::of(proof, here)).collect()
}

impl Proved {
    /// A row of the table as a report on kernel series `here` shows it.
    pub fn of(proof: &Proof, here: Option<&str>) -> Proved {
        Proved {
            kernel: proof.kernel.clone(),
            victim: Some(proof.victim),
            this_series: Some(proof.kernel.as_str()) == here,
            scenario: proof.scenario.clone(),
            answer: proof.answer,
            metric: proof.metric.clone(),
            effect: proof.effect,
            low: proof.low,
            high: proof.high,
            seeds: proof.seeds,
            note: proof.note.clone(),
        }
    }
}

/// What the lab's metrics count, for people.
const METRICS: [(&str, &str); 6] = [
    ("compile.involuntary", "the compiler's involuntary switches"),
    ("daemon.max", "the daemon's longest delay"),
    ("fio.iops", "fio's IOPS"),
    ("log.iops", "the log's writes per second"),
    ("ping.max", "the longest ping"),
    ("stream.packets", "packets per second"),
];

impl Proved {
    /// What the metric counts.
    pub fn metric_in_words(&self) -> &str {
        METRICS.iter().find(|(metric, _)| *metric == self.metric).map_or(&self.metric, |(_, words)| words)
    }

    /// ` −86 %`: what became of the metric; nothing if that is not known.
    pub fn effect_in_words(&self) -> String {
        self.effect.map(|effect| format!(" {}", percent(effect))).unwrap_or_default()
    }
}

#[derive(PartialEq, Eq)]
enum Verdict {
    /// Helped in at least one case.
    Helps,
    /// Helped in no case, and in each case surely did not.
    Useless,
}

/// Whether one of these remedies helped on the recorded kernel's series, so that it comes before the others.
pub fn has_helped(remedies: &[Remedy]) -> bool {
    remedies.iter().any(|remedy| verdict(remedy) == Some(Verdict::Helps))
}

fn verdict(remedy: &Remedy) -> Option<Verdict> {
    let here: Vec<&Proved> = remedy.proved.iter().filter(|proved| proved.this_series).collect();
    let is_useless = |proved: &&Proved| matches!(proved.answer, Answer::Harmed | Answer::NoDifference);
    if here.iter().any(|proved| proved.answer == Answer::Helped) {
        Some(Verdict::Helps)
    } else if !here.is_empty() && here.iter().all(is_useless) {
        Some(Verdict::Useless)
    } else {
        None
    }
}

/// `on 6.1 for a kworker: switches.per_io −86 % (−90 to −80), in kubepods`.
impl fmt::Display for Proved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {}", self.kernel)?;
        if let Some(victim) = self.victim {
            let article = if victim.word().starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            write!(f, " for {article} {victim}")?;
        }
        f.write_str(": ")?;
        match self.answer {
            Answer::Helped => {}
            Answer::Harmed => f.write_str("it got worse, ")?,
            Answer::NoDifference => f.write_str("no effect, ")?,
            Answer::NotShown | Answer::NotMade => f.write_str("no clear effect, ")?,
        }
        f.write_str(&self.metric)?;
        f.write_str(&self.effect_in_words())?;
        if let (Some(low), Some(high)) = (self.low, self.high) {
            write!(f, " ({} to {})", percent(low), percent(high))?;
        }
        write!(f, ", in {}", self.scenario)?;
        // The threads that a lab guest lacked concern only the proof; what could not be reverted concerns the reader's host.
        match self.note.as_str() {
            "" => Ok(()),
            note => match note.split_once("not taken back: ") {
                Some((_, what)) => write!(f, "; it could not be undone there: {what}"),
                None => f.write_str("; only a part of it could be applied there"),
            },
        }
    }
}

/// `−86 %`, `+3.1 %`, `×12`.
fn percent(part: f64) -> String {
    let sign = if part < 0.0 { "−" } else { "+" };
    let size = part.abs() * 100.0;
    match size {
        _ if part >= 9.0 => format!("×{:.0}", part + 1.0),
        size if size < 9.95 => format!("{sign}{size:.1} %"),
        size => format!("{sign}{size:.0} %"),
    }
}

#[cfg(test)]
#[path = "proofs/tests.rs"]
mod tests;
