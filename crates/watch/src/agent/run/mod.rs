//! A running watch: its parts, start and end.

mod budgets;
mod ending;
mod keeping;
mod left_open;
mod recorder;
mod reload;
mod rounds;
mod signals;
mod status;
#[cfg(test)]
mod tests;
mod troubles;
mod unsent;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unstarve_guard::notify::Manager;
use unstarve_record::{BufferSize, Flight, RecordError, Roll};

use self::budgets::{LineBudget, TraceBudget};
use self::keeping::Waiting;
use self::recorder::Buffers;
use self::reload::first_push;
pub use self::signals::Signals;
pub use self::status::WatchStatus;
use self::troubles::Troubles;
use crate::agent::alert_sender::{Alert, AlertSender};
use crate::agent::board::Board;
use crate::agent::config::{Config, STATE_DIRECTORY};
use crate::agent::control::{Control, ControlError, Request};
use crate::agent::explainer::{End, ExplainCommand, Explainer, PipelineSettings};
use crate::agent::guard_status::GuardStatus;
use crate::agent::instance_lock::InstanceLock;
use crate::agent::machine::Machine;
use crate::agent::outputs::http::serving::Serving;
use crate::agent::outputs::{Deliveries, Outputs};
use crate::agent::pod_names::PodNames;
use crate::agent::rollup::Rollups;
use crate::agent::series::WorstBlame;
use crate::agent::store::{ExpectedByRank, Left, Logbook, Outbox, Store, StoreError, read_log};
use crate::agent::trace_writer::{self, FIRST_EXPECTED, Job, Retry, TraceWriter};
use crate::agent::workload_series::WorkloadSeries;
use crate::agent::{memory, rights};
use crate::engine::{Engine, EngineError, clocks};
use crate::episode::{Begun, Detector, Episode};

/// How often the engine is read. Waits in progress are seen only then.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// How often it is read while no task waits, which is checked each interval.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// An armed recorder is stopped after this time without alarms.
const REST_AFTER: Duration = Duration::from_secs(30);
/// Maximum episodes of a killed watch explained at the start.
const MOST_UNEXPLAINED: usize = 10;
/// Maximum episodes read from the log for the page.
const LISTED: usize = 100;

/// What a watch is started with.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// The file that it was read from, for SIGHUP; `None` is the default place.
    pub path: Option<PathBuf>,
    /// The directory for tables; overrides the configuration.
    pub tables: Option<PathBuf>,
    /// Where the socket and the lock are.
    pub state: PathBuf,
    /// What explains an episode.
    pub explain: ExplainCommand,
    /// Prints remarks.
    pub say: Box<dyn Fn(&str)>,
    /// Ends it after this time.
    pub time: Option<Duration>,
    /// Why the engine is not the first choice, for `status`.
    pub instead: Option<String>,
    /// Caught before the engine was opened, which takes half a second.
    pub signals: Signals,
}

/// Why a watch does not run or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The socket or the lock.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine.
    #[error(transparent)]
    Engine(EngineError),
    /// The tables that were asked for.
    #[error("cannot write tables: {0}; give another directory, or leave --tables out")]
    Tables(String),
    /// A system call failed.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The error of the system call.
        source: io::Error,
    },
}

/// Events of the loop.
pub(crate) enum Event {
    Signal(i32),
    Asked(Request, Sender<String>),
    /// The flight recorder is ready, or cannot be had.
    Flight(Buffers, Box<Result<Flight, RecordError>>),
    /// The frozen recording is on the disk.
    Roll(Roll),
    /// The store can be written again: these episodes began while it could not.
    Room(Vec<Begun>),
    /// A remark for people.
    Remark(String),
}

/// Runs until SIGTERM or SIGINT, or the end of `options.time`.
///
/// # Errors
/// If it cannot start, or if the engine has ended.
pub fn run(mut options: Options, engine: &mut dyn Engine) -> Result<(), RunError> {
    memory::hold_little();
    options.config.write_tables_in(options.tables.as_deref());
    let manager = Manager::of_environment();
    let (events, inbox) = channel();
    let asked = events.clone();
    let control = Control::open(&options.state, move |request, reply| drop(asked.send(Event::Asked(request, reply))))?;
    let (store, left) = trace_writer::open(&options.config.store)?;
    store.torn().iter().for_each(|line| (options.say)(line));
    // Marked before a thread can make room.
    let left = Left::first(left, MOST_UNEXPLAINED);
    left.iter().for_each(|left| store.is_to_be_explained(&left.episode.id));
    let without_end = store.without_end()?;
    let alone = InstanceLock::take(Path::new(STATE_DIRECTORY), &options.state);
    let board = first_board(&options, engine, &alone, read_log(store.path())?.episodes);
    let rollups = rollups(&options.config, options.tables.as_deref(), &options.say, &board)?;
    let serving =
        Serving::start(options.config.listen.clone(), Arc::clone(&board), store.path().to_owned(), &options.say);
    options.signals.forward(&events)?;
    let ending = Arc::new(AtomicBool::new(false));
    let deliveries = Deliveries::default();
    let outputs = Outputs::open(&options.config, &board, &deliveries).map_err(no_thread)?;
    let settings = PipelineSettings::of(&options.config, outputs.clone());
    let (logbook, outbox) = (store.logbook(), store.outbox());
    let delivers_left = unsent::deliver_left(&outbox, &outputs, &board, &options.say);
    let Writing { threads, jobs, alerts } = Writing::start(store, settings, &board, &events, options.explain, &ending)?;
    left_open::say_ends(&without_end, &board, &alerts);
    for left in left {
        std::iter::once(&left.episode).chain(&left.along).for_each(|episode| left_open::restore(episode, &board));
        let _ = jobs.send(Job::Explain(Box::new(left)));
    }
    let workloads = WorkloadSeries::new(options.config.metrics.limits().workloads as usize, PodNames::default());
    let mut watch = Watch {
        next_push: first_push(&options.config),
        outputs,
        detector: Detector::new(options.config.thresholds.clone()),
        began_with: options.config.clone(),
        config: options.config,
        path: options.path,
        tables: options.tables,
        say: options.say,
        board,
        events,
        flight: None,
        next_flight: None,
        preparing: false,
        running_by: None,
        tried: None,
        last_try: None,
        last_failure: None,
        make: make_flight,
        recorders: Vec::new(),
        waits: None,
        traces: TraceBudget::default(),
        lines: LineBudget::default(),
        ids: BTreeMap::new(),
        last_id: None,
        last_armed: Instant::now(),
        calm_since: None,
        not_kept: 0,
        jobs,
        alerts,
        serving,
        troubles: Troubles::default(),
        workloads,
        worst_blame: WorstBlame::default(),
        rollups,
        deliveries,
        delivers_left,
        outbox: Some(outbox),
        logbook: Some(logbook),
    };
    let ended = watch.go(engine, &inbox, &manager, options.time);
    manager.tell("STOPPING=1");
    ending.store(true, Ordering::Relaxed);
    watch.end(threads, &inbox);
    drop((control, alone));
    ended
}

/// The board before the first reading. Missing rights are reported.
fn first_board(options: &Options, engine: &dyn Engine, alone: &InstanceLock, listed: Vec<Episode>) -> Arc<Board> {
    let lacking = rights::lacking();
    options.config.remarks().for_each(&options.say);
    alone.other.iter().map(String::as_str).chain(lacking.iter().map(|lacking| lacking.what)).for_each(&options.say);
    let board = Arc::new(Board::default());
    board.write(|published| {
        published.machine = Arc::new(Machine::here(&options.config.labels));
        published.series = options.config.metrics.limits();
        published.engine = engine.name();
        published.started = Some(clocks::now().wall);
        published.problems.extend(options.instead.clone().map(|why| ("instead", why)));
        published.problems.extend(lacking.iter().map(|lacking| (lacking.key, lacking.what.to_owned())));
        published.problems.extend(alone.other.clone().map(|other| ("alone", other)));
        listed.into_iter().rev().take(LISTED).for_each(|episode| published.episodes.push_back(Arc::new(episode)));
        published.episodes.make_contiguous().sort_by_key(|episode| std::cmp::Reverse(episode.at_ns));
    });
    board
}

/// The threads that write, explain and alert, and their queues.
struct Writing {
    threads: Vec<JoinHandle<()>>,
    jobs: Sender<Job>,
    alerts: Sender<Alert>,
}

impl Writing {
    fn start(
        store: Arc<Store>,
        settings: PipelineSettings,
        board: &Arc<Board>,
        events: &Sender<Event>,
        explain: ExplainCommand,
        ending: &Arc<AtomicBool>,
    ) -> Result<Writing, RunError> {
        let ((jobs, work), (tasks, written), (alerts, opened)) = (channel(), channel(), channel());
        let outputs = settings.outputs.clone();
        let alert_sender =
            AlertSender { outputs: outputs.clone(), store: Arc::clone(&store), board: Arc::clone(board) };
        let explainer = Explainer {
            store: Arc::clone(&store),
            settings,
            explain,
            board: Arc::clone(board),
            guard: guard(),
            end: End::when(Arc::clone(ending)),
        };
        let writer = TraceWriter {
            outbox: store.outbox(),
            store,
            outputs,
            board: Arc::clone(board),
            events: events.clone(),
            tasks,
            expected: ExpectedByRank::both(FIRST_EXPECTED),
            retry: Retry::default(),
        };
        let threads = vec![
            thread("unstarve-writer", move || writer.run(&work))?,
            thread("unstarve-explain", move || explainer.run(&written))?,
            thread("unstarve-alerts", move || alert_sender.run(&opened))?,
        ];
        Ok(Writing { threads, jobs, alerts })
    }
}

fn no_thread(source: io::Error) -> RunError {
    RunError::System { action: "cannot start a thread", source }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RunError> {
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    started.map_err(no_thread)
}

/// Tables that cannot be written end the watch if the command line asks for them; for the configuration they are a problem.
fn rollups(
    config: &Config,
    asked: Option<&Path>,
    say: &dyn Fn(&str),
    board: &Arc<Board>,
) -> Result<Option<Rollups>, RunError> {
    match Rollups::start(config, board) {
        Ok(rollups) => Ok(rollups),
        Err(why) if asked.is_some() => Err(RunError::Tables(why)),
        Err(why) => {
            let why = format!("tables: {why}");
            say(&format!("no {why}"));
            board.write(|published| drop(published.problems.insert("tables", why)));
            Ok(None)
        }
    }
}

fn make_flight(keep: Duration, buffer: BufferSize) -> Result<Flight, RecordError> {
    Flight::prepare(keep, buffer, &mut |_| {})
}

fn guard() -> GuardStatus {
    let mut guard = GuardStatus::default();
    // Count from now.
    let _ = guard.state();
    guard
}

struct Watch {
    config: Config,
    /// The configuration at the start: some changes take effect only after a restart.
    began_with: Config,
    path: Option<PathBuf>,
    /// The directory for tables from the command line.
    tables: Option<PathBuf>,
    say: Box<dyn Fn(&str)>,
    board: Arc<Board>,
    detector: Detector,
    events: Sender<Event>,
    flight: Option<Flight>,
    /// The buffers of `flight`.
    running_by: Option<Buffers>,
    /// A recorder that is ready and has not replaced `flight` yet.
    next_flight: Option<(Buffers, Flight)>,
    preparing: bool,
    /// The buffers of the latest attempt.
    tried: Option<Buffers>,
    /// The time of the latest attempt.
    last_try: Option<Instant>,
    /// Why the latest attempt failed; the present recorder may still be usable.
    last_failure: Option<String>,
    make: fn(Duration, BufferSize) -> Result<Flight, RecordError>,
    /// Threads that make recorders, and remove those that are not needed any more.
    recorders: Vec<JoinHandle<()>>,
    /// An episode that has begun and is being recorded.
    waits: Option<Waiting>,
    traces: TraceBudget,
    lines: LineBudget,
    /// Ids of the open episodes that have a line, by their numbers.
    ids: BTreeMap<u64, String>,
    /// The id of the latest episode, and how many have its time.
    last_id: Option<(String, u32)>,
    last_armed: Instant,
    /// Time of the last reading, if nothing in it can develop into an episode.
    calm_since: Option<Instant>,
    /// Episodes without a line since the last one that has one.
    not_kept: u64,
    outputs: Outputs,
    /// Time of the next push of metrics, if enabled.
    next_push: Option<Instant>,
    jobs: Sender<Job>,
    /// For the alert sender.
    alerts: Sender<Alert>,
    serving: Serving,
    troubles: Troubles,
    workloads: WorkloadSeries,
    worst_blame: WorstBlame,
    rollups: Option<Rollups>,
    deliveries: Deliveries,
    /// Whether messages left by an earlier watch are being delivered.
    delivers_left: bool,
    outbox: Option<Outbox>,
    logbook: Option<Logbook>,
}
