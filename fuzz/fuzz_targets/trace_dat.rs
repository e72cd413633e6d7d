//! Whole trace.dat files of both versions.
#![no_main]

mod drained;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_readers::{Input, trace_dat};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // Without the magic other readers would be fuzzed, which have targets of their own.
    if !trace_dat::sniff(bytes) {
        return Corpus::Reject;
    }
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    if let Ok(source) = Input::from_stream(stream, "fuzz".into()).map_err(Into::into).and_then(trace_dat::open) {
        drained::drain(source, bytes.len());
    }
    Corpus::Keep
});
