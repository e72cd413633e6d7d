//! `unstarve fix`: carries out a remedy of `explain`, measures whether it helped, and undoes it.

mod apply;
mod choose;
mod commands;
mod lasting;
mod origin;
mod shell;
mod status;
mod undo;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use unstarve_change::Form;
use unstarve_diagnose::{Explained, Options, explain_beside};
use unstarve_executor::authority::{Named, Thing};
use unstarve_executor::host::ThisHost;
use unstarve_executor::plan::{self, Answer, Planned};
use unstarve_executor::state;
use unstarve_model::EventSource;
use unstarve_term::fix::{self as page, Page};

use crate::input::{Recording, no_recording};
use crate::output::{self, Color, Out};
use crate::progress::Progress;
use crate::suggested::{FINDING_IDS, REMEDY_IDS};
use choose::Choice;

/// Carry out a remedy of `unstarve explain`: show the plan, apply it, measure whether it helped, undo it
#[derive(Args)]
#[command(override_usage = "unstarve fix FILE [--finding N|ID] [--remedy N|ID] [--apply [--verify TIME] | --as FORM]
       unstarve fix --undo [--all]
       unstarve fix --status | --check")]
#[command(after_help = "Examples:
  unstarve fix unstarve.dat                              the plan: what would change, from what to what
  sudo unstarve fix unstarve.dat --remedy 1 --apply --verify 10s
                                                         try the first remedy; keep it only if it helped
  sudo unstarve fix unstarve.dat --remedy 2 --apply      apply the second remedy of the worst finding
  unstarve fix unstarve.dat --remedy 2 --as systemd      print the drop-in that makes it permanent
  unstarve fix unstarve.dat --remedy 2 --as shell        print commands for a host without unstarve
  sudo unstarve fix --undo                               undo the last fix

Without --remedy the least invasive one is taken, out of a recording that nobody but root could have written. Others have to be
named, and --target names what they may change.
Old values are saved in a journal before anything is written. --verify measures the victim's waits three times (without the
change, with it, without it again) and keeps the change only if they were shorter with it; a second small process restores
everything if this one is killed meanwhile.
Exit code: 0 done (or the plan can be carried out), 1 it cannot be carried out, or did not help, 2 it failed.")]
pub struct LowArgs {
    /// A recording of any format; thread ids count only if it was made on this host since it was booted
    file: Option<PathBuf>,
    /// Which finding: its number in `explain`, or its id [default: the worst with a remedy that can be applied here]
    #[arg(long, value_name = "N|ID", value_parser = FINDING_IDS, hide_possible_values = true)]
    finding: Option<String>,
    /// Which of its remedies: its number (without --finding among those of the finding that is chosen without it), or its id
    /// [default: the first that can be applied here]
    #[arg(long, value_name = "N|ID", value_parser = REMEDY_IDS, hide_possible_values = true)]
    remedy: Option<String>,
    /// A thread or process (by number) or a cgroup (by directory) that may be changed although others than root could have
    /// written the recording; may be repeated
    #[arg(long, value_name = "TID|DIR", requires = "remedy", conflicts_with_all = ["undo", "status", "check"])]
    target: Vec<Thing>,
    /// Make the changes
    #[arg(long, conflicts_with_all = ["form", "undo", "status", "check"])]
    apply: bool,
    /// Measure three times for this long, and keep the changes only if they helped: 10s, 1m
    #[arg(long, value_name = "TIME", requires = "apply", value_parser = parse_time)]
    verify: Option<Duration>,
    /// Print it as shell commands (shell), or as files that make it permanent: systemd, sysctl, tmpfiles, cmdline, guard, tuned
    #[arg(long = "as", value_name = "FORM", conflicts_with_all = ["undo", "status", "check"])]
    form: Option<Printed>,
    /// Assert that the recording was made on this host since it was booted
    #[arg(long)]
    this_boot: bool,
    /// Undo the last fix
    #[arg(long, conflicts_with_all = ["file", "finding", "remedy", "this_boot", "status", "check"])]
    undo: bool,
    /// With --undo: undo all fixes
    #[arg(long, requires = "undo")]
    all: bool,
    /// List the fixes that are in force
    #[arg(long, conflicts_with_all = ["file", "finding", "remedy", "this_boot", "check"])]
    status: bool,
    /// Check that all fixes are still in force, value by value; exit code 1 if one is not
    #[arg(long, conflicts_with_all = ["file", "finding", "remedy", "this_boot"])]
    check: bool,
    /// As JSON (schema unstarve.fix/1)
    #[arg(long)]
    json: bool,
    /// Where the journal is kept
    #[arg(long, value_name = "DIR", default_value = state::DEFAULT_DIRECTORY)]
    state: PathBuf,
}

impl LowArgs {
    /// Targets named on the command line beside the recording.
    fn named(&self) -> Named {
        match self.remedy {
            None => Named::Nothing,
            Some(_) => Named::Remedy(self.target.clone()),
        }
    }
}

/// The forms of `--as`.
#[derive(Clone, Copy)]
enum Printed {
    /// Shell commands; their effect ends at the next boot.
    Shell,
    /// Configuration files that outlast a reboot.
    Lasting(Form),
}

impl std::str::FromStr for Printed {
    type Err = String;

    fn from_str(text: &str) -> Result<Printed, String> {
        match text {
            "shell" => Ok(Printed::Shell),
            text => text.parse().map(Printed::Lasting).map_err(|error: String| format!("{error}, or shell")),
        }
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = crate::record::parse_time(text)?;
    match (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("it must be between 1s and 1h".to_owned()),
    }
}

/// The exit code if the request was valid but could not be carried out, or did not help.
const NOT_DONE: u8 = 1;

pub fn run(args: &LowArgs, color: Color) -> Result<ExitCode> {
    if args.undo {
        return undo::run(args).map_err(output::hint_at_root);
    }
    if args.status || args.check {
        return status::run(args).map_err(output::hint_at_root);
    }
    let Some(file) = &args.file else { return Err(no_recording("fix")) };
    let recording = Recording::new(file.clone())?;
    let (source, written) = recording.open_with_author()?;
    let explained = explain(&recording, source)?;
    if explained.report.findings.is_empty() {
        output::will_end_with(NOT_DONE);
        Out::new().text(&match args.json {
            true => "{\n  \"schema\": \"unstarve.fix/1\",\n  \"finding\": null\n}\n".to_owned(),
            false => format!("{}: no finding, so there is nothing to fix\n", recording.name()),
        })?;
        return Ok(ExitCode::from(NOT_DONE));
    }
    let snapshot = explained.driven.snapshot.as_deref();
    let origin = origin::of(snapshot, args.this_boot, written);
    let chosen = choose::choose(&explained.report, &ThisHost, &origin, args)?;
    if args.form.is_some() && !is_printable(args, &explained, &chosen, &origin) {
        return Ok(ExitCode::from(NOT_DONE));
    }
    match args.form {
        Some(Printed::Shell) => shell::run(args, chosen.remedy(&explained.report)),
        Some(Printed::Lasting(form)) => lasting::run(args, &explained, &chosen, form),
        None if args.apply => apply::run(args, &recording, &explained, &chosen, &origin, color),
        None => show(args, &recording, &explained, &chosen, &origin, color),
    }
}

/// Whether commands or files for these changes may be printed, here or for another host; the error says why not.
fn is_printable(args: &LowArgs, explained: &Explained, chosen: &Choice, origin: &origin::Origin) -> bool {
    let changes = &chosen.remedy(&explained.report).changes;
    let refusals = plan::refusals_to_print(&ThisHost, changes, &origin.authority(args.named()));
    for refusal in &refusals {
        output::remark(&format!("nothing printed: {refusal}"));
    }
    refusals.is_empty()
}

fn explain(recording: &Recording, source: Box<dyn EventSource>) -> Result<Explained> {
    let mut progress = Progress::new();
    explain_beside(source, &Options::default(), &mut NoSink, |events| progress.events(events))
        .with_context(|| recording.name())
}

/// Ignores events: only the diagnosis is needed.
struct NoSink;

impl unstarve_timeline::Sink for NoSink {}

/// Prints the plan alone.
fn show(
    args: &LowArgs,
    recording: &Recording,
    explained: &Explained,
    chosen: &Choice,
    origin: &origin::Origin,
    color: Color,
) -> Result<ExitCode> {
    let plan = planned(args, explained, chosen, origin);
    let can = plan::answer(&plan) == Answer::CanBeDone;
    output::will_end_with(if can { 0 } else { NOT_DONE });
    write(args, &page_of(args, recording, explained, chosen, &plan, origin), color)?;
    Ok(if can { ExitCode::SUCCESS } else { ExitCode::from(NOT_DONE) })
}

fn planned<'a>(args: &LowArgs, explained: &'a Explained, chosen: &Choice, origin: &origin::Origin) -> Vec<Planned<'a>> {
    let (changes, rule) = (&chosen.remedy(&explained.report).changes, chosen.rule(&explained.report));
    plan::plan(&ThisHost, changes, &rule, &origin.authority(args.named()))
}

fn page_of<'a>(
    args: &LowArgs,
    recording: &Recording,
    explained: &'a Explained,
    chosen: &'a Choice,
    plan: &'a [Planned<'a>],
    origin: &origin::Origin,
) -> Page<'a> {
    let whose = |thread: &unstarve_change::Thread| lasting::whose(explained, chosen, thread);
    let changes = &chosen.remedy(&explained.report).changes;
    let lasting = Form::ALL.into_iter().filter(|form| unstarve_change::durable(changes, *form, &whose).is_ok());
    Page {
        file: recording.name(),
        report: &explained.report,
        finding: chosen.finding,
        remedy: chosen.remedy,
        plan,
        skipped: &chosen.skipped,
        strange: origin.why.clone(),
        written: origin.written.why.as_ref().map(|why| (why.clone(), origin.written.author)),
        lasting: lasting.map(Form::word).collect(),
        came: None,
        commands: commands::of(args, chosen),
    }
}

fn write(args: &LowArgs, page: &Page<'_>, color: Color) -> Result<()> {
    let text = if args.json { page::json(page)? } else { page::text(page, output::look(color)) };
    Out::new().text(&text)
}
