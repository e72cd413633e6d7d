//! For tests alone: a dependency of nothing that is installed.
//!
//! Hosts that are made up: [`fake_host`] in memory, on which changes are planned, made and taken back; [`host_tree`] as files below a root
//! of their own; [`model`] as what a shell sees in a mount namespace, where the commands that the program prints are run.
//! [`need`] says when a test may be left out;
//! [`verdict_scene`] draws recordings of each kind of wait.

mod everybody;
pub mod fake_host;
mod growth;
pub mod host_tree;
pub mod model;
mod need;
pub mod verdict_scene;

pub use everybody::{place_for_all, program_for_all};
pub use growth::{cpu_time, grows_with_its_input};
pub use need::{not_possible_here, python_module, tool};
