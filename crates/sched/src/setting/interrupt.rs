//! Which CPUs serve interrupts and receive packets, and in what.

use super::Setting;

pub(super) const IRQ_AFFINITY: Setting = Setting { paths: &["/proc/irq/{IRQ}/smp_affinity_list"], ..Setting::PLAIN };

/// Receive packet steering: a mask of CPUs.
pub(super) const RPS_CPUS: Setting =
    Setting { paths: &["/sys/class/net/{NAME}/queues/rx-{QUEUE}/rps_cpus"], ..Setting::PLAIN };

/// Packets are received in threads instead of in softirqs (5.12 and later).
pub(super) const THREADED_NAPI: Setting = Setting { paths: &["/sys/class/net/{NAME}/threaded"], ..Setting::PLAIN };
