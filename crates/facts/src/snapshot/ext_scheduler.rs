//! A scheduler in BPF (sched_ext).

use super::Snapshot;

/// A loaded scheduler of sched_ext.
///
/// Source: Documentation/scheduler/sched-ext.rst (6.12 and later): `/sys/kernel/sched_ext/state`, `root/ops`,
/// `switch_all`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtScheduler<'a> {
    /// The name that it gave itself; `None` if the kernel does not show it.
    pub name: Option<&'a str>,
    /// Whether it schedules all tasks that are not real-time or deadline, also those of SCHED_OTHER; otherwise only
    /// those of SCHED_EXT.
    pub all_tasks: bool,
}

/// The settings that a snapshot keeps of it.
pub const EXT_SCHEDULER_FILES: [&str; 3] =
    ["/sys/kernel/sched_ext/state", "/sys/kernel/sched_ext/root/ops", "/sys/kernel/sched_ext/switch_all"];

impl Snapshot {
    /// The BPF scheduler that was loaded; `None` also if the kernel has no sched_ext, or the snapshot does not say.
    pub fn ext_scheduler(&self) -> Option<ExtScheduler<'_>> {
        let [state, ops, switch_all] = EXT_SCHEDULER_FILES;
        let text = |path: &str| self.settings.get(path).map(|text| text.trim()).filter(|text| !text.is_empty());
        text(state).filter(|state| *state == "enabled")?;
        Some(ExtScheduler { name: text(ops), all_tasks: text(switch_all) != Some("0") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_enabled_scheduler_schedules() {
        let of = |files: &[(&str, &str)]| {
            let mut snapshot =
                Snapshot::from_json(r#"{"schema":"unstarve.snapshot/1","kernel":{}}"#).expect("a snapshot");
            for (path, text) in files {
                snapshot.settings.insert(format!("/sys/kernel/sched_ext/{path}"), (*text).to_owned());
            }
            snapshot.ext_scheduler().map(|scheduler| (scheduler.name.map(str::to_owned), scheduler.all_tasks))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("state", "disabled"), ("switch_all", "0")]), None);
        assert_eq!(
            of(&[("state", "enabled"), ("root/ops", "rusty_1.0.5"), ("switch_all", "1")]),
            Some((Some("rusty_1.0.5".to_owned()), true))
        );
        assert_eq!(of(&[("state", "enabled"), ("switch_all", "0")]), Some((None, false)));
    }
}
