//! Short names of cgroups: the pod, the unit or the container, where the path shows one.

/// Digits of an id that are shown.
const ID_DIGITS: usize = 12;
/// Digits of a pod's uid that are shown.
const UID_DIGITS: usize = 8;
/// Longer paths are cut on the left.
const MAX_PATH: usize = 40;

/// `pod 99999999…`, `nginx.service`, `container 0123456789ab`; else the path, of a long one its end.
pub fn place(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // Below these, users choose names as they like.
    let is_users = parts.first().is_some_and(|part| *part == "user.slice");
    let name = if is_users { None } else { pod(&parts).or_else(|| unit(&parts)).or_else(|| container(&parts)) };
    let name = name.unwrap_or_else(|| shortened(path, &parts));
    name.escape_debug().to_string()
}

/// `pod<uid>` with the cgroupfs driver, `kubepods-burstable-pod<uid>.slice` with systemd's.
fn pod(parts: &[&str]) -> Option<String> {
    let at = parts.iter().position(|part| part.contains("kubepods"))?;
    let uid = |part: &&str| {
        let uid = match part.rsplit_once("-pod") {
            Some((_, uid)) => uid,
            None => part.strip_prefix("pod")?,
        };
        let uid = uid.split_once('.').map_or(uid, |(uid, _)| uid);
        let is_uid = uid.len() >= UID_DIGITS && uid.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, '-' | '_'));
        is_uid.then(|| format!("pod {}…", &uid[..UID_DIGITS]))
    };
    parts[at..].iter().find_map(uid)
}

/// The first unit of the path: groups below it are the unit's own.
fn unit(parts: &[&str]) -> Option<String> {
    let is_unit = |part: &&&str| part.ends_with(".service") && part.len() > ".service".len();
    parts.iter().find(is_unit).map(|part| (*part).to_owned())
}

/// `docker-<64 digits>.scope`, `docker/<64 digits>`.
fn container(parts: &[&str]) -> Option<String> {
    let id = |part: &&str| {
        let bare = part.strip_suffix(".scope").unwrap_or(part);
        let id = bare.rsplit_once('-').map_or(bare, |(_, id)| id);
        let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| format!("container {}", &id[..ID_DIGITS]))
    };
    parts.iter().find_map(id)
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
        ] {
            assert_eq!(place(&path), name, "{path}");
        }
    }
}
