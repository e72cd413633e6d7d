//! All tests of this crate that run side by side: one program, so that it is linked once.

mod conversions;
mod corpus;
mod odd_inputs;
mod synth;
mod trace_cmd;
mod trace_dat;
