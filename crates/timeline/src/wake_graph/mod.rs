//! Who woke whom, and what the waits of those who wake cost those who sleep.

pub(crate) mod block_requests;
pub(crate) mod rcu_grace_periods;
pub(crate) mod wake_chain;
pub(crate) mod waker_inference;
pub(crate) mod workqueue;
