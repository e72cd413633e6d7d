use unstarve_facts::CgroupFacts;
use unstarve_timeline::ActorId;

use crate::case::Case;

/// The cgroups by whose weights two tasks compete: where the paths of their groups part. `None` is a task that stands
/// there by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rivals<'a> {
    pub victim: Option<&'a CgroupFacts>,
    pub occupant: Option<&'a CgroupFacts>,
}

/// Who competes with whom by which weight.
impl<'a> Case<'a> {
    /// `None` if the snapshot does not tell the groups of both, or if they are in one group.
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

    /// The load weights with which the victim and the occupant compete, in this order.
    pub fn rival_weights(&self, victim: ActorId, occupant: ActorId) -> (u32, u32) {
        let own = |id: ActorId| (self.actor(id).group(), self.actor(id).own_weight().unwrap_or(NICE_0));
        self.world.actors.groups().rivals(own(victim), own(occupant))
    }

    /// Whether nobody knows if the nice values of these count against each other: sessions compete as one each where autogroup is
    /// on, and the snapshot does not say of which session both are. One of an older version says it of nobody, and none says it of
    /// tasks that had ended before it was taken.
    pub fn may_be_of_two_sessions(&self, victim: ActorId, occupant: ActorId) -> bool {
        let Some(snapshot) = self.snapshot else { return false };
        let on = snapshot.setting("sched_autogroup_enabled").is_some_and(|(_, value)| value.trim() == "1");
        let of_root = |id: ActorId| self.actor(id).group().is_none() || self.competes_by_session(id);
        let process = |id: ActorId| self.first_tid(id).and_then(|tid| self.process_of(tid));
        let of_one_process = process(victim).is_some_and(|one| process(occupant) == Some(one));
        let known = self.session_is_known(victim) && self.session_is_known(occupant);
        on && !known && of_root(victim) && of_root(occupant) && !of_one_process
    }

    /// Whether it is its session that competes with others: no cgroup of its path has a weight.
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

    /// The nice value of the session by which a task competes with those of other sessions and cgroups: its autogroup's.
    pub fn session_nice(&self, id: ActorId) -> Option<i32> {
        let task = self.snapshot.zip(self.first_tid(id)).and_then(|(snapshot, tid)| snapshot.task(tid))?;
        let nice = task.autogroup?.nice;
        (self.actor(id).group().is_some() && self.competes_by_session(id)).then_some(nice)
    }

    /// Whether a task competes with another by its own nice: neither sits in a group or session of its own, or both in one.
    pub fn competes_by_nice(&self, id: ActorId, other: ActorId) -> bool {
        let (group, other) = (self.actor(id).group(), self.actor(other).group());
        group.is_none() || self.world.actors.groups().is_one(group, other)
    }

    /// Whether the snapshot says of which session these tasks are, or that they are of none.
    pub fn session_is_known(&self, id: ActorId) -> bool {
        let Some(snapshot) = self.snapshot.filter(|known| known.tasks.iter().any(|task| task.autogroup.is_some()))
        else {
            return false;
        };
        self.is_kernel_thread(id) || self.first_tid(id).is_some_and(|tid| snapshot.task(tid).is_some())
    }

    /// Whether somebody asked that its tasks run after others: by nice, or by the policy SCHED_IDLE.
    pub fn asked_for_less_weight(&self, id: ActorId) -> bool {
        self.actor(id).own_weight().is_some_and(|weight| weight < NICE_0)
    }

    /// Whether that is why the occupant outweighs the victim. Inside a group of its own a task's nice says nothing to
    /// tasks of other groups, but a group may be last by choice as a whole (`cpu.idle`).
    pub fn is_last_by_choice(&self, victim: ActorId, occupant: ActorId) -> bool {
        let idle = self.rivals(victim, occupant).and_then(|rivals| rivals.victim).is_some_and(|group| group.idle);
        idle || self.competes_by_nice(victim, occupant) && self.asked_for_less_weight(victim)
    }
}

/// What a task weighs of which nobody asked anything.
pub(crate) const NICE_0: u32 = 1024;
