//! Why a task that has the CPU has it, and not another one that waits for it.

use unstarve_model::{Policy, Prio};

use crate::{GroupId, Groups, Rule, load_weight_of_prio, precedes};

/// What of a task decides between it and another one that wants the same CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contender {
    prio: Prio,
    policy: Policy,
    weight: u32,
    group: Option<GroupId>,
    /// Of the fair class, and in no group: between two such tasks only their weights decide.
    is_plain: bool,
}

/// How the task that has the CPU goes before one that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// As long as it likes, by this rule.
    Always(Rule),
    /// For its turn: by weight if it weighs more, else as an equal.
    InTurn(Option<Rule>),
}

impl Contender {
    /// A task of this priority (nice 0 if unknown), with this load weight of its own, in this cgroup.
    pub fn new(prio: Option<Prio>, own_weight: Option<u32>, group: Option<GroupId>) -> Contender {
        let prio = prio.unwrap_or(Prio::NORMAL);
        let policy = prio.policy();
        let is_plain = policy == Policy::Fair && group.is_none();
        Contender { prio, policy, weight: own_weight.unwrap_or(1024), group, is_plain }
    }

    /// A task of this priority in this cgroup.
    pub fn of_prio(prio: Prio, group: Option<GroupId>) -> Contender {
        Contender::new(Some(prio), load_weight_of_prio(prio), group)
    }

    /// The task's priority.
    pub fn prio(&self) -> Prio {
        self.prio
    }

    /// Its own load weight.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// How this task, which has the CPU, goes before `waiting`.
    #[inline(always)]
    pub fn ahead_of(&self, waiting: &Contender, groups: &Groups) -> Ahead {
        if self.is_plain && waiting.is_plain {
            return Ahead::InTurn((self.weight > waiting.weight).then_some(Rule::Weight));
        }
        if self.is_beside(waiting) {
            return Ahead::Always(Rule::Order);
        }
        if precedes(self.prio, waiting.prio) {
            return Ahead::Always(if self.policy == waiting.policy { Rule::Priority } else { Rule::Class });
        }
        if precedes(waiting.prio, self.prio) {
            return Ahead::Always(Rule::NotPreempted);
        }
        Ahead::InTurn(self.outweighs(waiting, groups).then_some(Rule::Weight))
    }

    /// Whether both are of one class in which neither has to leave the CPU to the other: deadline, or real-time of one priority.
    fn is_beside(&self, other: &Contender) -> bool {
        match (self.policy, other.policy) {
            (Policy::Deadline, Policy::Deadline) => true,
            (Policy::Rt, Policy::Rt) => self.prio == other.prio,
            _ => false,
        }
    }

    /// How many times the weight of `other` this task, or its cgroup beside that of `other`, has.
    pub fn times_heavier(&self, other: &Contender, groups: &Groups) -> f64 {
        let (own, its) = self.against(other, groups);
        f64::from(own) / f64::from(its.max(1))
    }

    /// Tasks of the root cgroup compete by their own weight with the whole of each top-level cgroup (`kernel-facts`, "Policy, nice,
    /// affinity, cgroup of kernel threads"); deeper groups compete where their paths part.
    #[inline]
    fn outweighs(&self, other: &Contender, groups: &Groups) -> bool {
        let (own, its) = self.against(other, groups);
        own > its
    }

    #[inline]
    fn against(&self, other: &Contender, groups: &Groups) -> (u32, u32) {
        match (self.group, other.group) {
            (None, None) => (self.weight, other.weight),
            (group, its) => groups.rivals((group, self.weight), (its, other.weight)),
        }
    }
}
