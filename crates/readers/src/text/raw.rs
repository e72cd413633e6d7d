//! Parses event bodies printed by `trace-cmd report -R`: each field's name and its bare number.

use unstarve_model::EventKind;

use super::body::{split_last, task};
use super::number::any_base;
use crate::prev_state;

/// Parses the text after `prev_comm=`: `sh prev_pid=1642 prev_prio=120 prev_state=4096 next_comm=x next_pid=46
/// next_prio=120`.
pub fn switch(body: &[u8]) -> Option<EventKind> {
    let (prev, next) = split_last(body, b" next_comm=")?;
    let (prev, state) = split_last(prev, b" prev_state=")?;
    let prev = task(prev, b" prev_pid=", b" prev_prio=")?;
    Some(EventKind::Switch {
        prev,
        prev_state: prev_state::of_bare_number(any_base(state)?, *prev.comm()),
        next: task(next, b" next_pid=", b" next_prio=")?,
    })
}
