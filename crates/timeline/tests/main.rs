//! All tests of this crate that run side by side: one program, so that it is linked once.

mod device;
mod ends;
mod origins;
mod pictures;
mod real_traces;
mod scene;
mod softirqs;
mod sums;
