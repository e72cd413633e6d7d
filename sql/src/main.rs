//! `unstarve-sql`: SQL over the tables that unstarve writes, in files of one host or of ten thousand.
//!
//! | module | what it is |
//! |---|---|
//! | `place`, `layout` | paths, globs and URLs → directories; what a path says |
//! | `bucket` | S3 and other servers of its API |
//! | `plain`, `read_only` | files of this machine, through no link; stores that are never written |
//! | `hours`, `belief` | of the files of an hour those whose rows count, by its commits; whether these are believed |
//! | `scan` | the files of a table as DataFusion reads them, those of other hours left out |
//! | `catalogue` | which file is of which table; a session with all of them |
//! | `functions` | `hist_quantile`, `hist_sum`, `role`, `share` |
//! | `views` | questions with a name |
//! | `answer` | a statement → rows on standard output or in a file |
//! | `screen` | what a terminal is shown of it |
//! | `page` | some of them as one HTML file |
//! | `args` | what a question is called with |
//! | `prompt` | the same, line by line |
//! | `program` | signals, exit codes, and what is said beside an answer |

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
mod program;
mod prompt;
mod read_only;
mod scan;
mod screen;
mod views;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

fn main() -> ExitCode {
    let args = Args::parse();
    answer::keep_quiet_about_panics();
    program::run(answer::whole(run(args)))
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
