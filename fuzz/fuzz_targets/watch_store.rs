//! A store of the watch with anything in its files: it opens, or says what is wrong; no name leads out of it, and no line breaks another.
//! The first byte says which file the rest is.
#![no_main]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_model::WallTime;
use unstarve_watch::episode::{Episode, id_of, line};
use unstarve_watch::store::{EPISODE, Limits, Store, TRACE, read_log, trace_directory};

const FILES: [&str; 5] = ["episodes.jsonl", "episodes.1.jsonl", "unsent.json", "episode.json", "along.json"];

fn at(second: u64) -> WallTime {
    WallTime(1_764_000_187_000_000_000 + second * 1_000_000_000)
}

fn place() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let mode = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().expect("a directory").keep()
    })
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some((first, bytes)) = bytes.split_first() else { return Corpus::Reject };
    let store = place().join("store");
    let _ = fs::remove_dir_all(&store);
    let limits = Limits { bytes: 10_000, episodes: 2 };
    drop(Store::open(&store, limits).expect("a store"));
    // One whose trace is there.
    let id = id_of(at(0));
    fs::create_dir(store.join(&id)).expect("made");
    fs::set_permissions(store.join(&id), fs::Permissions::from_mode(0o700)).expect("ours");
    fs::write(store.join(&id).join(TRACE), "x").expect("written");
    let whole = serde_json::to_vec(&Episode { trace_bytes: Some(1), ..Episode::begun(id.clone(), at(0)) });
    fs::write(store.join(&id).join(EPISODE), whole.expect("JSON")).expect("written");
    let index = usize::from(*first) % FILES.len();
    let file = if index < 3 { store.join(FILES[index]) } else { store.join(&id).join(FILES[index]) };
    fs::write(file, bytes).expect("written");
    check(&store, limits);
    Corpus::Keep
});

fn check(store: &Path, limits: Limits) {
    let read = read_log(store).expect("it is a log, with torn lines");
    for episode in &read.episodes {
        let said = line(episode);
        assert!(!said.contains(|c: char| c.is_control()), "{said:?}");
        if let Ok(Some(directory)) = trace_directory(store, &episode.id) {
            assert!(directory.join(TRACE).exists());
        }
        if let Some(other) = &episode.trace_of {
            let _ = trace_directory(store, other);
        }
    }
    let open = Store::open(store, limits).expect("it opens");
    for left in open.unexplained().expect("read") {
        let _ = (line(&left.episode), left.along.iter().map(line).count());
    }
    let unsent = open.outbox().read();
    assert!(unsent.is_err() || unsent.is_ok_and(|unsent| unsent.words.iter().map(line).all(|text| !text.contains('\n'))));
    // What is added now is read, whatever was there.
    let new = Episode::begun(id_of(at(9)), at(9));
    let unfinished = open.begin(&new, 10).expect("room");
    let sequence = Some(unfinished.sequence());
    let new = Episode { id: unfinished.id().to_owned(), sequence, ..new };
    unfinished.finish(&open, &new, &[]).expect("finished");
    open.logbook().add(&new).expect("added");
    assert!(read_log(store).expect("read").episodes.contains(&new));
}
