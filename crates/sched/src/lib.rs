//! The Linux scheduler as facts and pure functions: classes, weights, rules, settings, and a reference run queue.
//!
//! No I/O. Whatever decides between two tasks is defined once, here: `timeline` assigns blame by it, the watch's eBPF programs
//! are compiled with a header generated from it ([`counted::c_header`]) and tested against [`queue::RunQueue`], and remedies
//! compute weights by it.

mod class;
mod contender;
pub mod counted;
pub mod deadline;
pub mod fair;
pub mod fairness;
mod groups;
mod nature;
pub mod queue;
pub mod rt;
mod rule;
pub mod setting;
mod victim_kind;
mod weight;

pub use class::{DEADLINE_RANK, FIRST_FAIR_PRIO, precedes, rank};
pub use contender::{Ahead, Contender};
pub use groups::{GroupId, Groups};
pub use nature::KernelThread;
pub use rule::Rule;
pub use victim_kind::VictimKind;
pub use weight::{
    IDLE_WEIGHT, cpu_weight_of_load_weight, least_nice_that_equals, load_weight_of_cpu_weight, load_weight_of_nice,
    load_weight_of_prio, share_against, systemd_weight_of_shares,
};
