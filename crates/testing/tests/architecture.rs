//! The table of crates in docs/architecture.md is what their manifests say, and no test is left out of the programs that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn crates() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the directory of all crates")
}

/// The crates of this workspace that a manifest has among its dependencies; those of builds and tests are no part of the program.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let (mut is_ours, mut found) = (false, BTreeSet::new());
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            is_ours = line.ends_with("dependencies]") && !line.contains("dev-") && !line.contains("build-");
        } else if let Some(rest) = line.strip_prefix("unstarve-").filter(|_| is_ours) {
            found.insert(rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(rest).to_owned());
        }
    }
    found
}

/// Crate and what it uses, of the table's rows.
fn rows(document: &str) -> BTreeMap<String, String> {
    let table = document.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let name = cells.next().expect("a crate").trim_matches('`').to_owned();
        (name, cells.next_back().expect("what it uses").to_owned())
    });
    rows.collect()
}

#[test]
fn the_table_of_crates_is_true() {
    let document = fs::read_to_string(crates().join("../docs/architecture.md")).expect("the document");
    let mut rows = rows(&document);
    for entry in fs::read_dir(crates()).expect("crates").flatten() {
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        let name = entry.file_name().into_string().expect("UTF-8");
        let row = rows.remove(&name).unwrap_or_else(|| panic!("{name} is not in the table"));
        let said: BTreeSet<String> = row.split(", ").filter(|word| *word != "–").map(str::to_owned).collect();
        let used = dependencies(&manifest);
        if row != "all" {
            assert_eq!(said, used, "{name}: the table, and its Cargo.toml");
        }
    }
    assert!(rows.is_empty(), "no such crates: {rows:?}");
}

/// The manifests name the test programs themselves (`autotests = false`): a file that belongs to none of them would be compiled by nobody.
#[test]
fn each_file_of_tests_belongs_to_a_program() {
    let mut seen = 0;
    for entry in fs::read_dir(crates()).expect("crates").flatten() {
        let tests = entry.path().join("tests");
        let (Ok(files), Ok(manifest)) = (fs::read_dir(&tests), fs::read_to_string(entry.path().join("Cargo.toml")))
        else {
            continue;
        };
        let modules = fs::read_to_string(tests.join("main.rs")).unwrap_or_default();
        for file in files.flatten().map(|file| file.path()) {
            let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_rust = match file.is_dir() {
                true => ["mod.rs", "main.rs"].iter().any(|name| file.join(name).exists()),
                false => file.extension().is_some_and(|extension| extension == "rs"),
            };
            let is_program = match stem.as_str() {
                "main" => manifest.contains("path = \"tests/main.rs\""),
                other => manifest.contains(&format!("[[test]]\nname = \"{other}\"")),
            };
            let is_module = modules.lines().any(|line| line == format!("mod {stem};"));
            assert!(!is_rust || is_program || is_module, "{} is in no test program", file.display());
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} files of tests were found");
}
