//! For tests only: no installed program depends on it.
//!
//! [`model`] is a host on which printed commands are run, [`memory`] a host on which plans are made and applied;
//! [`need`] decides when a test may be skipped; [`verdict_scene`] makes recordings of each kind of wait.

mod everybody;
mod growth;
pub mod memory;
pub mod model;
mod need;
pub mod verdict_scene;

pub use everybody::{place_for_all, program_for_all};
pub use growth::{cpu_time, grows_with_its_input};
pub use need::{not_possible_here, python_module, tool};
