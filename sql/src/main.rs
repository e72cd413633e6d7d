//! `unstarve-sql`: questions that are answered on this machine.

use std::process::ExitCode;

use clap::Parser;
use unstarve_sql::args::Args;
use unstarve_sql::{answer, catalogue, page, program, prompt};

fn main() -> ExitCode {
    let args = Args::parse();
    answer::keep_quiet_about_panics();
    program::run("sql", answer::whole(run(args)))
}

async fn run(args: Args) -> anyhow::Result<()> {
    let page = args.page()?;
    let session = catalogue::open(&args.paths(), args.reach(), args.memory, args.ask()).await?;
    if let Some(page) = page {
        return program::unless_ended(answer::within(args.how().timeout, page::write(&session, &page))).await;
    }
    match &args.statement() {
        Some(statement) => program::unless_ended(answer::answer(&session, statement, &args.how())).await,
        None => prompt::run(&session, &args.how()).await,
    }
}
