//! An executor: asks a scheduler for tasks, reads files, and hands the rows to whoever goes on with them.
//!
//! Ballista forgets what it has to report of tasks if the scheduler cannot be reached just then, and the scheduler would wait for them for ever. So an executor
//! that loses its scheduler gives up everything, and comes back as another one; queries that ran end with an error.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::extension::{SessionConfigExt, ballista_aggregate_functions, ballista_scalar_functions};
use ballista_core::ids::new_instance_id;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{ExecutorRegistration, GetJobStatusParams, job_status};
use ballista_core::serde::scheduler::{ExecutorOperatingSystemSpecification, ExecutorSpecification};
use ballista_core::serde::{BallistaCodec, BallistaPhysicalExtensionCodec};
use ballista_core::{BALLISTA_PROTOCOL_VERSION, ConfigProducer, RuntimeProducer};
use ballista_executor::execution_loop::poll_loop;
use ballista_executor::executor::Executor;
use ballista_executor::health::ExecutorHealth;
use ballista_executor::metrics::LoggingMetricsCollector;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use tonic::transport::{Channel, Identity};
use unstarve_sql::args::{parse_size, parse_time};
use unstarve_sql::bucket::{Http, Reach};
use unstarve_sql::functions;

use crate::codec::Codec;
use crate::door::Door;
use crate::engine::{Limited, Tasks};
use crate::fence::Fence;
use crate::flight::Rows;
use crate::listen::{self, Ended};
use crate::notes;
use crate::trust::{Identified, MESSAGE, Secrets, Speaker, Unheard};
use crate::work::{self, Work};

/// Read tables for queries that a scheduler hands out
///
/// Reads nothing but what is below its places, which have the same paths on all machines: a shared directory, or a bucket. Stops at SIGTERM; if the scheduler goes
/// away it waits until there is one again.
#[derive(clap::Args)]
pub struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT")]
    scheduler: String,
    /// The address at which others fetch rows; other machines reach it only with a token and TLS. Port 0: one that is free
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The name by which others reach that address, if it is not the address itself
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// A directory, file or s3://BUCKET/PREFIX that may be read; again for more
    #[arg(long = "place", value_name = "PLACE", required = true)]
    places: Vec<String>,
    /// Where a bucket is, if not at AWS: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Also speak http to that endpoint
    #[arg(long)]
    allow_http: bool,
    /// Tasks at once [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    tasks: Option<u16>,
    /// Memory of all tasks for sorting, grouping and joining; what needs more goes to the work directory where it can, else is an error
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1G")]
    memory: usize,
    /// The directory below which rows are kept until others have fetched them; removed at the end [default: ~/.cache/unstarve/executors]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// What that directory may have; a query that needs more is an error
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "10G")]
    disk: usize,
    /// For how long a task may run: 30s, 10m
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    task_time: Duration,
    #[command(flatten)]
    secrets: Secrets,
    #[command(flatten)]
    identified: Identified,
}

/// How long a scheduler that is not there is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until it is ended.
///
/// # Errors
/// If it cannot listen, a place is not there, or the scheduler refuses it.
pub async fn run(args: ExecutorArgs) -> Result<()> {
    args.identified.allows(args.listen, &args.secrets)?;
    if args.advertise.is_none() && args.listen.ip().is_unspecified() {
        bail!("--listen {}: expected --advertise HOST, by which others reach this machine", args.listen);
    }
    let http = if args.allow_http { Http::Asked } else { Http::Unasked };
    let reach = Reach { endpoint: args.endpoint.clone(), http };
    let parent = args.work.clone().map_or_else(work::default_parent, Ok)?;
    let mut host = Host {
        fence: Arc::new(Fence::around(&args.places, &reach)?),
        identity: args.identified.read()?,
        // First: it makes the token that is spoken with, if there is none.
        door: Door::new(args.secrets.token()?),
        speaker: args.secrets.speaker()?,
        parent,
        listen: args.listen,
        ended: Ended::new()?,
        args,
    };
    notes::show("executor");
    host.serve().await
}

/// What stays while schedulers come and go.
struct Host {
    args: ExecutorArgs,
    fence: Arc<Fence>,
    speaker: Speaker,
    identity: Option<Identity>,
    door: Door,
    parent: PathBuf,
    listen: SocketAddr,
    ended: Ended,
}

/// Whether there was a scheduler before.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Had {
    None,
    One,
}

/// Why an executor does not work any more.
#[derive(Debug, PartialEq)]
enum Over {
    /// The scheduler is lost.
    Lost,
    /// It was ended.
    Ended,
}

impl Host {
    async fn serve(&mut self) -> Result<()> {
        let mut had = Had::None;
        loop {
            let ended = self.ended.clone();
            let scheduler = tokio::select! {
                scheduler = self.scheduler(had) => scheduler?,
                () = ended.wait() => return Ok(()),
            };
            if self.work_for(scheduler).await? == Over::Ended {
                return Ok(());
            }
            had = Had::One;
            eprintln!("unstarve cluster executor: lost the scheduler {}", self.args.scheduler);
        }
    }

    /// Waits for it, if it is only not there. Of one that was there, that somebody has taken its port meanwhile is no end.
    async fn scheduler(&self, had: Had) -> Result<SchedulerGrpcClient<Channel>> {
        let mut said = None;
        loop {
            match self.speaker.greet(&self.args.scheduler).await {
                Ok(scheduler) => return Ok(scheduler),
                Err(why @ Unheard::Another(_)) if had == Had::None => {
                    bail!("the scheduler {} {why}", self.args.scheduler)
                }
                Err(why @ Unheard::Refused(_)) => bail!("the scheduler {} {why}", self.args.scheduler),
                Err(why) => {
                    let why = unstarve_model::clean(&why.to_string()).into_owned();
                    if said.as_ref() != Some(&why) {
                        let scheduler = &self.args.scheduler;
                        eprintln!("unstarve cluster executor: the scheduler {scheduler} {why}; waiting for it");
                    }
                    said = Some(why);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Works until the scheduler is lost, or the end.
    async fn work_for(&mut self, scheduler: SchedulerGrpcClient<Channel>) -> Result<Over> {
        let work = Work::new(&self.parent)?;
        let place = work.path().to_str().context("the work directory's path is no UTF-8")?.to_owned();
        let (incoming, address) = listen::bind(self.listen).await?;
        // The same one next time, so that who knows it finds it.
        self.listen = address;
        let rows = FlightServiceServer::new(Rows::below(&place))
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE);
        let mut server = listen::server(self.identity.as_ref())?.layer(self.door.clone());
        let served = server.add_service(rows).serve_with_incoming(incoming);

        let tasks = Arc::new(Tasks::default());
        let executor = Arc::new(self.executor(&place, address, &tasks)?);
        let health = ExecutorHealth::new();
        let codec: BallistaCodec =
            BallistaCodec::new(Arc::new(Codec::default()), Arc::new(BallistaPhysicalExtensionCodec::default()));
        let polled = poll_loop(scheduler.clone(), executor, codec, None, None, health.clone());
        let limits = Limits { work: &work, most: self.args.disk as u64, tasks: &tasks };
        tokio::select! {
            biased;
            // Before the loop: see there.
            () = lost(&health, address, &self.args.scheduler) => {}
            served = served => served.context("rows cannot be served any more")?,
            polled = polled => polled.map_err(|error| anyhow::anyhow!("{error}"))?,
            () = limits.watch() => {}
            () = unwanted(scheduler.clone(), &tasks) => {}
            // The scheduler is not told: Ballista would have its tasks done again (see `losses`).
            () = self.ended.wait() => return Ok(Over::Ended),
        }
        tasks.stop(None, "the scheduler was lost");
        Ok(Over::Lost)
    }

    fn executor(&self, place: &str, address: SocketAddr, tasks: &Arc<Tasks>) -> Result<Executor> {
        let count = match self.args.tasks {
            Some(tasks) => usize::from(tasks),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let host = self.args.advertise.clone().unwrap_or_else(|| match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        });
        let metadata = ExecutorRegistration {
            id: new_instance_id(),
            host: Some(host),
            port: address.port().into(),
            // It is not called: it asks.
            grpc_port: 0,
            specification: Some(ExecutorSpecification::default().with_vcores(count as u32).into()),
            os_info: Some(ExecutorOperatingSystemSpecification::default().into()),
            ballista_protocol_version: BALLISTA_PROTOCOL_VERSION,
        };
        let runtime = self.runtime(place)?;
        let runtime: RuntimeProducer = Arc::new(move |_| Ok(Arc::clone(&runtime)));
        let hook = self.speaker.hook();
        let config: ConfigProducer = Arc::new(move || {
            SessionConfig::new_with_ballista()
                .with_ballista_override_create_grpc_client_endpoint(hook.clone())
                .with_ballista_grpc_client_max_message_size(MESSAGE)
        });
        let engine = Arc::new(Limited::new(Arc::clone(tasks), self.args.task_time));
        let metrics = Arc::new(LoggingMetricsCollector::default());
        Ok(Executor::new(metadata, place, runtime, config, Arc::new(registry()), metrics, count, engine))
    }

    /// One for all queries: its limits are of all.
    fn runtime(&self, place: &str) -> Result<Arc<RuntimeEnv>> {
        let disk = DiskManagerBuilder::default()
            .with_mode(DiskManagerMode::Directories(vec![place.into()]))
            .with_max_temp_directory_size(self.args.disk as u64);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(self.args.memory)))
            .with_disk_manager_builder(disk)
            .with_object_store_registry(Arc::clone(&self.fence) as _);
        Ok(runtime.build_arc()?)
    }
}

/// DataFusion's functions, and ours.
fn registry() -> BallistaFunctionRegistry {
    let mut registry = BallistaFunctionRegistry::default();
    let scalar = ballista_scalar_functions().into_iter().chain(functions::scalar().map(Arc::new));
    registry.scalar_functions.extend(scalar.map(|function| (function.name().to_owned(), function)));
    let aggregate = ballista_aggregate_functions().into_iter().chain(functions::aggregate().map(Arc::new));
    registry.aggregate_functions.extend(aggregate.map(|function| (function.name().to_owned(), function)));
    registry
}

/// Says when it is registered, and returns when it is not any more, or does not get so far.
///
/// No failed request may be missed, since reports of tasks were lost with it. Ballista's loop sleeps 50 ms after one and asks again, which may succeed. A shorter
/// sleep that is looked at first is over whenever that one is, also on a machine that is busy for seconds.
async fn lost(health: &ExecutorHealth, address: SocketAddr, scheduler: &str) {
    const STEP: Duration = Duration::from_millis(10);
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut waited = Duration::ZERO;
    while !health.is_ready() {
        if waited >= PATIENCE {
            return;
        }
        waited += STEP;
        tokio::time::sleep(STEP).await;
    }
    println!("unstarve cluster executor: listening at {address}, registered with {scheduler}");
    while health.is_ready() {
        tokio::time::sleep(STEP).await;
    }
}

/// The space that all tasks take.
struct Limits<'a> {
    work: &'a Work,
    most: u64,
    tasks: &'a Tasks,
}

impl Limits<'_> {
    /// Stops all tasks when there is too much: whose it is cannot be told while it is written.
    async fn watch(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let path = self.work.path().to_owned();
            let Ok(size) = tokio::task::spawn_blocking(move || work::size(&path)).await else { continue };
            if size > self.most {
                let why =
                    format!("the work directory of an executor has {size} bytes, more than {} (its --disk)", self.most);
                self.tasks.stop(None, &why);
            }
        }
    }
}

/// Stops tasks whose query is no longer asked: one that was given up, or that a scheduler had before it was started again.
async fn unwanted(mut scheduler: SchedulerGrpcClient<Channel>, tasks: &Tasks) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for job in tasks.jobs() {
            let asked = scheduler.get_job_status(GetJobStatusParams { job_id: job.clone() }).await;
            let Ok(answer) = asked else { continue };
            let status = answer.into_inner().status.and_then(|status| status.status);
            if matches!(status, None | Some(job_status::Status::Failed(_))) {
                tasks.stop(Some(&job), "the query was given up");
            }
        }
    }
}
