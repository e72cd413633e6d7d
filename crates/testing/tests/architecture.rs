//! The table of crates in docs/architecture.md is what their manifests say.

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
