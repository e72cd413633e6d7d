//! Workqueue settings: the defaults of all workqueues, and those of a workqueue with a sysfs directory.

use super::Setting;

pub(super) const WORKQUEUE: Setting = Setting {
    paths: &[
        "/sys/module/workqueue/parameters/{NAME}",
        "/sys/devices/virtual/workqueue/{NAME}/nice",
        "/sys/devices/virtual/workqueue/{NAME}/cpumask",
        "/sys/devices/virtual/workqueue/{NAME}/affinity_scope",
        "/sys/devices/virtual/workqueue/{NAME}/affinity_strict",
        "/sys/devices/virtual/workqueue/{NAME}/max_active",
    ],
    ..Setting::PLAIN
};
