//! The lab: unmodified distribution kernels booted as small guests in virtual time, loads with a known fault, and
//! statistics that say which kernel, setting or feature makes the difference.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod bench;
pub mod bisect;
pub mod case;
pub mod catalogue;
pub mod cells;
pub mod compare;
pub mod console;
pub mod counters;
mod felt;
pub mod guest;
mod image;
mod json_directory;
pub mod kernel_table;
pub mod metric;
pub mod player;
pub mod predictions;
pub mod proofs;
pub mod prove;
pub mod qemu;
pub mod repeat;
pub mod replay;
pub mod run;
pub mod runner;
pub mod scenario;
pub mod side;
pub mod stats;
pub mod store;
pub mod trial;
pub mod truth;

#[cfg(test)]
mod model;
