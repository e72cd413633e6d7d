//! Traces of episodes that overlap, where explaining takes long.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use unstarve_watch::config::{Address, Config, Syslog};
use unstarve_watch::control::{Request, ask};
use unstarve_watch::run::{Options, Signals, run};
use unstarve_watch::store::{TRACE, read_log};

use crate::stage::{self, Ended, Stop};

/// How long the watch runs.
const LASTS: Duration = Duration::from_secs(40);
const PATIENCE: Duration = Duration::from_secs(20);
/// What an explanation takes.
const SLOW: &str = "sleep 8; exit 1";

fn watch(place: &Path) -> Result<(), String> {
    let mut config = Config::default();
    config.store.directory = place.join("store");
    config.listen.address = Address::Off;
    config.sinks.log = Syslog::Off;
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
    let end = Instant::now() + PATIENCE;
    loop {
        let status = ask(state, Request::Status).unwrap_or_default();
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        match status["recorder"].as_str() {
            Some("recording") => return Ok(()),
            Some("broken") => return Err(Stop::Skip(format!("no flight recorder here: {status}"))),
            _ if Instant::now() > end => return Err(Stop::Skip(format!("it does not record: {status}"))),
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Episodes whose trace is whole.
fn traces(store: &Path) -> usize {
    let entries = std::fs::read_dir(store).into_iter().flatten().flatten();
    let is_whole = |entry: &std::fs::DirEntry| {
        !entry.file_name().to_string_lossy().starts_with('.') && entry.path().join(TRACE).exists()
    };
    entries.filter(is_whole).count()
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
            let end = Instant::now() + PATIENCE;
            while traces(&store) < number && Instant::now() < end {
                thread::sleep(Duration::from_millis(20));
            }
            dump
        })
        .collect();
    assert_eq!(traces(&store), 2, "one waits for the explanation of the other");
    let logged = read_log(&store).map_err(|error| error.to_string())?.episodes;
    assert!(logged.is_empty(), "the first one is still being explained: {logged:?}");
    let ids: Vec<String> = dumps
        .into_iter()
        .map(|dump| dump.join().ok()?.ok())
        .map(|answer| {
            let answer: serde_json::Value = serde_json::from_str(&answer.unwrap_or_default()).unwrap_or_default();
            answer["id"].as_str().unwrap_or_default().to_owned()
        })
        .collect();
    let logged = read_log(&store).map_err(|error| error.to_string())?.episodes;
    assert_eq!(logged.into_iter().map(|episode| episode.id).collect::<Vec<_>>(), ids, "explained in their order");
    // It ends by itself.
    watch.join().map_err(|_| "it panicked".to_owned())??;
    Ok(())
}
