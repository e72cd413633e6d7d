//! A change: one setting of one thing. Pure: nothing here reads or writes a host.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod change;
mod durable;
mod settable;
mod shell;
mod task_key;
mod value;

pub use change::{Change, FeatureState, Relative, Selector, Target, Thread, To};
pub use durable::{Durable, Form, NotDurable, Whose, durable, service_of};
pub use settable::{
    SYSCTLS, interrupt_of, is_of_group, is_sysctl_of_the_scheduler, may_be_busy, may_be_set, numbered_thing,
};
pub use shell::{Commands, commands, quoted, quoted_file};
pub use task_key::TaskKey;
pub use value::{Aspect, Place, Value};
