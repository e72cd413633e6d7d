//! A program as text that people can read and edit: TOML with one table for each actor, whose `does` is a list of operations.
//!
//! ```toml
//! [[actor]]
//! name = "kworker/1:2"
//! cpus = "1"
//! does = "3000 * (block, run 35us, wake fio)"
//! ```
//!
//! Operations are `run 35us`, `run 5ms by the clock`, `block`, `take`, `sleep 5ms`, `sleep until 812ms`, `wake NAME` and
//! `wake NAME after 400us`; `N * (…)` repeats. Of actors with one name, the second is `NAME#2`.

mod parse;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Nanos, SchedPolicy, Tid};
use unstarve_sched::load_weight_of_cpu_weight;

use crate::{Actor, Cgroup, Class, Deadline, Placement, Program, ProgramError, Quota, SwitchCosts};

/// Why a text is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotationError {
    /// It is not TOML of this form.
    #[error("the program is not TOML of the right form: {0}")]
    Toml(String),
    /// It is not JSON of this form.
    #[error("the program is not JSON of the right form: {0}")]
    Json(String),
    /// An actor's settings or operations are wrong.
    #[error("actor `{actor}`: {what}")]
    Actor {
        /// Its name.
        actor: String,
        /// What is wrong.
        what: String,
    },
    /// It names what it does not have, or settings that no kernel has.
    #[error(transparent)]
    Program(ProgramError),
    /// It has more operations than can be played.
    #[error("the program has more than {} operations", crate::MAX_OPERATIONS)]
    TooLong,
}

/// A program as it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    cpus: String,
    length: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cgroup: Vec<WrittenGroup>,
    actor: Vec<WrittenActor>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroup {
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    load_weight: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenActor {
    name: String,
    #[serde(default, skip_serializing_if = "is_one")]
    #[serde(rename = "count")]
    copies: Copies,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    kernel_thread: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nice: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    does: String,
}

/// How many actors are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Copies(u32);

impl Default for Copies {
    fn default() -> Copies {
        Copies(1)
    }
}

fn is_one(copies: &Copies) -> bool {
    *copies == Copies::default()
}

/// More actors are not made.
const MOST_ACTORS: usize = 10_000;
/// More actors are not made of one table.
const MOST_COPIES: u32 = 1000;

impl Program {
    /// Reads a program: JSON, or the notation.
    ///
    /// # Errors
    /// If it is neither.
    pub fn read(text: &str) -> Result<Program, NotationError> {
        if text.trim_start().starts_with('{') {
            return serde_json::from_str(text)
                .map_err(|error| NotationError::Json(error.to_string()))
                .and_then(Program::sound);
        }
        let written: Written = toml::from_str(text).map_err(|error| NotationError::Toml(error.to_string()))?;
        written.read().and_then(Program::sound)
    }

    fn sound(self) -> Result<Program, NotationError> {
        self.check().map(|()| self).map_err(NotationError::Program)
    }

    /// The program in the notation.
    pub fn written(&self) -> String {
        toml::to_string(&Written::of(self)).unwrap_or_default()
    }
}

impl Written {
    fn of(program: &Program) -> Written {
        let group = |group: &Cgroup| {
            let weight = unstarve_sched::cpu_weight_of_load_weight(group.load_weight);
            let is_exact = load_weight_of_cpu_weight(weight) == group.load_weight;
            WrittenGroup {
                path: group.path.clone(),
                weight: is_exact.then_some(weight),
                load_weight: (!is_exact).then_some(group.load_weight),
                max: group.quota.map(|quota| format!("{}/{}", short(quota.runtime), short(quota.period))),
            }
        };
        let names = names(program);
        let written: Vec<WrittenActor> =
            program.actors.iter().map(|actor| WrittenActor::of(actor, program, &names)).collect();
        Written {
            kernel: program.kernel.clone(),
            cpus: program.cpus.to_string(),
            length: short(program.length),
            cgroup: program.cgroups.iter().map(group).collect(),
            actor: merged(written, program),
        }
    }

    fn read(self) -> Result<Program, NotationError> {
        let of_program = |what: String| NotationError::Toml(what);
        let cpus: CpuSet =
            self.cpus.parse().map_err(|error| of_program(format!("cpus = \"{}\": {error}", self.cpus)))?;
        let length = parse::time(&self.length).map_err(|what| of_program(format!("length: {what}")))?;
        let mut cgroups: Vec<Cgroup> = Vec::new();
        for group in self.cgroup {
            let above = group.path.rsplit_once('/').map_or("", |(above, _)| above);
            let parent = cgroups.iter().position(|known| known.path == above);
            let load_weight = group.load_weight.or(group.weight.map(load_weight_of_cpu_weight)).unwrap_or(1024);
            let quota = group.max.as_deref().map(quota_of).transpose().map_err(of_program)?;
            cgroups.push(Cgroup { path: group.path, parent, load_weight, quota });
        }
        let mut tables = Vec::new();
        for actor in self.actor {
            let copies = actor.copies.0;
            if copies == 0 || copies > MOST_COPIES {
                return Err(NotationError::Actor {
                    actor: actor.name,
                    what: format!("count = {copies}; expected 1 to {MOST_COPIES}"),
                });
            }
            tables.push((copies, actor));
        }
        if tables.iter().map(|(copies, _)| *copies as usize).sum::<usize>() > MOST_ACTORS {
            return Err(NotationError::TooLong);
        }
        let names: Vec<&str> = tables
            .iter()
            .flat_map(|(copies, actor)| std::iter::repeat_n(actor.name.as_str(), *copies as usize))
            .collect();
        let labels = labels(&names);
        let by_label: BTreeMap<&str, u32> = (0..).zip(&labels).map(|(index, label)| (label.as_str(), index)).collect();
        let (mut actors, mut operations) = (Vec::new(), 0_usize);
        for (copies, actor) in &tables {
            let wrong = |what: String| NotationError::Actor { actor: actor.name.clone(), what };
            let placement = actor.placement(&cpus, &cgroups).map_err(wrong)?;
            let ops = parse::operations(&actor.does, &by_label).map_err(wrong)?;
            operations += ops.len() * *copies as usize;
            if operations > crate::MAX_OPERATIONS {
                return Err(NotationError::TooLong);
            }
            for _ in 0..*copies {
                actors.push(Actor {
                    tid: Tid(FIRST_TID + actors.len() as u32),
                    process: None,
                    comm: actor.name.clone(),
                    is_kernel_thread: actor.kernel_thread,
                    placement: placement.clone(),
                    begins_on: None,
                    is_born: false,
                    costs: SwitchCosts::default(),
                    ops: ops.clone(),
                });
            }
        }
        Ok(Program { kernel: self.kernel, cpus, length, cgroups, actors, ..Program::default() })
    }
}

/// Ids of threads that a text does not give.
const FIRST_TID: u32 = 1000;

impl WrittenActor {
    fn of(actor: &Actor, program: &Program, names: &[String]) -> WrittenActor {
        let placement = &actor.placement;
        let (policy, nice) = match placement.class {
            Class::Fair { policy: SchedPolicy::Other, nice } => (None, (nice != 0).then_some(nice)),
            Class::Fair { policy, nice } => (Some(policy.name().to_owned()), (nice != 0).then_some(nice)),
            Class::Realtime { policy, priority } => (Some(format!("{}:{priority}", policy.name())), None),
            Class::Deadline(of) => {
                (Some(format!("deadline:{}/{}/{}", short(of.runtime), short(of.deadline), short(of.period))), None)
            }
        };
        WrittenActor {
            name: actor.comm.clone(),
            copies: Copies::default(),
            kernel_thread: actor.is_kernel_thread,
            cpus: (placement.cpus != program.cpus).then(|| placement.cpus.to_string()),
            policy,
            nice,
            cgroup: placement.cgroup.and_then(|index| Some(program.cgroups.get(index)?.path.clone())),
            does: write::operations(&actor.ops, names),
        }
    }

    fn placement(&self, cpus: &CpuSet, cgroups: &[Cgroup]) -> Result<Placement, String> {
        let own = self.cpus.as_deref().map(|text| text.parse::<CpuSet>().map_err(|error| format!("cpus: {error}")));
        let cgroup = match &self.cgroup {
            None => None,
            Some(path) => {
                let index = cgroups.iter().position(|group| group.path == *path);
                Some(index.ok_or_else(|| format!("there is no [[cgroup]] with the path {path}"))?)
            }
        };
        let class = class_of(self.policy.as_deref(), self.nice)?;
        Ok(Placement { class, cpus: own.transpose()?.unwrap_or_else(|| cpus.clone()), cgroup, slice: None })
    }
}

fn class_of(policy: Option<&str>, nice: Option<i32>) -> Result<Class, String> {
    let nice = nice.unwrap_or_default();
    if !(-20..=19).contains(&nice) {
        return Err(format!("nice = {nice}; expected -20 to 19"));
    }
    let wrong = || {
        format!(
            "policy = \"{}\"; expected other, batch, idle, fifo:1 to 99, rr:1 to 99 or deadline:RUNTIME/DEADLINE/PERIOD",
            policy.unwrap_or_default()
        )
    };
    let (word, value) = policy.unwrap_or("other").split_once(':').unwrap_or((policy.unwrap_or("other"), ""));
    let policy = match word {
        "other" => SchedPolicy::Other,
        "batch" => SchedPolicy::Batch,
        "idle" => SchedPolicy::Idle,
        "fifo" => SchedPolicy::Fifo,
        "rr" => SchedPolicy::Rr,
        "deadline" => SchedPolicy::Deadline,
        _ => return Err(wrong()),
    };
    Ok(match policy {
        SchedPolicy::Fifo | SchedPolicy::Rr => {
            let priority = value.parse().ok().filter(|priority| (1..=99).contains(priority)).ok_or_else(wrong)?;
            Class::Realtime { policy, priority }
        }
        SchedPolicy::Deadline => {
            let times: Vec<Nanos> = value.split('/').map(parse::time).collect::<Result<_, _>>()?;
            let [runtime, deadline, period] = times[..] else { return Err(wrong()) };
            Class::Deadline(Deadline { runtime, deadline, period })
        }
        _ if value.is_empty() => Class::Fair { policy, nice },
        _ => return Err(wrong()),
    })
}

fn quota_of(text: &str) -> Result<Quota, String> {
    let (runtime, period) =
        text.split_once('/').ok_or_else(|| format!("max = \"{text}\"; expected TIME/PERIOD, as in 50ms/100ms"))?;
    Ok(Quota { runtime: parse::time(runtime)?, period: parse::time(period)? })
}

/// A label for each actor by which others wake it: its name, and from the second of a name on with its number. A name that could be
/// read as something else is its number alone.
fn names(program: &Program) -> Vec<String> {
    labels(&program.actors.iter().map(|actor| actor.comm.as_str()).collect::<Vec<_>>())
}

fn labels(names: &[&str]) -> Vec<String> {
    let is_plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_./:-".contains(c));
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut all = Vec::new();
    for (index, &name) in names.iter().enumerate() {
        let count = counts.entry(name).or_default();
        *count += 1;
        all.push(match *count {
            _ if !is_plain(name) || name.is_empty() => format!("#{}", index + 1),
            1 => name.to_owned(),
            count => format!("{name}#{count}"),
        });
    }
    all
}

/// Neighbours that are alike, and that nobody wakes, as one table.
fn merged(written: Vec<WrittenActor>, program: &Program) -> Vec<WrittenActor> {
    let mut woken = vec![false; program.actors.len()];
    for op in program.actors.iter().flat_map(|actor| &actor.ops) {
        if let crate::Op::Wake(id) | crate::Op::WakeAfter(id, _) = op
            && let Some(woken) = woken.get_mut(id.index())
        {
            *woken = true;
        }
    }
    let mut all: Vec<(bool, WrittenActor)> = Vec::new();
    for (actor, is_woken) in written.into_iter().zip(woken) {
        let is_like = |last: &WrittenActor| {
            (&last.name, &last.cpus, &last.policy, last.nice, &last.cgroup, &last.does)
                == (&actor.name, &actor.cpus, &actor.policy, actor.nice, &actor.cgroup, &actor.does)
        };
        match all.last_mut().filter(|(last_woken, last)| !is_woken && !last_woken && is_like(last)) {
            Some((_, last)) => last.copies.0 += 1,
            None => all.push((is_woken, actor)),
        }
    }
    all.into_iter().map(|(_, actor)| actor).collect()
}

/// A time in the largest unit that gives it exactly.
fn short(time: Nanos) -> String {
    match time.0 {
        0 => "0us".to_owned(),
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"cpus = "0-1"
length = "1200ms"

[[cgroup]]
path = "/pods"
weight = 1000
max = "50ms/100ms"

[[actor]]
name = "kworker/1:2"
kernel_thread = true
cpus = "1"
nice = -5
does = "3 * (block, run 35us, wake fio), run 5ms by the clock"

[[actor]]
name = "fio"
cgroup = "/pods"
does = "2 * (sleep 5ms, run 1500ns, 2 * (wake kworker/1:2 after 400us)), sleep until 812ms, take, wake hog#2"

[[actor]]
name = "hog"
policy = "fifo:50"
does = "run 1s"

[[actor]]
name = "hog"
policy = "deadline:2ms/10ms/10ms"
does = "block, run 1s"

[[actor]]
name = "spinner"
count = 3
policy = "batch"
does = "run 10ms"
"#;

    #[test]
    fn what_is_written_is_read_back() {
        let program = Program::read(TEXT).expect("a program");
        assert_eq!(program.actors.len(), 7);
        assert_eq!(program.actors[0].ops.len(), 10);
        assert_eq!(program.written(), TEXT);
        let json = serde_json::to_string(&program).expect("JSON");
        assert_eq!(Program::read(&json).expect("the same"), program);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |from: &str, to: &str| {
            assert!(TEXT.contains(from), "{from}");
            Program::read(&TEXT.replacen(from, to, 1)).expect_err(to).to_string()
        };
        let all = [
            said("wake fio)", "wake fia)"),
            said("run 1s\"", "run 1 day\""),
            said("run 10ms\"", "(run 10ms\""),
            said("run 10ms\"", "0 * (run 10ms)\""),
            said("run 10ms\"", "9000000 * (run 10ms)\""),
            said("run 10ms\"", "jump\""),
            said("fifo:50", "fifo:100"),
            said("nice = -5", "nice = -21"),
            said("/pods\"\ndoes", "/pod\"\ndoes"),
            said("count = 3", "count = 0"),
            said("cpus = \"1\"", "cpus = \"x\""),
            said("50ms/100ms", "50"),
        ];
        insta::assert_snapshot!(all.join("\n"), @r#"
        actor `kworker/1:2`: there is no actor `fia` to wake
        actor `hog`: `1 day`: expected a time such as 35us, 5ms or 1s
        actor `spinner`: `(run 10ms`: expected run TIME, run TIME by the clock, block, take, sleep TIME, sleep until TIME, wake NAME, wake NAME after TIME, or N * (…)
        actor `spinner`: a list is repeated at least once, and at most 8 deep
        actor `spinner`: more than 4000000 operations
        actor `spinner`: `jump`: expected run TIME, run TIME by the clock, block, take, sleep TIME, sleep until TIME, wake NAME, wake NAME after TIME, or N * (…)
        actor `hog`: policy = "fifo:100"; expected other, batch, idle, fifo:1 to 99, rr:1 to 99 or deadline:RUNTIME/DEADLINE/PERIOD
        actor `kworker/1:2`: nice = -21; expected -20 to 19
        actor `fio`: there is no [[cgroup]] with the path /pod
        actor `spinner`: count = 0; expected 1 to 1000
        actor `kworker/1:2`: cpus: `x` is not a list of CPUs such as 0-3,8
        the program is not TOML of the right form: max = "50"; expected TIME/PERIOD, as in 50ms/100ms
        "#);
    }
}
