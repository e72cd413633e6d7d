//! Arrows between the rooms of this crate go one way: `agent` → `episode` → `engine::reading`, and `agent` → `engine`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A room, what of this crate its files may use, and what else they must not.
const ROOMS: [(&str, &[&str], &[&str]); 4] = [
    ("engine/reading", &["engine::reading"], IO),
    ("engine", &["engine"], &[]),
    ("episode", &["episode", "engine::reading"], IO),
    ("agent", &["agent", "episode", "engine"], &[]),
];

/// What does I/O, or belongs to crates that do.
const IO: &[&str] = &[
    "std::fs",
    "std::io",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "rustix::",
    "unstarve_executor",
    "unstarve_files",
    "unstarve_host",
    "unstarve_record",
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The product code below a directory, by path: no tests, no comments.
fn sources(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("tests") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") && !path.to_string_lossy().ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.insert(path, code.collect::<Vec<_>>().join("\n"));
        }
    }
    found
}

/// What follows each `root` in a text: `engine::reading::Role` of `crate::engine::reading::Role`.
fn paths<'a>(text: &'a str, root: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(root).map(move |(at, _)| {
        let rest = &text[at + root.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
        rest[..end].trim_end_matches(':')
    })
}

/// What a room's code uses and must not.
fn forbidden(text: &str, allowed: &[&str], refused: &[&str]) -> Vec<String> {
    let is_in =
        |path: &str, room: &str| path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    let ours = paths(text, "crate::").filter(|path| !allowed.iter().any(|room| is_in(path, room)));
    let others = refused.iter().filter(|name| text.contains(*name));
    ours.map(|path| format!("crate::{path}")).chain(others.map(|name| (*name).to_owned())).collect()
}

#[test]
fn a_room_uses_only_those_below_it() {
    let text = "use crate::engine::ebpf::Ebpf;\nuse crate::engine::reading::Role;\nstd::fs::read(path)";
    assert_eq!(forbidden(text, ROOMS[2].1, ROOMS[2].2), ["crate::engine::ebpf::Ebpf", "std::fs"]);
    for (room, allowed, refused) in ROOMS {
        let sources = sources(&src().join(room));
        assert!(sources.len() > 2, "{room} has moved");
        for (path, text) in sources {
            assert_eq!(forbidden(&text, allowed, refused), [""; 0], "{}", path.display());
        }
    }
}

/// Takes away what uses nothing that is left, until there is nothing of that kind: the rest is in a circle, or uses one.
fn in_circles(mut uses: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    while let Some(free) = uses.iter().find(|(_, used)| !used.iter().any(|name| uses.contains_key(name))) {
        let free = free.0.clone();
        uses.remove(&free);
    }
    uses.into_keys().collect()
}

#[test]
fn files_of_episode_use_each_other_in_no_circle() {
    let room = src().join("episode");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in sources(&room) {
        let name = path.strip_prefix(&room).expect("below it").with_extension("");
        let name = name.iter().next().expect("a name").to_string_lossy().into_owned();
        // The list of files shows them to others; they name each other.
        if name == "mod" {
            continue;
        }
        assert!(name == "settings" || !text.contains("super::{"), "{name} uses the room's list of files");
        let used = paths(&text, "super::").chain(paths(&text, "crate::episode::"));
        let used = used.filter_map(|path| path.split("::").next()).filter(|used| *used != name).map(str::to_owned);
        uses.entry(name.clone()).or_default().extend(used);
    }
    assert!(uses.len() > 10, "{uses:?}");
    let circle = |names: [(&str, &str); 2]| names.map(|(a, b)| (a.to_owned(), BTreeSet::from([b.to_owned()]))).into();
    assert_eq!(in_circles(circle([("a", "b"), ("b", "a")])), ["a", "b"]);
    assert_eq!(in_circles(uses), [""; 0]);
}
