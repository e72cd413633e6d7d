//! Losses for people.

use unstarve_model::{Loss, LossKind};

/// Each in a line. A recording of perf lacks a dozen kinds of events: those make one line, where the first of them was.
pub fn in_words(losses: &[Loss]) -> Vec<String> {
    let unrecorded = |loss: &Loss| match loss.kind {
        LossKind::NotRecorded(event) if loss.detail.is_empty() => Some(event.name()),
        _ => None,
    };
    let mut kinds: Vec<&str> = losses.iter().filter_map(unrecorded).collect();
    let mut lines = Vec::new();
    for loss in losses {
        match unrecorded(loss) {
            None => lines.push(loss.to_string()),
            Some(_) => {
                if let Some(last) = kinds.pop() {
                    let joint = if kinds.is_empty() { "" } else { " and " };
                    let all = std::mem::take(&mut kinds).join(", ");
                    lines.push(format!("{all}{joint}{last} events were not recorded"));
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use unstarve_model::EventType;

    use super::*;

    #[test]
    fn kinds_of_events_that_were_not_recorded_make_one_line() {
        let unrecorded = |event| Loss::new(LossKind::NotRecorded(event), 1);
        let [a, b, c] = [EventType::IrqEntry, EventType::IrqExit, EventType::Waking].map(unrecorded);
        let early = || Loss::new(LossKind::Truncated, 1).with_detail("at offset 12");
        let lost = || Loss::new(LossKind::LostEvents, 7);
        assert_eq!(
            in_words(&[early(), a.clone(), b.clone(), lost(), c]),
            [
                "the file ends early (at offset 12)",
                "irq_handler_entry, irq_handler_exit and sched_waking events were not recorded",
                "7 events were lost while recording"
            ]
        );
        assert_eq!(in_words(&[b, a]), ["irq_handler_exit and irq_handler_entry events were not recorded"]);
    }
}
