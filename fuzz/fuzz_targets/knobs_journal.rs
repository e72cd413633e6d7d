//! The journal of settings that were changed: as it is, and with right sums before its lines, so that what they say is
//! read, too.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use unstarve_executor::legacy::Contents;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    let mut whole = Vec::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        whole.extend(format!("{:08x} ", crc32fast::hash(line)).into_bytes());
        whole.extend(line);
        whole.push(b'\n');
    }
    check(&whole);
});

fn check(bytes: &[u8]) {
    let Ok(contents) = Contents::parse(bytes, Path::new("journal")) else { return };
    assert!(contents.whole() <= bytes.len());
    // What is whole says the same without the torn line behind it.
    let again = Contents::parse(&bytes[..contents.whole()], Path::new("journal")).expect("whole lines");
    assert_eq!(again.entries(), contents.entries());
}
