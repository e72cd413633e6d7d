//! Reading a scenario's text, and what a scenario must fulfil beyond its shape.

use std::path::Path;

use unstarve_files::{Limit, ReadError, read_text};

use super::when::Bound;
use super::{Action, Scenario, When};

/// Why a text is no scenario; shows `file:line: what`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ScenarioError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, counted from 1, where one can be named.
    pub line: Option<usize>,
    /// What is wrong, with the key.
    pub message: String,
}

/// `policy`, `nice` and `cpus` of a load or a `threads` step, read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    /// Policy word (`fifo`, `rr`, `other`) and real-time priority.
    pub policy: Option<(String, u32)>,
    /// −20…19.
    pub nice: Option<i32>,
    /// CPU numbers.
    pub cpus: Option<Vec<u32>>,
}

/// What breaks a rule: the message, and a text of the file near which it is.
type Broken = (String, String);

impl Scenario {
    /// Reads and checks a scenario; `file` is for messages only.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let failed = |line, message| ScenarioError { file: file.to_owned(), line, message };
        let scenario: Scenario = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| line_of(text, span.start));
            let shown = line.and_then(|line| text.lines().nth(line - 1)).map(str::trim).unwrap_or_default();
            failed(line, format!("{} (at `{shown}`)", error.message().trim()))
        })?;
        scenario.check().map_err(|(message, near)| failed(text.find(&near).map(|at| line_of(text, at)), message))?;
        Ok(scenario)
    }

    /// Reads and checks a scenario's file.
    pub fn read(file: &Path) -> Result<Scenario, ScenarioError> {
        let name = file.display().to_string();
        let limit = Limit { bytes: 1 << 20, expected: "a scenario (docs/lab.md)" };
        let text = read_text(file, limit).map_err(|error| ScenarioError {
            file: name.clone(),
            line: None,
            message: match error {
                ReadError::Io { source, .. } => format!("cannot read it: {source}"),
                error => error.to_string(),
            },
        })?;
        Scenario::parse(&name, &text)
    }

    /// Whether it makes sense on this kernel; `None` if the kernel's name begins with no version.
    pub fn suits(&self, kernel: &str) -> Option<bool> {
        super::kernel_suits(&self.kernels, kernel)
    }

    /// Checks a scenario of which fields were changed since it was read.
    pub fn check_again(&self) -> Result<(), ScenarioError> {
        self.check().map_err(|(message, _)| ScenarioError { file: self.name.clone(), line: None, message })
    }

    fn check(&self) -> Result<(), Broken> {
        self.check_frame()?;
        for step in &self.setup {
            self.check_when(step.when.as_deref(), "setup")?;
            check_bounds(&step.kernels)?;
            check_action(&step.action)?;
        }
        for load in &self.load {
            self.check_load(load)?;
        }
        for knob in &self.knob {
            self.check_when(knob.when.as_deref(), "knob")?;
            check_bounds(&knob.kernels)?;
            check_knob_name(&knob.name).map_err(|message| (message, knob.name.clone()))?;
        }
        self.remedy.iter().flat_map(|remedy| &remedy.steps).try_for_each(check_action)
    }

    fn check_frame(&self) -> Result<(), Broken> {
        let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.name.is_empty() || !self.name.chars().all(simple) {
            return Err((format!("name = \"{}\": small letters, digits and `-` only", self.name), "name".into()));
        }
        if !(1..=64).contains(&self.cpus) {
            return Err((format!("cpus = {}: expected 1 to 64", self.cpus), "cpus".into()));
        }
        if !(self.seconds > 0.0 && self.seconds <= 60.0) {
            return Err((format!("seconds = {}: expected more than 0, at most 60", self.seconds), "seconds".into()));
        }
        check_bounds(&self.kernels)?;
        // A load that only runs with or without the fault may be the main one of its half.
        let mains: Vec<When> = self
            .load
            .iter()
            .filter(|load| load.main)
            .map(|load| When::read(load.when.as_deref()).map_err(|error| (error.to_string(), "when".to_owned())))
            .collect::<Result<_, _>>()?;
        match mains.as_slice() {
            [When::Always] => Ok(()),
            [When::Fault, When::Healthy] | [When::Healthy, When::Fault] => Ok(()),
            [When::Remedy(a), When::UnlessRemedy(b)] | [When::UnlessRemedy(b), When::Remedy(a)] if a == b => Ok(()),
            _ => {
                let message = "under every condition exactly one load must be `main = true`";
                Err((message.to_owned(), "main".to_owned()))
            }
        }
    }

    fn check_load(&self, load: &super::Load) -> Result<(), Broken> {
        let at = |what: String| (format!("load `{}`: {what}", load.name), format!("\"{}\"", load.name));
        self.check_when(load.when.as_deref(), &load.name)?;
        if load.argv.is_empty() {
            return Err(at("argv is empty".into()));
        }
        if let Some(kind) = load.metrics.as_deref().filter(|kind| !crate::metric::KINDS.contains(kind)) {
            return Err(at(format!("metrics = \"{kind}\": expected one of {}", crate::metric::KINDS.join(", "))));
        }
        Placement::read(load.policy.as_deref(), load.nice, load.cpus.as_deref())
            .and_then(|placement| placement.fits(self.cpus))
            .map_err(at)?;
        let made = |path: &str| {
            let name = path.trim_start_matches('/');
            self.setup.iter().any(|step| matches!(&step.action, Action::Cgroup { path, .. } if path == name))
        };
        match load.cgroup.as_deref() {
            Some(path) if !made(path) => Err(at(format!("cgroup = \"{path}\": no `cgroup` step makes it"))),
            _ => Ok(()),
        }
    }

    fn check_when(&self, when: Option<&str>, place: &str) -> Result<(), Broken> {
        let near = format!("\"{}\"", when.unwrap_or_default());
        let parsed = When::read(when).map_err(|error| (format!("{place}: {error}"), near.clone()))?;
        match parsed {
            When::Remedy(id) | When::UnlessRemedy(id) if !self.remedy.iter().any(|remedy| remedy.id == id) => {
                Err((format!("{place}: when = \"{}\": there is no remedy `{id}`", when.unwrap_or_default()), near))
            }
            _ => Ok(()),
        }
    }
}

impl Placement {
    /// Reads the three fields as the file has them; the error says which is wrong and what is expected.
    pub fn read(policy: Option<&str>, nice: Option<i32>, cpus: Option<&str>) -> Result<Placement, String> {
        let policy = policy.map(read_policy).transpose()?;
        if let Some(nice) = nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(format!("nice = {nice}: expected -20 to 19"));
        }
        Ok(Placement { policy, nice, cpus: cpus.map(read_cpus).transpose()? })
    }

    fn fits(self, cpus: u32) -> Result<(), String> {
        match self.cpus.iter().flatten().find(|&&cpu| cpu >= cpus) {
            Some(cpu) => Err(format!("cpus: there is no CPU {cpu}, the guest has {cpus}")),
            None => Ok(()),
        }
    }
}

fn read_policy(text: &str) -> Result<(String, u32), String> {
    let wrong = || format!("policy = \"{text}\": expected `fifo:1`…`fifo:99`, `rr:…`, `batch` or `other`");
    match text.split_once(':') {
        None if text == "other" || text == "batch" => Ok((text.to_owned(), 0)),
        Some((word @ ("fifo" | "rr"), prio)) => match prio.parse() {
            Ok(prio @ 1..=99) => Ok((word.to_owned(), prio)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    }
}

fn read_cpus(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("cpus = \"{text}\": expected a list such as `0` or `2-7,9`");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) =
            (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
        if first > last || last >= unstarve_model::CpuId::LIMIT {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

fn check_bounds(bounds: &[String]) -> Result<(), Broken> {
    bounds.iter().try_for_each(|bound| match bound.parse::<Bound>() {
        Ok(_) => Ok(()),
        Err(message) => Err((format!("kernels: {message}"), format!("\"{bound}\""))),
    })
}

fn check_action(action: &Action) -> Result<(), Broken> {
    match action {
        Action::NullBlk { devices: 0, .. } => Err(("null-blk: devices = 0".into(), "null-blk".into())),
        Action::Filesystem { kind, .. } if kind != "xfs" && kind != "ext4" => {
            Err((format!("filesystem: kind = \"{kind}\": expected `xfs` or `ext4`"), format!("\"{kind}\"")))
        }
        Action::Run { argv } if argv.is_empty() => Err(("run: argv is empty".into(), "run".into())),
        Action::Threads { comm, policy, nice, cpus } => {
            Placement::read(policy.as_deref(), *nice, cpus.as_deref())
                .map_err(|what| (format!("threads `{comm}`: {what}"), format!("\"{comm}\"")))?;
            Ok(())
        }
        Action::Mount { at, .. } if !at.starts_with('/') => {
            Err((format!("mount: at = \"{at}\": expected a path from the root"), format!("\"{at}\"")))
        }
        Action::Guard { source: Some(source), .. } if !["ebpf", "netlink", "scan"].contains(&source.as_str()) => {
            Err((format!("guard: source = \"{source}\": expected ebpf, netlink or scan"), format!("\"{source}\"")))
        }
        _ => Ok(()),
    }
}

/// The families of knobs: what stands before the first dot of a knob's name.
const KNOB_FAMILIES: [&str; 4] = ["sched_feature", "sysctl", "debugfs", "cmdline"];

/// Whether `name` is a knob's name: a known family, a dot, and a rest without blanks or `..`.
pub fn check_knob_name(name: &str) -> Result<(), String> {
    let fits = name.split_once('.').is_some_and(|(family, rest)| {
        let plain =
            !rest.is_empty() && !rest.contains(char::is_whitespace) && !rest.split('/').any(|part| part == "..");
        KNOB_FAMILIES.contains(&family) && plain && !rest.starts_with('/')
    });
    if fits {
        return Ok(());
    }
    Err(format!("`{name}` is no knob: expected sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME"))
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "good"
title = "A good one"
source = "nowhere"
cpus = 2
seconds = 1.0
setup = [
    { null-blk = { devices = 1, size_mib = 64, completion_ns = 0 } },
    { cgroup = { path = "pods", weight = 1000 }, when = "fault" },
]
[[load]]
name = "ping"
argv = ["load", "ping"]
cgroup = "pods"
cpus = "0-1"
policy = "rr:10"
main = true
metrics = "load"
[[knob]]
when = "remedy:cure"
name = "sched_feature.NEXT_BUDDY"
value = "on"
[[remedy]]
id = "cure"
title = "Cures"
steps = [{ threads = { comm = "ksoftirqd/1", policy = "fifo:20" } }]
[expect]
finding = ["rt-starvation"]
metrics = ["ping.max"]
"#;

    fn message(change: (&str, &str)) -> String {
        assert!(GOOD.contains(change.0), "{} is not in the scenario", change.0);
        Scenario::parse("good.toml", &GOOD.replace(change.0, change.1)).expect_err("a broken scenario").to_string()
    }

    #[test]
    fn a_scenario_survives_json_as_requests_carry_it() {
        let scenario = Scenario::parse("good.toml", GOOD).expect("a scenario");
        let json = serde_json::to_string(&scenario).expect("JSON");
        assert_eq!(serde_json::from_str::<Scenario>(&json).expect("a scenario"), scenario);
    }

    #[test]
    fn mistakes_are_named_with_file_line_and_key() {
        let said: Vec<String> = [
            ("size_mib = 64", "size_mb = 64"),
            ("size_mib = 64", "size_mib = \"x\""),
            ("null-blk", "null-block"),
            (", when = \"fault\"", ", when = \"fault\", run = { argv = [\"x\"] }"),
            ("\"fault\"", "\"faulty\""),
            ("remedy:cure", "remedy:care"),
            ("main = true", "main = false"),
            ("rr:10", "rr:100"),
            ("0-1", "0-2"),
            ("\"pods\"\ncpus", "\"pots\"\ncpus"),
            ("sched_feature.N", "feature.N"),
            ("metrics = \"load\"", "metrics = \"loud\""),
            ("seconds = 1.0", "seconds = 0.0"),
            ("expect", "expected"),
        ]
        .into_iter()
        .map(message)
        .collect();
        insta::assert_snapshot!(said.join("\n"), @r#"
        good.toml:7: unknown field `size_mb`, expected one of `devices`, `size_mib`, `completion_ns` (at `{ null-blk = { devices = 1, size_mb = 64, completion_ns = 0 } },`)
        good.toml:7: invalid type: string "x", expected u32 (at `{ null-blk = { devices = 1, size_mib = "x", completion_ns = 0 } },`)
        good.toml:7: unknown variant `null-block`, expected one of `null-blk`, `filesystem`, `mount`, `cgroup`, `write`, `run`, `threads`, `guard` (at `{ null-block = { devices = 1, size_mib = 64, completion_ns = 0 } },`)
        good.toml:8: `run` is a second action: every step has one (at `{ cgroup = { path = "pods", weight = 1000 }, when = "fault", run = { argv = ["x"] } },`)
        good.toml:8: setup: when = "faulty": expected `fault`, `healthy`, `remedy:ID` or `unless-remedy:ID`
        good.toml:19: knob: when = "remedy:care": there is no remedy `care`
        good.toml:16: under every condition exactly one load must be `main = true`
        good.toml:11: load `ping`: policy = "rr:100": expected `fifo:1`…`fifo:99`, `rr:…`, `batch` or `other`
        good.toml:11: load `ping`: cpus: there is no CPU 2, the guest has 2
        good.toml:11: load `ping`: cgroup = "pots": no `cgroup` step makes it
        good.toml:20: `feature.NEXT_BUDDY` is no knob: expected sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME
        good.toml:11: load `ping`: metrics = "loud": expected one of fio, load
        good.toml:5: seconds = 0: expected more than 0, at most 60
        good.toml:26: unknown field `expected`, expected one of `name`, `title`, `source`, `cpus`, `memory_mib`, `seconds`, `modules`, `tools`, `kernels`, `setup`, `load`, `knob`, `remedy`, `expect` (at `[expected]`)
        "#);
    }
}
