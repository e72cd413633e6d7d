//! Parses perf's own records among the events (`--show-lost-events`, `--show-switch-events`, `--show-task-events` and
//! others).

use unstarve_model::{PrevState, Tid};

use crate::text::number::{leading, tid};

/// The records that are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// `LOST lost 208`.
    Lost(u64),
    /// `SWITCH_CPU_WIDE OUT preempt  next pid/tid:   505/505`.
    Leaves { prev_state: PrevState, next: Tid },
}

/// Parses the text after `PERF_RECORD_`.
pub fn parse(text: &[u8]) -> Option<Record> {
    if let Some(rest) = text.strip_prefix(b"LOST ") {
        return Some(Record::Lost(leading(rest.trim_ascii().strip_prefix(b"lost ")?)?.0));
    }
    let rest = text.strip_prefix(b"SWITCH_CPU_WIDE")?.trim_ascii().strip_prefix(b"OUT")?.trim_ascii();
    let (prev_state, rest) = match rest.strip_prefix(b"preempt") {
        Some(rest) => (PrevState::Runnable, rest),
        None => (PrevState::Sleeping, rest),
    };
    let ids = rest.trim_ascii().strip_prefix(b"next pid/tid:")?;
    let next = ids.rsplit(|&byte| byte == b'/').next()?;
    Some(Record::Leaves { prev_state, next: tid(next.trim_ascii())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_and_losses_are_read() {
        let leaves = |prev_state, next| Some(Record::Leaves { prev_state, next: Tid(next) });
        assert_eq!(parse(b"LOST lost 208"), Some(Record::Lost(208)));
        let preempted: &[u8] = b"SWITCH_CPU_WIDE OUT preempt  next pid/tid:   505/506";
        assert_eq!(parse(preempted), leaves(PrevState::Runnable, 506));
        assert_eq!(parse(b"SWITCH_CPU_WIDE OUT          next pid/tid:     0/0    "), leaves(PrevState::Sleeping, 0));
        assert_eq!(parse(b"SWITCH_CPU_WIDE IN           prev pid/tid: 24173/24187"), None);
        assert_eq!(parse(b"SWITCH OUT"), None);
        assert_eq!(parse(b"FORK(12763:15302):(12763:12763)"), None);
    }
}
