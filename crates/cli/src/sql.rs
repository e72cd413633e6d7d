//! `unstarve sql`: a program of its own, `unstarve-sql`; on several machines `unstarve-cluster`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::beside::{Program, become_it};
use crate::cluster;

const SQL: Program = Program {
    name: "unstarve-sql",
    advice: concat!(
        "it is in no package; build it from the source with `make build-sql`, or read the tables with another engine, ",
        "for example DuckDB:\n",
        "    duckdb -c \"select host, victim_role, sum(ns)/1e9 as seconds from \
         '/var/lib/unstarve/tables/table=blame_rollup/**/*.parquet'\n",
        "               where rule = 'class' group by all order by seconds desc\""
    ),
};

/// Ask questions of the tables of one host or many, in SQL (a separate program: `make build-sql`)
///
/// Runs unstarve-sql, which is in no package, and beside this program or in the PATH once it is built; `unstarve sql --help` shows its help. With --cluster df://HOST:PORT it runs
/// unstarve-cluster, which asks executors on several machines.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct SqlArgs {
    /// What unstarve-sql is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub fn run(args: &SqlArgs) -> Result<ExitCode> {
    if asks_a_cluster(&args.arguments) {
        let first = OsString::from("sql");
        return become_it(&cluster::CLUSTER, std::iter::once(&first).chain(&args.arguments));
    }
    become_it(&SQL, &args.arguments)
}

/// Whether there is the option: no statement is written like it, and after `--` there are no options.
fn asks_a_cluster(arguments: &[OsString]) -> bool {
    let options = arguments.iter().take_while(|argument| *argument != OsStr::new("--"));
    options.into_iter().any(|argument| argument == "--cluster" || argument.as_bytes().starts_with(b"--cluster="))
}
