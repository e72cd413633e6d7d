use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{Comm, NameId, Policy, Prio, Tid, Time};
use unstarve_sched::{GroupId, Groups};
use unstarve_sched::{KernelThread, load_weight_of_prio};

use crate::task::Life;
use crate::{Birth, Claim, Nature, Task};
use unstarve_sched::Contender;

/// Index of an [`Actor`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActorId(pub(crate) u32);

impl ActorId {
    /// Nobody knows who had the CPU.
    pub const UNKNOWN: ActorId = ActorId(0);
    /// The idle task.
    pub const IDLE: ActorId = ActorId(1);
    /// Stands for what is beyond [`Actors::LIMIT`] kinds.
    pub const OTHERS: ActorId = ActorId(2);
    /// The CPU itself did not run: a hypervisor, firmware or a section with interrupts off had it.
    pub const STOPPED: ActorId = ActorId(3);

    /// As an index of a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an actor is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActorKind {
    /// Events are missing.
    Unknown,
    /// The CPU was idle.
    Idle,
    /// Kinds of tasks beyond those that are told apart.
    Others,
    /// The CPU itself did not run (see [`crate::ActorId::STOPPED`]).
    Stopped,
    /// The handler of a hard interrupt.
    Irq {
        /// Its number.
        irq: u32,
        /// Its name.
        name: Option<NameId>,
    },
    /// A softirq vector, served outside ksoftirqd.
    Softirq {
        /// 0 (HI) to 9 (RCU).
        vec: u8,
    },
    /// Tasks of one name and priority in cgroups of the same standing. One that only calls itself `ksoftirqd/0` is not of the kind of those that
    /// are shown to be it: any user could take their mark away.
    Tasks {
        /// Their name.
        comm: Comm,
        /// Their priority.
        prio: Prio,
        /// Their cgroup, where known and not the root.
        group: Option<GroupId>,
        /// Whether their name is that of a kernel thread though they are not known to be one.
        claim: Claim,
        /// Their own load weight, where their priority does not tell it (SCHED_IDLE).
        own_weight: Option<u32>,
    },
}

/// Who can hold a CPU or wait for it: tasks of one kind (128 threads called `nfsd` are one actor), an interrupt, a
/// softirq, idle, unknown.
#[derive(Clone, Debug)]
pub struct Actor {
    /// What it is.
    pub kind: ActorKind,
    /// The kernel threads that its tasks are by their name, unless something shows that they are programs.
    pub kernel_thread: Option<KernelThread>,
    /// Whether the snapshot, or who created one of its tasks, confirms that they are kernel threads.
    pub confirmed_kernel: bool,
    /// Whether the same shows that one of its tasks is a program, and whether nothing shows of one of them what it is.
    has_program: bool,
    has_unknown: bool,
    /// Whether an event told the priority of one of its tasks.
    pub ranked: bool,
    /// Ids of its tasks that waited or ran, in that order, the first [`Actors::MEMBERS_KEPT`].
    pub tids: Vec<Tid>,
    /// Which tasks those were; of one id the last.
    lives: Vec<Life>,
    /// How many tasks of it waited or ran; beyond [`Actors::MEMBERS_COUNTED`] a lower bound.
    pub members: u32,
    /// Who created its tasks, where that was seen: each parent once, the first [`Actors::BIRTHS_KEPT`].
    pub births: Vec<Birth>,
    /// The members beyond `tids`.
    more: FxHashSet<Tid>,
    /// Woken members that wait now.
    pub(crate) woken_waiting: u32,
    /// The load weight of their top-level cgroup.
    top_weight: Option<u32>,
    pub(crate) contender: Contender,
    /// When it last had more of them than `crowd` allows.
    pub(crate) last_crowd: Option<Time>,
}

impl Actor {
    fn new(kind: ActorKind, groups: &Groups) -> Actor {
        let (kernel_thread, top_weight) = match &kind {
            ActorKind::Tasks { comm, claim, group, .. } => {
                let kernel_thread = if *claim == Claim::False { None } else { KernelThread::of(comm) };
                (kernel_thread, group.and_then(|group| groups.top_weight(group)))
            }
            _ => (None, None),
        };
        let contender = Contender::new(prio_of(&kind), own_weight_of(&kind), group_of(&kind));
        Actor {
            kind,
            kernel_thread,
            confirmed_kernel: false,
            has_program: false,
            has_unknown: false,
            ranked: false,
            tids: Vec::new(),
            lives: Vec::new(),
            members: 0,
            births: Vec::new(),
            more: FxHashSet::default(),
            woken_waiting: 0,
            top_weight,
            contender,
            last_crowd: None,
        }
    }

    #[cold]
    fn admit(&mut self, task: &Task) {
        match task.nature {
            Nature::Kernel => self.confirmed_kernel = true,
            Nature::Program => self.has_program = true,
            Nature::Unknown => self.has_unknown = true,
        }
        if let Some(birth) = task.birth.as_deref()
            && self.births.len() < Actors::BIRTHS_KEPT
            && !self.births.iter().any(|known| known.parent.tid == birth.parent.tid)
        {
            self.births.push(*birth);
        }
        if let Some(index) = self.tids.iter().position(|tid| *tid == task.tid) {
            self.lives[index] = task.life;
            return;
        }
        let new = if self.tids.len() < Actors::MEMBERS_KEPT {
            self.tids.push(task.tid);
            self.lives.push(task.life);
            true
        } else {
            self.tids.len() + self.more.len() < Actors::MEMBERS_COUNTED && self.more.insert(task.tid)
        };
        self.members = self.members.saturating_add(u32::from(new));
    }

    /// Whether the task is one of its own: another that has got the id of one is not. `None` where that id was not kept.
    pub fn had(&self, task: &Task) -> Option<bool> {
        self.life_of(task.tid).map(|life| life == task.life)
    }

    /// Whether both had the same task of that id.
    pub fn shares(&self, other: &Actor, tid: Tid) -> bool {
        self.life_of(tid).is_some_and(|life| other.life_of(tid) == Some(life))
    }

    fn life_of(&self, tid: Tid) -> Option<Life> {
        let index = self.tids.iter().position(|known| *known == tid)?;
        self.lives.get(index).copied()
    }

    /// The name of its tasks; `None` for what is not a task.
    pub fn comm(&self) -> Option<Comm> {
        match self.kind {
            ActorKind::Tasks { comm, .. } => Some(comm),
            _ => None,
        }
    }

    /// Whether all of its tasks are kernel threads, or all are programs, by more than their names; `None` where nothing shows it of one of
    /// them, or it is no task.
    pub fn is_kernel(&self) -> Option<bool> {
        match (self.confirmed_kernel, self.has_program, self.has_unknown) {
            (true, false, false) => Some(true),
            (false, true, false) => Some(false),
            _ => None,
        }
    }

    /// What was taken for its task is another one's word.
    pub(crate) fn doubt(&mut self) {
        self.has_unknown = true;
    }

    /// Whether its tasks are programs that bear the name of a kernel thread.
    pub fn is_impostor(&self) -> bool {
        matches!(self.kind, ActorKind::Tasks { claim: Claim::False, .. })
    }

    /// The priority of its tasks.
    pub fn prio(&self) -> Option<Prio> {
        prio_of(&self.kind)
    }

    /// The class of its tasks.
    pub fn policy(&self) -> Option<Policy> {
        match self.kind {
            ActorKind::Tasks { prio, .. } => Some(prio.policy()),
            ActorKind::Idle => Some(Policy::Idle),
            _ => None,
        }
    }

    /// The load weight of each of its tasks by itself, as nice or SCHED_IDLE gives it; `None` for the higher classes and for
    /// what is not a task.
    pub fn own_weight(&self) -> Option<u32> {
        own_weight_of(&self.kind)
    }

    /// The load weight of the top-level cgroup of its tasks, where known and not the root.
    pub fn group_weight(&self) -> Option<u32> {
        self.top_weight
    }

    /// The cgroup of its tasks, where known and not the root.
    pub fn group(&self) -> Option<GroupId> {
        group_of(&self.kind)
    }
}

fn needs_rights(comm: &Comm, prio: Prio, claim: Claim) -> bool {
    matches!(prio.policy(), Policy::Rt | Policy::Deadline)
        || claim == Claim::Nothing && KernelThread::of(comm).is_some()
}

fn prio_of(kind: &ActorKind) -> Option<Prio> {
    match *kind {
        ActorKind::Tasks { prio, .. } => Some(prio),
        _ => None,
    }
}

fn own_weight_of(kind: &ActorKind) -> Option<u32> {
    match *kind {
        ActorKind::Tasks { prio, own_weight, .. } => {
            own_weight.or(load_weight_of_prio(prio)).filter(|_| prio.nice().is_some())
        }
        _ => None,
    }
}

fn group_of(kind: &ActorKind) -> Option<GroupId> {
    match *kind {
        ActorKind::Tasks { group, .. } => group,
        _ => None,
    }
}

/// All actors of a trace.
#[derive(Debug)]
pub struct Actors {
    list: Vec<Actor>,
    index: FxHashMap<ActorKind, ActorId>,
    groups: Groups,
    /// How often a task's name was not told apart.
    unnamed: u64,
}

impl Actors {
    /// Kinds told apart; the rest is [`ActorId::OTHERS`]. A trace of a busy machine has a few hundred; only scripts
    /// that name each process anew, or hostile files, come near.
    pub const LIMIT: usize = 1 << 16;

    /// Names that any user can give: so many kinds with them. Later ones are [`Actors::OTHER_NAMES`], apart by all else that they are.
    pub const NAMED: usize = Actors::LIMIT - (1 << 14);

    /// The same of those who bear the name of a kernel thread, as long as nothing shows what they are.
    const NAMED_LIKE_KERNEL: usize = Actors::LIMIT - (3 << 12);

    /// The same of real-time tasks and kernel threads, which a user without rights cannot make.
    const NAMED_BY_ROOT: usize = Actors::LIMIT - (1 << 13);

    /// From here on no task is told apart by its cgroup; those that any user can make are not from [`Actors::NAMED_LIKE_KERNEL`] on.
    const RANKED: usize = Actors::LIMIT - (1 << 11);

    /// Bears this name who came after too many others.
    pub const OTHER_NAMES: &'static str = "(other names)";

    /// Tids kept for each actor.
    pub const MEMBERS_KEPT: usize = 128;

    /// Tasks of each actor counted one by one.
    pub const MEMBERS_COUNTED: usize = 1 << 14;

    /// Parents kept for each actor.
    pub const BIRTHS_KEPT: usize = 8;

    pub(crate) fn new(groups: Groups) -> Actors {
        let kinds = [ActorKind::Unknown, ActorKind::Idle, ActorKind::Others, ActorKind::Stopped];
        let list: Vec<Actor> = kinds.iter().map(|kind| Actor::new(*kind, &groups)).collect();
        let index = kinds.iter().enumerate().map(|(i, kind)| (*kind, ActorId(i as u32))).collect();
        Actors { list, index, groups, unnamed: 0 }
    }

    /// The actor of that kind, made if it is new.
    pub(crate) fn of(&mut self, kind: ActorKind) -> ActorId {
        if let Some(id) = self.index.get(&kind) {
            return *id;
        }
        match self.as_there_is_room(kind) {
            Some(known) if known == kind => self.add(kind),
            Some(folded) => {
                self.unnamed += 1;
                self.index.get(&folded).copied().unwrap_or_else(|| self.add(folded))
            }
            None => {
                self.unnamed += 1;
                ActorId::OTHERS
            }
        }
    }

    /// The kind to which one that is new belongs: its own, or for want of room one without its name, then without its cgroup. A class is never
    /// given up for a name: by names alone, of which any user has as many as he likes, nobody can hide a real-time task.
    fn as_there_is_room(&self, kind: ActorKind) -> Option<ActorKind> {
        let kinds = self.list.len();
        if kinds >= Actors::LIMIT {
            return None;
        }
        let ActorKind::Tasks { comm, prio, group, claim, own_weight } = kind else { return Some(kind) };
        let named = if needs_rights(&comm, prio, claim) {
            Actors::NAMED_BY_ROOT
        } else if claim == Claim::Unshown {
            Actors::NAMED_LIKE_KERNEL
        } else {
            Actors::NAMED
        };
        if kinds < named {
            return Some(kind);
        }
        let grouped = if needs_rights(&comm, prio, claim) { Actors::RANKED } else { Actors::NAMED_LIKE_KERNEL };
        let group = group.filter(|_| kinds < grouped);
        let comm = Comm::new(Actors::OTHER_NAMES.as_bytes());
        Some(ActorKind::Tasks { comm, prio, group, claim, own_weight })
    }

    fn add(&mut self, kind: ActorKind) -> ActorId {
        let id = ActorId(self.list.len() as u32);
        self.list.push(Actor::new(kind, &self.groups));
        self.index.insert(kind, id);
        id
    }

    /// Notes that a task, which waits or runs, belongs to its actor.
    #[inline]
    pub(crate) fn join(&mut self, task: &mut Task) {
        if task.joined != task.actor {
            task.joined = task.actor;
            self.list[task.actor.index()].admit(task);
        }
    }

    /// The actor.
    #[inline(always)]
    pub fn get(&self, id: ActorId) -> &Actor {
        &self.list[id.index()]
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: ActorId) -> &mut Actor {
        &mut self.list[id.index()]
    }

    /// The cgroups that they are in.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// How often a task was not told apart by its name, or at all.
    pub(crate) fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Whether it is a task that a user without rights cannot make: a real-time one, or one that is shown to be the kernel thread of its name.
    pub fn is_privileged(&self, id: ActorId) -> bool {
        match self.get(id).kind {
            ActorKind::Tasks { ref comm, prio, claim, .. } => needs_rights(comm, prio, claim),
            _ => false,
        }
    }

    /// How many there are; ids are `0..len`.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never true: three actors always exist.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        self.list.iter().enumerate().map(|(index, actor)| (ActorId(index as u32), actor))
    }
}
