//! Compiles the parsed policy file to a checked policy. Reports the first error with its line.

use std::cell::OnceCell;
use std::fs;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use toml::Spanned;
use unstarve_files::{TrustError, open_regular, read_trusted};
use unstarve_model::{CpuSet, Glob, Tid};

use super::error::{PolicyError, Source};
use super::file::{KindName, LimitsTable, PolicyFile, RuleTable, SelectorTable, UidText};
use super::kernel_names::{self, Names};
use super::select::{Cpus, Index, Parent, Selector};
use super::wants::wants;
use super::{Limits, Policy, Rule, Setting, Want, host_settings};
use crate::owner::{Uid, UidSet, Users};
use crate::task::Kind;
use unstarve_sched::setting::{Aspect, cpus_of_rule};

/// Include cycles are found separately; this only limits a long chain.
const DEEPEST: usize = 16;
/// Limits includes that multiply: files that include each other's files several times.
const MOST_FILES: usize = 256;
/// A rule has some 100 bytes; a larger file is not a policy.
const LARGEST: u64 = 64 << 20;

/// Whether a policy file must be writable only by root and the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trust {
    /// The policy will be carried out.
    Required,
    /// The policy is only inspected.
    #[default]
    NotNeeded,
}

pub(super) fn load(path: &Path, trust: Trust) -> Result<Policy, PolicyError> {
    let mut compiler = Compiler { trust, ..Compiler::default() };
    let text = compiler.read(path)?;
    compiler.file(path, &text, &mut Vec::new())?;
    compiler.finish()
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Policy, PolicyError> {
    let mut compiler = Compiler::default();
    compiler.file(path, text, &mut Vec::new())?;
    compiler.finish()
}

#[derive(Default)]
struct Compiler {
    trust: Trust,
    /// Number of included files.
    files: usize,
    rules: Vec<Rule>,
    settings: Vec<Setting>,
    limits: Option<Limits>,
    /// The place of the rule with each name.
    names: FxHashMap<String, String>,
    /// The rule that sets an aspect of exactly these tasks.
    setters: FxHashMap<(Selector, Aspect), usize>,
    targets: FxHashMap<String, String>,
    /// Read when a rule names a user.
    users: OnceCell<Users>,
}

impl Compiler {
    fn read(&self, path: &Path) -> Result<String, PolicyError> {
        let unreadable = |source| PolicyError::Unreadable { path: path.to_owned(), source };
        if self.trust == Trust::Required {
            let (_, bytes) = read_trusted(path, LARGEST).map_err(|error| match error {
                TrustError::Io { path, source } => PolicyError::Unreadable { path, source },
                other => PolicyError::Untrusted(other),
            })?;
            return String::from_utf8(bytes).map_err(|error| unreadable(std::io::Error::other(error)));
        }
        // Limited while reading: a device reports size 0 and may never end. A FIFO would block.
        let mut text = String::new();
        let file = fs::canonicalize(path).and_then(|path| open_regular(&path));
        let size = file.and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        if size.map_err(unreadable)? as u64 > LARGEST {
            return Err(unreadable(std::io::Error::other(format!("more than {LARGEST} bytes are no policy"))));
        }
        Ok(text)
    }

    fn file(&mut self, path: &Path, text: &str, stack: &mut Vec<PathBuf>) -> Result<(), PolicyError> {
        let source = Source::new(path, text);
        let file: PolicyFile = toml::from_str(text)
            .map_err(|error| source.wrong(error.span().map_or(0, |span| span.start), sentence(error.message())))?;
        if *file.version.get_ref() != 1 {
            let found = file.version.get_ref();
            return Err(source.wrong(file.version.span().start, format!("version {found}; this program knows 1")));
        }
        self.includes(&source, &file.include, stack)?;
        let limits = limits(&source, &file.limits)?;
        if stack.is_empty() {
            // The limits of the outermost file apply to all rules.
            check_limits(&source, &limits, &self.rules)?;
        }
        for rule in &file.rules {
            self.rule(&source, rule, &limits)?;
        }
        let first = self.settings.len();
        for cgroup in &file.cgroups {
            self.settings.extend(host_settings::cgroup(&source, cgroup)?);
        }
        for irq in &file.irqs {
            self.settings.push(host_settings::irq(&source, irq)?);
        }
        for tunable in &file.tunables {
            self.settings.push(host_settings::tunable(&source, tunable)?);
        }
        for feature in &file.features {
            self.settings.push(host_settings::feature(&source, feature)?);
        }
        // Checked when all tunables are known: a runtime is judged by its period.
        for tunable in &file.tunables {
            host_settings::check_tunable(&source, tunable, &self.settings)?;
        }
        for index in first..self.settings.len() {
            let setting = &self.settings[index];
            if let Some(place) = self.targets.insert(setting.name.clone(), setting.place.clone()) {
                let message =
                    format!("{}: {} is already set at {place}; keep one of them", setting.place, setting.name);
                return Err(located(message));
            }
        }
        self.limits = Some(limits);
        Ok(())
    }

    fn includes(
        &mut self,
        source: &Source,
        includes: &[Spanned<String>],
        stack: &mut Vec<PathBuf>,
    ) -> Result<(), PolicyError> {
        if includes.is_empty() {
            return Ok(());
        }
        let own = fs::canonicalize(source.path).unwrap_or_else(|_| source.path.to_owned());
        stack.push(own);
        for include in includes {
            let at = include.span().start;
            let path = source.path.parent().unwrap_or(Path::new("")).join(include.get_ref());
            let canonical = fs::canonicalize(&path)
                .map_err(|error| source.wrong(at, format!("include {}: {error}", path.display())))?;
            if stack.contains(&canonical) {
                return Err(source.wrong(at, format!("{} includes itself, by way of this line", path.display())));
            }
            self.files += 1;
            if self.files > MOST_FILES {
                return Err(source.wrong(at, format!("more than {MOST_FILES} files are included")));
            }
            if stack.len() >= DEEPEST {
                return Err(source.wrong(at, format!("includes are more than {DEEPEST} deep")));
            }
            let text = self.read(&path)?;
            self.file(&path, &text, stack)?;
        }
        stack.pop();
        Ok(())
    }

    fn rule(&mut self, source: &Source, rule: &Spanned<RuleTable>, limits: &Limits) -> Result<(), PolicyError> {
        let at = rule.span().start;
        let table = rule.get_ref();
        let name = table.name.get_ref().clone();
        let place = source.line(table.name.span().start);
        if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
            return Err(source.wrong(table.name.span().start, "a rule's name has 1 to 64 printable characters"));
        }
        if let Some(other) = self.names.insert(name.clone(), place.clone()) {
            let message = format!("there is a rule `{name}` already, at {other}; names must differ");
            return Err(source.wrong(table.name.span().start, message));
        }
        let mut selector = selector(source, at, &table.selector, || self.users.get_or_init(Users::of_this_machine))?;
        let names = selector.comm.as_ref().map(kernel_names::judge);
        let implied_kthread = table.selector.kind.is_none() && names == Some(Names::Kernel);
        if implied_kthread {
            selector.kind = Some(Kind::Kthread);
        }
        let set = wants(source, at, &table.set, limits)?;
        if set.iter().any(Want::is_realtime) {
            check_breadth(source, at, &selector)?;
        }
        let (lower, on_drift) = (table.set.lower, table.on_drift);
        let rule = Rule { name, place, selector, implied_kthread, set, lower, on_drift };
        for want in &rule.set {
            let key = (rule.selector.clone(), want.aspect());
            if let Some(other) = self.setters.insert(key, self.rules.len()) {
                let other = &self.rules[other];
                if !other.set.contains(want) {
                    let message = format!(
                        "rules `{}` and `{}` ({}) select the same tasks and want different things; remove one",
                        rule.name, other.name, other.place
                    );
                    return Err(source.wrong(at, message));
                }
            }
        }
        self.rules.push(rule);
        Ok(())
    }

    fn finish(self) -> Result<Policy, PolicyError> {
        let limits = self.limits.unwrap_or_else(default_limits);
        let index = Index::new(self.rules.iter().map(|rule| &rule.selector));
        Ok(Policy { rules: self.rules, settings: self.settings, limits, index })
    }
}

/// Refuses rules that would leave no CPU time to the rest.
fn check_breadth(source: &Source, at: usize, selector: &Selector) -> Result<(), PolicyError> {
    if selector.is_every_program() {
        let message = "this would make every program of the machine real-time, or every one of a kind (all services, \
                       logins or users), and leave nothing for the rest; name programs by comm, cmdline, cgroup, unit, \
                       user or parent";
        return Err(source.wrong(at, message));
    }
    if selector.is_every_kernel_thread() {
        let message = "this would make every kernel thread real-time, those that only tidy up too (khugepaged, ksmd, \
                       kcompactd); name a kind of them, a comm or CPUs";
        return Err(source.wrong(at, message));
    }
    Ok(())
}

/// An error whose text already has its place.
fn located(message: String) -> PolicyError {
    let (place, message) = message.split_once(": ").map_or(("", message.as_str()), |parts| parts);
    PolicyError::Wrong { place: place.to_owned(), message: message.to_owned() }
}

/// Serde's message on one line.
fn sentence(message: &str) -> String {
    // toml's wording for a number that is too large for any field here.
    let message = message.replace(" as i128, expected i64", ", expected a small one");
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn default_limits() -> Limits {
    Limits { rt_priority: Limits::DEFAULT_RT_PRIORITY, deny: Vec::new(), rt_budget: 90, dead_man: 10, corrections: 3 }
}

fn limits(source: &Source, table: &LimitsTable) -> Result<Limits, PolicyError> {
    let default = default_limits();
    let number = |value: &Option<Spanned<i64>>, what, range, otherwise| match value {
        None => Ok(otherwise),
        Some(value) => within(source, value, what, range),
    };
    let highest = i64::from(Limits::MOST_RT_PRIORITY);
    Ok(Limits {
        rt_priority: number(&table.rt_priority, "rt-priority", 1..=highest, default.rt_priority)?,
        deny: table.deny.iter().map(|glob| Glob::new(glob)).collect(),
        rt_budget: number(&table.rt_budget, "rt-budget", 1..=99, default.rt_budget)?,
        dead_man: number(&table.dead_man, "dead-man", 2..=600, default.dead_man)?,
        corrections: number(&table.corrections, "corrections", 1..=60, default.corrections)?,
    })
}

/// Included rules were checked against their own file's limits; the outermost file may be stricter.
fn check_limits(source: &Source, limits: &Limits, rules: &[Rule]) -> Result<(), PolicyError> {
    for rule in rules {
        for want in &rule.set {
            let priority = want.rt_priority();
            if priority > limits.rt_priority {
                let message = format!(
                    "rule `{}` ({}) wants real-time priority {priority}, above the limit {} of this file",
                    rule.name, rule.place, limits.rt_priority
                );
                return Err(source.wrong(0, message));
            }
        }
    }
    Ok(())
}

pub(super) fn within(
    source: &Source,
    value: &Spanned<i64>,
    what: &str,
    range: RangeInclusive<i64>,
) -> Result<u32, PolicyError> {
    let number = *value.get_ref();
    if !range.contains(&number) {
        let message = format!("{what} = {number}; expected {} to {}", range.start(), range.end());
        return Err(source.wrong(value.span().start, message));
    }
    // The requested ranges fit into u32.
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

pub(super) fn cpus(source: &Source, text: &Spanned<String>) -> Result<CpuSet, PolicyError> {
    cpus_of_rule(text.get_ref()).map_err(|message| source.wrong(text.span().start, message))
}

fn selector<'a>(
    source: &Source,
    at: usize,
    table: &SelectorTable,
    users: impl Fn() -> &'a Users,
) -> Result<Selector, PolicyError> {
    let glob = |text: &Option<String>| text.as_deref().map(Glob::new);
    let parent = match &table.parent {
        None => None,
        Some(text) => Some(match text.get_ref().strip_prefix("pid:") {
            None => Parent::Comm(Glob::new(text.get_ref())),
            Some(pid) => Parent::Pid(pid.parse().map(Tid).map_err(|_| {
                source.wrong(text.span().start, format!("`pid:{pid}`; expected a process id such as pid:1234"))
            })?),
        }),
    };
    let selector = Selector {
        kind: table.kind.and_then(KindName::kind),
        comm: glob(&table.comm),
        cmdline: glob(&table.cmdline),
        cgroup: glob(&table.cgroup),
        unit: glob(&table.unit),
        workqueue: glob(&table.workqueue),
        work: glob(&table.work),
        cpu: table.cpu.as_ref().map(|text| cpus(source, text)).transpose()?.map(Cpus),
        parent,
        owner: owner(source, table, users)?,
    };
    if selector.is_empty() {
        let message = "`match` names nothing, so it would take every task of the machine; name what you mean";
        return Err(source.wrong(at, message));
    }
    Ok(selector)
}

fn owner<'a>(
    source: &Source,
    table: &SelectorTable,
    users: impl Fn() -> &'a Users,
) -> Result<Option<UidSet>, PolicyError> {
    let set = match &table.uid {
        None => None,
        Some(text) => Some(match text.get_ref() {
            UidText::Number(number) => {
                let highest = i64::from(u32::MAX);
                UidSet::of(Uid(within(source, &Spanned::new(text.span(), *number), "uid", 0..=highest)?))
            }
            UidText::Set(set) => set.parse().map_err(|error| source.wrong(text.span().start, format!("{error}")))?,
        }),
    };
    let Some(name) = &table.user else { return Ok(set) };
    let Some(uid) = users().uid(name.get_ref()) else {
        let message = format!(
            "/etc/passwd has no user \"{}\"; for a user of a directory service write uid = …, as `id -u` shows it",
            name.get_ref()
        );
        return Err(source.wrong(name.span().start, message));
    };
    if set.is_some_and(|set| !set.contains(uid)) {
        return Err(source.wrong(name.span().start, format!("this user's id is {uid}, and `uid` names others")));
    }
    Ok(Some(UidSet::of(uid)))
}
