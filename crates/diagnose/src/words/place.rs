//! Short names of cgroups: the pod, the unit or the container, where the path shows one ([`Place`]).

use unstarve_facts::Place;

/// Digits of a pod's uid that are shown.
const UID_DIGITS: usize = 8;
/// Longer paths are cut on the left.
const MAX_PATH: usize = 40;

/// `pod 99999999…`, `nginx.service`, `container 0123456789ab`; else the path, of a long one its end.
pub fn place(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // Below these, users choose names as they like.
    let is_users = parts.first().is_some_and(|part| *part == "user.slice");
    let name = if is_users { None } else { short(&Place::of(path, "")) };
    let name = name.unwrap_or_else(|| shortened(path, &parts));
    name.escape_debug().to_string()
}

fn short(place: &Place) -> Option<String> {
    let pod = place.pod.as_deref().map(|uid| format!("pod {}…", uid.get(..UID_DIGITS).unwrap_or(uid)));
    let unit = || place.unit.clone().filter(|unit| unit.ends_with(".service"));
    let container = || place.container.as_ref().map(|id| format!("container {id}"));
    pod.or_else(unit).or_else(container)
}

fn shortened(path: &str, parts: &[&str]) -> String {
    match parts.last() {
        Some(last) if path.chars().count() > MAX_PATH && parts.len() > 1 => format!("…/{last}"),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_group_has_the_name_that_people_know() {
        let digits = "0123456789abcdef".repeat(4);
        let uid = "99999999-1111-2222-3333-444444444444";
        for (path, name) in [
            (format!("/kubepods/burstable/pod{uid}/{digits}"), "pod 99999999…"),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/x",
                    uid.replace('-', "_")
                ),
                "pod 99999999…",
            ),
            ("/system.slice/nginx.service".to_owned(), "nginx.service"),
            ("/system.slice/nginx.service/worker".to_owned(), "nginx.service"),
            (format!("/system.slice/docker-{digits}.scope"), "container 0123456789ab"),
            (format!("/docker/{digits}"), "container 0123456789ab"),
            ("/batch".to_owned(), "/batch"),
            ("/".to_owned(), "/"),
            (format!("/{}/jobs", "long-".repeat(20)), "…/jobs"),
            // A user can give a group any name.
            ("/user.slice/user-1000.slice/nginx.service".to_owned(), "…/nginx.service"),
            ("/podshort/nothing".to_owned(), "/podshort/nothing"),
            ("/a\u{1b}[2J".to_owned(), "/a\\u{1b}[2J"),
            // Groups of this name that no kubelet made: below a group of another's, a service's own, or one with a similar name.
            (format!("/mine/kubepods/pod{uid}"), "…/pod99999999-1111-2222-3333-444444444444"),
            (format!("/kubepods-mine/pod{uid}"), "…/pod99999999-1111-2222-3333-444444444444"),
            (format!("/system.slice/a.service/kubepods/pod{uid}"), "a.service"),
            (format!("/system.slice/a.service/{digits}"), "a.service"),
            ("/mine/nginx.service".to_owned(), "/mine/nginx.service"),
            // `--cgroup-root=/kubelet`, and containerd with systemd's names but without systemd.
            (format!("/kubelet/kubepods/pod{uid}/{digits}"), "pod 99999999…"),
            (format!("/kubepods-pod{}.slice:cri-containerd:{digits}", uid.replace('-', "_")), "pod 99999999…"),
        ] {
            assert_eq!(place(&path), name, "{path}");
        }
    }
}
