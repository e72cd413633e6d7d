//! Which CPUs serve the interrupts of network and block devices.

use std::collections::BTreeMap;

use unstarve_facts::{IrqFacts, Snapshot};
use unstarve_model::{CpuId, CpuSet};

/// The kind of device that an interrupt serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Device {
    Net,
    Block,
}

impl Device {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Device::Net => "network",
            Device::Block => "block",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Device::Net => "net/",
            Device::Block => "block/",
        }
    }
}

/// The CPUs that serve interrupts of network and block devices.
pub(crate) struct Interrupts {
    by_cpu: BTreeMap<(Device, CpuId), Share>,
    uptime_s: Option<f64>,
}

/// The interrupts of one kind that one CPU serves.
#[derive(Clone, Default)]
pub(crate) struct Share {
    /// Interrupts since boot; `None` if only the affinity is known.
    pub(crate) count: Option<u64>,
    /// Names of devices.
    pub(crate) devices: Vec<String>,
}

/// A smaller fraction of a kind's interrupts counts as chance: interrupts migrate.
const LEAST_PART: f64 = 0.01;

impl Interrupts {
    pub(crate) fn of(snapshot: &Snapshot) -> Interrupts {
        let mut by_cpu: BTreeMap<(Device, CpuId), Share> = BTreeMap::new();
        for device in [Device::Net, Device::Block] {
            for irq in snapshot.irqs.iter().filter(|irq| names(irq, device).next().is_some()) {
                for (cpu, count) in served_on(irq) {
                    let share = by_cpu.entry((device, cpu)).or_default();
                    share.count = match (share.count, count) {
                        (Some(sum), Some(more)) => Some(sum.saturating_add(more)),
                        (known, new) => known.or(new),
                    };
                    for name in names(irq, device) {
                        if !share.devices.iter().any(|known| known == name) {
                            share.devices.push(name.to_owned());
                        }
                    }
                }
            }
            drop_chance(&mut by_cpu, device);
        }
        Interrupts { by_cpu, uptime_s: snapshot.uptime_ticks.map(|ticks| ticks as f64 / 100.0) }
    }

    /// The CPUs that serve a kind of device.
    pub(crate) fn cpus(&self, device: Device) -> CpuSet {
        self.by_cpu.keys().filter(|(kind, _)| *kind == device).map(|(_, cpu)| *cpu).collect()
    }

    pub(crate) fn share(&self, device: Device, cpu: CpuId) -> Option<&Share> {
        self.by_cpu.get(&(device, cpu))
    }

    /// `CPU 1: 63,960 block interrupts of vda (106/s since boot)`.
    pub(crate) fn evidence(&self, device: Device, cpu: CpuId) -> Option<String> {
        let share = self.share(device, cpu)?;
        let devices = share.devices.join(", ");
        let Some(count) = share.count else {
            return Some(format!("{} interrupts of {devices} may be served by CPU {cpu}", device.word()));
        };
        let rate = self.rate(device, cpu).map(|rate| format!(" ({} a second since boot)", round(rate)));
        let rate = rate.unwrap_or_default();
        Some(format!(
            "CPU {cpu} served {} {} interrupts of {devices}{rate}",
            crate::case::grouped(count),
            device.word()
        ))
    }

    /// Interrupts a second since boot; `None` if unknown.
    pub(crate) fn rate(&self, device: Device, cpu: CpuId) -> Option<f64> {
        let seconds = self.uptime_s.filter(|&seconds| seconds >= 1.0)?;
        Some(self.share(device, cpu)?.count? as f64 / seconds)
    }
}

fn round(rate: f64) -> String {
    if rate >= 10.0 { crate::case::grouped(rate.round() as u64) } else { format!("{rate:.1}") }
}

fn names(irq: &IrqFacts, device: Device) -> impl Iterator<Item = &str> {
    irq.devices.iter().filter_map(move |name| name.strip_prefix(device.prefix()))
}

/// The CPUs that served an interrupt, by count; without counts its affinity. An interrupt that never fired is served
/// nowhere.
fn served_on(irq: &IrqFacts) -> Vec<(CpuId, Option<u64>)> {
    if let Some(counts) = &irq.per_cpu {
        let mut served: Vec<_> = counts.iter().map(|(&cpu, &count)| (CpuId(cpu), Some(count))).collect();
        // Counts are of the past: exclude CPUs that the interrupt was moved away from.
        if let Some(now) = irq.affinity.as_ref().filter(|now| !now.is_empty()) {
            served.retain(|(cpu, _)| now.contains(*cpu));
        }
        return served;
    }
    let places = irq.effective.as_ref().filter(|set| !set.is_empty()).or(irq.affinity.as_ref());
    places.into_iter().flat_map(CpuSet::iter).map(|cpu| (cpu, None)).collect()
}

fn drop_chance(by_cpu: &mut BTreeMap<(Device, CpuId), Share>, device: Device) {
    let of_kind = by_cpu.iter().filter(|((kind, _), _)| *kind == device);
    let total: u64 = of_kind.filter_map(|(_, share)| share.count).fold(0, u64::saturating_add);
    let least = total as f64 * LEAST_PART;
    by_cpu.retain(|(kind, _), share| *kind != device || share.count.is_none_or(|count| count as f64 >= least));
}
