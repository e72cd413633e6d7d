//! The lab: unmodified distribution kernels booted as small guests in virtual time, loads with a known fault, and
//! statistics that say which kernel, setting or feature makes the difference.

pub mod catalogue;
pub mod load;
pub mod metric;
pub mod run;
pub mod scenario;
