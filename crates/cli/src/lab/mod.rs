//! `unstarve lab`: real kernels in small guests in virtual time.

mod bisect;
mod compare;
mod experiment;
mod kernel;
pub(crate) mod load;
mod prove;
mod run;
mod stop;
mod truth;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::output::Color;

/// Boot real kernels in small guests, where a starvation comes back the same to the bit
#[derive(Args, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Kernel(kernel::KernelArgs),
    Qemu(kernel::QemuArgs),
    Run(run::RunArgs),
    Compare(compare::CompareArgs),
    Bisect(bisect::BisectArgs),
    Prove(prove::ProveArgs),
    Truth(truth::TruthArgs),
}

pub(crate) fn run(args: LabArgs, color: Color) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Kernel(args) => kernel::run(args),
        Command::Qemu(args) => kernel::run_qemu(args),
        Command::Run(args) => run::run(args, color),
        Command::Compare(args) => compare::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Prove(args) => prove::run(args),
        Command::Truth(args) => truth::run(args),
    }
}
