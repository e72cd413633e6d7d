//! The documentation says which test shows what: each of them is there.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        match entry.file_type().expect("its type") {
            kind if kind.is_dir() => sources(&path, found),
            _ if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn each_bad_day_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/watch-design.md")).expect("the documentation");
    let section = text.split("\n## Bad days\n").nth(1).expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let mut files = Vec::new();
    for part in ["crates/watch/src", "crates/watch/tests", "crates/cli/tests"] {
        sources(&root.join(part), &mut files);
    }
    let all: String = files.iter().map(|file| fs::read_to_string(file).expect("a source")).collect();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| day"));
    let mut count = 0;
    for row in rows {
        let shown = row.split('|').nth(2).expect("what shows it");
        for name in shown.split('`').skip(1).step_by(2) {
            let is_there = match name.strip_prefix("bench/") {
                Some(_) => root.join(name).exists(),
                None => all.contains(&format!("fn {name}(")) || all.contains(&format!("(\"{name}\",")),
            };
            assert!(is_there, "{name} is nowhere");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
