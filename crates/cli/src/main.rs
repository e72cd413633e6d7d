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

mod check;
mod compare;
mod doctor;
mod explain;
mod export;
mod external_program;
mod fail_on;
mod fix;
mod fleet;
mod generate;
mod guard;
mod help;
mod input;
mod knobs;
mod lab;
#[cfg(all(feature = "static", target_env = "gnu"))]
mod names;
mod output;
mod progress;
mod record;
mod report;
mod schema;
mod selection;
mod snapshot;
mod sql;
mod tables;
mod target;
mod timeline;
mod top;
mod version;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Finds the threads that the Linux scheduler starves, above all the kernel's own workers. Reports who starved them, by
/// which rule and for how many nanoseconds, and what to do.
#[derive(Parser)]
#[command(name = "unstarve", version = version::text(), disable_help_subcommand = true, max_term_width = 100, after_help = EXAMPLES)]
struct LowArgs {
    #[command(subcommand)]
    command: Command,
    /// Colours: auto is for terminals, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    color: output::Color,
}

const EXAMPLES: &str = "\
Examples:
  sudo unstarve record --for 10s    write unstarve.dat, with the host's settings
  unstarve explain trace.dat        who is starved, by whom, and what to do
  sudo unstarve fix trace.dat --remedy 1 --apply --verify 10s
                                                      apply a remedy, and keep it only if it helped
  unstarve report trace.dat         the same and more, as one HTML file
  unstarve timeline trace.dat       every wait, and who had the CPU meanwhile
  unstarve compare old.dat new.dat  who waits more, and by which rule
  sudo unstarve top                 who is starving whom now
  sudo unstarve watch               always there: metrics, and a trace of each episode
  unstarve export trace.dat -o trace.pftrace    for Perfetto's UI; also Firefox Profiler, flame graphs, Parquet
  sudo unstarve guard plan --policy p.toml    which tasks would change, from what to what
  sudo unstarve doctor              what this host and your rights allow, and how to get what is missing
  sudo unstarve check               which settings of this host starve threads, and the fix
  unstarve sql 'select * from top_culprits' tables/    questions about many hosts (a separate program)
  unstarve help weight-starvation   what a finding, rule or remedy means
  unstarve lab run kubepods --kernel 6.1    a published case, on a real kernel in a small guest

Exit code: see the help of each command; 141 if the output is not read to its end and the code was not known before.";

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
    Check(check::LowArgs),
    Snapshot(snapshot::SnapshotArgs),
    Knobs(knobs::KnobsArgs),
    Sql(sql::SqlArgs),
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
    let low = LowArgs::parse();
    let result = match low.command {
        Command::Record(args) => record::run(args),
        Command::Explain(args) => args.raise(low.color).and_then(explain::run),
        Command::Fix(args) => fix::run(&args, low.color),
        Command::Report(args) => args.raise().and_then(report::run),
        Command::Compare(args) => args.raise(low.color).and_then(compare::run),
        Command::Export(args) => args.raise().and_then(export::run),
        Command::Watch(args) => watch::run(&args, low.color),
        Command::Guard(args) => guard::run(args),
        Command::Check(args) => args.raise(low.color).and_then(check::run),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Knobs(args) => knobs::run(args, low.color),
        Command::Sql(args) => sql::run(&args),
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
