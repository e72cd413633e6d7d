//! Whatever a recording is wrapped in: compression, archives, other encodings of text, pages of HTML.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;
use unstarve_readers::{Input, open_input};

/// A megabyte of events from a few bytes is what compression is for; more than this is not bounded.
const UNPACKED: usize = 1 << 30;

fuzz_target!(|bytes: &[u8]| {
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    if let Ok(input) = Input::from_stream(stream, "fuzz".into())
        && let Ok(source) = open_input(input)
    {
        drained::drain(source, UNPACKED / 2000);
    }
});
