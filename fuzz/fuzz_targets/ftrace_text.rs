//! Text of tracefs and of `trace-cmd report`.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;
use unstarve_readers::ftrace_text::FtraceText;

fuzz_target!(|bytes: &[u8]| {
    let source = FtraceText::new(Box::new(std::io::Cursor::new(bytes.to_vec())));
    drained::drain(Box::new(source), bytes.len());
});
