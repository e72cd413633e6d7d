//! Decides why the task on a CPU has it, and not a task that waits for it.

use unstarve_model::{Policy, Prio};

use crate::{GroupId, Groups, Rule, load_weight_of_prio, precedes};

/// The properties of a task that decide when it competes for a CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contender {
    prio: Prio,
    policy: Policy,
    weight: u32,
    group: Option<GroupId>,
    /// In the fair class and in no cgroup: between two such tasks only the load weights decide.
    is_plain: bool,
}

/// Why the running task goes before a waiting one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// It may keep the CPU as long as it wants, by this rule.
    Always(Rule),
    /// It uses its share: by the rule of the larger weight, else as an equal.
    InTurn(Option<Rule>),
}

impl Contender {
    /// A task with this priority (nice 0 if unknown), own load weight and cgroup.
    pub fn new(prio: Option<Prio>, own_weight: Option<u32>, group: Option<GroupId>) -> Contender {
        let prio = prio.unwrap_or(Prio::NORMAL);
        let policy = prio.policy();
        let is_plain = policy == Policy::Fair && group.is_none();
        Contender { prio, policy, weight: own_weight.unwrap_or(1024), group, is_plain }
    }

    /// A task with this priority and cgroup.
    pub fn of_prio(prio: Prio, group: Option<GroupId>) -> Contender {
        Contender::new(Some(prio), load_weight_of_prio(prio), group)
    }

    /// The task's priority.
    pub fn prio(&self) -> Prio {
        self.prio
    }

    /// The task's own load weight.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Why this task, which has the CPU, goes before `waiting`.
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

    /// Whether both are in one class in which neither must yield to the other: deadline, or real-time with equal priority.
    fn is_beside(&self, other: &Contender) -> bool {
        match (self.policy, other.policy) {
            (Policy::Deadline, Policy::Deadline) => true,
            (Policy::Rt, Policy::Rt) => self.prio == other.prio,
            _ => false,
        }
    }

    /// The weight of this task, or of its competing cgroup, divided by that of `other`.
    pub fn times_heavier(&self, other: &Contender, groups: &Groups) -> f64 {
        let (own, its) = self.against(other, groups);
        f64::from(own) / f64::from(its.max(1))
    }

    /// A task in the root cgroup competes by its own weight with each whole top-level cgroup (`kernel-facts`, "Policy, nice,
    /// affinity, cgroup of kernel threads"); tasks in deeper groups compete where their paths diverge.
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
