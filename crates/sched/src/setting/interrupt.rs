//! Settings of interrupts and network queues: the CPUs that serve them, and whether threads do.

use super::Setting;

pub(super) const IRQ_AFFINITY: Setting = Setting { paths: &["/proc/irq/{IRQ}/smp_affinity_list"], ..Setting::PLAIN };

/// Receive packet steering: a mask of CPUs.
pub(super) const RPS_CPUS: Setting =
    Setting { paths: &["/sys/class/net/{NAME}/queues/rx-{QUEUE}/rps_cpus"], ..Setting::PLAIN };

/// Receive packets in threads instead of softirqs (5.12 and later).
pub(super) const THREADED_NAPI: Setting = Setting { paths: &["/sys/class/net/{NAME}/threaded"], ..Setting::PLAIN };
