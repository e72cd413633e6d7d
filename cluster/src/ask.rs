//! Who asks: the same prompt, statements and views as `unstarve-sql`, answered by a cluster. The files that count are found here, once.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use ballista_core::planner::BallistaQueryPlanner;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::LogicalPlanNode;
use unstarve_sql::args::Args;
use unstarve_sql::catalogue::{self, Text};
use unstarve_sql::{answer, prompt};
use url::Url;

use crate::codec::Codec;
use crate::job::{Jobs, Planner};
use crate::listen::Ended;
use crate::subquery;
use crate::trust::{MESSAGE, Secrets};

/// Ask questions of tables in SQL, answered by a cluster
///
/// All that `unstarve sql` can. PATHs are looked at here, and read by executors: they have the same names on all machines.
#[derive(clap::Args)]
pub struct AskArgs {
    /// The scheduler: df://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = scheduler)]
    cluster: String,
    #[command(flatten)]
    secrets: Secrets,
    #[command(flatten)]
    args: Args,
}

/// `df://HOST:PORT` → `HOST:PORT`.
fn scheduler(url: &str) -> Result<String, String> {
    let expected = || format!("`{url}`: expected df://HOST:PORT");
    let parsed = Url::parse(url).map_err(|_| expected())?;
    let has_more = !matches!(parsed.path(), "" | "/") || parsed.query().is_some() || !parsed.username().is_empty();
    match (parsed.scheme(), parsed.host_str(), has_more) {
        ("df", Some(host), false) if !host.is_empty() => Ok(format!("{host}:{}", parsed.port().unwrap_or(50050))),
        _ => Err(expected()),
    }
}

/// Answers a statement, or many at a prompt.
///
/// # Errors
/// If the cluster is not there, or cannot answer.
pub async fn run(args: AskArgs) -> Result<()> {
    if args.args.page()?.is_some() {
        bail!("--page is made on one machine: leave out --cluster");
    }
    let speaker = args.secrets.speaker()?;
    let greeted = speaker.greet(&args.cluster).await;
    let client = greeted.map_err(|why| anyhow::anyhow!("the scheduler {} {why}", args.cluster))?;
    let jobs = Jobs::new(client);
    let found = catalogue::look(&args.args.paths(), args.args.reach(), args.args.ask()).await?;
    let config = config().with_ballista_override_create_grpc_client_endpoint(speaker.hook());
    let planner = BallistaQueryPlanner::<LogicalPlanNode>::with_extension(
        format!("http://{}", args.cluster),
        config.ballista_config(),
        Arc::new(Codec::default()),
    );
    let config = config.with_ballista_query_planner(Arc::new(Planner::new(planner, jobs.clone())));
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(args.args.memory, 1.0).build_arc()?;
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_optimizer_rules(subquery::rules())
        .build();
    let state = state.upgrade_for_ballista(format!("http://{}", args.cluster)).context("this query cannot be sent")?;
    let session = SessionContext::new_with_state(state);
    catalogue::fill(&session, found, Text::Whole).await?;
    let how = args.args.how();
    let done = match &args.args.statement() {
        Some(statement) => {
            let ended = Ended::new()?;
            tokio::select! {
                done = answer::answer(&session, statement, &how) => done,
                () = ended.wait() => Err(anyhow::anyhow!("stopped")),
            }
        }
        None => prompt::run(&session, &how).await,
    };
    jobs.given_up().await;
    done
}

fn config() -> SessionConfig {
    // As many parts as Ballista takes for itself: what this machine has says nothing about the cluster.
    const PARTS: usize = 16;
    catalogue::config()
        .upgrade_for_ballista()
        // As the scheduler does (docs/decisions/0340).
        .with_ballista_adaptive_query_planner(false)
        .with_target_partitions(PARTS)
        .with_ballista_grpc_client_max_message_size(MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_its_scheduler() {
        assert_eq!(scheduler("df://10.0.0.1:7000").as_deref(), Ok("10.0.0.1:7000"));
        assert_eq!(scheduler("df://[::1]:7000/").as_deref(), Ok("[::1]:7000"));
        assert_eq!(scheduler("df://scheduler").as_deref(), Ok("scheduler:50050"));
        for bad in ["http://a:1", "df://", "a:1", "df://a:1/path", "df://user@a:1", "df://a:1?x=y"] {
            assert!(scheduler(bad).is_err_and(|error| error.contains(bad)), "{bad}");
        }
    }
}
