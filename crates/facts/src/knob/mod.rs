//! Scheduler settings: their names, paths and defaults by kernel, differences between kernels and hosts, and configured
//! settings that have no effect.

mod change;
mod drift;
mod explain;
mod feature;
mod names;
mod project;

use crate::{Distribution, Row, Table, Version};

pub use change::{Change, ChangeKind, changes_between_kernels, changes_between_snapshots, undecided_between_kernels};
pub use drift::{Drift, DriftKind, drifts};
pub use explain::{Explanation, explain, explainable};
pub use feature::{FeatureState, feature_at, is_feature};

/// Every form that a setting had: kernel versions, path, default.
pub const KNOBS: Table = Table::new(include_str!("../../data/knobs.tsv"), "knob", "confidence");

/// A setting by its current name, in all its forms.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Knob {
    name: &'static str,
}

/// A setting as some kernels have it: a row of [`KNOBS`].
#[derive(Clone, Copy, Debug)]
pub struct Form(Row);

/// Whether a kernel has a setting.
#[derive(Clone, Copy, Debug)]
pub enum Presence {
    /// It has it, in this form.
    There(Form),
    /// It had it; the last form.
    Gone(Form),
    /// It does not have it yet; the first form.
    NotYet(Form),
    /// Only earlier and later kernels are known.
    Unsure(Form),
}

impl Knob {
    /// All settings, by name.
    pub fn all() -> Vec<Knob> {
        let mut knobs: Vec<Knob> = KNOBS.rows().map(|row| Knob { name: row.name() }).collect();
        knobs.dedup();
        knobs
    }

    /// The setting with this name: `sched_rt_runtime_us`, `kernel.sched_rt_runtime_us`, `base_slice_ns`,
    /// `fair_server/cpu3/runtime`, or any of its paths.
    pub fn named(text: &str) -> Option<Knob> {
        let text = text.trim();
        let last = text.rsplit(['/', '.']).next().unwrap_or(text);
        let exact =
            |knob: &Knob| knob.name == text || knob.name == last || knob.name.strip_prefix("sched_") == Some(text);
        let all = Knob::all();
        all.iter().copied().find(|knob| knob.name == text).or_else(|| {
            let by_path = all.iter().copied().find(|knob| knob.rows().any(|form| form.is_at(text)));
            by_path.or_else(|| all.into_iter().find(exact))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The setting of another name that takes the same number on kernels that lack this one.
    ///
    /// Source: TuneD's commit 87ff27c (2.25), which writes the one's number to the other.
    pub fn renamed_to(self) -> Option<Knob> {
        (self.name == "sched_min_granularity_ns").then(|| Knob::named("base_slice_ns")).flatten()
    }

    /// Whether some kernel has a setting at exactly this path, for any CPU.
    pub fn has_path(path: &str) -> bool {
        KNOBS.rows().map(Form).any(|form| match form.path().split_once("{N}") {
            None => form.path() == path,
            Some((head, tail)) => {
                let number = path.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
                number.is_some_and(|text| text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit()))
                    && path.len() > head.len() + tail.len()
            }
        })
    }

    /// Its forms in all distributions, oldest first.
    pub fn rows(self) -> impl Iterator<Item = Form> {
        KNOBS.rows().filter(move |row| row.name() == self.name).map(Form)
    }

    /// Its forms in that distribution, oldest first.
    pub fn forms(self, distribution: Option<Distribution>) -> Vec<Form> {
        let vendor = match distribution {
            Some(Distribution::Debian) => "debian",
            _ => "",
        };
        let of_vendor: Vec<Form> = self.rows().filter(|form| !vendor.is_empty() && form.vendor() == vendor).collect();
        if of_vendor.is_empty() { self.rows().filter(|form| form.vendor().is_empty()).collect() } else { of_vendor }
    }

    /// Whether a kernel has it.
    pub fn at(self, version: Version, distribution: Option<Distribution>) -> Option<Presence> {
        let forms = self.forms(distribution);
        let (first, last) = (*forms.first()?, *forms.last()?);
        // A stable series may have a later form as a backport.
        if let Some(taken) = forms.iter().find(|form| form.was_taken_over_by(version)) {
            return Some(Presence::There(*taken));
        }
        let there = forms.iter().copied().find(|form| form.reaches(version));
        Some(match there {
            Some(form) if form.is_surely_there(version) => Presence::There(form),
            Some(form) => Presence::Unsure(form),
            None if !first.begins_by(version) => Presence::NotYet(first),
            None => Presence::Gone(forms.iter().copied().rfind(|form| form.begins_by(version)).unwrap_or(last)),
        })
    }
}

impl Presence {
    /// The form, if the kernel has it.
    pub fn form(self) -> Option<Form> {
        match self {
            Presence::There(form) => Some(form),
            _ => None,
        }
    }
}

impl Form {
    fn text(self, column: &str) -> &'static str {
        self.0.get(column).unwrap_or_default()
    }

    /// The absolute path; `{N}` stands for a CPU's number.
    pub fn path(self) -> &'static str {
        self.text("path")
    }

    /// The paths on a host with these CPUs.
    pub fn paths<'a>(self, cpus: impl Iterator<Item = unstarve_model::CpuId> + 'a) -> Vec<String> {
        let path = self.path();
        if path.contains("{N}") {
            cpus.map(|cpu| path.replace("{N}", &cpu.to_string())).collect()
        } else {
            vec![path.to_owned()]
        }
    }

    /// Whether `text` is its path, perhaps without leading directories (`sched/base_slice_ns`,
    /// `kernel.sched_features`).
    fn is_at(self, text: &str) -> bool {
        let asked = if text.starts_with('/') { text.to_owned() } else { format!("/{}", text.replace('.', "/")) };
        let Some((head, tail)) = self.path().split_once("{N}") else { return self.path().ends_with(&asked) };
        asked.strip_suffix(tail).is_some_and(|rest| {
            let stem = rest.strip_suffix("{N}").unwrap_or(rest.trim_end_matches(|c: char| c.is_ascii_digit()));
            stem.len() < rest.len() && head.ends_with(stem)
        })
    }

    /// `sysctl`, `debugfs` or `module`.
    pub fn kind(self) -> &'static str {
        self.text("kind")
    }

    /// The default before it is scaled by the number of CPUs; `None` if there are several.
    pub fn base_default(self) -> Option<&'static str> {
        self.0.get("default")
    }

    /// The default on a host with so many CPUs, with the kernel's default logarithmic scaling.
    ///
    /// Source: `get_update_sysctl_factor()` in kernel/sched/fair.c of 5.10, 6.1, 6.12 and 7.2: 1 + log2(min(CPUs, 8)).
    pub fn default_with(self, cpus: usize) -> Option<String> {
        let base = self.base_default()?;
        let factor = 1 + cpus.clamp(1, 8).ilog2() as u64;
        match base.parse::<u64>() {
            Ok(number) if self.is_scaled() => Some((number * factor).to_string()),
            _ => Some(base.to_owned()),
        }
    }

    /// Whether the default grows with the number of CPUs.
    pub fn is_scaled(self) -> bool {
        self.text("scaled") == "yes"
    }

    /// The unit of the number; empty if the value is not a number.
    pub fn unit(self) -> &'static str {
        self.text("unit")
    }

    /// What it does.
    pub fn meaning(self) -> &'static str {
        self.text("meaning")
    }

    /// The nearest replacement on kernels that lack it.
    pub fn successor(self) -> Option<Knob> {
        Knob::named(self.0.get("successor")?)
    }

    /// The build option that it needs, without `CONFIG_`.
    pub fn config(self) -> Option<&'static str> {
        self.0.get("config")
    }

    /// The source of this knowledge.
    pub fn source(self) -> &'static str {
        self.text("source")
    }

    fn vendor(self) -> &'static str {
        self.text("vendor")
    }

    fn since(self) -> Option<Version> {
        self.text("since").parse().ok()
    }

    /// The last series that certainly has it, and the last that may.
    fn until(self) -> Option<(Version, Version)> {
        let text = self.0.get("until")?;
        let (sure, perhaps) = text.split_once("..").unwrap_or((text, text));
        Some((sure.parse().ok()?, perhaps.parse().ok()?))
    }

    fn begins_by(self, version: Version) -> bool {
        self.since().is_none_or(|since| version.is_at_least(since.major, since.minor))
    }

    fn reaches(self, version: Version) -> bool {
        let ended = |last: Version| (version.major, version.minor) > (last.major, last.minor);
        self.begins_by(version) && !self.until().is_some_and(|(_, perhaps)| ended(perhaps))
    }

    fn is_surely_there(self, version: Version) -> bool {
        self.until().is_none_or(|(sure, _)| (version.major, version.minor) <= (sure.major, sure.minor))
    }

    /// The stable levels of older series that took it over: `6.12.31`, `6.14.9`.
    pub fn stable_from(self) -> impl Iterator<Item = Version> {
        self.text("stable_from").split(' ').filter_map(|text| text.parse::<Version>().ok())
    }

    fn was_taken_over_by(self, version: Version) -> bool {
        self.stable_from().any(|from| {
            from.patch.is_some_and(|level| version.stable_reaches(from.major, from.minor, level) == Some(true))
        })
    }

    /// The kernels that have it: `up to 5.12`, `5.13 to 6.5`, `6.6 and later`.
    pub fn versions(self) -> String {
        match (self.since(), self.until()) {
            (None, None) => "all kernels since 3.10".to_owned(),
            (Some(since), None) => format!("{since} and later"),
            (Some(since), Some((last, perhaps))) if since == last && last == perhaps => format!("in {since} alone"),
            (None, Some((sure, perhaps))) => format!("up to {}", unsure(sure, perhaps)),
            (Some(since), Some((sure, perhaps))) => format!("{since} to {}", unsure(sure, perhaps)),
        }
    }
}

fn unsure(sure: Version, perhaps: Version) -> String {
    if sure == perhaps { sure.to_string() } else { format!("{sure}, perhaps to {perhaps}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn forms_of_a_setting_follow_each_other_without_a_gap_or_an_overlap() {
        for knob in Knob::all() {
            for distribution in [None, Some(Distribution::Debian)] {
                let forms = knob.forms(distribution);
                for pair in forms.windows(2) {
                    let (_, last) = pair[0].until().unwrap_or_else(|| panic!("{}: no end", knob.name()));
                    let next = pair[1].since().unwrap_or_else(|| panic!("{}: no beginning", knob.name()));
                    let follows = (next.major, next.minor) == (last.major, last.minor + 1)
                        || last.minor >= 19 && (next.major, next.minor) == (last.major + 1, 0);
                    assert!(follows, "{}: {last} then {next}", knob.name());
                }
                for form in forms {
                    assert!(form.until().is_none_or(|(sure, perhaps)| form.begins_by(sure) && form.begins_by(perhaps)));
                }
            }
        }
    }

    #[test]
    fn every_form_is_whole() {
        for row in KNOBS.rows() {
            let form = Form(row);
            let place = match form.kind() {
                "sysctl" => "/proc/sys/kernel/",
                "debugfs" => "/sys/kernel/debug/",
                "module" => "/sys/module/workqueue/parameters/",
                other => panic!("{}: {other}", row.name()),
            };
            assert!(form.path().starts_with(place) && !form.path().contains("//"), "{}", form.path());
            assert!(form.path().is_ascii() && !form.path().contains(' '), "{}", form.path());
            assert!(!form.meaning().is_empty() && row.is_stated(), "{}", row.name());
            assert!(["yes", "no"].contains(&form.text("scaled")), "{}", row.name());
            assert!(form.text("successor").is_empty() || form.successor().is_some(), "{}", form.text("successor"));
            assert!(!form.is_scaled() || form.base_default().is_some_and(|text| text.parse::<u64>().is_ok()));
            assert_eq!(Knob::named(form.path()).map(Knob::name), Some(row.name()), "found by its path");
        }
    }

    #[test]
    fn a_setting_is_known_by_all_its_names() {
        for (text, name) in [
            ("sched_rt_runtime_us", "sched_rt_runtime_us"),
            ("kernel.sched_rt_runtime_us", "sched_rt_runtime_us"),
            ("/proc/sys/kernel/sched_rt_runtime_us", "sched_rt_runtime_us"),
            ("wakeup_granularity_ns", "sched_wakeup_granularity_ns"),
            ("/sys/kernel/debug/sched/wakeup_granularity_ns", "sched_wakeup_granularity_ns"),
            ("sched/base_slice_ns", "base_slice_ns"),
            ("/sys/kernel/debug/sched/fair_server/cpu3/runtime", "fair_server_runtime"),
            ("fair_server/cpu11/period", "fair_server_period"),
            ("default_affinity_scope", "workqueue.default_affinity_scope"),
            ("sched/features", "sched_features"),
        ] {
            assert_eq!(Knob::named(text).map(Knob::name), Some(name), "{text}");
        }
        for text in ["", "runtime", "/", "kernel", "fair_server/cpu/period", "sched_nonsense"] {
            assert_eq!(Knob::named(text), None, "{text}");
        }
    }

    #[test]
    fn where_it_is_and_what_it_is_by_default() {
        let mut table = String::new();
        for name in ["sched_wakeup_granularity_ns", "base_slice_ns", "sched_rt_runtime_us", "sched_child_runs_first"] {
            for release in ["5.10", "6.1", "6.5", "6.6", "6.7", "6.12.30", "6.12.31", "6.14.9", "7.2"] {
                let presence = Knob::named(name).and_then(|knob| knob.at(version(release), None)).expect("known");
                let text = match presence {
                    Presence::There(form) => format!("{} = {}", form.path(), form.default_with(8).unwrap_or_default()),
                    Presence::Gone(form) => format!("gone, was there {}", form.versions()),
                    Presence::NotYet(form) => format!("not yet, {}", form.versions()),
                    Presence::Unsure(form) => format!("unsure, {}", form.versions()),
                };
                table += &format!("{name:<28}{release:<9}{text}\n");
            }
        }
        insta::assert_snapshot!(table, @"
        sched_wakeup_granularity_ns 5.10     /proc/sys/kernel/sched_wakeup_granularity_ns = 4000000
        sched_wakeup_granularity_ns 6.1      /sys/kernel/debug/sched/wakeup_granularity_ns = 4000000
        sched_wakeup_granularity_ns 6.5      /sys/kernel/debug/sched/wakeup_granularity_ns = 4000000
        sched_wakeup_granularity_ns 6.6      gone, was there 5.13 to 6.5
        sched_wakeup_granularity_ns 6.7      gone, was there 5.13 to 6.5
        sched_wakeup_granularity_ns 6.12.30  gone, was there 5.13 to 6.5
        sched_wakeup_granularity_ns 6.12.31  gone, was there 5.13 to 6.5
        sched_wakeup_granularity_ns 6.14.9   gone, was there 5.13 to 6.5
        sched_wakeup_granularity_ns 7.2      gone, was there 5.13 to 6.5
        base_slice_ns               5.10     not yet, 6.6 to 6.14
        base_slice_ns               6.1      not yet, 6.6 to 6.14
        base_slice_ns               6.5      not yet, 6.6 to 6.14
        base_slice_ns               6.6      /sys/kernel/debug/sched/base_slice_ns = 3000000
        base_slice_ns               6.7      /sys/kernel/debug/sched/base_slice_ns = 3000000
        base_slice_ns               6.12.30  /sys/kernel/debug/sched/base_slice_ns = 3000000
        base_slice_ns               6.12.31  /sys/kernel/debug/sched/base_slice_ns = 2800000
        base_slice_ns               6.14.9   /sys/kernel/debug/sched/base_slice_ns = 2800000
        base_slice_ns               7.2      /sys/kernel/debug/sched/base_slice_ns = 2800000
        sched_rt_runtime_us         5.10     /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.1      /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.5      /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.6      /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.7      /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.12.30  /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.12.31  /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         6.14.9   /proc/sys/kernel/sched_rt_runtime_us = 950000
        sched_rt_runtime_us         7.2      /proc/sys/kernel/sched_rt_runtime_us = 1000000
        sched_child_runs_first      5.10     /proc/sys/kernel/sched_child_runs_first = 0
        sched_child_runs_first      6.1      /proc/sys/kernel/sched_child_runs_first = 0
        sched_child_runs_first      6.5      /proc/sys/kernel/sched_child_runs_first = 0
        sched_child_runs_first      6.6      /proc/sys/kernel/sched_child_runs_first = 0
        sched_child_runs_first      6.7      gone, was there in 6.6 alone
        sched_child_runs_first      6.12.30  gone, was there in 6.6 alone
        sched_child_runs_first      6.12.31  gone, was there in 6.6 alone
        sched_child_runs_first      6.14.9   gone, was there in 6.6 alone
        sched_child_runs_first      7.2      gone, was there in 6.6 alone
        ");
        let debian = |release: &str| {
            let knob = Knob::named("sched_autogroup_enabled").expect("known");
            knob.at(version(release), Some(Distribution::Debian)).and_then(Presence::form).and_then(Form::base_default)
        };
        assert_eq!((debian("6.1"), debian("6.12")), (Some("0"), Some("1")));
    }
}
