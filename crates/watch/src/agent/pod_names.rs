//! Names of pods and containers, as the kubelet writes them on the node: no API server is asked.
//!
//! Kubelet, pkg/kubelet/kuberuntime/helpers.go: `/var/log/pods/NAMESPACE_NAME_UID/`, and
//! `/var/log/containers/NAME_NAMESPACE_CONTAINER-ID.log`, a link whose name alone is read. Names of Kubernetes have no `_`. The manifests
//! mount the second directory only.

use std::fs;
use std::path::{Path, PathBuf};

use crate::engine::reading::Place;

/// Maximum entries looked at in a directory.
const MOST_ENTRIES: usize = 10_000;

/// A workload for people and labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WorkloadName {
    /// Where it is.
    pub place: Place,
    /// The pod's namespace.
    pub namespace: Option<String>,
    /// The pod's name.
    pub pod: Option<String>,
    /// The container's name.
    pub container: Option<String>,
}

impl WorkloadName {
    /// `shop/payments-0/app`, `pod UID`, `nginx.service`; `other` without a place.
    pub fn word(&self) -> String {
        match (&self.namespace, &self.pod) {
            (Some(namespace), Some(pod)) => {
                let container = self.container.as_ref().map_or_else(String::new, |container| format!("/{container}"));
                format!("{namespace}/{pod}{container}")
            }
            _ => self.place.word().unwrap_or_else(|| "other".to_owned()),
        }
    }

    /// Labels in addition to the name; only those that are known.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let container = self.container.as_ref().or(self.place.container.as_ref());
        let labels = [
            ("pod_uid", self.place.pod.as_ref()),
            ("pod_namespace", self.namespace.as_ref()),
            ("pod_name", self.pod.as_ref()),
            ("pod_container", container),
            ("unit", self.place.unit.as_ref()),
        ];
        labels.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The kubelet's directories.
#[derive(Clone, Debug)]
pub struct PodNames {
    logs: PathBuf,
}

impl Default for PodNames {
    fn default() -> PodNames {
        PodNames { logs: PathBuf::from("/var/log") }
    }
}

impl PodNames {
    /// The kubelet's directories below another one.
    #[cfg(test)]
    pub fn below(logs: &Path) -> PodNames {
        PodNames { logs: logs.to_owned() }
    }

    /// The names of a pod and a container, as far as the node has them.
    pub fn of(&self, place: &Place) -> WorkloadName {
        let mut name = WorkloadName { place: place.clone(), ..WorkloadName::default() };
        let Some(uid) = &place.pod else { return name };
        let is_it = |entry: &str| entry.strip_suffix(uid.as_str()).is_some_and(|rest| rest.ends_with('_'));
        if let Some(entry) = entry(&self.logs.join("pods"), is_it)
            && let [namespace, pod, _] = entry.split('_').collect::<Vec<_>>().as_slice()
        {
            (name.namespace, name.pod) = (Some((*namespace).to_owned()), Some((*pod).to_owned()));
        }
        let Some(id) = &place.container else { return name };
        let of_id = |entry: &str| {
            entry
                .strip_suffix(".log")
                .and_then(|entry| entry.rsplit_once('-'))
                .map(|(rest, id)| (rest.to_owned(), id.to_owned()))
        };
        let is_it = |entry: &str| of_id(entry).is_some_and(|(_, whole)| whole.starts_with(id.as_str()));
        if let Some((rest, _)) = entry(&self.logs.join("containers"), is_it).as_deref().and_then(of_id)
            && let [pod, namespace, container] = rest.split('_').collect::<Vec<_>>().as_slice()
        {
            name.pod.get_or_insert_with(|| (*pod).to_owned());
            name.namespace.get_or_insert_with(|| (*namespace).to_owned());
            name.container = Some((*container).to_owned());
        }
        name
    }
}

/// The first entry of a directory that matches.
fn entry(directory: &Path, is_it: impl Fn(&str) -> bool) -> Option<String> {
    let entries = fs::read_dir(directory).ok()?.take(MOST_ENTRIES).filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| is_it(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reading::place_of;

    #[test]
    fn names_are_those_of_the_kubelets_logs() {
        let logs = tempfile::tempdir().expect("a directory");
        let (uid, id) = ("0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f", "4f".repeat(32));
        fs::create_dir_all(logs.path().join(format!("pods/shop_payments-0_{uid}"))).expect("made");
        fs::create_dir(logs.path().join("containers")).expect("made");
        fs::write(logs.path().join(format!("containers/payments-0_shop_app-{id}.log")), "").expect("written");
        let names = PodNames::below(logs.path());
        let place = place_of(&format!("/kubepods/burstable/pod{uid}/{id}"));
        let name = names.of(&place);
        assert_eq!(name.word(), "shop/payments-0/app");
        let labels: Vec<_> = name.labels().map(|(label, value)| format!("{label}={value}")).collect();
        assert_eq!(
            labels,
            [&format!("pod_uid={uid}"), "pod_namespace=shop", "pod_name=payments-0", "pod_container=app"]
        );
        let unknown = names.of(&Place { pod: Some("1111111a".into()), ..Place::default() });
        assert_eq!(unknown.word(), "pod 1111111a");
        let unit = names.of(&place_of("/system.slice/nginx.service"));
        assert_eq!((unit.word().as_str(), unit.labels().count()), ("nginx.service", 1));
        assert_eq!(WorkloadName::default().word(), "other");
    }

    /// The manifests mount `/var/log/containers` alone: what its links point to is not there.
    #[test]
    fn names_come_from_the_links_of_containers_alone() {
        let logs = tempfile::tempdir().expect("a directory");
        let (uid, id) = ("0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f", "4f".repeat(32));
        fs::create_dir(logs.path().join("containers")).expect("made");
        let link = logs.path().join(format!("containers/payments-0_shop_app-web-{id}.log"));
        let target = format!("/var/log/pods/shop_payments-0_{uid}/app-web/0.log");
        std::os::unix::fs::symlink(target, link).expect("a link");
        let names = PodNames::below(logs.path());
        let place = place_of(&format!("/kubepods/burstable/pod{uid}/{id}"));
        let name = names.of(&place);
        assert_eq!(name.word(), "shop/payments-0/app-web");
        let labels: Vec<_> = name.labels().map(|(label, value)| format!("{label}={value}")).collect();
        assert_eq!(
            labels,
            [&format!("pod_uid={uid}"), "pod_namespace=shop", "pod_name=payments-0", "pod_container=app-web"]
        );
        // The links do not have the pod's uid: without a container its name is not known.
        assert_eq!(names.of(&Place { container: None, ..place }).word(), format!("pod {uid}"));
    }
}
