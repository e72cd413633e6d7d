//! All tests of this crate that run side by side: one program, so that it is linked once.

mod algorithm;
mod bad_days;
mod host;
mod replay;
mod rooms;
mod verdict_scenes;
