//! Files use each other in one direction: a directory only those before it, a file of one never a file that uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From the lowest.
const LAYERS: [&str; 7] = ["commit", "error", "problem", "decode", "store", "merge", "upkeep"];

/// The first names after `use crate::` or `use super::`.
fn used<'a>(text: &'a str, from: &str) -> BTreeSet<&'a str> {
    let uses = text.lines().filter_map(|line| line.trim().split_once(from));
    let named = uses.filter(|(before, _)| before.ends_with("use ")).map(|(_, rest)| rest);
    let first = |path: &'a str| path.trim().split([':', ';', '}']).next().unwrap_or_default();
    let all = named.flat_map(|rest| match rest.strip_prefix('{') {
        Some(list) => list.split(',').map(first).collect(),
        None => vec![first(rest)],
    });
    all.collect()
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("it is there").path());
    let sources = entries.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("UTF-8");
        (name, text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned())
    };
    sources.map(read).filter(|(name, _)| !name.ends_with("_tests") && name != "mod").collect()
}

#[test]
fn layers_use_only_those_below() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut seen = 0;
    for layer in LAYERS {
        let (own, at) = (rank(layer), source.join(layer));
        let texts = if at.is_dir() {
            files(&at)
        } else {
            BTreeMap::from([(layer.to_owned(), fs::read_to_string(source.join(format!("{layer}.rs"))).expect("UTF-8"))])
        };
        for (file, text) in &texts {
            seen += 1;
            for name in used(text, "crate::") {
                assert!(rank(name).is_some_and(|used| Some(used) < own), "{layer}/{file} uses crate::{name}");
            }
        }
        // Files of one directory: what is used by none that is left can go, until none is left.
        let mut left: BTreeMap<&String, BTreeSet<&str>> =
            texts.iter().map(|(file, text)| (file, used(text, "super::"))).collect();
        while let Some(free) = left.keys().copied().find(|file| !left.values().any(|uses| uses.contains(file.as_str())))
        {
            left.remove(free);
        }
        assert!(left.is_empty(), "{layer}: a circle among {:?}", left.keys());
    }
    assert!(seen > 25, "{seen} files");
}
