//! A whole Perfetto trace.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;
use unstarve_readers::perfetto::Perfetto;

fuzz_target!(|bytes: &[u8]| {
    let source = Perfetto::new(Box::new(std::io::Cursor::new(bytes.to_vec())));
    drained::drain(Box::new(source), bytes.len());
});
