//! The crate's tests.
