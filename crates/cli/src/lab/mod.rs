//! `unstarve lab`: real kernels in small guests in virtual time.

mod bisect;
mod compare;
pub(crate) mod experiment;
mod kernel;
mod kernel_table;
mod list;
pub(crate) mod load;
mod predict;
mod proofs;
mod prove;
mod repeat;
mod replay;
mod run;
mod runs;
mod stop;
mod truth;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use unstarve_lab::qemu::{SUPERVISE_ROLE, supervise};

use crate::output::Color;

/// Boot real kernels in small guests, where a starvation repeats bit for bit
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(list::ListArgs),
    Kernel(kernel::KernelArgs),
    Qemu(kernel::QemuArgs),
    Run(run::RunArgs),
    Runs(runs::RunsArgs),
    Compare(compare::CompareArgs),
    Bisect(bisect::BisectArgs),
    Prove(prove::ProveArgs),
    Proofs(proofs::ProofsArgs),
    Table(kernel_table::TableArgs),
    Predict(predict::PredictArgs),
    Truth(truth::TruthArgs),
    Repeat(repeat::RepeatArgs),
    Replay(replay::ReplayArgs),
}

/// Runs as QEMU's supervisor if this process was started as one, and returns its exit code.
pub(crate) fn supervised() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SUPERVISE_ROLE {
        return None;
    }
    let argv: Vec<OsString> = arguments.collect();
    Some(supervise(&argv).map_or_else(
        |error| {
            note!("cannot supervise QEMU, without which several CPUs are not repeatable: {error}");
            ExitCode::FAILURE
        },
        ExitCode::from,
    ))
}

pub(crate) fn run(args: LabArgs, color: Color) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(args),
        Command::Kernel(args) => kernel::run(args),
        Command::Qemu(args) => kernel::run_qemu(args),
        Command::Run(args) => run::run(args, color),
        Command::Runs(args) => runs::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Predict(args) => predict::run(&args),
        Command::Prove(args) => prove::run(args),
        Command::Proofs(args) => proofs::run(args),
        Command::Table(args) => kernel_table::run(args),
        Command::Truth(args) => truth::run(args),
        Command::Repeat(args) => repeat::run(args),
        Command::Replay(args) => replay::run(args),
    }
}
