//! The scheduler: makes tasks of queries, and hands them to executors that ask for work. It reads no tables.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::{
    SessionConfigExt, ballista_aggregate_functions, ballista_scalar_functions, ballista_window_functions,
};
use ballista_core::optimizer::ballista_default_optimizer_rules;
use ballista_core::serde::protobuf::scheduler_grpc_server::SchedulerGrpcServer;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::create_scheduler;
use ballista_scheduler::scheduler_server::JobIdGenerator;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use unstarve_sql::functions;

use crate::codec::Codec;
use crate::door::Door;
use crate::fence::Fence;
use crate::listen::{self, Ended};
use crate::losses::Losses;
use crate::notes;
use crate::trust::{Identified, MESSAGE, Secrets};

/// Make tasks of queries, and hand them to executors
///
/// Prints the address that it listens at. It keeps nothing: after a restart executors come back by themselves, and queries that ran have to be asked again.
#[derive(clap::Args)]
pub struct SchedulerArgs {
    /// The address to listen at; other machines reach it only with a token and TLS. Port 0: one that is free
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    #[command(flatten)]
    secrets: Secrets,
    #[command(flatten)]
    identified: Identified,
}

/// An executor that has not asked for work for so long is lost, and queries that run end. It asks each 5 s at least.
const LOST_SECONDS: u64 = 15;
/// After so long Ballista would give its tasks to others: never while a query runs that had it.
const GONE_SECONDS: u64 = 25;
/// How often that is looked at.
const LOOK_SECONDS: u64 = 3;
/// For so long queries wait for an executor to come back if all are gone.
const NONE_SECONDS: u64 = 20;
/// For so long rows wait to be fetched.
const KEPT_SECONDS: u64 = 600;

/// Runs until it is ended.
///
/// # Errors
/// If it cannot listen.
pub async fn run(args: SchedulerArgs) -> Result<()> {
    args.identified.allows(args.listen, &args.secrets)?;
    let (token, identity) = (args.secrets.token()?, args.identified.read()?);
    notes::show("scheduler");
    let ended = Ended::new()?;
    let (incoming, address) = listen::bind(args.listen).await?;
    let config = Arc::new(config(address));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let losses = Losses::of(&cluster, LOST_SECONDS);
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await?;
    let (asked, ends) = (scheduler.clone(), scheduler.clone());
    let ends = async |job| {
        // It fails only where the scheduler itself ends.
        let _ = ends.cancel_job(job).await;
    };
    let service =
        SchedulerGrpcServer::new(scheduler).max_decoding_message_size(MESSAGE).max_encoding_message_size(MESSAGE);
    let door = Door::new(token).with_ready(move || asked.is_ready());
    let mut server = listen::server(identity.as_ref())?.layer(door);
    println!("unstarve cluster scheduler: listening at {address}");
    let served = server.add_service(service).serve_with_incoming(incoming);
    tokio::select! {
        served = served => served.context("the scheduler cannot serve any more"),
        () = losses.watch(ends) => Ok(()),
        () = ended.wait() => Ok(()),
    }
}

fn config(address: SocketAddr) -> SchedulerConfig {
    SchedulerConfig {
        // Executors ask for work: nothing has to reach them but who fetches rows.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        external_host: address.ip().to_string(),
        bind_port: address.port(),
        executor_timeout_seconds: GONE_SECONDS,
        expire_dead_executor_interval_seconds: LOOK_SECONDS,
        no_executors_grace_period_seconds: NONE_SECONDS,
        finished_job_data_clean_up_interval_seconds: KEPT_SECONDS,
        finished_job_state_clean_up_interval_seconds: KEPT_SECONDS,
        grpc_server_max_decoding_message_size: MESSAGE as u32,
        grpc_server_max_encoding_message_size: MESSAGE as u32,
        override_logical_codec: Some(Arc::new(Codec::default())),
        override_session_builder: Some(Arc::new(session)),
        job_id_generator: Some(Arc::new(Unguessable)),
        ..SchedulerConfig::default()
    }
}

/// Plans are made without any file, once: one that changes with what its parts found can wait for ever if an executor is lost meanwhile (docs/decisions/0340).
fn session(config: SessionConfig) -> datafusion::common::Result<SessionState> {
    let config = config.with_ballista_adaptive_query_planner(false);
    let runtime = RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(Fence::default())).build_arc()?;
    let scalar = functions::scalar().map(Arc::new);
    let aggregate = functions::aggregate().map(Arc::new);
    Ok(SessionStateBuilder::new()
        .with_default_features()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_optimizer_rules(ballista_default_optimizer_rules())
        .with_scalar_functions(ballista_scalar_functions().into_iter().chain(scalar).collect())
        .with_aggregate_functions(ballista_aggregate_functions().into_iter().chain(aggregate).collect())
        .with_window_functions(ballista_window_functions())
        .build())
}

/// Names of queries: who knows one can fetch its rows.
struct Unguessable;

#[async_trait]
impl JobIdGenerator for Unguessable {
    async fn next_id(&self) -> String {
        ballista_core::ids::new_instance_id()
    }
}
