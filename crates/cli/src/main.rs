//! `unstarve`: finds the threads that a Linux scheduler starves and says who starved them, by which rule.
//!
//! Arguments as typed (`LowArgs`) become what a command works with (`HiArgs`) before any work starts; each command is a
//! file. Exit codes: 0 nothing wrong, 1 findings at or above `--fail-on`, 2 could not do it.

#![warn(clippy::print_stdout, clippy::print_stderr)]

/// Prints a line to standard output. The standard library's macro panics if the reader is gone (`| true`) or the disk
/// is full.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}
/// Prints a line to standard error.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::print_error(format_args!("{}\n", format_args!($($text)*))) };
}

mod advice;
mod check;
mod compare;
mod doctor;
mod evidence;
mod explain;
mod export;
mod fail_on;
mod fix;
mod fleet;
mod generate;
mod grammar;
mod guard;
mod help;
mod input;
mod knobs;
mod lab;
mod mcp;
#[cfg(all(feature = "static", target_env = "gnu"))]
mod names;
mod output;
mod pager;
mod predict;
mod progress;
mod record;
mod report;
mod reproduce;
mod schema;
mod selection;
mod snapshot;
mod sql;
mod suggested;
mod tables;
mod target;
mod timeline;
mod top;
mod version;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Finds the threads that the Linux scheduler starves, above all the kernel's own workers. Reports who starved them, by
/// which rule and for how many nanoseconds, and what to do.
#[derive(Parser)]
#[command(name = "unstarve", version = version::text(), disable_help_subcommand = true, max_term_width = 100, override_help = grammar::START_PAGE)]
struct LowArgs {
    #[command(subcommand)]
    command: Command,
    /// Colours: auto is for terminals, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: output::Color,
}

#[derive(Subcommand)]
enum Command {
    Record(record::RecordArgs),
    Explain(explain::LowArgs),
    Fix(fix::LowArgs),
    Report(report::LowArgs),
    Timeline(timeline::LowArgs),
    Compare(compare::LowArgs),
    Export(export::LowArgs),
    Top(top::LowArgs),
    Watch(watch::WatchArgs),
    Guard(guard::GuardArgs),
    Predict(predict::LowArgs),
    Reproduce(reproduce::LowArgs),
    Check(check::LowArgs),
    Snapshot(snapshot::SnapshotArgs),
    Knobs(knobs::KnobsArgs),
    Sql(sql::SqlArgs),
    Mcp(mcp::McpArgs),
    Fleet(fleet::FleetArgs),
    Doctor(doctor::DoctorArgs),
    Schema(schema::SchemaArgs),
    Lab(lab::LabArgs),
    Help(help::HelpArgs),
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
    #[command(hide = true)]
    LabLoad(lab::load::LoadArgs),
}

/// The arguments as the commands take them; ends the program where they cannot be understood.
fn parsed(typed: Vec<OsString>) -> LowArgs {
    let mut program = grammar::with_short_help(LowArgs::command());
    let commands: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let typed = grammar::spelled(typed, &commands);
    let words = std::iter::once(OsString::from("unstarve")).chain(typed.iter().cloned());
    let matches = program.try_get_matches_from_mut(words).and_then(|matches| LowArgs::from_arg_matches(&matches));
    matches.unwrap_or_else(|error| {
        advice::exit_with(advice::advised(error.format(&mut program), &typed, &commands), &typed)
    })
}

/// The exit code of a command that failed; 1 is for findings.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    unstarve_files::ThisProgram::take_name();
    if let Some(role) = unstarve_lab::guest::Role::of_this_process() {
        return ExitCode::from(role.play());
    }
    if let Some(code) = lab::supervised() {
        return code;
    }
    #[cfg(all(feature = "static", target_env = "gnu"))]
    names::only_by_what_is_built_in();
    let typed: Vec<OsString> = std::env::args_os().skip(1).collect();
    if typed.is_empty() {
        output::print(format_args!("{}", grammar::START_PAGE));
        return ExitCode::SUCCESS;
    }
    let low = parsed(typed);
    let result = match low.command {
        Command::Record(args) => record::run(args),
        Command::Explain(args) => args.raise(low.color).and_then(explain::run),
        Command::Fix(args) => fix::run(&args, low.color),
        Command::Report(args) => args.raise().and_then(report::run),
        Command::Compare(args) => args.raise(low.color).and_then(compare::run),
        Command::Export(args) => args.raise().and_then(export::run),
        Command::Watch(args) => watch::run(&args, low.color),
        Command::Guard(args) => guard::run(args),
        Command::Predict(args) => predict::run(args, low.color),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Check(args) => args.raise(low.color).and_then(check::run),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Knobs(args) => knobs::run(args, low.color),
        Command::Sql(args) => sql::run(&args),
        Command::Mcp(args) => mcp::run(args),
        Command::Fleet(args) => fleet::run(&args),
        Command::Doctor(args) => doctor::run(&args, low.color),
        Command::Schema(args) => schema::run(&args),
        Command::Lab(args) => lab::run(args, low.color),
        Command::Generate(args) => generate::run::<LowArgs>(args),
        Command::Help(args) => help::run(&args, LowArgs::command(), low.color),
        Command::LabLoad(args) => lab::load::run(args),
        Command::Top(args) => args.raise().and_then(top::run),
        Command::Timeline(args) => args.raise().and_then(timeline::run),
    };
    result.unwrap_or_else(|error| {
        output::complain(&error);
        ExitCode::from(FAILED)
    })
}
