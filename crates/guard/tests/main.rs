//! All tests of this crate that run side by side: one program, so that it is linked once.

mod bad_policies;
mod decisions;
mod exact_names;
mod machine;
mod reconciler;
