//! Parses and validates scenarios.

use std::path::Path;

use unstarve_diagnose::report::FindingId;
use unstarve_diagnose::{FINDINGS, FindingKind, REMEDIES, RemedyKind};
use unstarve_files::{Limit, ReadError, read_text};

use super::expect::{Names, VICTIM_KEYS, Victim};
use super::when::Bound;
use super::{Action, Expect, GuestFile, Placement, Remedy, Scenario, When};

/// Why a scenario is invalid; shown as `file:line: what`.
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

/// QEMU's largest `-icount shift=` is 10.
const MAX_INSTRUCTION_NS: u32 = 1 << 10;

/// A violated rule: the message, and a text near which the error is in the file.
type Broken = (String, String);

impl Scenario {
    /// Parses and validates a scenario; `file` is used only in messages.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let failed = |line, message| ScenarioError { file: file.to_owned(), line, message };
        let mut scenario: Scenario = toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| line_of(text, span.start));
            let shown = line.and_then(|line| text.lines().nth(line - 1)).map(str::trim).unwrap_or_default();
            failed(line, format!("{} (at `{shown}`)", error.message().trim()))
        })?;
        scenario.fill(file);
        scenario.check().map_err(|(message, near)| failed(text.find(&near).map(|at| line_of(text, at)), message))?;
        Ok(scenario)
    }

    /// Reads, parses and validates a scenario's file.
    pub fn read(file: &Path) -> Result<Scenario, ScenarioError> {
        let name = file.display().to_string();
        let limit = Limit { bytes: 1 << 20, expected: "a scenario (docs/lab-scenarios.md)" };
        let text = read_text(file, limit).map_err(|error| ScenarioError {
            file: name.clone(),
            line: None,
            message: match error {
                ReadError::Io { source, .. } => format!("cannot read it: {source}"),
                error => error.to_string(),
            },
        })?;
        let mut scenario = Scenario::parse(&name, &text)?;
        scenario.resolve(file);
        Ok(scenario)
    }

    /// Whether it applies to this kernel; `None` if the kernel's name does not begin with a version.
    pub fn suits(&self, kernel: &str) -> Option<bool> {
        super::kernel_suits(&self.kernels, kernel)
    }

    /// Validates a scenario whose fields were changed after parsing.
    pub fn check_again(&self) -> Result<(), ScenarioError> {
        self.check().map_err(|(message, _)| ScenarioError { file: self.name.clone(), line: None, message })
    }

    fn check(&self) -> Result<(), Broken> {
        self.check_frame()?;
        self.remedy.iter().try_for_each(check_remedy)?;
        for step in &self.setup {
            self.check_when(step.when.as_deref(), "setup")?;
            check_bounds(&step.kernels)?;
            check_action(&step.action)?;
        }
        for load in &self.load {
            self.check_load(load)?;
        }
        self.file.iter().try_for_each(check_file)?;
        check_expect(&self.expect)?;
        for knob in &self.knob {
            self.check_when(knob.when.as_deref(), "knob")?;
            check_bounds(&knob.kernels)?;
            check_knob_name(&knob.name).map_err(|message| (message, knob.name.clone()))?;
        }
        Ok(())
    }

    /// Whether the remedy exists, as the scenario's own or `explain`'s. The error lists those that exist.
    pub(crate) fn check_remedy(&self, id: &str) -> Result<(), String> {
        if self.remedy.iter().any(|remedy| remedy.id == id) || RemedyKind::of_id(id).is_some() {
            return Ok(());
        }
        let own: Vec<&str> = self.remedy.iter().filter(|remedy| remedy.own).map(|remedy| remedy.id.as_str()).collect();
        let own = if own.is_empty() { "none of its own".to_owned() } else { own.join(", ") };
        Err(format!("{own}; remedies of explain are {}", known_remedies()))
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
        if !(1..=MAX_INSTRUCTION_NS).contains(&self.instruction_ns) || !self.instruction_ns.is_power_of_two() {
            let expected = format!("a power of 2, at most {MAX_INSTRUCTION_NS}");
            let message = format!("instruction_ns = {}: expected {expected}", self.instruction_ns);
            return Err((message, "instruction_ns".into()));
        }
        check_bounds(&self.kernels)?;
        // A load that runs only with or only without the fault may be the main one of that twin.
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
                let message =
                    "under every condition exactly one load must be `main = true` (a single load is by itself)";
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
        if !(1..=1000).contains(&load.count) {
            return Err(at(format!("count = {}: expected 1 to 1000", load.count)));
        }
        if load.main && load.is_early() {
            return Err(at("the main load cannot start before the recording, which lasts as long as it does".into()));
        }
        if load.is_early() && load.jitter_ms > load.start_ms.unsigned_abs() {
            return Err(at("with its jitter_ms it might start after the recording began".into()));
        }
        self.check_cgroup_of(load).map_err(at)
    }

    fn check_cgroup_of(&self, load: &super::Load) -> Result<(), String> {
        let Some(path) = load.cgroup.as_deref() else { return Ok(()) };
        let name = path.trim_start_matches('/');
        let all = self.setup.iter().filter_map(|step| match &step.action {
            Action::Cgroup { path, .. } => Some(path.as_str()),
            _ => None,
        });
        let all: Vec<&str> = all.collect();
        if !all.contains(&name) {
            return Err(format!("cgroup = \"{path}\": no `cgroup` step makes it"));
        }
        let below = all.iter().find(|other| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')));
        below.map_or(Ok(()), |other| {
            Err(format!(
                "cgroup = \"{path}\": `{other}` is below it, and a group with groups below it that share the CPU can have \
                 no tasks of its own; give the load a group beside `{other}`"
            ))
        })
    }

    fn check_when(&self, when: Option<&str>, place: &str) -> Result<(), Broken> {
        let near = format!("\"{}\"", when.unwrap_or_default());
        let parsed = When::read(when).map_err(|error| (format!("{place}: {error}"), near.clone()))?;
        match parsed {
            When::Remedy(id) | When::UnlessRemedy(id)
                if !self.remedy.iter().any(|remedy| remedy.own && remedy.id == id) =>
            {
                let text = when.unwrap_or_default();
                Err((format!("{place}: when = \"{text}\": there is no remedy `{id}` with `own = true`"), near))
            }
            _ => Ok(()),
        }
    }
}

fn check_bounds(bounds: &[String]) -> Result<(), Broken> {
    bounds.iter().try_for_each(|bound| match bound.parse::<Bound>() {
        Ok(_) => Ok(()),
        Err(message) => Err((format!("kernels: {message}"), format!("\"{bound}\""))),
    })
}

fn known_remedies() -> String {
    REMEDIES.iter().map(|kind| kind.id).collect::<Vec<_>>().join(", ")
}

fn check_remedy(remedy: &Remedy) -> Result<(), Broken> {
    let at = |what: String| Err((format!("remedy `{}`: {what}", remedy.id), format!("\"{}\"", remedy.id)));
    match (RemedyKind::of_id(&remedy.id), remedy.own) {
        (None, false) => at(format!(
            "explain has no such remedy; it has {}. A remedy of the scenario's own has `own = true`",
            known_remedies()
        )),
        (Some(_), true) => at("explain has a remedy of this id: give the scenario's own another".to_owned()),
        (Some(_), false) if !remedy.steps.is_empty() => {
            at("what it does is what explain says of the faulty guest: only a remedy with `own = true` has steps"
                .to_owned())
        }
        _ => remedy.steps.iter().try_for_each(check_action),
    }
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
        Action::Cgroup { path, set, .. } => check_cgroup(path, set.keys()),
        Action::Mount { at, .. } if !at.starts_with('/') => {
            Err((format!("mount: at = \"{at}\": expected a path from the root"), format!("\"{at}\"")))
        }
        Action::Guard { source: Some(source), .. } if !["ebpf", "netlink", "scan"].contains(&source.as_str()) => {
            Err((format!("guard: source = \"{source}\": expected ebpf, netlink or scan"), format!("\"{source}\"")))
        }
        _ => Ok(()),
    }
}

fn check_cgroup<'a>(path: &str, files: impl Iterator<Item = &'a String>) -> Result<(), Broken> {
    if path.is_empty() || path.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
        let message = format!("cgroup: path = \"{path}\": expected a path below the root such as `prod/heavy`");
        return Err((message, format!("\"{path}\"")));
    }
    let plain = |name: &str| name.contains('.') && name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
    match files.into_iter().find(|name| !plain(name) || name.starts_with('.')) {
        Some(name) => Err((
            format!("cgroup `{path}`: `{name}` is no file of a cgroup such as `memory.max`"),
            format!("\"{name}\""),
        )),
        None => Ok(()),
    }
}

fn check_file(file: &GuestFile) -> Result<(), Broken> {
    let at = |what: &str| Err((format!("file `{}`: {what}", file.path), format!("\"{}\"", file.path)));
    let parts: Vec<&str> = file.path.split('/').skip(1).collect();
    if !file.path.starts_with('/') || parts.iter().any(|part| part.is_empty() || [".", ".."].contains(part)) {
        return at("expected a path from the root");
    }
    if crate::image::is_reserved(&file.path) {
        return at("the lab itself needs this path");
    }
    match (&file.text, &file.from) {
        (Some(_), None) => Ok(()),
        (None, Some(_)) if file.executable => {
            at("`executable` is for a `text`; a copy may be run if what it is a copy of may")
        }
        (None, Some(_)) => Ok(()),
        _ => at("expected either `text` or `from`"),
    }
}

fn check_expect(expect: &Expect) -> Result<(), Broken> {
    let broken = |message: &str| (format!("expect: {message}"), "[expect]".to_owned());
    if expect.quiet && (expect.finding.as_ref().is_some_and(|ids| !ids.is_empty()) || !expect.all.is_empty()) {
        return Err(broken("`quiet` says that nothing is to be found, `finding` or `all` that something is"));
    }
    let top = |names: &Names| !names.is_empty();
    let about_top = top(&expect.culprit) || top(&expect.payer) || !expect.victim.0.is_empty();
    if about_top && expect.top().is_none_or(<[FindingId]>::is_empty) {
        return Err(broken(
            "`victim`, `culprit` and `payer` are the top finding's, of which `finding` has to say what it is",
        ));
    }
    let ids = expect.finding.iter().flatten().chain(expect.all.iter().map(|one| &one.finding));
    ids.map(FindingId::as_str).try_for_each(check_finding)?;
    std::iter::once(&expect.victim).chain(expect.all.iter().map(|one| &one.victim)).try_for_each(check_victim)
}

fn check_finding(id: &str) -> Result<(), Broken> {
    if FindingKind::of_id(id).is_some() {
        return Ok(());
    }
    let known: Vec<&str> = FINDINGS.iter().map(|kind| kind.id).collect();
    Err((format!("expect: finding = \"{id}\": expected one of {}", known.join(", ")), format!("\"{id}\"")))
}

fn check_victim(victim: &Victim) -> Result<(), Broken> {
    match victim.0.keys().find(|key| !VICTIM_KEYS.contains(&key.as_str())) {
        Some(key) => {
            let message = format!("expect: victim: unknown key `{key}`, expected one of {}", VICTIM_KEYS.join(", "));
            Err((message, "victim".to_owned()))
        }
        None => Ok(()),
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
#[path = "check/tests.rs"]
mod tests;
