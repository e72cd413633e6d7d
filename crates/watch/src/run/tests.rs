use super::*;
use crate::config::{Address, Listen};
use crate::scribe::Job;
use crate::tell::metrics;

/// A watch that nobody runs, with a configuration file of its own.
struct Rig {
    watch: Watch,
    jobs: Receiver<Job>,
    _inbox: Receiver<Event>,
    directory: tempfile::TempDir,
}

impl Rig {
    fn new() -> Rig {
        let directory = tempfile::tempdir().expect("a directory");
        let (events, inbox) = channel();
        let (jobs, work) = channel();
        let board = Arc::new(Board::default());
        let listen = Listen { address: Address::Off, ..Listen::default() };
        let serving = Serving::start(listen, Arc::clone(&board), directory.path().into(), &|_| {});
        let watch = Watch {
            otlp: None,
            detector: Detector::new(Config::default().thresholds),
            config: Config::default(),
            path: Some(directory.path().join("watch.toml")),
            say: Box::new(|_| {}),
            board,
            events,
            flight: None,
            next_flight: None,
            // None is made here.
            preparing: true,
            made_by: None,
            recorders: Vec::new(),
            waits: None,
            last_kept: BTreeMap::new(),
            last_armed: Instant::now(),
            not_kept: 0,
            jobs,
            serving,
            rollups: None,
        };
        Rig { watch, jobs: work, _inbox: inbox, directory }
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
    assert!(matches!(rig.jobs.try_recv(), Ok(Job::Configure(outputs)) if outputs.store.episodes == 7));
}

#[test]
fn the_recorder_that_has_an_episode_in_it_is_exchanged_afterwards() {
    let mut rig = Rig::new();
    rig.watch.see_to_recorder();
    let made_by = rig.watch.made_by;
    let episode = Box::new(crate::episode::Episode::default());
    let (until, seen) = (Instant::now(), Instant::now());
    rig.watch.waits = Some(Waiting { until, seen, episode, along: Vec::new(), reply: None });
    rig.watch.board.write(|published| published.recorder = crate::tell::RecorderState::Recording);
    rig.reload("[recorder]\nmode = \"off\"\n");
    assert_eq!(rig.watch.board.read().recorder.word(), "recording");
    rig.watch.waits = None;
    rig.watch.see_to_recorder();
    assert_eq!(rig.watch.board.read().recorder.word(), "off");
    assert!(made_by.is_none() && rig.watch.made_by.is_none());
}

#[test]
fn buffers_that_another_configuration_asked_for_meanwhile_are_made_next() {
    let mut rig = Rig::new();
    rig.watch.preparing = false;
    rig.watch.events = channel().0;
    rig.watch.see_to_recorder();
    let first = rig.watch.made_by.expect("tried");
    assert!(rig.watch.preparing);
    rig.reload("[recorder]\nkeep = \"20s\"\n");
    let wrong = || unstarve_record::RecordError::NoTracefs;
    rig.watch.has_flight(Err(wrong()));
    let second = rig.watch.made_by.expect("tried again");
    assert!(rig.watch.preparing && second != first, "{second:?}");
    // One that cannot be had is not tried for ever.
    rig.watch.has_flight(Err(wrong()));
    assert!(!rig.watch.preparing);
    rig.watch.see_to_recorder();
    assert!(!rig.watch.preparing);
}

#[test]
fn the_status_names_the_address_that_was_bound() {
    let mut rig = Rig::new();
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let board = Arc::clone(&rig.watch.board);
    rig.watch.serving = Serving::start(listen, board, rig.directory.path().into(), &|_| {});
    let status: serde_json::Value = serde_json::from_str(&rig.watch.status()).expect("JSON");
    let address = status["listen"].as_str().expect("an address");
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
}
