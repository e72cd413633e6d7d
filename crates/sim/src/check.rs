//! Whether a program can be played at all: a file may be damaged, or made by hand.

use unstarve_model::{Nanos, Policy, SchedPolicy};

use crate::{Actor, Cgroup, Class, Op, Program};

/// Why a program cannot be played.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// Nothing to play.
    #[error("the program has no {0}")]
    Empty(&'static str),
    /// A cgroup that cannot be made.
    #[error("cgroup `{path}`: {what}")]
    Cgroup {
        /// Its path.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// A thread that cannot be played.
    #[error("actor {index} `{comm}`: {what}")]
    Actor {
        /// Its index.
        index: usize,
        /// Its name.
        comm: String,
        /// What is wrong.
        what: String,
    },
}

impl Program {
    /// Whether all that it names exists, and all settings are ones that a kernel has.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ProgramError> {
        let empty = [
            (self.cpus.is_empty(), "CPUs"),
            (self.length == Nanos::ZERO, "length"),
            (self.actors.is_empty(), "actors"),
        ];
        if let Some((_, what)) = empty.into_iter().find(|(is_empty, _)| *is_empty) {
            return Err(ProgramError::Empty(what));
        }
        for (index, cgroup) in self.cgroups.iter().enumerate() {
            self.check_cgroup(index, cgroup)
                .map_err(|what| ProgramError::Cgroup { path: cgroup.path.clone(), what })?;
        }
        for (index, actor) in self.actors.iter().enumerate() {
            self.check_actor(actor).map_err(|what| ProgramError::Actor { index, comm: actor.comm.clone(), what })?;
        }
        Ok(())
    }

    fn check_cgroup(&self, index: usize, cgroup: &Cgroup) -> Result<(), String> {
        let mut parts = cgroup.path.split('/');
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains(['\n', '\0']);
        if parts.next() != Some("") || !parts.all(plain) {
            return Err("expected a path from the root group such as `/kubepods/pod1`".to_owned());
        }
        let below = match cgroup.parent {
            Some(parent) if parent >= index => {
                return Err(format!("the group above it, {parent}, must come before it"));
            }
            Some(parent) => self.cgroups[parent].path.as_str(),
            None => "",
        };
        if cgroup.path.rsplit_once('/').map(|(above, _)| above) != Some(below) {
            return Err(format!(
                "it is not directly below `{}`, the group above it",
                if below.is_empty() { "/" } else { below }
            ));
        }
        if self.cgroups[..index].iter().any(|other| other.path == cgroup.path) {
            return Err("it is named twice".to_owned());
        }
        if cgroup.load_weight < 2 {
            return Err(format!("load weight {}: the kernel's smallest is 2", cgroup.load_weight));
        }
        match cgroup.quota {
            Some(quota) if quota.runtime == Nanos::ZERO || quota.period == Nanos::ZERO => {
                Err(format!("quota {} in {}: expected more than 0", quota.runtime, quota.period))
            }
            _ => Ok(()),
        }
    }

    fn check_actor(&self, actor: &Actor) -> Result<(), String> {
        let placement = &actor.placement;
        check_class(placement.class)?;
        if actor.comm.contains('\0') {
            return Err("a name with a zero byte".to_owned());
        }
        if !placement.cpus.is_empty() && self.cpus.last_common(&placement.cpus).is_none() {
            return Err(format!(
                "may use CPUs {}, of which the program has none: it has {}",
                placement.cpus, self.cpus
            ));
        }
        if let Some(cgroup) = placement.cgroup.filter(|cgroup| *cgroup >= self.cgroups.len()) {
            return Err(format!("is in cgroup {cgroup} of {}", self.cgroups.len()));
        }
        let unknown = actor.ops.iter().find_map(|op| match op {
            Op::Wake(actor) | Op::WakeAfter(actor, _) if actor.index() >= self.actors.len() => Some(actor.0),
            _ => None,
        });
        match unknown {
            Some(other) => Err(format!("wakes actor {other}, of which there are {}", self.actors.len())),
            None => Ok(()),
        }
    }
}

fn check_class(class: Class) -> Result<(), String> {
    match class {
        Class::Fair { policy: SchedPolicy::Ext, .. } => {
            Err("is scheduled by a BPF scheduler, which is not in the program".to_owned())
        }
        Class::Fair { policy, nice } if policy.class() == Some(Policy::Fair) => match nice {
            -20..=19 => Ok(()),
            _ => Err(format!("nice {nice}: expected -20 to 19")),
        },
        Class::Realtime { policy: SchedPolicy::Fifo | SchedPolicy::Rr, priority } => match priority {
            1..=99 => Ok(()),
            _ => Err(format!("real-time priority {priority}: expected 1 to 99")),
        },
        Class::Deadline(times) => {
            let ordered =
                Nanos::ZERO < times.runtime && times.runtime <= times.deadline && times.deadline <= times.period;
            if ordered { Ok(()) } else { Err("expected 0 < runtime <= deadline <= period".to_owned()) }
        }
        Class::Fair { policy, .. } | Class::Realtime { policy, .. } => {
            Err(format!("policy {} does not belong to its class", policy.name()))
        }
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::{CpuId, CpuSet, Tid};

    use super::*;
    use crate::{ActorId, Placement, SwitchCosts};

    fn sound() -> Program {
        let fair = Class::Fair { policy: SchedPolicy::Other, nice: 0 };
        let placement = Placement { class: fair, cpus: CpuSet::default(), cgroup: Some(1), slice: None };
        let group = |path: &str, parent| Cgroup { path: path.to_owned(), parent, load_weight: 1024, quota: None };
        let actor = Actor {
            tid: Tid(7),
            process: None,
            comm: "fio".to_owned(),
            is_kernel_thread: false,
            placement,
            begins_on: None,
            is_born: false,
            costs: SwitchCosts::default(),
            ops: vec![Op::Wake(ActorId(0))],
        };
        Program {
            cpus: [4, 6].map(CpuId).into_iter().collect(),
            length: Nanos(1_000),
            cgroups: vec![group("/a", None), group("/a/b", Some(0))],
            actors: vec![actor],
            ..Program::default()
        }
    }

    #[test]
    fn what_does_not_exist_is_named() {
        assert_eq!(sound().check(), Ok(()));
        let class = |class: Class| move |program: &mut Program| program.actors[0].placement.class = class;
        let fair = |policy, nice| class(Class::Fair { policy, nice });
        type Damage = Box<dyn Fn(&mut Program)>;
        let cases: Vec<(Damage, &str)> = vec![
            (Box::new(|program| program.cpus = CpuSet::default()), "the program has no CPUs"),
            (Box::new(|program| program.length = Nanos::ZERO), "the program has no length"),
            (Box::new(|program| program.actors.clear()), "the program has no actors"),
            (
                Box::new(|program| program.actors[0].placement.cpus = [CpuId(5)].into_iter().collect()),
                "actor 0 `fio`: may use CPUs 5, of which the program has none: it has 4,6",
            ),
            (Box::new(|program| program.actors[0].placement.cgroup = Some(2)), "actor 0 `fio`: is in cgroup 2 of 2"),
            (
                Box::new(|program| program.actors[0].ops.push(Op::Wake(ActorId(9)))),
                "actor 0 `fio`: wakes actor 9, of which there are 1",
            ),
            (Box::new(fair(SchedPolicy::Other, 20)), "actor 0 `fio`: nice 20: expected -20 to 19"),
            (Box::new(fair(SchedPolicy::Fifo, 0)), "actor 0 `fio`: policy fifo does not belong to its class"),
            (
                Box::new(class(Class::Realtime { policy: SchedPolicy::Rr, priority: 0 })),
                "actor 0 `fio`: real-time priority 0: expected 1 to 99",
            ),
            (
                Box::new(|program| program.cgroups[0].parent = Some(1)),
                "cgroup `/a`: the group above it, 1, must come before it",
            ),
            (
                Box::new(|program| program.cgroups[1].parent = None),
                "cgroup `/a/b`: it is not directly below `/`, the group above it",
            ),
            (
                Box::new(|program| program.cgroups[0].path = "/../etc".to_owned()),
                "cgroup `/../etc`: expected a path from the root group such as `/kubepods/pod1`",
            ),
            (
                Box::new(|program| program.cgroups[0].load_weight = 0),
                "cgroup `/a`: load weight 0: the kernel's smallest is 2",
            ),
        ];
        for (damage, message) in cases {
            let mut program = sound();
            damage(&mut program);
            assert_eq!(program.check().map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
