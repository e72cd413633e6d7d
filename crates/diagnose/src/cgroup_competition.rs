//! Which load weights two tasks compete by: their own, their cgroups', or their autogroup sessions'.

use unstarve_facts::CgroupFacts;
use unstarve_timeline::ActorId;

use crate::case::Case;

/// The cgroups by whose weights two tasks compete: the first ones in which their paths differ. `None` is a task that is directly
/// in the common parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rivals<'a> {
    pub victim: Option<&'a CgroupFacts>,
    pub occupant: Option<&'a CgroupFacts>,
}

/// The weights by which two tasks compete.
impl<'a> Case<'a> {
    /// `None` if the snapshot does not have both groups, or if both tasks are in one group.
    pub fn rivals(&self, victim: ActorId, occupant: ActorId) -> Option<Rivals<'a>> {
        let snapshot = self.snapshot?;
        let names = |id: ActorId| -> Option<Vec<&'a str>> {
            Some(snapshot.cgroup_of(self.first_tid(id)?)?.split('/').filter(|name| !name.is_empty()).collect())
        };
        let (its, mine) = (names(victim)?, names(occupant)?);
        let shared = its.iter().zip(&mine).take_while(|(one, other)| one == other).count();
        if its.len() == shared && mine.len() == shared {
            return None;
        }
        let group = |names: &[&str]| {
            let path = format!("/{}", names.get(..=shared)?.join("/"));
            snapshot.cgroup(&path).filter(|group| group.load_weight().is_some())
        };
        Some(Rivals { victim: group(&its), occupant: group(&mine) })
    }

    /// The load weights with which the victim and the occupant compete.
    pub fn rival_weights(&self, victim: ActorId, occupant: ActorId) -> (u32, u32) {
        let own = |id: ActorId| (self.actor(id).group(), self.actor(id).own_weight().unwrap_or(NICE_0));
        self.world.actors.groups().rivals(own(victim), own(occupant))
    }

    /// Whether it is unknown if the nice values of these tasks count against each other. With autogroup, each session competes as
    /// a whole, and the snapshot may not have the session of both tasks: older versions did not record it, and tasks that ended
    /// before the snapshot are not in it.
    pub fn may_be_of_two_sessions(&self, victim: ActorId, occupant: ActorId) -> bool {
        let Some(snapshot) = self.snapshot else { return false };
        let on = snapshot.setting("sched_autogroup_enabled").is_some_and(|(_, value)| value.trim() == "1");
        let of_root = |id: ActorId| self.actor(id).group().is_none() || self.competes_by_session(id);
        let process = |id: ActorId| self.first_tid(id).and_then(|tid| self.process_of(tid));
        let of_one_process = process(victim).is_some_and(|one| process(occupant) == Some(one));
        let known = self.session_is_known(victim) && self.session_is_known(occupant);
        on && !known && of_root(victim) && of_root(occupant) && !of_one_process
    }

    /// Whether it competes by its session: no cgroup of its path has a weight.
    fn competes_by_session(&self, id: ActorId) -> bool {
        let task = self.snapshot.zip(self.first_tid(id)).and_then(|(snapshot, tid)| snapshot.task(tid));
        let Some(path) = task.filter(|task| task.autogroup.is_some()).and_then(|task| task.cgroup.as_deref()) else {
            return false;
        };
        let weighs = |end: usize| {
            self.snapshot
                .and_then(|known| known.cgroup(&path[..end]))
                .is_some_and(|group| group.load_weight().is_some())
        };
        let mut ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
        path == "/" || !ends.any(weighs)
    }

    /// The nice value of its autogroup session, by which it competes with other sessions and cgroups.
    pub fn session_nice(&self, id: ActorId) -> Option<i32> {
        let task = self.snapshot.zip(self.first_tid(id)).and_then(|(snapshot, tid)| snapshot.task(tid))?;
        let nice = task.autogroup?.nice;
        (self.actor(id).group().is_some() && self.competes_by_session(id)).then_some(nice)
    }

    /// Whether the two compete by their own nice: neither is in a group or session, or both are in the same one.
    pub fn competes_by_nice(&self, id: ActorId, other: ActorId) -> bool {
        let (group, other) = (self.actor(id).group(), self.actor(other).group());
        group.is_none() || self.world.actors.groups().is_one(group, other)
    }

    /// Whether the snapshot has the sessions of these tasks, or shows that they have none.
    pub fn session_is_known(&self, id: ActorId) -> bool {
        let Some(snapshot) = self.snapshot.filter(|known| known.tasks.iter().any(|task| task.autogroup.is_some()))
        else {
            return false;
        };
        self.is_kernel_thread(id) || self.first_tid(id).is_some_and(|tid| snapshot.task(tid).is_some())
    }

    /// Whether its tasks were configured to have less weight: by nice, or by SCHED_IDLE.
    pub fn asked_for_less_weight(&self, id: ActorId) -> bool {
        self.actor(id).own_weight().is_some_and(|weight| weight < NICE_0)
    }

    /// Whether such a configuration is why the occupant outweighs the victim. Nice has no effect on tasks of other groups, but a
    /// group as a whole may be configured to run last (`cpu.idle`).
    pub fn is_last_by_choice(&self, victim: ActorId, occupant: ActorId) -> bool {
        let idle = self.rivals(victim, occupant).and_then(|rivals| rivals.victim).is_some_and(|group| group.idle);
        idle || self.competes_by_nice(victim, occupant) && self.asked_for_less_weight(victim)
    }
}

/// The default load weight.
pub(crate) const NICE_0: u32 = 1024;
