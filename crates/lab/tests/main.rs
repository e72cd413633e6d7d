//! All tests of this crate that run side by side: one program, so that it is linked once.

mod kernel_logs;
mod loads;
mod scenario_reference;
