use serde::{Deserialize, Serialize};

/// What the path of a cgroup says: no API server is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
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
    /// Of a group's path: `/kubepods.slice/…`, `/system.slice/nginx.service`.
    pub fn of(cgroup: &str) -> Place {
        let parts: Vec<&str> = cgroup.split('/').filter(|part| !part.is_empty()).collect();
        // The owner of a user's slice or a service can give the groups below it any name.
        let owned = parts.iter().position(|part| is_owned(part)).unwrap_or(parts.len());
        let parts = &parts[..owned];
        let pods = parts.iter().position(|part| is_pods(part)).filter(|at| is_root(&parts[..*at]));
        let is_kubernetes = pods.is_some();
        let below = pods.and_then(|at| parts.get(at + 1..)).unwrap_or_default();
        let at_pod = below.iter().position(|part| pod(part).is_some());
        let pod = at_pod.and_then(|at| pod(below[at]));
        // Of a pod the group right below it: what a container has below its own is its own choice.
        let container = match at_pod {
            Some(at) => below.get(at + 1).and_then(|part| container(part)),
            None => parts.iter().find_map(|part| container(part)),
        };
        // Of pods the unit is a slice that says nothing more.
        let unit = if is_kubernetes { None } else { unstarve_guard::scan::unit_of(cgroup) };
        Place { pod, container, unit }
    }

    /// In a word, for people; `None` if the path says nothing.
    pub fn word(&self) -> Option<String> {
        let pod = self.pod.as_ref().map(|pod| format!("pod {pod}"));
        let container = || self.container.as_ref().map(|container| format!("container {container}"));
        pod.or_else(|| self.unit.clone()).or_else(container)
    }
}

fn is_owned(part: &str) -> bool {
    part == "user.slice" || part.starts_with("user-") && part.ends_with(".slice") || part.ends_with(".service")
}

/// The group of all pods, of the cgroupfs driver and of systemd's.
fn is_pods(part: &str) -> bool {
    part == "kubepods" || part == "kubepods.slice"
}

/// Whether a manager's own root ends here: that of the hierarchy, or a container's in which a whole system runs.
fn is_root(above: &[&str]) -> bool {
    above.last().is_none_or(|last| container(last).is_some())
}

/// `pod<uid>` of the cgroupfs driver, `kubepods-burstable-pod<uid_with_underscores>.slice` of systemd's.
fn pod(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let uid = name.strip_prefix("pod").or_else(|| name.split_once("-pod").map(|(_, uid)| uid))?;
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() >= 8 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// `cri-containerd-<64 digits>.scope`, `docker-….scope`, or the digits alone.
fn container(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id[..12].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_containers_and_units_are_in_the_path() {
        let id = "4f".repeat(32);
        let pod = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{id}.scope",
            pod.replace('-', "_")
        );
        for path in [systemd, format!("/kubepods/burstable/pod{pod}/{id}")] {
            let place = Place::of(&path);
            assert_eq!((place.pod.as_deref(), place.container.as_deref()), (Some(pod), Some("4f4f4f4f4f4f")), "{path}");
            assert_eq!(place.word().as_deref(), Some("pod 0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"));
        }
        let unit = Place::of("/system.slice/nginx.service");
        assert_eq!((unit.pod, unit.unit.as_deref()), (None, Some("nginx.service")));
        assert_eq!(Place::of(&format!("/docker/{id}")).word().as_deref(), Some("container 4f4f4f4f4f4f"));
        // A user's group with such a name below a service is that service's.
        let made_up = Place::of("/user.slice/user-1000.slice/user@1000.service/podcafebabe");
        assert_eq!((made_up.pod, made_up.unit.as_deref()), (None, Some("user@1000.service")));
        assert_eq!(Place::of("/"), Place::default());
    }

    #[test]
    fn a_users_or_a_services_own_groups_are_no_pods_and_no_containers() {
        let id = "4f".repeat(32);
        let pod = "pod0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
        for owner in ["/user.slice/user-1000.slice/user@1000.service", "/system.slice/a.service", "/user-1000.slice"] {
            for below in [format!("kubepods/{pod}/{id}"), format!("kubepods.slice/{pod}/{id}"), id.clone()] {
                let place = Place::of(&format!("{owner}/{below}"));
                assert_eq!((&place.pod, &place.container), (&None, &None), "{owner}/{below}: {place:?}");
            }
        }
        // Neither is a group that is called alike, or is not at the root.
        for path in [format!("/kubepods-mine/{pod}"), format!("/mine/kubepods/{pod}")] {
            assert_eq!(Place::of(&path).pod, None, "{path}");
        }
        // A cluster in a container has its root there, and a container names only what is below itself.
        let other = "5e".repeat(32);
        let nested = Place::of(&format!("/docker/{other}/kubepods/burstable/{pod}/{id}/{other}"));
        assert_eq!((nested.pod.as_deref(), nested.container.as_deref()), (Some(&pod[3..]), Some("4f4f4f4f4f4f")));
    }
}
