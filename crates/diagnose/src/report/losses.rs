//! Losses as a report has them, for people and for programs. Their words are [`Loss`]'s own.

use serde::{Deserialize, Serialize};
use unstarve_model::{BroughtBy, Loss, LossKind};

/// Something that the trace cannot say: what is missing, what that may hide, and what would bring it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Missing {
    /// What, how often, and where.
    #[serde(flatten)]
    pub loss: Loss,
    /// The same in a line for people.
    #[serde(default)]
    pub text: String,
    /// What it may hide or make wrong, for people.
    #[serde(default)]
    pub hides: String,
    /// What would bring it in another recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub brought_by: Option<BroughtBy>,
}

impl From<Loss> for Missing {
    fn from(loss: Loss) -> Missing {
        let (text, hides, brought_by) = (loss.to_string(), loss.kind.hides().to_owned(), loss.kind.brought_by());
        Missing { loss, text, hides, brought_by }
    }
}

impl AsRef<Loss> for Missing {
    fn as_ref(&self) -> &Loss {
        &self.loss
    }
}

/// Each in a line. A recording of perf lacks a dozen kinds of events: those make one line, where the first of them was.
pub fn in_words(losses: &[impl AsRef<Loss>]) -> Vec<String> {
    let losses = || losses.iter().map(AsRef::as_ref);
    let unrecorded = |loss: &Loss| match loss.kind {
        LossKind::NotRecorded(event) if loss.detail.is_empty() => Some(event.name()),
        _ => None,
    };
    let mut kinds: Vec<&str> = losses().filter_map(unrecorded).collect();
    let mut lines = Vec::new();
    for loss in losses() {
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

    #[test]
    fn a_loss_is_data_for_programs() {
        let of = |loss: Loss| serde_json::to_value(Missing::from(loss)).expect("JSON");
        assert_eq!(
            of(Loss::new(LossKind::NotRecorded(EventType::Waking), 1)),
            serde_json::json!({
                "kind": "not-recorded", "event": "sched_waking", "count": 1,
                "text": "sched_waking events were not recorded",
                "hides": "waits after a wakeup, and which thread woke which",
                "brought_by": { "what": "event", "name": "sched_waking" },
            })
        );
        let lost = of(Loss::lost_events(unstarve_model::CpuId(3), 7));
        assert_eq!(lost["brought_by"], serde_json::json!({ "what": "option", "name": "--buffer-size" }));
        assert_eq!((lost["detail"].as_str(), lost["count"].as_u64()), (Some("CPU 3"), Some(7)));
        assert_eq!(of(Loss::new(LossKind::NoSnapshot, 1))["brought_by"], serde_json::json!({ "what": "recorder" }));
        assert_eq!(of(Loss::new(LossKind::EndsEarly, 1)).get("brought_by"), None);
        let name = of(Loss::new(LossKind::NameOnly, 1).with_detail("nfsd"));
        let text = "nfsd counts as a kernel thread by its name alone, which a program can take";
        assert_eq!((name["text"].as_str(), name["detail"].as_str()), (Some(text), Some("nfsd")));
        // And back; what an earlier version wrote has less.
        for loss in [Loss::new(LossKind::Malformed(EventType::Switch), 2), Loss::new(LossKind::ClockUnit, 1)] {
            let missing = Missing::from(loss.clone());
            let text = serde_json::to_string(&missing).expect("JSON");
            assert_eq!(serde_json::from_str::<Missing>(&text).expect("a loss"), missing);
            let earlier = serde_json::to_string(&loss).expect("JSON");
            assert_eq!(serde_json::from_str::<Missing>(&earlier).expect("a loss").loss, loss);
        }
    }
}
