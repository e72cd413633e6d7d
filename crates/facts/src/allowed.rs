//! What a host, and the rights of a process on it, allow: the rows of `unstarve doctor`.

use serde::Serialize;

/// One thing that a host allows fully, partly or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allowed {
    /// Which thing.
    pub id: Capability,
    /// Whether it is available.
    pub state: Availability,
    /// What was found.
    pub found: String,
    /// What does not work without it.
    pub without: &'static str,
    /// How to get it; absent if nothing is missing or nothing can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<String>,
}

/// A thing that a host allows or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// A kernel that is tested.
    Kernel,
    /// Recording by tracefs.
    Record,
    /// Counting by eBPF.
    Count,
    /// The guard's eBPF programs.
    Guard,
    /// Changes of scheduling.
    Change,
    /// What the kernel's lockdown leaves.
    Lockdown,
    /// The kernel's types, which eBPF programs need.
    Btf,
    /// The kernel's symbols.
    Symbols,
    /// The hierarchy with the CPU controller.
    Cgroups,
    /// Settings in debugfs.
    Debugfs,
    /// Each thread's sums of waits.
    Schedstat,
    /// The host's threads, as seen from a container.
    Container,
}

impl Capability {
    /// As printed.
    pub fn word(self) -> &'static str {
        match self {
            Capability::Kernel => "kernel",
            Capability::Record => "record",
            Capability::Count => "count",
            Capability::Guard => "guard",
            Capability::Change => "change",
            Capability::Lockdown => "lockdown",
            Capability::Btf => "btf",
            Capability::Symbols => "symbols",
            Capability::Cgroups => "cgroups",
            Capability::Debugfs => "debugfs",
            Capability::Schedstat => "schedstat",
            Capability::Container => "container",
        }
    }

    /// Whether `record`, `watch` or `fix` need it; the others only make answers more complete.
    pub fn is_required(self) -> bool {
        matches!(self, Capability::Kernel | Capability::Record | Capability::Count | Capability::Change)
    }
}

/// How much of something is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Availability {
    /// All of it.
    Full,
    /// Some of it.
    Part,
    /// None of it.
    None,
}

impl Availability {
    /// As printed: `yes`, `part`, `no`.
    pub fn word(self) -> &'static str {
        match self {
            Availability::Full => "yes",
            Availability::Part => "part",
            Availability::None => "no",
        }
    }
}

impl Allowed {
    /// Fully available.
    pub fn yes(id: Capability, found: impl Into<String>) -> Allowed {
        Allowed { id, state: Availability::Full, found: found.into(), without: "", get: None }
    }

    /// Not available.
    pub fn no(id: Capability, found: impl Into<String>, without: &'static str, get: Option<String>) -> Allowed {
        Allowed { id, state: Availability::None, found: found.into(), without, get }
    }

    /// Partly available.
    pub fn part(id: Capability, found: impl Into<String>, without: &'static str, get: Option<String>) -> Allowed {
        Allowed { state: Availability::Part, ..Allowed::no(id, found, without, get) }
    }
}
