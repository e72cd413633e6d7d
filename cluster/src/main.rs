//! `unstarve-cluster`: the same SQL on several machines. Ballista is the engine; the tables, functions and views are those of `unstarve-sql`.
//!
//! | module | what it is |
//! |---|---|
//! | `scheduler`, `executor` | the two parts of a cluster |
//! | `ask`, `job` | who asks; a query, as long as somebody waits for its rows |
//! | `subquery` | what is written otherwise for a cluster |
//! | `codec` | a table on its way: the files that its asker found |
//! | `trust`, `door` | TLS, token and version, from both sides |
//! | `listen` | servers |
//! | `fence` | what an executor may read |
//! | `work` | where it keeps rows |
//! | `flight` | how it hands them out |
//! | `engine`, `stoppable` | tasks with limits |
//! | `notes` | what Ballista has to say |

mod ask;
mod codec;
mod door;
mod engine;
mod executor;
mod fence;
mod flight;
mod job;
mod listen;
mod notes;
mod scheduler;
mod stoppable;
mod subquery;
mod trust;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use unstarve_sql::answer;

/// Ask tables on several machines
///
/// A scheduler hands out tasks to executors, which read a shared directory or a bucket; `unstarve sql --cluster df://HOST:PORT` asks. Beyond loopback all of them need
/// a token and TLS.
#[derive(Parser)]
#[command(
    name = "unstarve cluster",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  unstarve cluster scheduler &
  unstarve cluster executor --scheduler 127.0.0.1:50050 --place /srv/unstarve &
  unstarve sql --cluster df://127.0.0.1:50050 'select * from top_culprits' /srv/unstarve

Exit code: 0 if it was ended or the question was answered, 2 if not."
)]
struct Args {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    Scheduler(scheduler::SchedulerArgs),
    Executor(executor::ExecutorArgs),
    Sql(ask::AskArgs),
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Part::Scheduler(_) => "cluster scheduler",
            Part::Executor(_) => "cluster executor",
            Part::Sql(_) => "sql",
        }
    }
}

/// The exit code of what could not be done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let name = args.part.name();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return complain(name, &error.into()),
    };
    let done = runtime.block_on(run(args.part));
    // What a query that was stopped still does is not waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(name, &error),
    }
}

async fn run(part: Part) -> anyhow::Result<()> {
    match part {
        Part::Scheduler(args) => scheduler::run(args).await,
        Part::Executor(args) => executor::run(args).await,
        Part::Sql(args) => {
            answer::keep_quiet_about_panics();
            answer::whole(ask::run(args)).await
        }
    }
}

fn complain(name: &str, error: &anyhow::Error) -> ExitCode {
    eprintln!("unstarve {name}: {}", unstarve_model::clean(&format!("{error:#}")).replace("\\n", "\n"));
    ExitCode::from(FAILED)
}
