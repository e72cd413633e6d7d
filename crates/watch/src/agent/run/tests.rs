//! Tests of the main loop's decisions without running it.

use std::sync::mpsc::Receiver;

use unstarve_model::{ClockPair, Nanos};
use unstarve_testing::json_schema::JsonSchema;

use super::*;
use crate::agent::config::{Address, Blame, Listen, SeriesLimits};
use crate::agent::outputs::Message;
use crate::agent::outputs::http::metrics;
use crate::agent::trace_writer::Job;
use crate::engine::reading::{Quiet, Reading};
use crate::episode::End;
use crate::testing::{Scene, at};

fn outputs(config: &Config, board: &Arc<Board>) -> Outputs {
    Outputs::open(config, board, &Deliveries::default()).expect("outputs")
}

/// A watch that is not running, with a configuration file of its own.
struct Rig {
    watch: Watch,
    jobs: Receiver<Job>,
    alerts: Receiver<Alert>,
    inbox: Receiver<Event>,
    directory: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().expect("a directory");
        let (events, inbox) = channel();
        let (jobs, work) = channel();
        let (alerts, opened) = channel();
        let board = Arc::new(Board::default());
        let listen = Listen { address: Address::Off, ..Listen::default() };
        let serving = Serving::start(listen, Arc::clone(&board), directory.path().into(), &|_| {});
        let watch = Watch {
            outputs: outputs(&Config::default(), &board),
            next_push: None,
            detector: Detector::new(Config::default().thresholds),
            config: Config::default(),
            began_with: Config::default(),
            path: Some(directory.path().join("watch.toml")),
            tables: None,
            say: Box::new(|_| {}),
            board,
            events,
            flight: None,
            next_flight: None,
            // No recorder is created here.
            preparing: true,
            running_by: None,
            tried: None,
            last_try: None,
            last_failure: None,
            make: |_, _| Err(unstarve_record::RecordError::NoTracefs),
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
            workloads: crate::agent::workload_series::WorkloadSeries::new(
                20,
                crate::agent::pod_names::PodNames::default(),
            ),
            worst_blame: WorstBlame::default(),
            rollups: None,
            deliveries: Deliveries::default(),
            delivers_left: false,
            outbox: None,
            logbook: None,
        };
        Rig { watch, jobs: work, alerts: opened, inbox, directory }
    }

    fn reload(&mut self, text: &str) {
        std::fs::write(self.directory.path().join("watch.toml"), text).expect("written");
        self.watch.reload();
    }

    fn says_in_force(&self) -> f64 {
        let text = metrics::text(self.watch.board.read()).expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix("unstarve_config_last_reload_successful "));
        line.and_then(|value| value.parse().ok()).expect("the metric")
    }
}

#[test]
fn a_configuration_with_an_error_is_in_the_status_the_log_and_the_metrics_until_a_right_one_comes() {
    let mut rig = Rig::new();
    assert!(rig.says_in_force() > 0.5);
    rig.reload("[store]\nepisodes = 7\n[webhook]\nurl = \"gopher://x\"\n");
    assert_eq!(rig.watch.config, Config::default(), "nothing of it holds");
    let problem = rig.watch.board.read().problems.get("configuration").cloned().expect("a problem");
    assert!(problem.contains("stays as it was") && problem.contains("gopher"), "{problem}");
    assert!(rig.watch.status().contains("stays as it was"));
    assert!(rig.says_in_force() < 0.5);
    assert!(matches!(rig.jobs.try_recv(), Ok(Job::Warn(text)) if text == problem), "and nothing is configured");
    assert!(rig.jobs.try_recv().is_err());

    rig.reload("[store]\nepisodes = 7\n");
    assert_eq!(rig.watch.config.store.episodes, 7);
    assert!(rig.watch.board.read().problems.is_empty());
    assert!(rig.says_in_force() > 0.5);
    assert!(matches!(rig.jobs.try_recv(), Ok(Job::Configure(settings)) if settings.limits.episodes == 7));
}

#[test]
fn an_output_that_a_configuration_has_no_more_has_no_problem() {
    let mut rig = Rig::new();
    let both = "[otlp]\nendpoint = \"http://127.0.0.1:9/v1/metrics\"\n[webhook]\nurl = \"http://127.0.0.1:9/\"\n";
    rig.reload(both);
    for output in ["otlp", "webhook"] {
        rig.watch.board.write(|published| drop(published.problems.insert(output, format!("{output}: refused"))));
    }
    rig.reload(both);
    assert!(rig.problem("otlp").is_some() && rig.problem("webhook").is_some(), "nothing was delivered since");
    let problems = rig.watch.board.read().problems.clone();
    assert_eq!(rig.watch.troubles.look(&problems).len(), 2);
    rig.reload("[webhook]\nurl = \"http://127.0.0.1:9/\"\n");
    assert_eq!(rig.problem("otlp"), None);
    assert!(rig.problem("webhook").is_some());
    rig.reload("");
    let problems = rig.watch.board.read().problems.clone();
    assert!(problems.is_empty(), "{problems:?}");
    assert!(rig.watch.troubles.look(&problems).is_empty(), "nothing is delivered again");
}

#[test]
fn the_recorder_that_has_an_episode_in_it_is_exchanged_afterwards() {
    let mut rig = Rig::new();
    rig.watch.see_to_recorder();
    let tried = rig.watch.tried;
    let episode = Box::new(crate::episode::Episode::default());
    let (until, seen) = (Instant::now(), Instant::now());
    rig.watch.waits = Some(Waiting { until, seen, episode, along: Vec::new(), begun: Vec::new(), reply: None });
    rig.watch.board.write(|published| published.recorder = crate::agent::board::RecorderState::Recording);
    rig.reload("[recorder]\nmode = \"off\"\n");
    assert_eq!(rig.watch.board.read().recorder.word(), "recording");
    rig.watch.waits = None;
    rig.watch.see_to_recorder();
    assert_eq!(rig.watch.board.read().recorder.word(), "off");
    assert!(tried.is_none() && rig.watch.tried.is_none());
}

impl Rig {
    /// Waits for the result of creating the recorder, which is a failure.
    fn hears_of_no_flight(&mut self) -> Buffers {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if let Event::Flight(by, flight) = self.inbox.recv_timeout(left).expect("it is said") {
                assert!(flight.is_err(), "none is made here");
                self.watch.has_flight(by, *flight);
                return by;
            }
        }
    }

    fn problem(&self, key: &str) -> Option<String> {
        self.watch.board.read().problems.get(key).cloned()
    }
}

#[test]
fn buffers_that_another_configuration_asked_for_meanwhile_are_made_next() {
    let mut rig = Rig::new();
    rig.watch.preparing = false;
    rig.watch.see_to_recorder();
    let first = rig.watch.tried.expect("tried");
    assert!(rig.watch.preparing);
    rig.reload("[recorder]\nkeep = \"20s\"\n");
    assert_eq!(rig.hears_of_no_flight(), first);
    let second = rig.watch.tried.expect("tried again");
    assert!(rig.watch.preparing && second != first, "{second:?}");
    // A recorder that cannot be created is not retried continuously.
    assert_eq!(rig.hears_of_no_flight(), second);
    assert!(!rig.watch.preparing);
    rig.watch.see_to_recorder();
    assert!(!rig.watch.preparing);
    assert!(rig.problem("recorder").is_some());
    // But at each reload.
    rig.reload("[recorder]\nkeep = \"20s\"\n");
    assert!(rig.watch.preparing);
    assert_eq!(rig.hears_of_no_flight(), second);
}

#[test]
fn buffers_that_cannot_be_had_are_a_problem_as_long_as_they_are_asked_for() {
    let mut rig = Rig::new();
    rig.watch.preparing = false;
    rig.watch.running_by = Buffers::of(&rig.watch.config.recorder);
    rig.watch.see_to_recorder();
    assert!(!rig.watch.preparing, "they are there");
    let other = "[recorder]\nbuffer-mib = 1024\n";
    for back in ["", "[recorder]\nmode = \"off\"\n"] {
        rig.watch.running_by = Buffers::of(&Config::default().recorder);
        rig.reload(other);
        rig.hears_of_no_flight();
        assert!(rig.problem("buffers").is_some_and(|why| why.contains("keeps the buffers")));
        // They are retried at the next reload.
        rig.reload(other);
        assert!(rig.watch.preparing);
        rig.hears_of_no_flight();
        assert!(rig.problem("buffers").is_some());
        rig.reload(back);
        assert_eq!(rig.problem("buffers"), None, "{back}");
        assert!(!rig.watch.preparing, "nothing is made anew");
    }
}

#[test]
fn a_reload_keeps_the_directory_of_the_command_line() {
    let mut rig = Rig::new();
    let said = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let hears = std::rc::Rc::clone(&said);
    rig.watch.say = Box::new(move |text| hears.borrow_mut().push(text.to_owned()));
    rig.watch.tables = Some("/srv/tables".into());
    rig.watch.config.write_tables_in(rig.watch.tables.as_deref());
    rig.watch.began_with = rig.watch.config.clone();
    rig.reload("");
    let tables = rig.watch.config.tables.clone().expect("still");
    assert_eq!(tables.directory, Path::new("/srv/tables"));
    assert_eq!(*said.borrow(), ["configuration reloaded"], "nothing about them has changed");
    rig.reload("[tables]\ndirectory = \"/elsewhere\"\nmib = 7\n");
    let tables = rig.watch.config.tables.clone().expect("still");
    assert_eq!((tables.directory.as_path(), tables.mib), (Path::new("/srv/tables"), 7));
    assert!(said.borrow().iter().any(|text| text.contains("at the next start")));
}

/// A change that takes effect at the next start is in the status as long as it is configured.
#[test]
fn an_address_that_awaits_a_restart_is_in_the_status() {
    let mut rig = Rig::new();
    let text = "[listen]\naddress = \"127.0.0.1:9999\"\n";
    rig.reload(text);
    let waits = "another [listen] address = \\\"127.0.0.1:9999\\\" takes effect at the next start";
    assert!(rig.watch.status().contains(waits), "{}", rig.watch.status());
    rig.reload(&format!("{text}[store]\nepisodes = 7\n"));
    assert!(rig.watch.status().contains(waits), "it still waits");
    rig.reload("[store]\nepisodes = 7\n");
    assert_eq!(rig.problem("restart"), None);
}

#[test]
fn a_reload_without_a_file_says_that_the_defaults_hold() {
    let mut rig = Rig::new();
    let said = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let hears = std::rc::Rc::clone(&said);
    rig.watch.say = Box::new(move |text| hears.borrow_mut().push(text.to_owned()));
    rig.reload("");
    assert_eq!(*said.borrow(), ["configuration reloaded"]);
    rig.watch.path = None;
    if Path::new(crate::agent::config::DEFAULT_PATH).exists() {
        return unstarve_testing::not_possible_here("this machine has a configuration of its own");
    }
    rig.watch.reload();
    assert_eq!(said.borrow().last().map(String::as_str), Some("no /etc/unstarve/watch.toml: the defaults hold"));
}

#[test]
fn tables_that_cannot_be_had_end_the_watch_that_was_started_for_them() {
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("file"), "").expect("written");
    let directory = place.path().join("file/tables");
    let mut config = Config::default();
    config.write_tables_in(Some(&directory));
    let board = Arc::new(Board::default());
    let said = std::cell::RefCell::new(Vec::new());
    let say = |text: &str| said.borrow_mut().push(text.to_owned());
    let refused = rollups(&config, Some(&directory), &say, &board).err().expect("an error").to_string();
    assert!(refused.starts_with("cannot write tables: ") && refused.contains("--tables"), "{refused}");
    assert!(said.borrow().is_empty());
    // The configuration enables more than tables.
    assert!(rollups(&config, None, &say, &board).is_ok_and(|rollups| rollups.is_none()));
    let problem = board.read().problems.get("tables").cloned().expect("a problem");
    assert_eq!(*said.borrow(), [format!("no {problem}")]);
}

#[cfg(feature = "columnar")]
#[test]
fn at_the_end_tables_have_what_the_scribe_wrote_last() {
    let mut rig = Rig::new();
    let reading = Arc::new(crate::testing::Scene::new().reading(crate::testing::at(1_000)));
    rig.watch.board.write(|published| published.next(reading));
    let directory = rig.directory.path().join("tables");
    rig.watch.config.write_tables_in(Some(&directory));
    rig.watch.rollups = Rollups::start(&rig.watch.config, &rig.watch.board).expect("they can be written");
    // A slow trace writer, which ends when its sender is dropped.
    let (jobs, work) = channel();
    rig.watch.jobs = jobs;
    let board = Arc::clone(&rig.watch.board);
    let writer = std::thread::spawn(move || {
        for job in work {
            let Job::Keep(keep) = job else { continue };
            std::thread::sleep(Duration::from_millis(300));
            board.write(|published| published.list(Arc::from(keep.episode)));
        }
    });
    let at = crate::testing::at(500).wall;
    let seen = crate::episode::Seen {
        trigger: crate::episode::Trigger::Oldest { ns: 2, threshold_ns: 1 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule: None,
        blamed_ns: None,
    };
    let mut episode = crate::episode::Episode::begun(crate::episode::id_of(at), at);
    episode.trigger = Some(seen);
    let now = Instant::now();
    let episode = Box::new(episode);
    rig.watch.waits =
        Some(Waiting { until: now, seen: now, episode, along: Vec::new(), begun: Vec::new(), reply: None });
    rig.watch.end(vec![writer], &rig.inbox);
    assert!(directory.join("v1/table=episodes").is_dir(), "the episode that was written last is there");
}

#[test]
fn the_status_names_the_address_that_was_bound() {
    let mut rig = Rig::new();
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let board = Arc::clone(&rig.watch.board);
    rig.watch.serving = Serving::start(listen, board, rig.directory.path().into(), &|_| {});
    let status: serde_json::Value = serde_json::from_str(&rig.watch.status()).expect("JSON");
    let schema = schemars::generate::SchemaSettings::default().for_serialize().into_generator();
    let schema = JsonSchema::of(schema.into_root_schema_for::<WatchStatus>().to_value());
    assert_eq!(schema.takes(&status), Ok(()));
    let address = status["listen"].as_str().expect("an address");
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
}

#[test]
fn the_first_word_on_an_episode_waits_for_no_trace_and_no_explanation() {
    let mut rig = Rig::new();
    let scene = |ms: u64| {
        crate::testing::Scene::new().blame("ksoftirqd", crate::engine::reading::RoleKind::RealTime, ms * 1_000_000)
    };
    let readings = [scene(0), scene(85).wait("ksoftirqd", 85_000_000)].into_iter().enumerate();
    for (step, scene) in readings {
        let reading = Arc::new(scene.reading(crate::testing::at(step as u64 * 250)));
        rig.watch.detector.see(reading).begun.iter().for_each(|begun| rig.watch.begin(begun));
    }
    let Ok(Alert::Said(word)) = rig.alerts.try_recv() else { panic!("nothing is said") };
    assert!(rig.jobs.try_recv().is_err(), "it is still being recorded");
    assert_eq!(word.stage, crate::episode::Stage::Begun);
    assert_eq!((word.rule.map(unstarve_sched::Rule::word), word.ns), (Some("class"), Some(85_000_000)));
    assert_eq!(
        crate::episode::line(&word).split(" has begun: ").nth(1),
        Some("ksoftirqd tasks waited 85.0 ms while real-time tasks had their CPUs (class)")
    );
    let published = rig.watch.board.read();
    assert_eq!(published.episodes.front().map(|episode| &episode.id), Some(&word.id), "the page has it");
    assert_eq!(published.counts.begun.get("class"), Some(&1));
    // The final record has the same id.
    rig.watch.waits.as_mut().expect("it waits").until = Instant::now();
    assert!(rig.watch.keep_if_due());
    let Ok(Job::Keep(keep)) = rig.jobs.try_recv() else { panic!("it is not handed over") };
    assert_eq!((keep.episode.id.as_str(), keep.episode.stage), (word.id.as_str(), crate::episode::Stage::Complete));
}

/// Records the nice value with which it is read.
struct Noting {
    is_bounded: bool,
    nice: Vec<i32>,
}

impl Engine for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn read(&mut self) -> Result<crate::engine::reading::Reading, EngineError> {
        self.nice.push(rustix::process::getpriority_process(None).expect("known"));
        match self.nice.len() {
            1 => Ok(Scene::new().reading(at(0))),
            _ => Err(EngineError::Ended),
        }
    }

    fn is_bounded(&self) -> bool {
        self.is_bounded
    }
}

/// A crowd of programs does not delay a bounded reading; an engine whose readings take longer with more programs gets no priority.
#[test]
fn readings_go_before_programs_if_they_are_bounded() {
    let nice = || rustix::process::getpriority_process(None).expect("known");
    let before = nice();
    let may = crate::agent::priority_boost::PriorityBoost::raise().is_some();
    for is_bounded in [true, false] {
        let mut rig = Rig::new();
        let mut engine = Noting { is_bounded, nice: Vec::new() };
        let ended = rig.watch.go(&mut engine, &rig.inbox, &Manager::of_environment(), None);
        assert!(matches!(ended, Err(RunError::Engine(EngineError::Ended))), "{ended:?}");
        let later = if is_bounded && may { -20 } else { before };
        assert_eq!(engine.nice, [before, later], "the first one, which looks at everything, goes before nobody");
        assert_eq!(nice(), before, "and as before when it is over");
    }
}

#[test]
fn an_episode_that_could_not_be_kept_begins_again_when_it_could() {
    let mut rig = Rig::new();
    let mut scene = Scene::new().blame("ksoftirqd", crate::engine::reading::RoleKind::RealTime, 0);
    let mut see = |rig: &mut Rig, step: u64| {
        let reading = Arc::new(scene.reading(crate::testing::at(step * 250)));
        scene = scene
            .clone()
            .blame("ksoftirqd", crate::engine::reading::RoleKind::RealTime, 85_000_000)
            .wait("ksoftirqd", 85_000_000);
        let begun = rig.watch.detector.see(reading).begun;
        begun.iter().for_each(|begun| rig.watch.begin(begun));
        begun.len()
    };
    see(&mut rig, 0);
    assert_eq!(see(&mut rig, 1), 1);
    rig.watch.waits.as_mut().expect("it waits").until = Instant::now();
    assert!(rig.watch.keep_if_due());
    let Ok(Job::Keep(keep)) = rig.jobs.try_recv() else { panic!("it is not handed over") };
    // The same episode continues.
    assert_eq!((2..6).map(|step| see(&mut rig, step)).sum::<usize>(), 0);
    // It could not be written; now there is room.
    rig.watch.hear(Event::Room(keep.begun), &Manager::of_environment());
    assert_eq!(see(&mut rig, 6), 1);
    assert!(rig.watch.waits.is_some(), "it is recorded, though another one was a moment ago");
}

/// SIGTERM while the collector is unreachable: pending pushes are neither waited for nor dropped silently.
#[test]
fn what_cannot_be_delivered_at_the_end_is_said_and_noted() {
    let mut rig = Rig::new();
    let (_place, store) = crate::testing::store(crate::agent::store::Limits { bytes: u64::MAX, episodes: 9 });
    (rig.watch.outbox, rig.watch.logbook) = (Some(store.outbox()), Some(store.logbook()));
    let said = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let hears = std::rc::Rc::clone(&said);
    rig.watch.say = Box::new(move |text| hears.borrow_mut().push(text.to_owned()));
    // No process listens there any more.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let url = format!("http://{nobody}/");
    let mut config = Config::default();
    config.sinks.log = crate::agent::config::Syslog::Off;
    config.webhook = Some(crate::agent::config::Webhook { url: url.clone(), headers: [].into() });
    let interval = "10s".parse().expect("a time");
    config.otlp = Some(crate::agent::config::Otlp { endpoint: url, interval, headers: [].into() });
    rig.watch.outputs = Outputs::open(&config, &rig.watch.board, &rig.watch.deliveries).expect("a thread");
    rig.watch.next_push = first_push(&config);
    let word = Arc::new(crate::episode::Episode { id: "20261123-012345-678".into(), ..Default::default() });
    rig.watch.outputs.send(&Message::Episode(Arc::clone(&word)));
    let begun = Instant::now();
    rig.watch.end(Vec::new(), &rig.inbox);
    assert!(begun.elapsed() < Duration::from_secs(14), "whom nobody answers is not waited for");
    let unsent = store.outbox().read().expect("noted");
    assert_eq!(unsent.words, [word.as_ref().clone()]);
    assert_eq!(unsent.counts.get("otlp"), Some(&1), "the last push");
    assert!(said.borrow().iter().any(|text| text.starts_with("not delivered at shutdown: ")), "{said:?}");
}

/// Counts how often it is read.
struct Counting {
    scene: Scene,
    begun: Instant,
    reads: usize,
    is_quiet: bool,
}

impl Counting {
    fn now(&self) -> ClockPair {
        at(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX))
    }
}

impl Engine for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn quiet(&self, below: Nanos) -> Option<Quiet> {
        assert_eq!(below, Nanos::from_millis(10), "of the default thresholds none is below twice as much");
        self.is_quiet.then(|| Quiet { at: self.now(), real_time: Vec::new() })
    }

    fn read(&mut self) -> Result<Reading, EngineError> {
        self.reads += 1;
        Ok(self.scene.reading(self.now()))
    }
}

/// Number of readings in 2.6 s, and of readings that the detector keeps then.
fn reads(scene: Scene, is_quiet: bool, rig: &mut Rig) -> (usize, usize) {
    let mut engine = Counting { scene, begun: Instant::now(), reads: 0, is_quiet };
    let time = Some(Duration::from_millis(2600));
    rig.watch.go(&mut engine, &rig.inbox, &Manager::of_environment(), time).expect("it runs");
    (engine.reads, rig.watch.detector.remembered().count())
}

#[test]
fn where_nobody_waits_it_is_read_once_a_second() {
    let (at_rest, known) = reads(Scene::new(), true, &mut Rig::new());
    assert!((2..=4).contains(&at_rest), "{at_rest} readings");
    assert!(known > at_rest, "the detector knows of {known} times, {at_rest} of them readings");
    let (busy, known) = reads(Scene::new(), false, &mut Rig::new());
    assert!(busy > at_rest && busy == known, "{busy} readings where somebody waits, {at_rest} where nobody does");
}

#[test]
fn what_is_on_its_way_to_be_an_episode_is_read_each_time() {
    let lasts = Scene::new().lasts("ksoftirqd", 18, "real-time", 20_000_000);
    let limited = Scene::new().group("/pods").stopped("/pods", 0.5, 0);
    for (what, scene) in [("a wait that lasts", lasts), ("a group with a limit", limited)] {
        let (busy, known) = reads(scene, true, &mut Rig::new());
        assert!(busy > 4 && busy == known, "{what}: {busy} readings");
    }
    let mut rig = Rig::new();
    let episode = Box::new(crate::episode::Episode::default());
    let (until, seen) = (Instant::now() + Duration::from_secs(600), Instant::now());
    rig.watch.waits = Some(Waiting { until, seen, episode, along: Vec::new(), begun: Vec::new(), reply: None });
    let (busy, _) = reads(Scene::new(), true, &mut rig);
    assert!(busy > 4, "while an episode is recorded: {busy} readings");
}

#[test]
fn by_other_thresholds_it_is_read_at_once() {
    let mut rig = Rig::new();
    rig.watch.calm_since = Some(Instant::now());
    rig.reload("[thresholds]\nwait = \"1ms\"\n");
    assert_eq!(rig.watch.calm_since, None);
}

/// Starts an episode of ksoftirqd behind a real-time task; returns the next number of a reading.
fn begin_one(rig: &mut Rig) -> Scene {
    let scene = |ms: u64| Scene::new().blame("ksoftirqd", crate::engine::reading::RoleKind::RealTime, ms * 1_000_000);
    let second = scene(85).wait("ksoftirqd", 85_000_000);
    for (step, scene) in [scene(0), second.clone()].into_iter().enumerate() {
        let step = rig.watch.detector.see(Arc::new(scene.reading(at(step as u64 * 250))));
        step.begun.iter().for_each(|begun| rig.watch.begin(begun));
        rig.watch.end_episodes(step.ended);
    }
    second
}

impl Rig {
    /// The stages and ends of all words so far; those for the log alone are noted.
    fn words(&self) -> Vec<(crate::episode::Stage, Option<crate::episode::EndReason>, bool)> {
        let words = self.alerts.try_iter().map(|alert| match alert {
            Alert::Said(word) => (word.stage, word.ended_by, false),
            Alert::Noted(word) => (word.stage, word.ended_by, true),
            Alert::Configure(_) => panic!("nobody has configured anything"),
        });
        words.collect()
    }

    /// Passes on the episode that is recorded; the trace writer and the explainer are not there.
    fn keep_now(&mut self) -> Box<crate::agent::trace_writer::Keep> {
        self.watch.waits.as_mut().expect("it waits").until = Instant::now();
        assert!(self.watch.keep_if_due());
        match self.jobs.try_recv() {
            Ok(Job::Keep(keep)) => keep,
            _ => panic!("it is not handed over"),
        }
    }
}

#[test]
fn an_episode_that_is_over_is_said_once_its_explanation_is() {
    use crate::episode::{EndReason, Stage};

    for is_explained_first in [true, false] {
        let mut rig = Rig::new();
        let scene = begin_one(&mut rig);
        assert_eq!(rig.words(), [(Stage::Begun, None, false)]);
        let explained = Arc::new(*rig.keep_now().episode);
        let words = &rig.watch.board.last_words;
        assert!(is_explained_first || rig.watch.detector.is_open());
        if is_explained_first {
            assert_eq!(words.complete(&explained), None);
        }
        for step in 2..40 {
            let step = rig.watch.detector.see(Arc::new(scene.reading(at(step * 250))));
            rig.watch.end_episodes(step.ended);
        }
        let expected = match is_explained_first {
            true => (Stage::Ended, Some(EndReason::Calm), false),
            false => (Stage::Begun, Some(EndReason::Calm), true),
        };
        assert_eq!(rig.words(), [expected]);
        let last = rig.watch.board.last_words.complete(&explained);
        assert_eq!(
            last.map(|last| (last.stage, last.total_ns)),
            (!is_explained_first).then_some((Stage::Ended, Some(85_000_000)))
        );
        assert_eq!(
            rig.watch.board.read().counts.ended,
            u64::from(is_explained_first),
            "the publisher counts the other"
        );
        assert!(rig.watch.ids.is_empty());
    }
}

/// SIGTERM.
#[test]
fn at_the_end_open_episodes_have_their_last_word() {
    use crate::episode::{EndReason, Stage};

    for is_explained in [true, false] {
        let mut rig = Rig::new();
        begin_one(&mut rig);
        let explained = Arc::new(*rig.keep_now().episode);
        if is_explained {
            rig.watch.board.last_words.complete(&explained);
        }
        let Rig { watch, alerts, inbox, .. } = rig;
        watch.end(Vec::new(), &inbox);
        let words: Vec<_> = alerts.try_iter().collect();
        let last = match (&words[..], is_explained) {
            ([_, Alert::Said(last)], true) => last.as_ref(),
            // The log has it for the next watch, which explains the trace.
            ([_, Alert::Noted(note)], false) => note.as_ref(),
            _ => panic!("{} words", words.len()),
        };
        assert_eq!(last.stage, if is_explained { Stage::Ended } else { Stage::Begun });
        assert_eq!((last.ended_by, last.total_ns, last.lasts), (Some(EndReason::WatchEnded), Some(85_000_000), false));
    }
}

/// SIGKILL: what the log has of open episodes, and what the next watch says of them.
#[test]
fn a_killed_watchs_open_episodes_are_ended_by_the_next_one() {
    use crate::agent::store::{Limits, Store};
    use crate::episode::{EndReason, Episode, Stage, id_of};

    let (place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 9 });
    let path = place.path().join("store");
    let record = |number: u64, stage: Stage| {
        let at = at(number * 1000).wall;
        Episode { stage, lasts: true, ..Episode::begun(id_of(at), at) }
    };
    let limited = Episode { problem: Some("no trace: too many".into()), ..record(2, Stage::Begun) };
    let over = record(3, Stage::Complete);
    let of_before = Episode { lasts: false, ..record(4, Stage::Complete) };
    let mut noted = record(5, Stage::Begun);
    noted.note_end(&End::continued(at(6000).wall, "x".into()));
    for word in [
        &record(0, Stage::Begun),
        &record(1, Stage::Complete),
        &limited,
        &over,
        &of_before,
        &record(5, Stage::Begun),
        &noted,
    ] {
        store.logbook().add(word).expect("added");
    }
    store.logbook().add(&over.clone().ended(&End::unseen(EndReason::Calm))).expect("added");
    drop(store);
    let store = Store::open(&path, Limits { bytes: u64::MAX, episodes: 9 }).expect("a store");
    let ids = |episodes: &[Episode]| episodes.iter().map(|episode| episode.id.clone()).collect::<Vec<_>>();
    let without_end = store.without_end().expect("read");
    assert_eq!(ids(&without_end), ids(&[record(1, Stage::Complete), limited.clone()]), "only the end is missing");
    let rig = Rig::new();
    left_open::say_ends(&without_end, &rig.watch.board, &rig.watch.alerts);
    let killed = (Stage::Ended, Some(EndReason::WatchKilled), false);
    assert_eq!(rig.words(), [killed, killed]);
    // These have no trace after all, which is said first.
    let left: Vec<Episode> = store.unexplained().expect("read").into_iter().map(|left| left.episode).collect();
    assert_eq!(ids(&left), ids(&[record(0, Stage::Begun), noted.clone()]));
    left.iter().for_each(|episode| left_open::restore(episode, &rig.watch.board));
    let last = left.iter().map(|episode| rig.watch.board.last_words.complete(&Arc::new(episode.clone())));
    let last: Vec<_> = last.map(|last| last.and_then(|last| last.ended_by)).collect();
    assert_eq!(last, [Some(EndReason::WatchKilled), Some(EndReason::Continued)], "an end that was seen stays");
}

/// Three culprits in a second, then the first one again: each has a line, and all but the last a trace.
#[test]
fn each_starvation_has_a_line_and_each_culprit_a_trace() {
    let mut rig = Rig::new();
    let mut scene = Scene::new().group("/a").group("/b").group("/c").group("/victim");
    let mut traced = Vec::new();
    let mut step = 0;
    let mut see = |rig: &mut Rig, scene: &Scene, traced: &mut Vec<bool>| {
        let found = rig.watch.detector.see(Arc::new(scene.reading(at(step * 250))));
        step += 1;
        for begun in &found.begun {
            rig.watch.begin(begun);
            let is_traced = rig.watch.waits.take().is_some();
            traced.push(is_traced);
        }
        rig.watch.end_episodes(found.ended);
    };
    see(&mut rig, &scene, &mut traced);
    for culprit in ["/a", "/b", "/c", "/a"] {
        scene = scene.blame_group("/victim", culprit, unstarve_sched::Rule::Weight, 3_000_000_000);
        scene = scene.wait("/victim", 3_000_000_000);
        see(&mut rig, &scene, &mut traced);
        (0..24).for_each(|_| see(&mut rig, &scene, &mut traced));
    }
    assert_eq!(traced, [true, true, true, false]);
    let begun = rig.words().into_iter().filter(|(stage, ..)| *stage == crate::episode::Stage::Begun);
    assert_eq!(begun.filter(|(_, _, is_note)| !is_note).count(), 4, "each has a line");
    let counts = rig.watch.board.read().counts.clone();
    assert_eq!((counts.begun.values().sum::<u64>(), counts.without_trace, counts.not_kept), (4, 1, 0));
    let listed = rig.watch.board.read().episodes.clone();
    let last = listed.front().expect("listed");
    assert!(
        last.problem.as_deref().is_some_and(|why| why.starts_with("no trace: one of the same culprit")),
        "{last:?}"
    );
    assert_eq!((last.stage, last.total_ns), (crate::episode::Stage::Ended, Some(3_000_000_000)), "nothing else comes");
}

/// Somebody makes culprits with ever new names.
#[test]
fn lines_are_limited_and_what_has_none_is_counted_and_said() {
    let mut rig = Rig::new();
    let names: Vec<String> = (0..60).map(|number| format!("/pods/{number:02}")).collect();
    let mut scene = names.iter().fold(Scene::new().group("/pods"), |scene, name| scene.stopped(name, 0.1, 0));
    for step in 0..8 {
        let found = rig.watch.detector.see(Arc::new(scene.reading(at(step * 250))));
        found.begun.iter().for_each(|begun| rig.watch.begin(begun));
        scene = names.iter().fold(scene, |scene, name| scene.stopped(name, 0.1, 225_000_000));
    }
    let counts = rig.watch.board.read().counts.clone();
    assert_eq!((counts.begun.values().sum::<u64>(), counts.not_kept), (32, 28));
    assert_eq!(rig.watch.not_kept, 28, "the next line says so");
    assert!(rig.watch.status().contains("\"not_kept\":28"));
    let ids: std::collections::BTreeSet<String> = rig.watch.ids.values().cloned().collect();
    assert_eq!(ids.len(), 32, "each has an id of its own");
}

#[test]
fn labels_and_what_has_a_series_hold_at_once_after_a_reload() {
    let mut rig = Rig::new();
    let held = |rig: &Rig| {
        let published = rig.watch.board.read();
        (published.machine.labels.get("site").cloned(), published.series)
    };
    assert_eq!(held(&rig), (None, SeriesLimits::default()));
    rig.reload("[labels]\nsite = \"fra1\"\n[metrics]\npreset = \"thin\"\n");
    let (site, series) = held(&rig);
    assert_eq!((site.as_deref(), series.histograms, series.blame), (Some("fra1"), false, Blame::Worst(10)));
    rig.reload("[labels]\nsite = \"a,b\"\n");
    assert_eq!(held(&rig), (site, series), "what is refused changes nothing");
}
