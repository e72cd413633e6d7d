//! A watch at work: what it is made of, its begin and its end.

mod ending;
mod keeping;
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

use self::keeping::Waiting;
use self::recorder::Buffers;
use self::reload::first_push;
pub use self::signals::Signals;
use self::troubles::Troubles;
use crate::agent::alert_sender::{Alert, AlertSender};
use crate::agent::board::Board;
use crate::agent::config::{Config, STATE_DIRECTORY};
use crate::agent::control::{Control, ControlError, Request};
use crate::agent::explainer::{End, ExplainCommand, Explainer, PipelineSettings};
use crate::agent::guarded::Guarded;
use crate::agent::instance_lock::InstanceLock;
use crate::agent::outputs::http::serving::Serving;
use crate::agent::outputs::{Deliveries, Outputs};
use crate::agent::rollup::Rollups;
use crate::agent::store::{ExpectedByRank, Left, Logbook, Outbox, Store, StoreError, read_log};
use crate::agent::trace_writer::{self, FIRST_EXPECTED, Job, Retry, TraceWriter};
use crate::agent::{memory, rights};
use crate::engine::reading::VictimClass;
use crate::engine::{Engine, EngineError, clocks};
use crate::episode::{Begun, Detector, Episode};

/// How often the engine is read: what starves at the moment is seen only then.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// How often it is read where nobody waits. Each interval it is looked whether that has changed.
const LONGEST_REST: Duration = Duration::from_secs(1);
/// An armed recorder rests when it was calm for so long.
const REST_AFTER: Duration = Duration::from_secs(30);
/// Episodes of a killed watch that are explained at the start.
const MOST_UNEXPLAINED: usize = 10;
/// Episodes that the page knows from the log.
const LISTED: usize = 100;

/// What a watch is started with.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// The file that it was read from, for SIGHUP; `None` is the default place.
    pub path: Option<PathBuf>,
    /// Where tables are written, whatever the file says of it.
    pub tables: Option<PathBuf>,
    /// Where the socket and the lock are.
    pub state: PathBuf,
    /// What explains an episode.
    pub explain: ExplainCommand,
    /// Hears remarks for people.
    pub say: Box<dyn Fn(&str)>,
    /// Ends it after this time.
    pub time: Option<Duration>,
    /// Why the engine is not the first choice, for `status`.
    pub instead: Option<String>,
    /// Caught before the engine was opened, which takes half a second.
    pub signals: Signals,
}

/// Why a watch does not run, or no more.
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
    /// The system refuses.
    #[error("{action}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What the loop hears of.
pub(crate) enum Event {
    Signal(i32),
    Asked(Request, Sender<String>),
    /// The flight recorder is ready, or cannot be had.
    Flight(Buffers, Box<Result<Flight, RecordError>>),
    /// What was frozen is on the disk.
    Roll(Roll),
    /// The store can be written again: these episodes began while it could not.
    Room(Vec<Begun>),
    /// Something for people.
    Remark(String),
}

/// Runs until SIGTERM or SIGINT, or the end of `options.time`.
///
/// # Errors
/// If it cannot begin, or if the engine has ended.
pub fn run(mut options: Options, engine: &mut dyn Engine) -> Result<(), RunError> {
    memory::hold_little();
    options.config.write_tables_in(options.tables.as_deref());
    let manager = Manager::of_environment();
    let (events, inbox) = channel();
    let control = Control::open(&options.state, &events)?;
    let (store, left) = trace_writer::open(&options.config.store)?;
    store.torn().iter().for_each(|line| (options.say)(line));
    // Held before a thread may make room.
    let left = Left::first(left, MOST_UNEXPLAINED);
    left.iter().for_each(|left| store.is_to_be_explained(&left.episode.id));
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
    let Writing { threads, jobs, words } = Writing::start(store, settings, &board, &events, options.explain, &ending)?;
    for left in left {
        let _ = jobs.send(Job::Explain(Box::new(left)));
    }
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
        last_kept: BTreeMap::new(),
        last_armed: Instant::now(),
        calm_since: None,
        not_kept: 0,
        jobs,
        words,
        serving,
        troubles: Troubles::default(),
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

/// What is known before the first reading; what is lacking is said, too.
fn first_board(options: &Options, engine: &dyn Engine, alone: &InstanceLock, listed: Vec<Episode>) -> Arc<Board> {
    let lacking = rights::lacking();
    alone.other.iter().map(String::as_str).chain(lacking.iter().map(|lacking| lacking.what)).for_each(&options.say);
    let board = Arc::new(Board::default());
    board.write(|published| {
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

/// The threads that write and tell, and what they are reached by.
struct Writing {
    threads: Vec<JoinHandle<()>>,
    jobs: Sender<Job>,
    words: Sender<Alert>,
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
        let ((jobs, work), (tasks, written), (words, said)) = (channel(), channel(), channel());
        let outputs = settings.outputs.clone();
        let alerts = AlertSender { outputs: outputs.clone(), logbook: store.logbook(), board: Arc::clone(board) };
        let explainer = Explainer {
            store: Arc::clone(&store),
            settings,
            explain,
            board: Arc::clone(board),
            guarded: guarded(),
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
            thread("unstarve-scribe", move || writer.run(&work))?,
            thread("unstarve-explain", move || explainer.run(&written))?,
            thread("unstarve-herald", move || alerts.run(&said))?,
        ];
        Ok(Writing { threads, jobs, words })
    }
}

fn no_thread(source: io::Error) -> RunError {
    RunError::System { action: "cannot start a thread", source }
}

fn thread(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, RunError> {
    let started = std::thread::Builder::new().name(name.into()).spawn(run);
    started.map_err(no_thread)
}

/// Tables that were asked for on the command line and cannot be had end the watch; where the configuration asks for them, the watch
/// is about more than these.
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

fn guarded() -> Guarded {
    let mut guarded = Guarded::default();
    // What came before this one is nobody's episode.
    let _ = guarded.word();
    guarded
}

struct Watch {
    config: Config,
    /// The one of the start: some of a new one has to wait for the next.
    began_with: Config,
    path: Option<PathBuf>,
    /// Where the command line wants tables.
    tables: Option<PathBuf>,
    say: Box<dyn Fn(&str)>,
    board: Arc<Board>,
    detector: Detector,
    events: Sender<Event>,
    flight: Option<Flight>,
    /// What it was made by.
    running_by: Option<Buffers>,
    /// Made, and not yet in the place of `flight`.
    next_flight: Option<(Buffers, Flight)>,
    preparing: bool,
    /// What another one was tried to be made by; one that cannot be had is not tried for ever.
    tried: Option<Buffers>,
    /// When.
    last_try: Option<Instant>,
    /// Why the latest try gave none; what is there may be good for something all the same.
    last_failure: Option<String>,
    make: fn(Duration, BufferSize) -> Result<Flight, RecordError>,
    /// Threads that make recorders, and remove those that are not needed any more.
    recorders: Vec<JoinHandle<()>>,
    /// An episode that has begun, and is recorded on until then.
    waits: Option<Waiting>,
    /// By class: what any user can bring about takes nobody else's turn.
    last_kept: BTreeMap<VictimClass, Instant>,
    last_armed: Instant,
    /// When the last reading was, if it showed nothing that is on its way to be an episode.
    calm_since: Option<Instant>,
    /// Since the last one that was kept.
    not_kept: u64,
    outputs: Outputs,
    /// When metrics are pushed next, if they are.
    next_push: Option<Instant>,
    jobs: Sender<Job>,
    /// For the alert sender.
    words: Sender<Alert>,
    serving: Serving,
    troubles: Troubles,
    rollups: Option<Rollups>,
    deliveries: Deliveries,
    /// What the watch before had left is being delivered.
    delivers_left: bool,
    outbox: Option<Outbox>,
    logbook: Option<Logbook>,
}
