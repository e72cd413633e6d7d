//! Reports what a session could not use as losses.

use std::collections::BTreeMap;

use unstarve_model::{CpuId, EventType, Loss, LossKind};

use super::Session;
use crate::malformed::Malformed;

/// Counts of what is missing or damaged.
#[derive(Default)]
pub(super) struct Damage {
    pub(super) lost: BTreeMap<Option<CpuId>, u64>,
    pub(super) lost_samples: u64,
    pub(super) throttled: u64,
    pub(super) malformed: Malformed,
    pub(super) undecodable: u64,
    pub(super) first_undecodable: Option<u64>,
    pub(super) truncated: Option<String>,
}

impl Session {
    /// The losses to report.
    pub fn losses(&self) -> Vec<Loss> {
        let damage = &self.damage;
        let mut losses = Vec::new();
        for (cpu, &count) in damage.lost.iter().filter(|&(_, &count)| count > 0) {
            losses.push(match cpu {
                Some(cpu) => Loss::lost_events(*cpu, count),
                None => Loss::new(LossKind::LostEvents, count),
            });
        }
        // Since 6.1 perf counts the same losses again per event when it exits.
        let counted: u64 = damage.lost.values().fold(0, |sum, &count| sum.saturating_add(count));
        if damage.lost_samples > counted {
            let more = Loss::new(LossKind::LostEvents, damage.lost_samples - counted);
            losses.push(more.with_detail("counted when perf ended; use larger buffers (-m)"));
        }
        if damage.throttled > 0 {
            let detail = "the kernel throttled perf; record tracepoints with a period of 1 only";
            losses.push(Loss::new(LossKind::UncountedGap, damage.throttled).with_detail(detail));
        }
        if let Some(what) = &damage.truncated {
            losses.push(Loss::new(LossKind::Truncated, 1).with_detail(what.clone()));
        }
        losses.extend(damage.malformed.losses());
        if let Some(first) = damage.first_undecodable {
            let loss = Loss::new(LossKind::Undecodable, damage.undecodable);
            losses.push(loss.with_detail(format!("samples; the first is at byte {first}")));
        }
        losses.extend(self.reorder.loss());
        losses.extend(self.switches.records.loss());
        let recorded = self.info.recorded.unwrap_or_default();
        let missing = EventType::ALL.iter().filter(|&&event| !recorded.contains(event) && !event.only_refines());
        losses.extend(missing.map(|&event| Loss::new(LossKind::NotRecorded(event), 1)));
        losses
    }
}
