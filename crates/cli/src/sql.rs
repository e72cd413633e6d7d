//! `unstarve sql`: runs the separate program `unstarve-sql`.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::external_program::{Companion, become_it, is_there};
use crate::output::Out;

const SQL: Companion = Companion {
    name: "unstarve-sql",
    advice: concat!(
        "it is in no package; build it from the source with `make build-sql`, or read the tables with another engine, ",
        "for example DuckDB:\n",
        "    duckdb -c \"select host, victim_role, sum(ns)/1e9 as seconds from \
         '/var/lib/unstarve/tables/v1/table=blame_rollup/**/*.parquet'\n",
        "               where rule = 'class' group by all order by seconds desc\""
    ),
};

/// Ask questions of the tables of one host or many, in SQL (a separate program: `make build-sql`)
///
/// Runs unstarve-sql, which is in no package, and beside this program or in the PATH once it is built; `unstarve sql --help` shows its help.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct SqlArgs {
    /// What unstarve-sql is called with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

pub fn run(args: &SqlArgs) -> Result<ExitCode> {
    if asks_for_help(&args.arguments) && !is_there(&SQL) {
        return without_engine();
    }
    become_it(&SQL, &args.arguments)
}

/// Answers --help even without an engine.
fn asks_for_help(arguments: &[OsString]) -> bool {
    matches!(arguments, [only] if only == OsStr::new("--help") || only == OsStr::new("-h"))
}

fn without_engine() -> Result<ExitCode> {
    Out::new().text(&format!(
        "Answers questions in SQL about the tables that `unstarve watch`, `export` and `snapshot` write, of one host or many.\n\n\
         Usage: unstarve sql [OPTIONS] [STATEMENT] TABLES...\n\n\
         Its engine is a program of its own, {}, which is not installed here: {}\n\n\
         Options, views and examples: docs/sql.md, and `unstarve sql --help` once the engine is there.\n",
        SQL.name, SQL.advice
    ))?;
    Ok(ExitCode::SUCCESS)
}
