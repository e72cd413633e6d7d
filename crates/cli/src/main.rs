//! `unstarve`: finds the threads that a Linux scheduler starves and says who starved them, by which rule.

mod record;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Find the threads that a Linux scheduler starves, who starves them and by which rule
#[derive(Parser, Debug)]
#[command(name = "unstarve", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Record(record::RecordArgs),
}

/// The exit code of a command that could not do its work; 1 is for findings.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Record(args) => record::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("unstarve: {error:#}");
        ExitCode::from(FAILED)
    })
}
