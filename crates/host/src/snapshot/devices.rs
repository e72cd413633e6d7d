//! Reads CPUs, interrupts, workqueues and mounts.

use std::collections::BTreeMap;

use unstarve_facts::{Cpus, IrqFacts, Mount, WorkqueueFacts};

use super::Gaps;
use super::softirqs::counted_rows;
use crate::Root;

pub(super) fn read_cpus(root: &Root, missing: &mut Gaps) -> Cpus {
    const DIRECTORY: &str = "/sys/devices/system/cpu";
    Cpus {
        online: missing.cpus(root, &format!("{DIRECTORY}/online")),
        possible: missing.cpus(root, &format!("{DIRECTORY}/possible")),
        isolated: missing.cpus(root, &format!("{DIRECTORY}/isolated")),
        // Does not exist without CONFIG_NO_HZ_FULL; then nothing is missing.
        nohz_full: root.text(&format!("{DIRECTORY}/nohz_full")).ok().and_then(|text| text.parse().ok()),
    }
}

/// Interrupts from `/proc/irq/*`. The subdirectories are named after the handlers.
pub(super) fn read_irqs(root: &Root, missing: &mut Gaps) -> Vec<IrqFacts> {
    let names = root.names("/proc/irq").unwrap_or_else(|error| {
        missing.note("/proc/irq", error);
        Vec::new()
    });
    let counts = root.text("/proc/interrupts").map(|text| counts_by_irq(&text)).unwrap_or_default();
    let mut irqs: Vec<IrqFacts> = names
        .iter()
        .filter_map(|name| name.parse().ok())
        .map(|irq: u32| {
            let directory = format!("/proc/irq/{irq}");
            let set = |file: &str| root.text(&format!("{directory}/{file}")).ok()?.parse().ok();
            let mut handlers = root.names(&directory).unwrap_or_default();
            handlers.retain(|name| root.is_dir(&format!("{directory}/{name}")));
            IrqFacts {
                irq,
                handlers,
                affinity: set("smp_affinity_list"),
                effective: set("effective_affinity_list"),
                count: counts.get(&irq).copied(),
                per_cpu: None,
                devices: Vec::new(),
            }
        })
        .collect();
    irqs.sort_unstable_by_key(|irq| irq.irq);
    irqs
}

/// Counts per interrupt from `/proc/interrupts`, whose header has one column for each online CPU.
fn counts_by_irq(text: &str) -> BTreeMap<u32, u64> {
    let mut lines = text.lines();
    let columns = lines.next().map_or(0, |header| header.split_ascii_whitespace().count());
    lines
        .filter_map(|line| {
            let (number, rest) = line.split_once(':')?;
            let counts = rest.split_ascii_whitespace().take(columns).map_while(|word| word.parse::<u64>().ok());
            Some((number.trim().parse().ok()?, counts.fold(0, u64::saturating_add)))
        })
        .collect()
}

/// Adds per-CPU counts, and the devices of interrupts as far as sysfs or the handlers' names show them.
pub(super) fn add_counts_and_devices(root: &Root, irqs: &mut [IrqFacts], missing: &mut Gaps) {
    let table = missing.text(root, "/proc/interrupts").unwrap_or_default();
    let mut counts = counts_by_cpu(&table);
    let mut devices = devices_by_irq(root);
    for irq in irqs {
        irq.per_cpu = counts.remove(&irq.irq);
        irq.devices = devices.remove(&irq.irq).unwrap_or_default();
        if irq.devices.is_empty() {
            irq.devices = irq.handlers.iter().filter_map(|name| device_by_name(name)).collect();
        }
    }
}

fn counts_by_cpu(text: &str) -> BTreeMap<u32, BTreeMap<u32, u64>> {
    counted_rows(text).filter_map(|(irq, counts)| Some((irq.parse().ok()?, counts))).collect()
}

/// For each network interface and disk, the interrupts of the nearest ancestor device that has any.
fn devices_by_irq(root: &Root) -> BTreeMap<u32, Vec<String>> {
    let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (class, directory) in [("net", "/sys/class/net"), ("block", "/sys/block")] {
        for name in root.names(directory).unwrap_or_default() {
            for irq in interrupts_at_or_above(root, format!("{directory}/{name}/device")) {
                found.entry(irq).or_default().push(format!("{class}/{name}"));
            }
        }
    }
    found
}

fn interrupts_at_or_above(root: &Root, mut place: String) -> Vec<u32> {
    if !root.exists(&place) {
        return Vec::new();
    }
    // A SCSI disk is five levels below its controller. The device is a link, so its parents are those of the link's
    // target.
    for _ in 0..7 {
        let numbers = |names: Vec<String>| names.iter().filter_map(|name| name.parse().ok()).collect::<Vec<u32>>();
        if let Ok(irqs) = root.names(&format!("{place}/msi_irqs")).map(numbers)
            && !irqs.is_empty()
        {
            return irqs;
        }
        let line = root.text(&format!("{place}/irq")).ok().and_then(|text| text.trim().parse().ok());
        if let Some(irq) = line.filter(|&irq: &u32| irq > 0) {
            return vec![irq];
        }
        place += "/..";
    }
    Vec::new()
}

/// The device in a handler's name, for common drivers, if sysfs does not show it.
fn device_by_name(handler: &str) -> Option<String> {
    const NET: [&str; 12] =
        ["eth", "ens", "eno", "enp", "mlx", "i40e", "ice-", "ixgbe", "bnxt", "ena-", "vmxnet3", "hv_netvsc"];
    const BLOCK: [&str; 10] =
        ["nvme", "ahci", "megasas", "mpt3sas", "mpt2sas", "aacraid", "hpsa", "pvscsi", "lpfc", "qla2xxx"];
    let begins = |names: &[&str]| names.iter().any(|name| handler.starts_with(name));
    let virtio = handler.starts_with("virtio");
    if begins(&NET) || virtio && (handler.contains("-input.") || handler.contains("-output.")) {
        Some(format!("net/{handler}"))
    } else if begins(&BLOCK) || virtio && (handler.contains("-req.") || handler.contains("-request")) {
        Some(format!("block/{handler}"))
    } else {
        None
    }
}

/// Kernels without any WQ_SYSFS workqueue lack this directory; then nothing is missing.
pub(super) fn read_workqueues(root: &Root) -> Vec<WorkqueueFacts> {
    const DIRECTORY: &str = "/sys/devices/virtual/workqueue";
    const FILES: [&str; 6] = ["per_cpu", "max_active", "nice", "cpumask", "affinity_scope", "affinity_strict"];
    root.names(DIRECTORY)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| {
            let settings: BTreeMap<String, String> = FILES
                .iter()
                .filter_map(|file| Some(((*file).to_owned(), root.text(&format!("{DIRECTORY}/{name}/{file}")).ok()?)))
                .collect();
            (!settings.is_empty()).then_some(WorkqueueFacts { name, settings })
        })
        .collect()
}

pub(super) fn read_mounts(root: &Root, missing: &mut Gaps) -> Vec<Mount> {
    let Some(text) = missing.text(root, "/proc/mounts") else { return Vec::new() };
    text.lines().filter_map(mount).filter(|mount| mount.device.starts_with("/dev/")).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let mut words = line.split(' ').map(unescape);
    Some(Mount { device: words.next()?, target: words.next()?, fs: words.next()?, options: words.next()? })
}

/// Space, tab, newline and backslash are encoded as `\040` and so on (`mangle()` in fs/proc_namespace.c).
pub(super) fn unescape(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        match after.get(..3).and_then(|octal| u8::from_str_radix(octal, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}
