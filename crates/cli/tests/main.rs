//! All tests of this crate that run side by side: one program, so that it is linked once.

mod abuse;
mod audit;
mod book;
mod ci_steps;
mod command_line;
mod dist_place;
mod doctor;
mod earlier_outputs;
mod evidence;
#[cfg(feature = "columnar")]
mod fleet;
mod forged_recordings;
mod gate;
mod generate;
mod guard;
mod hostile_names;
mod hostile_programs;
mod lab_failures;
#[cfg(feature = "mcp")]
mod mcp;
mod mistakes;
mod predictions;
mod release;
mod results;
mod schema;
mod sql;
#[cfg(feature = "columnar")]
mod tables;
mod watch_store;
