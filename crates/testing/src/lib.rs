//! For tests only: no installed program depends on it.
//!
//! Fake hosts: [`fake_host`] in memory, on which changes are planned, made and undone; [`host_tree`] as files below a root; [`model`] as
//! a shell sees it in a mount namespace, where printed commands are run.
//!
//! [`json_schema`] compares JSON with its schema. [`need`] decides when a test may be skipped; [`verdict_scene`] makes recordings of each kind of wait.

mod everybody;
pub mod fake_host;
mod growth;
pub mod host_tree;
pub mod json_schema;
pub mod model;
mod need;
pub mod verdict_scene;

pub use everybody::{install_program, install_script, place_for_all, program_for_all};
pub use growth::{cpu_time, grows_with_its_input};
pub use need::{not_possible_here, python_module, tool};
