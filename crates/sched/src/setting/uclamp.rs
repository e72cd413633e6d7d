//! Utilisation clamps of a cgroup, in both hierarchies.

use super::cgroup::OF_GROUP;
use super::{Content, PolicyKey, Setting};

/// The minimum utilisation assumed for the group's tasks when the kernel chooses a frequency and a CPU: a percentage with two
/// digits, or `max`. Both hierarchies have the file, with CONFIG_UCLAMP_TASK_GROUP, and the root group has it in neither.
///
/// Source: `cpu_legacy_files`, `cpu_files`, `cpu_uclamp_min_write()`, `cpu_uclamp_print()` and `capacity_from_percent()` in
/// kernel/sched/core.c of 6.12 (5.4 and later); Documentation/admin-guide/cgroup-v2.rst. The kernel shows 100 % as `max`.
pub(super) const MIN: Setting = Setting {
    paths: &["{GROUP}/cpu.uclamp.min"],
    policy: Some(PolicyKey {
        name: "uclamp-min",
        about: "As `cpu.uclamp.min`: the least utilisation to assume of the group's tasks, in per cent (`20`, `\"12.5\"`) or `\"max\"`. CPUs run \
                faster for them, which costs power.",
        ..POLICY_PERCENTAGE
    }),
    ..OF_GROUP
};

/// The maximum; `max` unless it was set.
pub(super) const MAX: Setting = Setting {
    paths: &["{GROUP}/cpu.uclamp.max"],
    policy: Some(PolicyKey {
        name: "uclamp-max",
        about: "As `cpu.uclamp.max`: the greatest utilisation to assume of the group's tasks, in per cent or `\"max\"`. CPUs run slower for \
                them.",
        ..POLICY_PERCENTAGE
    }),
    ..OF_GROUP
};

const POLICY_PERCENTAGE: PolicyKey = PolicyKey {
    name: "",
    about: "",
    takes: "a percentage from 0 to 100 with two digits at most, or max",
    range: None,
    to_file: |value| as_shown(value).map(Content::of),
    of_file: |value| Some(format!("\"{}\"", as_shown(value)?)),
};

/// A percentage as the kernel shows it, to compare the value read back with the one written.
fn as_shown(text: &str) -> Option<String> {
    if text == "max" {
        return Some(text.to_owned());
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || part.len() > 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let hundredths = whole.parse::<u32>().ok()? * 100 + format!("{part:0<2}").parse::<u32>().ok()?;
    // The kernel rounds to 1024ths, and shows 1024 as `max`.
    match (hundredths, (hundredths * 1024 + 5_000) / 10_000) {
        (10_001.., _) => None,
        (_, 1024) => Some("max".to_owned()),
        _ => Some(format!("{}.{:02}", hundredths / 100, hundredths % 100)),
    }
}

#[cfg(test)]
mod tests {
    use super::as_shown;
    use crate::setting::{Content, File};

    #[test]
    fn a_percentage_is_written_as_the_kernel_shows_it() {
        for (text, shown) in [
            ("0", Some("0.00")),
            ("20", Some("20.00")),
            ("12.5", Some("12.50")),
            ("99.95", Some("99.95")),
            ("99.96", Some("max")),
            ("100.0", Some("max")),
            ("max", Some("max")),
            ("100.01", None),
            ("1000", None),
            ("1.234", None),
            ("-1", None),
            (".5", None),
            ("", None),
        ] {
            assert_eq!(as_shown(text).as_deref(), shown, "{text}");
        }
        let file = File::at("/sys/fs/cgroup/a/cpu.uclamp.min").expect("a setting");
        let more = |old: &str, new: &str| file.gives_more(&Content::of(old), &Content::of(new));
        assert!(more("20.00", "max") && more("0.00", "0.50") && !more("max", "99.95"));
        for (path, group, key) in [
            ("/sys/fs/cgroup/a/cpu.uclamp.min", "/a", "uclamp-min"),
            ("/sys/fs/cgroup/a/b/cpu.uclamp.max", "/a/b", "uclamp-max"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.uclamp.min", "/a", "uclamp-min"),
            ("/sys/fs/cgroup/cpu/a/b/cpu.uclamp.max", "/a/b", "uclamp-max"),
        ] {
            let set = File::at(path).and_then(|file| file.in_policy(&Content::of("12.50")));
            assert_eq!(set, Some((group, key, "\"12.50\"".to_owned())), "{path}");
        }
    }
}
