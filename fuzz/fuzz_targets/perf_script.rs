//! Text of `perf script`, in mails too.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;
use unstarve_readers::perf_script::PerfScript;

fuzz_target!(|bytes: &[u8]| {
    let source = PerfScript::new(Box::new(std::io::Cursor::new(bytes.to_vec())));
    drained::drain(Box::new(source), bytes.len());
});
