//! All tests of this crate that run side by side: one program, so that it is linked once.

mod roles;
mod same_verdict;
mod scene_row;
mod screens;
mod verdict_scenes;
