//! `unstarve cluster`: runs the separate program `unstarve-cluster`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::external_program::{Companion, become_it, is_there};
use crate::output::Out;
use crate::sql::asks_for_help;

pub const CLUSTER: Companion = Companion {
    name: "unstarve-cluster",
    advice: "it is in no package; build it from the source with `make build-cluster`, or ask one machine: `unstarve sql` without --cluster",
};

/// Let several machines answer `unstarve sql --cluster`: a scheduler and executors (a separate program: `make build-cluster`)
///
/// Runs unstarve-cluster, which is beside this program or in the PATH; `unstarve cluster --help` shows its help.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct ClusterArgs {
    /// What unstarve-cluster is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub fn run(args: &ClusterArgs) -> Result<ExitCode> {
    if asks_for_help(&args.arguments) && !is_there(&CLUSTER) {
        return without_engine();
    }
    become_it(&CLUSTER, &args.arguments)
}

fn without_engine() -> Result<ExitCode> {
    Out::new().text(&format!(
        "Lets several machines answer `unstarve sql --cluster`: one runs a scheduler, each runs an executor.\n\n\
         Usage: unstarve cluster scheduler [OPTIONS]\n       unstarve cluster executor [OPTIONS]\n\n\
         It is a program of its own, {}, which is not installed here: {}\n\n\
         Options and examples: docs/cluster.md, and `unstarve cluster --help` once it is there.\n",
        CLUSTER.name, CLUSTER.advice
    ))?;
    Ok(ExitCode::SUCCESS)
}
