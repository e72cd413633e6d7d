//! Which pod, container or unit a cgroup of this host is.

pub use unstarve_facts::Place;

/// What the path of a cgroup of this host says.
pub(crate) fn place_of(cgroup: &str) -> Place {
    Place::of(cgroup, unstarve_guard::scan::manager_root())
}
