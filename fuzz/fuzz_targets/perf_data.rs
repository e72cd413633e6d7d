//! A whole perf.data, of a file or a pipe.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;
use unstarve_readers::{Input, perf_data::PerfData};

fuzz_target!(|bytes: &[u8]| {
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    if let Ok(input) = Input::from_stream(stream, "fuzz".into())
        && let Ok(source) = PerfData::open(input)
    {
        drained::drain(Box::new(source), bytes.len());
    }
});
