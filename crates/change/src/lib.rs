//! A change: one setting of one thing. Pure: nothing here reads or writes a host.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod change;
mod durable;
mod place;
mod shell;
mod task_key;

pub use change::{Change, Relative, Selector, Target, Thread, To};
pub use durable::{Durable, Form, NotDurable, Whose, durable, service_of};
pub use place::Place;
pub use shell::{Commands, commands, quoted, quoted_file};
pub use task_key::TaskKey;
pub use unstarve_sched::setting::feature::FeatureState;
pub use unstarve_sched::setting::{Aspect, Value};
