//! `unstarve knobs diff`: settings that differ between two kernels or hosts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_facts::{
    Change, Distribution, Drift, DriftKind, Facts, Snapshot, Version, changes_between_kernels,
    changes_between_snapshots, drifts, undecided_between_kernels,
};
use unstarve_term::{DriftLine, Look, clean, difference_page};

use crate::output::{self, Color, Out};
use crate::snapshot;

#[derive(Args)]
pub struct DiffArgs {
    /// Two snapshots (unstarve snapshot -o)
    #[arg(value_name = "SNAPSHOT", num_args = 2, required_unless_present = "kernel", conflicts_with = "kernel")]
    snapshots: Vec<PathBuf>,
    /// Two kernels: give it twice, or type `knobs diff 5.10 6.12`; 6.12.107, 6.12, or 7 for the newest series of 7 that is known
    #[arg(long, value_name = "VERSION")]
    kernel: Vec<String>,
    /// For defaults that grow with the number of CPUs
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    cpus: u16,
    /// With Debian's own defaults
    #[arg(long, requires = "kernel")]
    debian: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Settings that differ between two kernels or hosts.
#[derive(Serialize, JsonSchema)]
pub struct Difference {
    from: String,
    to: String,
    changes: Vec<Change>,
    /// `knob-drift`: the first host's configuration lines that have no effect on the second kernel.
    drift: Vec<Line>,
    /// Feature bits whose default is unknown for one of the two kernels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_compared: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Line {
    place: String,
    setting: String,
    value: String,
    why: String,
}

pub fn run(args: DiffArgs, color: Color) -> Result<ExitCode> {
    let difference = match args.snapshots.as_slice() {
        [a, b] => between_hosts(&snapshot::read(a)?, &snapshot::read(b)?),
        _ => between_kernels(&args)?,
    };
    let text = if args.json {
        serde_json::to_string_pretty(&difference)? + "\n"
    } else {
        page(&difference, output::look(color))
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

impl Difference {
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty() || !self.drift.is_empty()
    }
}

pub fn page(difference: &Difference, look: Look) -> String {
    let Difference { from, to, changes, drift, not_compared } = difference;
    let drift: Vec<DriftLine<'_>> =
        drift.iter().map(|Line { place, setting, value, why }| DriftLine { place, setting, value, why }).collect();
    difference_page((from, to), changes, &drift, not_compared, look)
}

fn between_kernels(args: &DiffArgs) -> Result<Difference> {
    let [from, to] = args.kernel.as_slice() else {
        bail!("expected two kernels: unstarve knobs diff 5.10 6.12");
    };
    let parse = |text: &String| Version::named(text).context("--kernel");
    let (a, b) = (parse(from)?, parse(to)?);
    let distribution = args.debian.then_some(Distribution::Debian);
    let changes = changes_between_kernels(a, b, distribution, usize::from(args.cpus));
    let not_compared = undecided_between_kernels(a, b).into_iter().map(str::to_owned).collect();
    Ok(Difference { from: format!("Linux {a}"), to: format!("Linux {b}"), changes, drift: Vec::new(), not_compared })
}

/// Settings that differ between two hosts.
pub fn between_hosts(a: &Snapshot, b: &Snapshot) -> Difference {
    let name = |snapshot: &Snapshot| clean(snapshot.kernel_release().unwrap_or("an unknown kernel")).into_owned();
    let target = Facts::of_host(b).version();
    let drift = target.map(|version| drifts(a, Some(version))).unwrap_or_default();
    Difference {
        from: name(a),
        to: name(b),
        changes: changes_between_snapshots(a, b),
        drift: drift.iter().map(line).collect(),
        not_compared: Vec::new(),
    }
}

fn line(drift: &Drift<'_>) -> Line {
    let why = match &drift.kind {
        DriftKind::Unknown => "no such setting".to_owned(),
        DriftKind::Gone(Some(next)) => format!("gone; the nearest thing is {}", next.name()),
        DriftKind::Gone(None) => "gone".to_owned(),
        DriftKind::Moved(path) => format!("it is at {path}"),
        DriftKind::Redefined(meaning) => format!("it means something else: {meaning}"),
        DriftKind::NotInForce(live) => format!("it is {}", clean(live)),
        DriftKind::Translated(to) => format!("TuneD writes the number to {to}"),
    };
    Line {
        place: clean(&drift.setting.place()).into_owned(),
        setting: clean(&drift.name).into_owned(),
        value: clean(&drift.setting.value).into_owned(),
        why,
    }
}
