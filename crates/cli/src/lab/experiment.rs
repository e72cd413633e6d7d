//! Options, runner, progress and output shared by the commands that run many guests.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use unstarve_diagnose::report::Report;
use unstarve_files::ThisProgram;
use unstarve_lab::bench::{NextRun, describe};
use unstarve_lab::compare::Plan;
use unstarve_lab::qemu::{Clock, Limits};
use unstarve_lab::run::Outcome;
use unstarve_lab::runner::{QemuRunner, Reuse};
use unstarve_lab::store::Cache;

/// How many runs, and what to print.
#[derive(Args, Debug)]
pub(super) struct Experiment {
    /// Run the seeds 1 to this on every side
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// The smallest difference that matters, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 3.0, value_parser = percent)]
    matters: f64,
    #[command(flatten)]
    pub(super) guests: Guests,
}

/// How guests are run.
#[derive(Args, Debug)]
pub(super) struct Guests {
    /// Boot every guest, even if an earlier run of the very same is in the cache
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    init: Init,
    /// Give each guest up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    limit: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The program that becomes the guest's init.
#[derive(Args, Debug)]
pub(super) struct Init {
    /// Use another program, unstarve-guest or another unstarve, as the guest's init and recorder. With the one that made earlier results, the cache has them:
    /// they are explained again without a boot
    #[arg(long = "init", value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

impl Init {
    pub(super) fn program(&self) -> anyhow::Result<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => own_file(),
        }
    }
}

fn own_file() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

impl Experiment {
    pub(super) fn plan(&self) -> Plan {
        Plan { seeds: self.seeds, matters: self.matters / 100.0 }
    }
}

/// Guests as they are run without further options.
pub(crate) fn usual_runner() -> anyhow::Result<QemuRunner> {
    Ok(QemuRunner {
        cache: Cache::of_user()?,
        program: own_file()?,
        supervisor: ThisProgram::find().context("this program's own file")?,
        out: None,
        clock: Clock::Virtual,
        limits: Limits::default(),
        // In virtual time the guest would give the same result again.
        reuse: Reuse::Same,
        interrupted: super::stop::flag_on_signals()?,
        progress: Box::new(|_| {}),
    })
}

impl Guests {
    /// Whether every guest is booted.
    pub(super) fn fresh(&self) -> bool {
        self.fresh
    }

    /// The file's name of another init than this program.
    pub(super) fn init_name(&self) -> Option<String> {
        Some(self.init.program.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    pub(super) fn runner(&self) -> anyhow::Result<QemuRunner> {
        let usual = usual_runner()?;
        Ok(QemuRunner {
            program: self.init.program()?,
            limits: Limits { wall: Duration::from_secs(self.limit), ..Limits::default() },
            reuse: if self.fresh { Reuse::Never } else { Reuse::Same },
            ..usual
        })
    }

    /// A runner that boots every guest and uses no earlier result.
    pub(super) fn fresh_runner(&self) -> anyhow::Result<QemuRunner> {
        Ok(QemuRunner { reuse: Reuse::Never, ..self.runner()? })
    }

    /// Prints the result as text or JSON.
    pub(super) fn show<T: Serialize + std::fmt::Display>(&self, result: &T) -> anyhow::Result<ExitCode> {
        if self.json {
            say!("{}", serde_json::to_string_pretty(result)?);
        } else {
            crate::output::print(format_args!("{result}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A line on standard error for each guest.
pub(super) fn print_progress(upcoming: NextRun<'_>) {
    let of = upcoming.of.map(|of| format!(" of {of}")).unwrap_or_default();
    note!("unstarve: run {}{of}: {}", upcoming.number, describe(upcoming.request));
}

/// The report of `unstarve explain` on an outcome's trace.
pub(super) fn explain(outcome: &Outcome) -> anyhow::Result<Report> {
    let path = outcome.directory.join("trace.dat");
    let source = unstarve_readers::open(&path).with_context(|| path.display().to_string())?;
    Ok(unstarve_diagnose::explain(source, &unstarve_diagnose::Options::default(), |_| {})?)
}

fn percent(text: &str) -> Result<f64, String> {
    let fits = |percent: &f64| (0.0..=100.0).contains(percent);
    text.parse().ok().filter(fits).ok_or_else(|| "expected 0 to 100".to_owned())
}

/// Replaces the scenario's length.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let fits = |seconds: &f64| *seconds > 0.0 && *seconds <= 60.0;
    text.parse().ok().filter(fits).ok_or_else(|| "expected more than 0, at most 60".to_owned())
}
