//! `unstarve-cluster`: the same SQL on several machines. Ballista is the engine; the tables, functions and views are those of `unstarve-sql`.
//!
//! | module | what it is |
//! |---|---|
//! | `scheduler`, `executor` | the two parts of a cluster |
//! | `ask`, `job` | who asks; a query, as long as somebody waits for its rows |
//! | `subquery` | what is written otherwise for a cluster |
//! | `codec` | a table on its way: the files that its asker found |
//! | `trust`, `door` | TLS, token and version, from both sides |
//! | `mine` | the token of a user on loopback |
//! | `listen`, `guests` | servers, and who is connected |
//! | `fence` | what an executor may read |
//! | `work` | where it keeps rows |
//! | `flight` | how it hands them out |
//! | `engine`, `stoppable` | tasks with limits |
//! | `notes`, `words` | what Ballista has to say, and its errors |

mod ask;
mod codec;
mod door;
mod engine;
mod executor;
mod fence;
mod flight;
mod guests;
mod job;
mod listen;
mod losses;
mod mine;
mod notes;
mod scheduler;
mod stoppable;
mod subquery;
mod trust;
mod words;
mod work;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use unstarve_sql::{answer, program};

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

fn main() -> ExitCode {
    let args = Args::parse();
    program::run(args.part.name(), run(args.part))
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
