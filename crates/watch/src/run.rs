//! The loop: reads the engine, judges, and has everything else done by others. It waits for nobody.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_guard::notify::{self, Manager};
use unstarve_model::{Tid, WallTime};
use unstarve_record::{BufferSize, Flight, RecordError, Roll};

use crate::config::{Config, ConfigError, Recorder, RecorderMode};
use crate::control::{self, Control, ControlError, Request};
use crate::episode::{Begun, Detector, Episode, id_of};
use crate::guarded::Guarded;
use crate::scribe::{self, ExplainCommand, FIRST_EXPECTED, Job, Keep, Outputs, Scribe, chain};
use crate::serving::Serving;
use crate::store::{StoreError, read_log};
use crate::tell::log::Log;
use crate::tell::{Board, Courier, Published, RecorderState, otlp, webhook};
use crate::{Engine, EngineError, VictimClass};

/// How often the engine is read: what starves at the moment is seen only then.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// An armed recorder rests when it was calm for so long.
const REST_AFTER: Duration = Duration::from_secs(30);
/// How long the writing of an episode is waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// Episodes of a killed watch that are explained at the start.
const MOST_UNEXPLAINED: usize = 10;
/// Episodes that share the trace of one that waits for a disk which is busy.
const MOST_ALONG: usize = 16;
/// Episodes that the page knows from the log.
const LISTED: usize = 100;

/// What a watch is started with.
pub struct Options {
    /// The configuration.
    pub config: Config,
    /// The file that it was read from, for SIGHUP; `None` is the default place.
    pub path: Option<PathBuf>,
    /// Where the socket and the lock are.
    pub state: PathBuf,
    /// What explains an episode.
    pub explain: ExplainCommand,
    /// Hears remarks for people.
    pub say: Box<dyn Fn(&str)>,
    /// Ends it after this time.
    pub time: Option<Duration>,
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
    Flight(Box<Result<Flight, RecordError>>),
    /// What was frozen is on the disk.
    Roll(Roll),
    /// Something for people.
    Remark(String),
}

/// Whether it goes on.
#[derive(PartialEq, Eq)]
enum Next {
    On,
    End,
}

/// Runs until SIGTERM or SIGINT, or the end of `options.time`.
///
/// # Errors
/// If it cannot begin, or if the engine has ended.
pub fn run(options: Options, engine: &mut dyn Engine) -> Result<(), RunError> {
    let manager = Manager::of_environment();
    let (events, inbox) = channel();
    let control = Control::open(&options.state, &events)?;
    let (store, unexplained) = scribe::open(&options.config.store)?;
    let board = Arc::new(Board::default());
    let listed = read_log(store.path())?.episodes;
    board.write(|published| {
        published.engine = engine.name();
        listed.into_iter().rev().take(LISTED).for_each(|episode| published.episodes.push_back(Arc::new(episode)));
    });
    let serving =
        Serving::start(options.config.listen.clone(), Arc::clone(&board), store.path().to_owned(), &options.say);
    signals(&events)?;
    let (jobs, work) = channel();
    for episode in unexplained.into_iter().rev().take(MOST_UNEXPLAINED) {
        let _ = jobs.send(Job::Explain(Box::new(episode)));
    }
    let ending = Arc::new(AtomicBool::new(false));
    let mut guarded = Guarded::default();
    let _ = guarded.word();
    let scribe = Scribe {
        store,
        outputs: outputs(&options.config, &board)?,
        explain: options.explain,
        board: Arc::clone(&board),
        events: events.clone(),
        guarded,
        expected: FIRST_EXPECTED,
        ending: Arc::clone(&ending),
    };
    let writing = std::thread::Builder::new()
        .name("unstarve-scribe".into())
        .spawn(move || scribe.run(&work))
        .map_err(|source| RunError::System { action: "cannot start a thread", source })?;
    let watch = Watch {
        otlp: push(&options.config, &board)?,
        detector: Detector::new(options.config.thresholds.clone()),
        config: options.config,
        path: options.path,
        say: options.say,
        board,
        events,
        flight: None,
        preparing: false,
        waits: None,
        last_kept: BTreeMap::new(),
        last_armed: Instant::now(),
        not_kept: 0,
        jobs,
        serving,
    };
    let ended = watch.go(engine, &inbox, &manager, options.time);
    ending.store(true, Ordering::Relaxed);
    manager.tell("STOPPING=1");
    finish(writing, &inbox);
    drop(control);
    ended
}

/// Gives an episode that is being written its time.
fn finish(writing: JoinHandle<()>, inbox: &Receiver<Event>) {
    let end = Instant::now() + LAST_WORDS;
    while !writing.is_finished() && Instant::now() < end {
        // Instances that come back are removed here.
        let _ = inbox.recv_timeout(Duration::from_millis(20));
    }
}

fn signals(events: &Sender<Event>) -> Result<(), RunError> {
    let failed = |source| RunError::System { action: "cannot handle signals", source };
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    let events = events.clone();
    let forward = move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("unstarve-signal".into()).spawn(forward).map(drop).map_err(failed)
}

fn outputs(config: &Config, board: &Arc<Board>) -> Result<Outputs, RunError> {
    let failed = |source| RunError::System { action: "cannot start a thread", source };
    let webhook = config.webhook.clone().map(|webhook| webhook::start(webhook, Arc::clone(board)));
    Ok(Outputs {
        log: Log::open(config.sinks.log),
        webhook: webhook.transpose().map_err(failed)?,
        store: config.store.clone(),
    })
}

struct Push {
    courier: Courier<Arc<Published>>,
    next: Instant,
}

fn push(config: &Config, board: &Arc<Board>) -> Result<Option<Push>, RunError> {
    let Some(otlp) = config.otlp.clone() else { return Ok(None) };
    let next = Instant::now() + otlp.interval.0;
    let courier = otlp::start(otlp, Arc::clone(board));
    let courier = courier.map_err(|source| RunError::System { action: "cannot start a thread", source })?;
    Ok(Some(Push { courier, next }))
}

struct Watch {
    config: Config,
    path: Option<PathBuf>,
    say: Box<dyn Fn(&str)>,
    board: Arc<Board>,
    detector: Detector,
    events: Sender<Event>,
    flight: Option<Flight>,
    preparing: bool,
    /// An episode that has begun, and is recorded on until then.
    waits: Option<Waiting>,
    /// By class: what any user can bring about takes nobody else's turn.
    last_kept: BTreeMap<VictimClass, Instant>,
    last_armed: Instant,
    /// Since the last one that was kept.
    not_kept: u64,
    otlp: Option<Push>,
    jobs: Sender<Job>,
    serving: Serving,
}

struct Waiting {
    until: Instant,
    seen: Instant,
    episode: Box<Episode>,
    along: Vec<Episode>,
    reply: Option<Sender<String>>,
}

impl Watch {
    fn go(
        mut self,
        engine: &mut dyn Engine,
        inbox: &Receiver<Event>,
        manager: &Manager,
        time: Option<Duration>,
    ) -> Result<(), RunError> {
        self.prepare();
        self.read(engine)?;
        manager.tell("READY=1");
        let begun = Instant::now();
        let watchdog = notify::watchdog_interval();
        let (mut next, mut next_sign) = (begun + INTERVAL, begun);
        loop {
            let now = Instant::now();
            if time.is_some_and(|time| now - begun >= time) {
                return Ok(());
            }
            let due = self.waits.as_ref().map_or(next, |waiting| waiting.until.max(now).min(next));
            match inbox.recv_timeout(due.saturating_duration_since(now)) {
                Ok(event) => {
                    if self.hear(event, manager) == Next::End {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.keep_if_due();
            if Instant::now() >= next {
                self.read(engine)?;
                self.serving.look(Instant::now(), &self.say);
                // After a stop of the machine not once for each interval that was missed.
                next = (next + INTERVAL).max(Instant::now());
                if watchdog.is_some_and(|interval| next_sign.elapsed() >= interval.min(INTERVAL * 4)) {
                    manager.tell("WATCHDOG=1");
                    next_sign = Instant::now();
                }
            }
        }
    }

    fn hear(&mut self, event: Event, manager: &Manager) -> Next {
        match event {
            Event::Signal(SIGHUP) => {
                manager.tell("RELOADING=1");
                self.reload();
                manager.tell("READY=1");
            }
            Event::Signal(_) => return Next::End,
            Event::Asked(Request::Status, reply) => {
                let _ = reply.send(self.status());
            }
            Event::Asked(Request::Dump, reply) => self.dump(reply),
            Event::Flight(flight) => self.has_flight(*flight),
            Event::Remark(text) => (self.say)(&text),
            Event::Roll(roll) => match &mut self.flight {
                Some(flight) => flight.take_back(roll),
                None => drop(roll),
            },
        }
        Next::On
    }

    fn read(&mut self, engine: &mut dyn Engine) -> Result<(), RunError> {
        let reading = match engine.read() {
            Ok(reading) => Arc::new(reading.without_occupant(Tid(std::process::id()))),
            Err(error @ EngineError::Ended) => return Err(RunError::Engine(error)),
            Err(error) => {
                self.board.write(|published| {
                    published.counts.engine_errors += 1;
                    published.problems.insert("engine", format!("engine: {}", chain(&error)));
                });
                return Ok(());
            }
        };
        let step = self.detector.see(Arc::clone(&reading));
        self.board.write(|published| {
            published.problems.remove("engine");
            Arc::make_mut(&mut published.history).add(&reading);
            if let Some(admitted) = published.admitted.next(&reading) {
                published.admitted = Arc::new(admitted);
            }
            published.next(reading);
        });
        if let Some(push) = self.otlp.as_mut().filter(|push| Instant::now() >= push.next) {
            push.next = Instant::now() + self.config.otlp.as_ref().map_or(REST_AFTER, |otlp| otlp.interval.0);
            push.courier.send(self.board.read());
        }
        self.arm(step.armed);
        if !step.hidden.is_empty() {
            self.board.write(|published| step.hidden.iter().for_each(|role| published.counts.suppress(role)));
        }
        step.begun.iter().for_each(|begun| self.begin(begun));
        Ok(())
    }

    fn begin(&mut self, begun: &Begun) {
        let now = Instant::now();
        let class = VictimClass::of(begun.victim.kind);
        let too_soon = self.last_kept.get(&class).is_some_and(|last| now - *last < self.config.store.every.0);
        let many = self.waits.as_ref().is_some_and(|waiting| waiting.along.len() >= MOST_ALONG);
        if too_soon || many {
            self.not_kept += 1;
            self.board.write(|published| {
                published.counts.not_kept += 1;
                published.counts.suppress(&begun.victim.name());
            });
            return;
        }
        let mut episode = Box::new(Episode::begun(id_of(begun.at.wall), begun.at.wall));
        episode.note_counters(begun);
        episode.not_kept = std::mem::take(&mut self.not_kept);
        self.last_kept.insert(class, now);
        if let Some(waiting) = &mut self.waits {
            episode.id = format!("{}-{}", episode.id, waiting.along.len() + 2);
            waiting.along.push(*episode);
            return;
        }
        let after = if self.flight.is_some() { self.config.recorder.after.0 } else { Duration::ZERO };
        self.waits = Some(Waiting { until: now + after, seen: now, episode, along: Vec::new(), reply: None });
    }

    fn dump(&mut self, reply: Sender<String>) {
        let refusal = match (&self.flight, &self.waits) {
            (None, _) => Some("there is no flight recorder: see `unstarve watch status`"),
            (_, Some(_)) => Some("an episode is being recorded; ask again in a second"),
            _ => None,
        };
        if let Some(refusal) = refusal {
            let _ = reply.send(control::error(refusal));
            return;
        }
        let at = wall_now();
        let episode = Box::new(Episode::begun(id_of(at), at));
        let now = Instant::now();
        self.waits = Some(Waiting { until: now, seen: now, episode, along: Vec::new(), reply: Some(reply) });
    }

    /// Hands over the episode whose time has come. While the one before is still being written to the disk it waits.
    fn keep_if_due(&mut self) {
        if self.waits.as_ref().is_none_or(|waiting| Instant::now() < waiting.until) {
            return;
        }
        let frozen = match self.flight.as_mut().map(Flight::freeze) {
            None => None,
            Some(Ok(Some(frozen))) => Some(frozen),
            Some(Ok(None)) => {
                if let Some(waiting) = &mut self.waits {
                    waiting.until = Instant::now() + INTERVAL;
                }
                return;
            }
            Some(Err(error)) => {
                self.recorder(RecorderState::Broken(chain(&error)));
                None
            }
        };
        let Some(Waiting { seen, mut episode, along, reply, .. }) = self.waits.take() else { return };
        if frozen.is_none() && self.config.recorder.mode != RecorderMode::Off {
            episode.problem = Some("no trace: the flight recorder is not ready".to_owned());
        }
        let _ = self.jobs.send(Job::Keep(Keep { episode, along, frozen, seen, reply }));
    }

    /// Makes the flight recorder, in a thread: where CPUs are kept from the kernel's own workers that takes its time.
    fn prepare(&mut self) {
        let Recorder { mode, keep, buffer_mib, .. } = self.config.recorder.clone();
        if mode == RecorderMode::Off {
            self.flight = None;
            self.recorder(RecorderState::Off);
            return;
        }
        if self.preparing {
            return;
        }
        let buffer = buffer_mib.map_or(BufferSize::Auto, |mib| BufferSize::KiB(mib.saturating_mul(1 << 10)));
        let events = self.events.clone();
        let make = move || {
            let flight = Flight::prepare(keep.0, buffer, &mut |_| {});
            let _ = events.send(Event::Flight(Box::new(flight)));
        };
        self.preparing = std::thread::Builder::new().name("unstarve-flight".into()).spawn(make).is_ok();
    }

    fn has_flight(&mut self, flight: Result<Flight, RecordError>) {
        self.preparing = false;
        match flight {
            Ok(flight) if self.config.recorder.mode != RecorderMode::Off => {
                self.flight = Some(flight);
                self.arm(self.config.recorder.mode == RecorderMode::Always);
            }
            Ok(_) => {}
            Err(error) => {
                let why = chain(&error);
                (self.say)(&format!("episodes will have no trace: {why}"));
                self.recorder(RecorderState::Broken(why));
            }
        }
    }

    fn arm(&mut self, armed: bool) {
        let Some(flight) = &mut self.flight else { return };
        if armed {
            self.last_armed = Instant::now();
        }
        let wanted = match self.config.recorder.mode {
            RecorderMode::Always => true,
            RecorderMode::Armed => armed || self.last_armed.elapsed() < REST_AFTER && flight.is_running(),
            RecorderMode::Off => false,
        };
        let done = if wanted { flight.run() } else { flight.rest() };
        let state = match done {
            Err(error) => RecorderState::Broken(chain(&error)),
            Ok(()) if wanted => RecorderState::Recording,
            Ok(()) => RecorderState::Armed,
        };
        self.recorder(state);
    }

    fn recorder(&self, state: RecorderState) {
        if self.board.read().recorder == state {
            return;
        }
        self.board.write(|published| {
            match &state {
                RecorderState::Broken(why) => {
                    drop(published.problems.insert("recorder", format!("flight recorder: {why}")))
                }
                _ => drop(published.problems.remove("recorder")),
            }
            published.recorder = state;
        });
    }

    fn reload(&mut self) {
        match self.reloaded() {
            Ok(()) => (self.say)("configuration reloaded"),
            Err(error) => (self.say)(&format!("the configuration stays as it was: {}", chain(error.as_ref()))),
        }
    }

    fn reloaded(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let config = Config::find(self.path.as_deref()).map_err(Box::<ConfigError>::new)?;
        let old = std::mem::replace(&mut self.config, config);
        if old.listen != self.config.listen || old.store.directory != self.config.store.directory {
            (self.say)("another address or store takes effect at the next start");
        }
        self.detector.judge_by(self.config.thresholds.clone());
        self.otlp = push(&self.config, &self.board)?;
        let _ = self.jobs.send(Job::Configure(outputs(&self.config, &self.board)?));
        let (before, now) = (&old.recorder, &self.config.recorder);
        let needs_other = (before.keep, before.buffer_mib) != (now.keep, now.buffer_mib);
        if needs_other || now.mode == RecorderMode::Off || self.flight.is_none() {
            self.flight = None;
            self.prepare();
        }
        Ok(())
    }

    fn status(&self) -> String {
        let published = self.board.read();
        let reading = published.reading.as_ref();
        let status = serde_json::json!({
            "schema": "unstarve.watch-status/1",
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "engine": published.engine,
            "since": reading.map(|reading| reading.since.wall.to_string()),
            "at": reading.map(|reading| reading.at.wall.to_string()),
            "recorder": published.recorder.word(),
            "store": self.config.store.directory,
            "listen": self.config.listen.address,
            "episodes": published.counts.episodes,
            "kept": published.counts.kept.map(|kept| kept.episodes),
            "kept_bytes": published.counts.kept.map(|kept| kept.bytes),
            "not_kept": published.counts.not_kept,
            "suppressed": published.counts.suppressed,
            "open": self.detector.is_open(),
            "cpu_seconds": reading.map(|reading| reading.cost.process.as_secs_f64()),
            "lost": reading.map(|reading| reading.lost),
            "problems": published.problems.values().collect::<Vec<_>>(),
        });
        status.to_string()
    }
}

fn wall_now() -> WallTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    WallTime(since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}
