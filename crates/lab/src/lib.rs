//! The lab: unmodified distribution kernels booted as small guests in virtual time, loads with a known fault, and
//! statistics that say which kernel, setting or feature makes the difference.

pub mod bench;
pub mod bisect;
pub mod catalogue;
pub mod compare;
pub mod load;
pub mod metric;
pub mod prove;
pub mod run;
pub mod scenario;
pub mod side;
pub mod stats;
pub mod truth;

#[cfg(test)]
mod model;
