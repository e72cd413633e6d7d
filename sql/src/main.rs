//! `unstarve-sql`: questions that are answered on this machine.

use std::process::ExitCode;

use clap::Parser;
use unstarve_sql::args::Args;
use unstarve_sql::{answer, catalogue, page, prompt};

/// The exit code of what could not be done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    answer::keep_quiet_about_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(&error.into()),
    };
    let done = runtime.block_on(answer::whole(run(args)));
    // What a query that was stopped still does is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error),
    }
}

async fn run(args: Args) -> anyhow::Result<()> {
    let page = args.page()?;
    let session = catalogue::open(&args.paths(), args.reach(), args.memory, args.ask()).await?;
    if let Some(page) = page {
        return answer::within(args.how().timeout, page::write(&session, &page)).await;
    }
    match &args.statement() {
        Some(statement) => answer::answer(&session, statement, &args.how()).await,
        None => prompt::run(&session, &args.how()).await,
    }
}

fn complain(error: &anyhow::Error) -> ExitCode {
    eprintln!("unstarve sql: {}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    ExitCode::from(FAILED)
}
