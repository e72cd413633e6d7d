//! The head that a killed recorder left, and the recording that `record --salvage` makes of it.
#![no_main]

mod drained;

use std::path::Path;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_model::CpuId;
use unstarve_readers::trace_dat_write::{CpuPages, Head};

/// Pages of zeros that are put behind the head.
const PAGES: u64 = 2;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Some(head) = Head::from_bytes(bytes.to_vec()) else { return Corpus::Reject };
    let mut kept = Vec::new();
    head.keep(&mut kept).expect("memory");
    assert!(kept == bytes, "what was kept is kept again");
    // More than this needs a disk, not a fuzzer.
    if head.page_size() > 1 << 16 || head.cpus() > 64 {
        return Corpus::Keep;
    }
    let length = PAGES * u64::from(head.page_size());
    let file = tempfile::tempfile().expect("a temporary file");
    file.set_len(length).expect("room");
    let pages = [CpuPages { cpu: CpuId(0), file, length }];
    let mut out = tempfile::tempfile().expect("a temporary file");
    if head.write_into(&pages, &mut out, Path::new("salvaged"), &mut |_, _| {}).is_ok() {
        let mut recording = Vec::new();
        std::io::Seek::rewind(&mut out).expect("a file");
        std::io::Read::read_to_end(&mut out, &mut recording).expect("a file");
        drained::drain_bytes(&recording);
    }
    Corpus::Keep
});
