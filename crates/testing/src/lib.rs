//! For tests alone: a dependency of nothing that is installed.
//!
//! [`model`] is a host on which the commands that the program prints are run, [`memory`] one on which plans are made and applied;
//! [`need`] says when a test may be left out;
//! [`verdict_scene`] draws recordings of each kind of wait.

mod everybody;
mod growth;
pub mod memory;
pub mod model;
mod need;
pub mod verdict_scene;

pub use everybody::{place_for_all, program_for_all};
pub use growth::{cpu_time, grows_with_its_input};
pub use need::{not_possible_here, python_module, tool};
