//! Traces of episodes that overlap, where explaining takes long.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use unstarve_watch::RoleKind;
use unstarve_watch::config::{Address, Config, Syslog};
use unstarve_watch::control::{Request, ask};
use unstarve_watch::episode::Episode;
use unstarve_watch::run::{Options, Signals, run};
use unstarve_watch::store::{EPISODE, TRACE, read_log};

use crate::stage::{self, Ended, Stop};

/// How long the watch runs.
const LASTS: Duration = Duration::from_secs(40);
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// What an explanation takes.
const SLOW: &str = "sleep 8; exit 1";

fn watch(place: &Path) -> Result<(), String> {
    let mut config = Config::default();
    config.store.directory = place.join("store");
    config.listen.address = Address::Off;
    config.sinks.log = Syslog::Off;
    // What else starves on this machine takes no turn.
    for kind in RoleKind::FIXED {
        config.thresholds.role.entry(kind.word().to_owned()).or_default().ignore = true;
    }
    let mut engine = stage::engine().map_err(|stop| format!("{stop:?}"))?;
    let options = Options {
        config,
        path: None,
        tables: None,
        state: place.join("state"),
        explain: Box::new(|_| {
            let mut command = Command::new("sh");
            command.args(["-c", SLOW]);
            command
        }),
        say: Box::new(|_| {}),
        time: Some(LASTS),
        instead: None,
        signals: Signals::catch().map_err(|error| error.to_string())?,
    };
    run(options, &mut engine).map_err(|error| error.to_string())
}

/// Waits until it records.
fn wait_for(state: &Path) -> Ended {
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let status = ask(state, Request::Status).unwrap_or_default();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        match status["recorder"].as_str() {
            Some("recording") => return Ok(()),
            Some("broken") => return Err(Stop::Skip(format!("no flight recorder here: {status}"))),
            _ if Instant::now() > end => {
                return Err(Stop::Fail(format!("it does not record within {TEST_TIMEOUT:?}: {status}")));
            }
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Dumps whose trace is whole.
fn traces(store: &Path) -> usize {
    let entries = std::fs::read_dir(store).into_iter().flatten().flatten();
    let is_dump = |directory: &Path| {
        let text = std::fs::read(directory.join(EPISODE)).unwrap_or_default();
        serde_json::from_slice(&text).is_ok_and(|episode: Episode| episode.trigger.is_none())
    };
    let is_whole = |entry: &std::fs::DirEntry| {
        let is_named = !entry.file_name().to_string_lossy().starts_with('.');
        is_named && entry.path().join(TRACE).exists() && is_dump(&entry.path())
    };
    entries.filter(is_whole).count()
}

/// The ids of dumps in the log.
fn logged(store: &Path) -> Result<Vec<String>, Stop> {
    let episodes = read_log(store).map_err(|error| error.to_string())?.episodes.into_iter();
    Ok(episodes.filter(|episode| episode.trigger.is_none()).map(|episode| episode.id).collect())
}

pub fn both_have_their_trace() -> Ended {
    let mode = std::fs::Permissions::from_mode(0o700);
    let place = tempfile::Builder::new().permissions(mode).tempdir().map_err(|error| error.to_string())?;
    let (state, store) = (place.path().join("state"), place.path().join("store"));
    let at = place.path().to_owned();
    let watch = thread::spawn(move || watch(&at));
    wait_for(&state)?;
    let dumps: Vec<_> = (1..=2)
        .map(|number| {
            let state = state.clone();
            let dump = thread::spawn(move || ask(&state, Request::Dump));
            let end = Instant::now() + TEST_TIMEOUT;
            while traces(&store) < number && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
            dump
        })
        .collect();
    assert_eq!(traces(&store), 2, "one waits for the explanation of the other");
    assert_eq!(logged(&store)?, [""; 0], "the first one is still being explained");
    let ids: Vec<String> = dumps
        .into_iter()
        .map(|dump| dump.join().ok()?.ok())
        .map(|answer| {
            let answer: serde_json::Value = serde_json::from_str(&answer.unwrap_or_default()).unwrap_or_default();
            answer["id"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(logged(&store)?, ids, "explained in their order");
    // It ends by itself.
    watch.join().map_err(|_| "it panicked".to_owned())??;
    Ok(())
}
