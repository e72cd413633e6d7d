//! `unstarve lab`: real kernels in small guests in virtual time.

mod kernel;
mod run;
mod stop;

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
}

pub(crate) fn run(args: LabArgs, color: Color) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Kernel(args) => kernel::run(args),
        Command::Qemu(args) => kernel::run_qemu(args),
        Command::Run(args) => run::run(args, color),
    }
}
