//! A program under another setting.

use std::collections::BTreeSet;

use unstarve_change::{Change, Relative, Selector, Target, Thread, To, Value};
use unstarve_model::{Nanos, Policy, SchedPolicy};
use unstarve_sched::setting::File;
use unstarve_sched::setting::cgroup::{CgroupVersion, load_weight, weight_in};
use unstarve_sched::setting::feature::FeatureState;
use unstarve_sched::{IDLE_WEIGHT, load_weight_of_nice};

use crate::kernel_refuses::kernel_refuses;
use crate::{Actor, ActorId, Class, Deadline, Program, Quota};

/// A program after a change.
#[derive(Clone, PartialEq, Debug)]
pub struct Changed {
    /// The program.
    pub program: Program,
    /// The actors whose own settings, or whose cgroup's, were changed.
    pub hit: BTreeSet<ActorId>,
}

/// Why a change cannot be played.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotPlay {
    /// Only a person can do it.
    #[error("only a person can do it")]
    ForAPerson,
    /// No thread of the program is meant.
    #[error("no thread that ran or waited in the recording is meant by {0}")]
    HitsNobody(String),
    /// It sets what a program does not have.
    #[error("{0} is not played")]
    NotPlayed(String),
    /// The value is no value of this setting.
    #[error("`{value}` is no value of {of}")]
    NoValue {
        /// The setting.
        of: String,
        /// The value.
        value: String,
    },
    /// The kernel takes no such value there.
    #[error("the kernel refuses it: {0}")]
    KernelRefuses(String),
    /// Everything that it changes has that value already.
    #[error("it was so already")]
    Already,
}

impl Program {
    /// The program with these changes, in order.
    ///
    /// # Errors
    /// If one of them cannot be played, or hits nobody, or if they change nothing.
    pub fn with(&self, changes: &[Change]) -> Result<Changed, CannotPlay> {
        let mut changed = Changed { program: self.clone(), hit: BTreeSet::new() };
        for change in changes {
            changed.make(change)?;
        }
        if let Some(why) = kernel_refuses(self, &changed) {
            return Err(why);
        }
        if changed.program == *self { Err(CannotPlay::Already) } else { Ok(changed) }
    }
}

impl Changed {
    fn make(&mut self, change: &Change) -> Result<(), CannotPlay> {
        match &change.target {
            Target::Thread(thread) => self.of_actors(change, &name_of(thread), |actor| actor.tid == thread.tid),
            Target::Threads(Selector::Process(thread)) => {
                let of_process = |actor: &Actor| actor.process == Some(thread.tid) || actor.tid == thread.tid;
                self.of_actors(change, &name_of(thread), of_process)
            }
            Target::Threads(selector) => {
                let takes = |actor: &Actor| actor.is_kernel_thread && selector.takes(&actor.comm);
                self.of_actors(change, "the selected kernel threads", takes)
            }
            Target::File { path } => self.of_file(path, change),
            Target::Feature { name } => {
                let word = text_of(change, name)?;
                let state = if word == FeatureState::Off.word(name) { "off" } else { "on" };
                self.set_knob(&format!("sched_feature.{name}"), state);
                Ok(())
            }
            Target::Session(thread) => self.of_session(thread, change),
            Target::GroupWeightOf(thread) => self.of_top_group(thread, change),
            Target::Boot { parameter } => {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                self.set_knob(&format!("cmdline.{name}"), value);
                Ok(())
            }
            Target::Advice => Err(CannotPlay::ForAPerson),
            _ => Err(CannotPlay::NotPlayed("such a target".to_owned())),
        }
    }

    fn of_actors(&mut self, change: &Change, what: &str, is_meant: impl Fn(&Actor) -> bool) -> Result<(), CannotPlay> {
        let meant: Vec<ActorId> =
            self.program.actors().filter(|(_, actor)| is_meant(actor)).map(|(id, _)| id).collect();
        if meant.is_empty() {
            return Err(CannotPlay::HitsNobody(what.to_owned()));
        }
        for id in meant {
            let actor = &mut self.program.actors[id.index()];
            set(actor, change)?;
            self.hit.insert(id);
        }
        Ok(())
    }

    fn set_knob(&mut self, name: &str, value: &str) {
        self.program.knobs.retain(|(known, _)| known != name);
        self.program.knobs.push((name.to_owned(), value.to_owned()));
        self.hit.extend(self.program.actors().map(|(id, _)| id).collect::<Vec<_>>());
    }

    fn of_file(&mut self, path: &str, change: &Change) -> Result<(), CannotPlay> {
        let directory = File::at(path).and_then(|file| file.group().map(str::to_owned));
        let Some(directory) = directory else { return self.of_kernel(path, change) };
        let name = path.rsplit('/').next().unwrap_or_default();
        let group = self
            .program
            .cgroups
            .iter()
            .position(|group| directory.strip_prefix(self.program.cgroup_mount()) == Some(&group.path))
            .ok_or_else(|| CannotPlay::HitsNobody(directory.clone()))?;
        self.hit_group(group);
        let version = if matches!(name, "cpu.shares" | "cpu.cfs_quota_us" | "cpu.cfs_period_us") {
            CgroupVersion::V1
        } else {
            CgroupVersion::V2
        };
        if let Some(To::Relative(Relative::WeightAtMost(most))) = change.to {
            let most = load_weight(version, weight_in(version, most));
            let of = &mut self.program.cgroups[group].load_weight;
            *of = (*of).min(most);
            return Ok(());
        }
        let text = text_of(change, path)?;
        let no_value = || CannotPlay::NoValue { of: path.to_owned(), value: text.to_owned() };
        let of = &mut self.program.cgroups[group];
        match name {
            "cpu.weight" | "cpu.shares" => {
                of.load_weight = load_weight(version, text.parse().map_err(|_| no_value())?);
            }
            "cpu.idle" => of.load_weight = if text == "1" { IDLE_WEIGHT } else { load_weight_of_nice(0) },
            "cpu.max" => {
                let (quota, period) = text.split_once(' ').unwrap_or((text, "100000"));
                of.quota = match quota {
                    "max" => None,
                    quota => Some(Quota {
                        runtime: micros(quota).ok_or_else(no_value)?,
                        period: micros(period).ok_or_else(no_value)?,
                    }),
                };
            }
            "cpu.cfs_quota_us" => {
                let period = of.quota.map_or(Nanos::from_micros(100_000), |quota| quota.period);
                of.quota = if text.starts_with('-') {
                    None
                } else {
                    Some(Quota { runtime: micros(text).ok_or_else(no_value)?, period })
                };
            }
            "cpu.cfs_period_us" => {
                let period = micros(text).ok_or_else(no_value)?;
                of.quota = of.quota.map(|quota| Quota { period, ..quota });
            }
            _ => return Err(CannotPlay::NotPlayed(path.to_owned())),
        }
        Ok(())
    }

    /// A setting of the whole kernel is a knob of the guest.
    fn of_kernel(&mut self, path: &str, change: &Change) -> Result<(), CannotPlay> {
        let text = text_of(change, path)?.to_owned();
        let knob = match (path.strip_prefix("/proc/sys/"), path.strip_prefix("/sys/kernel/debug/")) {
            (Some(name), _) => format!("sysctl.{}", name.replace('/', ".")),
            (_, Some(name)) => format!("debugfs.{name}"),
            _ => return Err(CannotPlay::NotPlayed(path.to_owned())),
        };
        self.set_knob(&knob, &text);
        Ok(())
    }

    fn of_session(&mut self, thread: &Thread, change: &Change) -> Result<(), CannotPlay> {
        let group = self.group_of(thread)?;
        if !self.program.cgroups[group].path.starts_with("/autogroup-") {
            return Err(CannotPlay::HitsNobody(format!("the session of {}", name_of(thread))));
        }
        let Some(Value::Nice(nice)) = change.value() else {
            return Err(CannotPlay::NotPlayed("a session's setting other than nice".to_owned()));
        };
        self.program.cgroups[group].load_weight = load_weight_of_nice(*nice);
        self.hit_group(group);
        Ok(())
    }

    fn of_top_group(&mut self, thread: &Thread, change: &Change) -> Result<(), CannotPlay> {
        let mut group = self.group_of(thread)?;
        while let Some(parent) = self.program.cgroups[group].parent {
            group = parent;
        }
        let Some(To::Relative(Relative::WeightAtMost(most))) = change.to else {
            return Err(CannotPlay::NotPlayed("a weight that is given in an unknown unit".to_owned()));
        };
        let most = load_weight(CgroupVersion::V2, most);
        let of = &mut self.program.cgroups[group].load_weight;
        *of = (*of).min(most);
        self.hit_group(group);
        Ok(())
    }

    fn group_of(&self, thread: &Thread) -> Result<usize, CannotPlay> {
        let actor = self.program.actors.iter().find(|actor| actor.tid == thread.tid);
        actor
            .and_then(|actor| actor.placement.cgroup)
            .ok_or_else(|| CannotPlay::HitsNobody(format!("the cgroup of {}", name_of(thread))))
    }

    fn hit_group(&mut self, group: usize) {
        let is_below = |mut of: Option<usize>| {
            while let Some(index) = of {
                if index == group {
                    return true;
                }
                of = self.program.cgroups[index].parent;
            }
            false
        };
        let inside: Vec<ActorId> =
            self.program.actors().filter(|(_, actor)| is_below(actor.placement.cgroup)).map(|(id, _)| id).collect();
        self.hit.extend(inside);
    }
}

fn name_of(thread: &Thread) -> String {
    format!("{} (thread {})", thread.comm, thread.tid)
}

fn micros(text: &str) -> Option<Nanos> {
    text.trim().parse().ok().filter(|us| *us > 0).map(Nanos::from_micros)
}

/// The new content of a file.
fn text_of<'a>(change: &'a Change, of: &str) -> Result<&'a str, CannotPlay> {
    let content = change.value().and_then(Value::as_content).map(|content| content.as_str().trim());
    content.ok_or_else(|| CannotPlay::NotPlayed(format!("{of} without a value")))
}

fn set(actor: &mut Actor, change: &Change) -> Result<(), CannotPlay> {
    let placement = &mut actor.placement;
    match &change.to {
        Some(To::Value(Value::Class { policy, rt_priority, slice })) => {
            placement.class = match policy.class() {
                Some(Policy::Rt) => Class::Realtime { policy: *policy, priority: *rt_priority },
                // The kernel keeps a task's nice value while it is real-time.
                Some(Policy::Fair) => Class::Fair { policy: *policy, nice: placement.class.nice() },
                _ => return Err(CannotPlay::NotPlayed(format!("the policy {}", policy.word()))),
            };
            placement.slice = slice.map(Nanos).filter(|slice| *slice > Nanos::ZERO);
        }
        Some(To::Value(Value::Deadline { runtime, deadline, period })) => {
            let of = Deadline { runtime: Nanos(*runtime), deadline: Nanos(*deadline), period: Nanos(*period) };
            placement.class = Class::Deadline(of);
        }
        Some(To::Value(Value::Nice(nice))) => {
            let Class::Fair { nice: of, .. } = &mut placement.class else {
                return Err(CannotPlay::NotPlayed("nice of a real-time or deadline thread".to_owned()));
            };
            *of = *nice;
        }
        Some(To::Value(Value::Slice(slice))) => placement.slice = Some(Nanos(*slice)),
        Some(To::Value(Value::Affinity(cpus))) => placement.cpus = cpus.clone(),
        Some(To::Relative(Relative::RuntimePercent(percent))) => match &mut placement.class {
            Class::Deadline(of) => of.runtime = Nanos(of.runtime.0 * u64::from(*percent) / 100),
            _ => return Err(CannotPlay::NotPlayed("the runtime of a thread that has no deadline".to_owned())),
        },
        _ => return Err(CannotPlay::NotPlayed("this setting of a thread".to_owned())),
    }
    Ok(())
}

impl Class {
    fn nice(self) -> i32 {
        match self {
            Class::Fair { nice, .. } => nice,
            _ => 0,
        }
    }

    /// Its policy.
    pub fn policy(self) -> SchedPolicy {
        match self {
            Class::Fair { policy, .. } | Class::Realtime { policy, .. } => policy,
            Class::Deadline(_) => SchedPolicy::Deadline,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use unstarve_model::{CpuSet, Tid};

    use super::*;
    use crate::{Cgroup, Placement, SwitchCosts};

    fn fair(nice: i32) -> Class {
        Class::Fair { policy: SchedPolicy::Other, nice }
    }

    pub(crate) fn program() -> Program {
        let actor = |tid: u32, comm: &str, is_kernel_thread, class, cgroup| Actor {
            tid: Tid(tid),
            process: Some(Tid(tid / 10 * 10)),
            comm: comm.to_owned(),
            is_kernel_thread,
            placement: Placement { class, cpus: "0-1".parse().unwrap_or_default(), cgroup, slice: None },
            begins_on: None,
            is_born: false,
            costs: SwitchCosts::default(),
            ops: Vec::new(),
        };
        let group =
            |path: &str, parent, load_weight| Cgroup { path: path.to_owned(), parent, load_weight, quota: None };
        Program {
            cpus: "0-1".parse::<CpuSet>().unwrap_or_default(),
            cgroups: vec![
                group("/pods", None, 25_600),
                group("/pods/a", Some(0), 1024),
                group("/autogroup-7", None, 1024),
            ],
            actors: vec![
                actor(10, "kworker/0:1", true, fair(0), None),
                actor(11, "kworker/1:1H", true, fair(-20), None),
                actor(20, "fio", false, fair(0), Some(1)),
                actor(21, "fio", false, fair(0), Some(1)),
                actor(30, "jackd", false, Class::Realtime { policy: SchedPolicy::Fifo, priority: 50 }, Some(2)),
            ],
            ..Program::default()
        }
    }

    fn thread(tid: u32) -> Thread {
        Thread::known_by(Tid(tid), "x")
    }

    /// What each change does, as a line of what differs.
    fn shown(change: Change) -> String {
        let before = program();
        let changed = match before.with(&[change]) {
            Ok(changed) => changed,
            Err(why) => return why.to_string(),
        };
        let after = &changed.program;
        let mut lines: Vec<String> = Vec::new();
        for (was, is) in before.actors.iter().zip(&after.actors).filter(|(was, is)| was != is) {
            lines.push(format!("{} {:?} {}", was.tid, is.placement.class, is.placement.cpus));
        }
        for (was, is) in before.cgroups.iter().zip(&after.cgroups).filter(|(was, is)| was != is) {
            lines.push(format!("{} {} {:?}", was.path, is.load_weight, is.quota.map(|q| (q.runtime.0, q.period.0))));
        }
        lines.extend(after.knobs.iter().map(|(name, value)| format!("{name}={value}")));
        format!("{}; hits {}", lines.join(", "), changed.hit.len())
    }

    #[test]
    fn each_kind_of_change_changes_what_it_names() {
        let fifo = |policy, rt_priority| Value::Class { policy, rt_priority, slice: None };
        let group = |file: &str, to: &str| Change::file(format!("/sys/fs/cgroup/pods/{file}"), to);
        let rows = [
            Change::of(Target::Thread(thread(20)), Value::Nice(-5)),
            Change::of(Target::Thread(thread(20)), fifo(SchedPolicy::Fifo, 11)),
            Change::of(Target::Thread(thread(30)), fifo(SchedPolicy::Other, 0)),
            Change::of(
                Target::Threads(Selector::Process(thread(20))),
                Value::Affinity("1".parse().unwrap_or_default()),
            ),
            Change::of(Target::Threads(Selector::Workers { cpus: vec![0] }), Value::Nice(-11)),
            Change::of(Target::Threads(Selector::Workers { cpus: vec![7] }), Value::Nice(-11)),
            Change::of(Target::Thread(thread(99)), Value::Nice(-11)),
            Change::of(Target::Thread(thread(20)), Value::Nice(0)),
            group("cpu.weight", "100"),
            group("cpu.weight", "many"),
            group("cpu.max", "30000 100000"),
            group("cpu.idle", "1"),
            Change::relative(
                Target::File { path: "/sys/fs/cgroup/pods/cpu.weight".into() },
                Relative::WeightAtMost(100),
            ),
            Change::relative(Target::GroupWeightOf(thread(20)), Relative::WeightAtMost(100)),
            Change::of(Target::Session(thread(30)), Value::Nice(5)),
            Change::feature("WAKEUP_PREEMPTION", FeatureState::Off),
            Change::file("/proc/sys/kernel/sched_rt_runtime_us", "900000"),
            Change::file("/sys/kernel/debug/sched/base_slice_ns", "9000000"),
            Change::file("/proc/irq/7/smp_affinity_list", "1"),
            Change::at_boot("preempt=full"),
            Change::advice(),
        ];
        let shown: Vec<String> = rows.into_iter().map(shown).collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        20 Fair { policy: Other, nice: -5 } 0-1; hits 1
        20 Realtime { policy: Fifo, priority: 11 } 0-1; hits 1
        30 Fair { policy: Other, nice: 0 } 0-1; hits 1
        20 Fair { policy: Other, nice: 0 } 1, 21 Fair { policy: Other, nice: 0 } 1; hits 2
        10 Fair { policy: Other, nice: -11 } 0-1; hits 1
        no thread that ran or waited in the recording is meant by the selected kernel threads
        no thread that ran or waited in the recording is meant by x (thread 99)
        it was so already
        /pods 1024 None; hits 2
        `many` is no value of /sys/fs/cgroup/pods/cpu.weight
        /pods 25600 Some((30000000, 100000000)); hits 2
        /pods 3 None; hits 2
        /pods 1024 None; hits 2
        /pods 1024 None; hits 2
        /autogroup-7 335 None; hits 1
        sched_feature.WAKEUP_PREEMPTION=off; hits 5
        sysctl.kernel.sched_rt_runtime_us=900000; hits 5
        debugfs.sched/base_slice_ns=9000000; hits 5
        /proc/irq/7/smp_affinity_list is not played
        cmdline.preempt=full; hits 5
        only a person can do it
        ");
    }
}
