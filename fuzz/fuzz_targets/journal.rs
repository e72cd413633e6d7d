//! A guard's journal: as it is, and with right sums before its lines, so that what they say is read, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unstarve_executor::journal::{Contents, sealed};

const BOOT: &str = "now";

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut whole = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        sealed(line, &mut whole);
    }
    check(&whole);
});

fn check(bytes: &[u8]) {
    let Ok(contents) = Contents::parse(bytes, BOOT) else { return };
    assert!(contents.open.iter().all(|change| change.seq <= contents.last_seq));
    // Torn in the middle, no line before the tear is lost.
    let cut = bytes.len() / 2;
    if let Ok(half) = Contents::parse(&bytes[..cut], BOOT) {
        assert!(half.damaged <= contents.damaged + 1 && half.last_seq <= contents.last_seq.max(half.last_seq));
    }
}
