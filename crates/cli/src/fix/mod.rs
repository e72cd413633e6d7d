//! `unstarve fix`: carries out a remedy of `explain`, measures whether it helped, and undoes it.

mod apply;
mod choose;
mod commands;
mod ended;
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
use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::Form;
use unstarve_diagnose::{Explained, Options};
use unstarve_executor::authority::{Named, Thing};
use unstarve_executor::host::ThisHost;
use unstarve_executor::plan::{self, Answer};
use unstarve_executor::state;
use unstarve_model::EventSource;
use unstarve_term::fix::{self as page, Page};

use unstarve_sim::Extracted;

use crate::input::{Recording, no_recording};
use crate::output::{self, Color, Out};
use crate::predict::{self, NoSink};
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

Without --remedy, fix takes the least invasive remedy. If others than root could have written the recording, name the remedy (--remedy) and the threads that it may change (--target).
Old values are saved in a journal before anything is written.
--verify measures the victim's waits three times: without the change, with it, without it again. It keeps the change only if the waits were shorter with it. If this process is killed meanwhile, a second small process restores everything.
Exit code: 0 done (or the plan can be carried out), 1 it cannot be carried out, or did not help, 2 it failed.")]
pub struct LowArgs {
    /// A recording of any format. Its thread ids mean something only on the host that was recorded, until the next boot
    file: Option<PathBuf>,
    /// Which finding: its number in `explain`, or its id [default: the worst with a remedy that can be applied here]
    #[arg(long, value_name = "N|ID", value_parser = FINDING_IDS, hide_possible_values = true)]
    finding: Option<String>,
    /// Which remedy of that finding: its number or its id [default: the first that can be applied here]
    #[arg(long, value_name = "N|ID", value_parser = REMEDY_IDS, hide_possible_values = true)]
    remedy: Option<String>,
    /// Allow a change of this thread or process (number) or cgroup (directory), although others than root could have written
    /// the recording; may be repeated
    #[arg(long, value_name = "TID|DIR", requires = "remedy", conflicts_with_all = ["undo", "status", "check"])]
    target: Vec<Thing>,
    /// Make the changes
    #[arg(long, conflicts_with_all = ["form", "undo", "status", "check"])]
    apply: bool,
    /// Measure three times for this long, and keep the changes only if they helped: 10s, 1m
    #[arg(long, value_name = "TIME", requires = "apply", value_parser = parse_time)]
    verify: Option<Duration>,
    /// Print the remedy as shell commands (shell), or as files that make it permanent: systemd, sysctl, tmpfiles, cmdline, guard, tuned
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

/// The schema of everything that `fix` prints as JSON.
const FIX_SCHEMA: &str = "unstarve.fix/1";

/// What `fix --json` prints: one of these.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "each part is printed by itself; together they are only described")]
pub enum FixJson {
    /// A plan, and what came of it.
    Plan(Box<page::FixReport<'static>>),
    /// A recording without a finding.
    NoFinding(NoFinding),
    /// `--as shell`
    Shell(shell::ShellForm<'static>),
    /// `--as` another form.
    Lasting(lasting::LastingForm<'static>),
    /// `--status` and `--check`
    Status(status::InForce<'static>),
    /// `--undo`
    Undo(undo::UndoReport<'static>),
}

#[derive(Serialize, JsonSchema)]
pub struct NoFinding {
    schema: &'static str,
    finding: (),
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
    match (Duration::from_secs(1)..=verify::MAX_MEASUREMENT).contains(&time) {
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
    let (explained, extracted) = explain(&recording, source)?;
    if explained.report.findings.is_empty() {
        output::will_end_with(NOT_DONE);
        Out::new().text(&match args.json {
            true => serde_json::to_string_pretty(&NoFinding { schema: FIX_SCHEMA, finding: () })? + "\n",
            false => format!("{}: no finding, so there is nothing to fix\n", recording.name()),
        })?;
        return Ok(ExitCode::from(NOT_DONE));
    }
    let snapshot = explained.driven.snapshot.as_deref();
    let origin = origin::of(snapshot, args.this_boot, written);
    let keeps = |finding, remedy| match args.form {
        Some(Printed::Lasting(form)) => lasting::keeps(&explained, finding, remedy, form),
        _ => true,
    };
    let mut chosen = choose::choose(&explained.report, &ThisHost, &origin, args, &keeps)?;
    if let (None, Some(extracted)) = (&args.form, &extracted) {
        let report = &explained.report;
        chosen.predicted =
            predict::of_remedy(report, extracted, snapshot, chosen.finding(report), chosen.remedy(report));
    }
    if args.form.is_some() && !is_printable(args, &chosen, &origin) {
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
fn is_printable(args: &LowArgs, chosen: &Choice<'_>, origin: &origin::Origin) -> bool {
    let refusals = plan::refusals_to_print(&chosen.plan, &origin.authority(args.named()));
    for refusal in &refusals {
        output::remark(&format!("nothing printed: {refusal}"));
    }
    refusals.is_empty()
}

fn explain(recording: &Recording, source: Box<dyn EventSource>) -> Result<(Explained, Option<Extracted>)> {
    let mut progress = Progress::new();
    let tell = |events| progress.events(events);
    let (explained, extracted) =
        predict::explain_and_predict(source, &Options::default(), &mut NoSink, predict::IN_PLAN, tell)
            .with_context(|| recording.name())?;
    Ok((explained, extracted.ok()))
}

/// Prints the plan alone.
fn show(
    args: &LowArgs,
    recording: &Recording,
    explained: &Explained,
    chosen: &Choice<'_>,
    origin: &origin::Origin,
    color: Color,
) -> Result<ExitCode> {
    let can = plan::answer(&chosen.plan) == Answer::CanBeDone;
    output::will_end_with(if can { 0 } else { NOT_DONE });
    write(args, &page_of(args, recording, explained, chosen, origin), color)?;
    Ok(if can { ExitCode::SUCCESS } else { ExitCode::from(NOT_DONE) })
}

fn page_of<'a>(
    args: &LowArgs,
    recording: &Recording,
    explained: &'a Explained,
    chosen: &'a Choice<'a>,
    origin: &origin::Origin,
) -> Page<'a> {
    let whose = |thread: &unstarve_change::Thread| lasting::whose(explained, chosen.finding, thread);
    let changes = &chosen.remedy(&explained.report).changes;
    let lasting = Form::ALL.into_iter().filter(|form| unstarve_change::durable(changes, *form, &whose).is_ok());
    Page {
        file: recording.name(),
        report: &explained.report,
        finding: chosen.finding,
        remedy: chosen.remedy,
        plan: &chosen.plan,
        skipped: &chosen.skipped,
        strange: origin.why.clone(),
        written: origin.written.why.as_ref().map(|why| (why.clone(), origin.written.author)),
        lasting: lasting.map(Form::word).collect(),
        came: None,
        commands: commands::of(args, chosen),
        ended: ended::of(args, explained, chosen, origin),
        predicted: chosen.predicted.as_ref(),
    }
}

fn write(args: &LowArgs, page: &Page<'_>, color: Color) -> Result<()> {
    let text =
        if args.json { output::sorted_json(&page::report(page))? } else { page::text(page, output::look(color)) };
    Out::new().text(&text)
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;
    use serde_json::Value as Json;
    use unstarve_change::{Change, Place, TaskKey, Value};
    use unstarve_diagnose::report::{Outlook, Predicted, PredictedMetric};
    use unstarve_executor::act::Undone;
    use unstarve_executor::journal::Step;
    use unstarve_executor::manual_changes::Batch;
    use unstarve_executor::plan::Planned;
    use unstarve_guard::verify::{Fared, Figures, Waits};
    use unstarve_model::Tid;
    use unstarve_term::fix::{Came, Commands, Ended};
    use unstarve_testing::json_schema::JsonSchema;

    use super::*;

    /// What is in force, its undoing and a trial need changes of this host; the other outputs are compared in `tests/schema.rs`.
    #[test]
    fn what_came_of_changes_is_what_the_schema_says() {
        let schema = SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<FixJson>();
        let schema = JsonSchema::of(schema.to_value());
        let is_described = |text: &str| {
            let value: Json = serde_json::from_str(text).expect("JSON");
            assert_eq!(schema.takes(&value), Ok(()), "{text}");
        };
        let key = TaskKey { tid: Tid(7), start: 9 };
        let step = Step::new(Place::Task(key), "db", "fix: a for b", Value::Nice(0), Value::Nice(-5));
        let batch = Batch { rule: "fix: a for b".to_owned(), steps: vec![step.clone()] };
        let failed = vec![(step.clone(), std::io::ErrorKind::PermissionDenied.into())];
        let undone = Undone { restored: 1, failed, ..Undone::default() };
        let (covered, theirs) = ([(step.clone(), "knobs set".to_owned())], [(step.clone(), Value::Nice(3))]);
        is_described(&undo::json(std::slice::from_ref(&batch), &undone, &covered, &theirs).expect("JSON"));
        is_described(&status::json(&[(&batch, vec![status::State::Ended])], 1).expect("JSON"));

        let report = choose::tests::report(&[choose::tests::finding("b", &[("a", &[])])]);
        let change = Change::of(
            unstarve_change::Target::Thread(unstarve_change::Thread::known_by(Tid(7), "db")),
            Value::Nice(-5),
        );
        let users = [(Tid(7), 1000)].into();
        let plan =
            [Planned { change: &change, steps: vec![step], already: 0, obstacle: None, gone: Some(Tid(8)), users }];
        let waits = Waits { count: 3, p50_ns: 1, p99_ns: 2, max_ns: 3 };
        let fared = Fared { ran_ns: 1, waited_ns: 2, waits: Some(waits), ..Fared::default() };
        let tried = Came::Tried {
            helped: false,
            is_known: true,
            reason: "r".to_owned(),
            measured: Box::new([fared.clone(), fared.clone(), fared]),
            figures: Some(Figures { per_second_ns: Some([1, 2]), average_ns: None, waited_ns: [1, 2] }),
        };
        let predicted = Predicted {
            verdict: Outlook::Helps,
            metrics: vec![PredictedMetric {
                metric: "longest".to_owned(),
                name: "longest wait".to_owned(),
                unit: "ns".to_owned(),
                recorded: 9.0,
                predicted: 3.0,
                low: 2.0,
                high: 4.0,
                came: None,
            }],
            others: Vec::new(),
            newly_starved: Vec::new(),
            refused: Vec::new(),
        };
        for came in [tried, Came::Applied, Came::NothingDone] {
            let page = Page {
                file: "x.dat".to_owned(),
                report: &report,
                finding: 0,
                remedy: 0,
                plan: &plan,
                skipped: &[],
                strange: None,
                written: Some(("w".to_owned(), unstarve_executor::authority::Author::User(1000))),
                lasting: vec!["guard"],
                came: Some(came),
                commands: Commands { apply: "a".to_owned(), undo: "sudo u".to_owned() },
                ended: Some(Ended { names: vec!["db".to_owned()], next_time: Some("unstarve fix".to_owned()) }),
                predicted: Some(&predicted),
            };
            let is_tried = matches!(page.came, Some(Came::Tried { .. }));
            let json = output::sorted_json(&page::report(&page)).expect("JSON");
            is_described(&json);
            assert_eq!(json.contains("\"place\": \"within\""), is_tried, "{json}");
        }
    }
}
