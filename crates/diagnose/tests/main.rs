//! All tests of this crate that run side by side: one program, so that it is linked once.

mod any_events;
mod blind;
mod compare;
mod cut_streams;
mod data_quality;
mod findings;
mod gate;
mod idle_workers;
mod kinds;
mod many_names;
mod one_recording;
mod printed_commands;
mod proofs;
mod silent_cpus;
mod stopped_cpus;
mod truth;
mod verdict_scenes;
