//! The Linux scheduler as facts and pure functions: classes, weights, rules, settings, and a reference run queue. No I/O.

mod nature;
mod rule;
pub mod setting;
mod weight;

pub use nature::KernelThread;
pub use rule::Rule;
pub use weight::{
    IDLE_WEIGHT, least_nice_that_equals, load_weight_of_cpu_weight, load_weight_of_nice, load_weight_of_prio,
    share_against,
};
