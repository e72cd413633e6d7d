//! The names that this crate promises, beside the list that was released: `tests/public-names.txt`.
//!
//! `cargo semver-checks` does not see items that a crate passes on from another one, so this list guards them. A name that
//! is missing breaks programs that use it: it needs a new minor version. `UNSTARVE_WRITE=1` writes the list again.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names after `pub use` in a source text. This crate has no public module, so these are all.
fn exported(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in source.split("pub use ").skip(1) {
        let statement = statement.split_once(';').expect("`pub use` ends with a semicolon").0;
        let (_, list) = statement.rsplit_once("::").expect("`pub use crate::Name`");
        let list = list.trim_start_matches('{').trim_end_matches('}');
        names.extend(list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
    }
    names
}

#[test]
fn names_are_those_of_the_stored_list() {
    let source = include_str!("../src/lib.rs");
    assert!(!source.contains("pub mod") && !source.contains("pub fn") && !source.contains('*'), "list them here, too");
    let list: String = exported(source).into_iter().map(|name| name + "\n").collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public-names.txt");
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        fs::write(&path, &list).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap();
    assert_eq!(list, stored, "public names changed: UNSTARVE_WRITE=1 cargo test -p unstarve-trace writes the list");
}
