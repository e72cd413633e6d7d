//! What there is, is documented; what is documented, there is.

use std::collections::BTreeSet;

use unstarve_diagnose::{REMEDIES, RemedyKind};

fn documentation(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_kind_of_remedy_has_an_id_of_its_own() {
    let ids: BTreeSet<&str> = REMEDIES.iter().map(|kind| kind.id).collect();
    assert_eq!(ids.len(), REMEDIES.len());
    for kind in REMEDIES {
        assert!(
            kind.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "{kind:?}"
        );
        assert!(!kind.title.is_empty() && !kind.title.ends_with('.'), "{kind:?}");
        assert_eq!(RemedyKind::of_id(kind.id), Some(*kind));
    }
}

/// The first column of the table in docs/remedies.md names every kind, and nothing else.
#[test]
fn the_table_of_remedies_is_complete() {
    let text = documentation("remedies.md");
    let cells = text.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    let listed: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert_eq!(listed, REMEDIES.iter().map(|kind| kind.id).collect());
}
