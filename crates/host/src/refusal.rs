//! Explains why the kernel refuses access to a setting, which the error number alone does not.

use std::io;

use crate::Root;

/// The error of accessing a setting's file, with an explanation.
///
/// Under lockdown the kernel refuses everything below `/sys/kernel/debug` with EPERM, even to root
/// (`debugfs_locked_down()` in fs/debugfs/file.c). Other users are refused by the mode of that directory.
pub fn refusal(path: &str, error: &io::Error) -> String {
    let level = Root::host().text("/sys/kernel/security/lockdown").unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    match why(path, error, if is_root { Who::Root } else { Who::Another }, &level) {
        Some(why) => format!("{error}: {why}"),
        None => error.to_string(),
    }
}

#[derive(Clone, Copy)]
enum Who {
    Root,
    Another,
}

fn why(path: &str, error: &io::Error, who: Who, lockdown: &str) -> Option<String> {
    if !path.starts_with("/sys/kernel/debug") || error.kind() != io::ErrorKind::PermissionDenied {
        return None;
    }
    match who {
        Who::Another => {
            Some("only root may look below /sys/kernel/debug, and nobody where the kernel is locked down".to_owned())
        }
        Who::Root if error.raw_os_error() != Some(rustix::io::Errno::PERM.raw_os_error()) => None,
        Who::Root if lockdown.contains("[none]") => None,
        Who::Root => Some(
            "the kernel is locked down (lockdown=, Secure Boot), so that nobody may read or write settings there"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refuses_is_said() {
        let error = |number: i32| io::Error::from_raw_os_error(number);
        let (eperm, eacces, einval) = (error(1), error(13), error(22));
        let file = "/sys/kernel/debug/sched/base_slice_ns";
        let is_said =
            |error, who, level: &str, word: &str| why(file, error, who, level).is_some_and(|why| why.contains(word));
        assert!(is_said(&eperm, Who::Root, "none [integrity] confidentiality\n", "is locked down"));
        assert!(is_said(&eperm, Who::Root, "", "is locked down"), "securityfs is mounted nowhere");
        assert!(is_said(&eacces, Who::Another, "", "only root"));
        for (path, error, who, level) in [
            (file, &eperm, Who::Root, "[none] integrity\n"),
            (file, &eacces, Who::Root, ""),
            (file, &einval, Who::Root, ""),
            ("/proc/sys/kernel/sched_rt_runtime_us", &eperm, Who::Root, ""),
        ] {
            assert_eq!(why(path, error, who, level), None, "{path} {error}");
        }
    }
}
