//! Only `files::program` starts programs: it checks which file may be run, and with which environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Other places that execute something, and why they may.
const EXCEPTIONS: [(&str, &str); 10] = [
    ("crates/files/src/program.rs", "the module itself"),
    ("crates/record/src/command.rs", "`record -- COMMAND` runs the user's own command, in the user's environment"),
    ("crates/lab/src/qemu/supervise.rs", "runs the QEMU that the lab has checked, by the descriptor that it got"),
    ("crates/lab/src/guest/init.rs", "in a guest, of what the image has"),
    ("crates/lab/src/guest/running.rs", "in a guest, of what the image has"),
    ("crates/lab/src/guest/guard.rs", "in a guest, of what the image has"),
    ("crates/lab/src/guest/setup.rs", "in a guest, of what the image has"),
    ("crates/testing/src/everybody.rs", "for tests alone"),
    ("crates/testing/src/need.rs", "for tests alone"),
    ("crates/testing/src/model/running.rs", "for tests alone"),
];

/// Ways to start a program or load a library.
const STARTS: [&str; 9] = [
    "Command::new(",
    "Command::from(",
    "libc::exec",
    "libc::system",
    "libc::popen",
    "posix_spawn",
    "execveat",
    "fexecve",
    "dlopen",
];

#[test]
fn nothing_else_starts_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut looked_at = 0;
    for file in sources_of(&root).iter().flat_map(|sources| rust_files(sources)) {
        let name = file.strip_prefix(&root).expect("below it").to_string_lossy().into_owned();
        if name.ends_with("tests.rs") || name.contains("/tests/") {
            continue;
        }
        looked_at += 1;
        let text = fs::read_to_string(&file).expect("a source file");
        let starts = without_tests(&text).lines().map(str::trim).filter(|line| !line.starts_with("//"));
        let starts = starts.filter(|line| STARTS.iter().any(|start| line.contains(start)));
        let starts: Vec<String> = starts.map(str::to_owned).collect();
        if !starts.is_empty() {
            found.insert(name, starts);
        }
    }
    assert!(looked_at > 300, "{looked_at} files");
    let known: Vec<&str> = EXCEPTIONS.iter().map(|(file, _)| *file).collect();
    let others: BTreeMap<_, _> = found.iter().filter(|(file, _)| !known.contains(&file.as_str())).collect();
    assert!(others.is_empty(), "start programs by unstarve_files::Program or ThisProgram: {others:#?}");
    let gone: Vec<&&str> = known.iter().filter(|file| !found.contains_key(**file)).collect();
    assert!(gone.is_empty(), "these start nothing any more, and are no exceptions: {gone:?}");
}

/// The file without its tests, which are at its end.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

fn sources_of(root: &Path) -> Vec<PathBuf> {
    let crates = fs::read_dir(root.join("crates")).expect("the crates").filter_map(Result::ok);
    crates.map(|entry| entry.path().join("src")).filter(|path| path.is_dir()).collect()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        match path.is_dir() {
            true => files.extend(rust_files(&path)),
            false if path.extension().is_some_and(|extension| extension == "rs") => files.push(path),
            false => {}
        }
    }
    files
}
