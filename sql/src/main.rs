//! `unstarve-sql`: SQL over the tables that unstarve writes, in files of one host or of ten thousand.
//!
//! | module | what it is |
//! |---|---|
//! | `place`, `layout` | paths, globs and URLs → directories; what a path says |
//! | `bucket` | S3 and other servers of its API |
//! | `plain` | files of this machine, through no link |
//! | `hours`, `belief` | of the files of an hour those whose rows count, by its commits; whether these are believed |
//! | `scan` | the files of a table as DataFusion reads them, those of other hours left out |
//! | `catalogue` | which file is of which table; a session with all of them |
//! | `functions` | `hist_quantile`, `hist_sum`, `role`, `share` |
//! | `views` | questions with a name |
//! | `answer` | a statement → rows on standard output or in a file |
//! | `page` | some of them as one HTML file |
//! | `prompt` | the same, line by line |

mod answer;
mod args;
mod belief;
mod bucket;
mod catalogue;
mod functions;
mod hours;
mod layout;
mod page;
mod place;
mod plain;
mod prompt;
mod scan;
mod views;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

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
