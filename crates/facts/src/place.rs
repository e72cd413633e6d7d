//! Finds the pod, container and systemd unit in the path of a cgroup.

use serde::{Deserialize, Serialize};

/// What the path of a cgroup says: no API server is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// The uid of a Kubernetes pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The id of a container, its first twelve digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The unit of the system's manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

impl Place {
    /// Parses a group's path: `/kubepods.slice/…`, `/system.slice/nginx.service`. `manager_root` as for [`unit_of`].
    pub fn of(cgroup: &str, manager_root: &str) -> Place {
        let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
        if let Some(place) = in_a_slices_name(&parts) {
            return place;
        }
        // The owner of a user's slice or a service can give the groups below it any name.
        let owned = parts.iter().position(|part| is_owned(part)).unwrap_or(parts.len());
        let parts = &parts[..owned];
        let pods = pods_of(parts);
        let is_kubernetes = pods.is_some();
        let below = pods.and_then(|at| parts.get(at + 1..)).unwrap_or_default();
        let at_pod = below.iter().position(|part| pod(part).is_some());
        let pod = at_pod.and_then(|at| pod(below[at]));
        // In a pod, the group directly below it: names further down are chosen by the container.
        let container = match at_pod {
            Some(at) => below.get(at + 1).and_then(|part| container(part)),
            None => parts.iter().find_map(|part| container(part)),
        };
        // For pods, the unit is a slice that adds no information.
        let unit = if is_kubernetes { None } else { unit_of(cgroup, manager_root) };
        Place { pod, container, unit }
    }

    /// One word for people; `None` if the path shows nothing.
    pub fn word(&self) -> Option<String> {
        let pod = self.pod.as_ref().map(|pod| format!("pod {pod}"));
        let container = || self.container.as_ref().map(|container| format!("container {container}"));
        pod.or_else(|| self.unit.clone()).or_else(container)
    }
}

/// The unit that the system's service manager created, found as systemd does it (`cg_path_get_unit()` in
/// src/basic/cgroup-util.c): the first group below slices only. Groups below a unit belong to its delegate, which chooses their
/// names: a user's service manager (`user@1001.service`), a container, a service with `Delegate=yes`.
///
/// `manager_root` is the group below which the manager creates its own: empty for the root, except in a container that sees the host's groups.
pub fn unit_of(cgroup: &str, manager_root: &str) -> Option<String> {
    let path = cgroup.strip_prefix(manager_root)?;
    let mut parts = path.strip_prefix('/')?.split('/').map(unescaped);
    let unit = parts.find(|part| !is_slice(part))?;
    let kinds = [".service", ".scope", ".socket", ".mount", ".swap"];
    kinds.iter().any(|kind| unit.len() > kind.len() && unit.ends_with(kind)).then(|| unit.to_owned())
}

fn is_slice(part: &str) -> bool {
    part.len() > ".slice".len() && part.ends_with(".slice")
}

/// systemd puts `_` before a group name that a kernel file could have, such as `cpu.service` (`cg_escape()`).
fn unescaped(part: &str) -> &str {
    part.strip_prefix('_').unwrap_or(part)
}

fn is_owned(part: &str) -> bool {
    part == "user.slice" || part.starts_with("user-") && part.ends_with(".slice") || part.ends_with(".service")
}

/// Index of the group of all pods: `kubepods` with the cgroupfs driver, `kubepods.slice` with systemd's. With
/// `--cgroup-root=/kubelet`, as kind runs the kubelet, systemd's names have that as a prefix.
fn pods_of(parts: &[&str]) -> Option<usize> {
    let is_pods = |part: &&str| matches!(*part, "kubepods" | "kubepods.slice" | "kubelet-kubepods.slice");
    let at = parts.iter().position(is_pods)?;
    let above = match (parts[at], &parts[..at]) {
        ("kubepods", [above @ .., "kubelet"]) | ("kubelet-kubepods.slice", [above @ .., "kubelet.slice"]) => above,
        ("kubelet-kubepods.slice", _) => return None,
        (_, above) => above,
    };
    is_root(above).then_some(at)
}

/// Whether the path so far is a manager's root: that of the hierarchy, or of a container that runs a whole system. crun adds a group
/// `container` below that of the container.
fn is_root(above: &[&str]) -> bool {
    match above {
        [] => true,
        [.., last, "container"] | [.., last] => container(last).is_some(),
    }
}

/// `kubepods-burstable-pod<uid>.slice:cri-containerd:<64 digits>` as one group, at the root or below containerd's: the kubelet creates
/// names for systemd, but containerd does not use systemd (`SystemdCgroup = false`).
fn in_a_slices_name(parts: &[&str]) -> Option<Place> {
    let name = match parts {
        ["system.slice", "containerd.service", name, ..] | [name, ..] => name,
        [] => return None,
    };
    let (slice, id) = name.split_once(".slice:")?;
    let pod = slice.strip_prefix("kubepods").and_then(pod)?;
    Some(Place { pod: Some(pod), container: container(id), unit: None })
}

/// `pod<uid>` of the cgroupfs driver, `kubepods-burstable-pod<uid_with_underscores>.slice` of systemd's.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = name.strip_prefix("pod").or_else(|| name.split_once("-pod").map(|(_, uid)| uid))?;
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 8 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// `cri-containerd-<64 digits>.scope`, `docker-….scope`, `crio-…`, or the digits alone. `crio-conmon-…` is not in the container: it is
/// the container's monitor.
fn container(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (kind, id) = name.rsplit_once(['-', ':']).unwrap_or(("", name));
    let is_container = !kind.ends_with("conmon");
    (is_container && id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id[..12].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a host, where the manager's groups are below the root.
    fn place_of(cgroup: &str) -> Place {
        Place::of(cgroup, "")
    }

    #[test]
    fn pods_containers_and_units_are_in_the_path() {
        let id = "4f".repeat(32);
        let pod = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
            pod.replace('-', "_")
        );
        for path in [systemd, format!("/kubepods/burstable/pod{pod}/{id}")] {
            let place = place_of(&path);
            assert_eq!((place.pod.as_deref(), place.container.as_deref()), (Some(pod), Some("4f4f4f4f4f4f")), "{path}");
            assert_eq!(place.word().as_deref(), Some("pod 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"));
        }
        let unit = place_of("/system.slice/nginx.service");
        assert_eq!((unit.pod, unit.unit.as_deref()), (None, Some("nginx.service")));
        assert_eq!(place_of(&format!("/docker/{id}")).word().as_deref(), Some("container 4f4f4f4f4f4f"));
        // A user's group with such a name below a service belongs to that service.
        let made_up = place_of("/user.slice/user-1000.slice/user@1000.service/podcafebabe");
        assert_eq!((made_up.pod, made_up.unit.as_deref()), (None, Some("user@1000.service")));
        assert_eq!(place_of("/"), Place::default());
    }

    /// All paths have the same uid and the same container.
    #[test]
    fn kubelets_and_runtimes_name_the_groups_of_pods() {
        let id = "4f".repeat(32);
        let uid = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
        let in_slices = uid.replace('-', "_");
        let node = format!("docker-{}.scope", "5e".repeat(32));
        let mut paths = Vec::new();
        for quality in ["", "-burstable", "-besteffort"] {
            let quality_slice = format!("/kubepods{quality}.slice").replace("/kubepods.slice", "");
            for scope in ["cri-containerd", "crio", "docker"].map(|runtime| format!("{runtime}-{id}.scope")) {
                let pod = format!("kubepods{quality}-pod{in_slices}.slice/{scope}");
                paths.push(format!("/kubepods.slice{quality_slice}/{pod}"));
                // crun puts the processes one group further down.
                paths.push(format!("/kubepods.slice{quality_slice}/{pod}/container"));
                let nested =
                    format!("/kubelet-kubepods.slice{}/kubelet-{pod}", quality_slice.replace("/k", "/kubelet-k"));
                paths.push(format!("/kubelet.slice{nested}"));
                paths.push(format!("/system.slice/{node}/kubelet.slice{nested}"));
                paths.push(format!("/machine.slice/{node}/container/kubelet.slice{nested}"));
            }
            let quality = quality.replace('-', "/");
            for container in [id.clone(), format!("crio-{id}")] {
                paths.push(format!("/kubepods{quality}/pod{uid}/{container}"));
                paths.push(format!("/kubelet/kubepods{quality}/pod{uid}/{container}"));
                paths.push(format!("/docker/{}/kubelet/kubepods{quality}/pod{uid}/{container}", "5e".repeat(32)));
            }
        }
        for above in ["", "/system.slice/containerd.service"] {
            paths.push(format!("{above}/kubepods-besteffort-pod{in_slices}.slice:cri-containerd:{id}"));
            paths.push(format!("{above}/kubepods-pod{in_slices}.slice:crio:{id}"));
        }
        for path in &paths {
            let place = place_of(path);
            assert_eq!(place.pod.as_deref(), Some(uid), "{path}");
            assert_eq!((place.container.as_deref(), &place.unit), (Some("4f4f4f4f4f4f"), &None), "{path}");
        }
        assert_eq!(paths.len(), 3 * (3 * 5 + 2 * 3) + 4);
    }

    #[test]
    fn of_a_static_pod_the_uid_is_a_sum_of_its_manifest() {
        let uid = "99dcb84d2a34f7e338778606703258c4";
        let path = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
        assert_eq!(place_of(&path), Place { pod: Some(uid.to_owned()), ..Place::default() });
    }

    #[test]
    fn who_looks_after_a_container_is_not_in_it() {
        let conmon = format!("crio-conmon-{}.scope", "4f".repeat(32));
        let pod = "kubepods-burstable-pod0a1b2c3d_0a1b_0a1b_0a1b_0a1b2c3d4e5f.slice";
        let place = place_of(&format!("/kubepods.slice/kubepods-burstable.slice/{pod}/{conmon}"));
        assert_eq!((place.pod.is_some(), place.container), (true, None));
        assert_eq!(place_of(&format!("/system.slice/{conmon}")).word(), Some(conmon));
    }

    #[test]
    fn a_users_or_a_services_own_groups_are_no_pods_and_no_containers() {
        let id = "4f".repeat(32);
        let pod = "pod0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
        for owner in ["/user.slice/user-1000.slice/user@1000.service", "/system.slice/a.service", "/user-1000.slice"] {
            for below in [format!("kubepods/{pod}/{id}"), format!("kubepods.slice/{pod}/{id}"), id.clone()] {
                let place = place_of(&format!("{owner}/{below}"));
                assert_eq!((&place.pod, &place.container), (&None, &None), "{owner}/{below}: {place:?}");
            }
        }
        // A group with a similar name, or not at the root, is not a pod either.
        let own = format!("kubepods-{}.slice:cri-containerd:{id}", pod.replace('-', "_"));
        for path in [
            format!("/kubepods-mine/{pod}"),
            format!("/mine/kubepods/{pod}"),
            format!("/mine/kubelet/kubepods/{pod}"),
            format!("/kubelet-kubepods.slice/{pod}"),
            format!("/system.slice/a.service/{own}"),
            format!("/user.slice/{own}"),
        ] {
            assert_eq!(place_of(&path).pod, None, "{path}");
        }
        // A cluster in a container has its root there; a container can only name groups below its own.
        let other = "5e".repeat(32);
        let nested = place_of(&format!("/docker/{other}/kubepods/burstable/{pod}/{id}/{other}"));
        assert_eq!((nested.pod.as_deref(), nested.container.as_deref()), (Some(&pod[3..]), Some("4f4f4f4f4f4f")));
    }
}
