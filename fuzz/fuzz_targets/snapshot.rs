//! A host snapshot, and everything that is made of one: queries, the audit in all its forms, previews, pseudonyms.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_facts::{Snapshot, changes_between_snapshots, drifts};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    let Ok(snapshot) = Snapshot::from_json(text) else { return Corpus::Keep };
    for version in ["5.10", "6.12", "7.2"] {
        let version = version.parse().expect("a version");
        let audit = unstarve_check::audit_upgrade(&snapshot, version);
        let json = serde_json::to_string(&audit).expect("JSON") + &unstarve_check::sarif(&audit, "0").to_string();
        assert!(!json.contains('\u{9b}') && !json.contains('\u{202e}'));
        drifts(&snapshot, Some(version));
        changes_between_snapshots(&snapshot, &snapshot.under(version));
    }
    drifts(&snapshot, None);
    let redacted = snapshot.redacted();
    assert!(Snapshot::from_json(&redacted.to_json()).is_ok());
    Corpus::Keep
});
