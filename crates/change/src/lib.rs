//! A change: one setting of one thing. Pure: nothing here reads or writes a host.

mod settable;
mod task_key;
mod value;

pub use settable::{SYSCTLS, is_sysctl_of_the_scheduler, may_be_set};
pub use task_key::TaskKey;
pub use value::{Aspect, Place, Value, policy_name};
