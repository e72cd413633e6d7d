//! Whole trace.dat files of both versions.
#![no_main]

mod drained;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drained::drain_bytes(bytes));
