//! `unstarve lab run`: boots one guest, prints its metrics and explains its trace.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use unstarve_diagnose::report::Scope;
use unstarve_diagnose::{Options, explain};
use unstarve_files::ThisProgram;
use unstarve_lab::catalogue;
use unstarve_lab::console::Stage;
use unstarve_lab::metric::Metric;
use unstarve_lab::qemu::{Clock, Limits};
use unstarve_lab::run::{Outcome, Request, Runner};
use unstarve_lab::runner::{QemuRunner, Reuse};
use unstarve_lab::store::Cache;
use unstarve_term::page_of;

use super::experiment::{Init, seconds};
use crate::input::Recording;
use crate::output::{self, Color, Out};

/// Boot a kernel with a scenario, and print its metrics and the explanation of its trace
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab run kubepods --kernel 6.1
  unstarve lab run kubepods --kernel 6.1 --remedy raise-worker
  unstarve lab run ./mine.toml --kernel 6.12 --fault none --set sched_feature.NEXT_BUDDY=on")]
pub(crate) struct RunArgs {
    /// A scenario that comes with unstarve, or a TOML file
    scenario: String,
    /// The kernel, as `unstarve lab kernel list` calls it
    #[arg(long)]
    kernel: String,
    /// Set a knob: sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME
    #[arg(long, value_name = "KNOB=VALUE", value_parser = knob)]
    set: Vec<(String, String)>,
    /// With the scenario's fault, or as its healthy twin
    #[arg(long, value_enum, default_value_t)]
    fault: Fault,
    /// Apply one of the scenario's remedies
    #[arg(long, value_name = "ID")]
    remedy: Option<String>,
    /// Virtual seconds that are measured, instead of the scenario's
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Shifts the loads' phases and seeds their random numbers; the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Record block I/O too, as `unstarve record --io` does
    #[arg(long)]
    io: bool,
    /// Record what predictions would have to guess, as `unstarve record --predictable` does
    #[arg(long)]
    predictable: bool,
    /// Keep the result here instead of in the cache; what is there is replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Let the host's clock drive the guest (KVM): fast, and no two runs are the same
    #[arg(long)]
    kvm: bool,
    #[command(flatten)]
    init: Init,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
    /// Give up when the guest's console was silent for this many seconds; it is silent while the loads run
    #[arg(long, value_name = "SECONDS", default_value_t = 200)]
    stall: u64,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Fault {
    /// The scenario as published
    #[default]
    Default,
    /// Its healthy twin
    None,
}

pub(super) fn knob(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected KNOB=VALUE")?;
    unstarve_lab::scenario::check_knob_name(name)?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: RunArgs, color: Color) -> anyhow::Result<ExitCode> {
    let mut scenario = catalogue::find(&args.scenario)?;
    scenario.seconds = args.seconds.unwrap_or(scenario.seconds);
    let request = Request {
        scenario,
        kernel: args.kernel.clone(),
        fault: args.fault == Fault::Default,
        remedy: args.remedy.clone(),
        trial: None,
        knobs: args.set.clone(),
        seed: args.seed,
        io: args.io,
        predictable: args.predictable,
    };
    let outcome = runner(&args)?.run(&request)?;
    let trace = Recording::new(outcome.directory.join("trace.dat"))?;
    let report = explain(trace.open()?, &Options::default(), |_| {}).with_context(|| trace.name())?;
    let text = if args.json {
        let both = serde_json::json!({ "outcome": outcome, "report": report });
        serde_json::to_string_pretty(&both)? + "\n"
    } else {
        let file = trace.file().and_then(|file| unstarve_change::quoted_file(&file.display().to_string()));
        let page = page_of(&report, Scope::Whole, file.as_deref(), output::look(color));
        format!("{}\n{page}", table(&outcome))
    };
    Out::new().text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn runner(args: &RunArgs) -> anyhow::Result<QemuRunner> {
    Ok(QemuRunner {
        cache: Cache::of_user()?,
        program: args.init.program()?,
        supervisor: ThisProgram::find().context("this program's own file")?,
        out: args.out.clone(),
        clock: if args.kvm { Clock::Host } else { Clock::Virtual },
        limits: Limits { wall: Duration::from_secs(args.limit), stall: Duration::from_secs(args.stall) },
        reuse: Reuse::Never,
        interrupted: super::stop::flag_on_signals()?,
        progress: Box::new(print_progress),
    })
}

fn print_progress(stage: Stage) {
    note!("unstarve: {stage}");
}

/// The request and its metrics, the scenario's own first.
fn table(outcome: &Outcome) -> String {
    let request = &outcome.request;
    let scenario = &request.scenario;
    let faulty = if request.fault { "" } else { ", without the fault" };
    let cured = request.remedy.as_ref().map(|id| format!(", with {id}")).unwrap_or_default();
    let mut text = format!("{} on {}{faulty}{cured}, seed {}\n", scenario.name, outcome.kernel_release, request.seed);
    text.push_str(&format!("{}\n\n", scenario.title));
    let first = &scenario.expect.metrics;
    let rank = |metric: &Metric| first.iter().position(|name| *name == metric.name).unwrap_or(first.len());
    let mut metrics: Vec<&Metric> = outcome.metrics.iter().collect();
    metrics.sort_by_key(|metric| rank(metric));
    for metric in metrics {
        text.push_str(&format!("  {:<28} {:>14} {}\n", metric.name, number(metric.value), metric.unit));
    }
    let trace = outcome.directory.join("trace.dat");
    text.push_str(&format!("\n{}\nsha256 {}, {:.1} s\n", trace.display(), outcome.trace_digest, outcome.wall_seconds));
    text
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
