//! All tests of this crate: one program, so that it is linked once.

mod examples;
mod public_names;
mod sums;
