//! Actors: kinds of tasks, interrupts and softirqs that can have a CPU or wait for it.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{Comm, NameId, Policy, Prio, Tid, Time, Vector};
use unstarve_sched::{Contender, GroupId, Groups, KernelThread, load_weight_of_prio};

use crate::tasks::Life;
use crate::{Birth, Claim, Nature, Task};

/// Index of an [`Actor`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActorId(pub(crate) u32);

impl ActorId {
    /// The occupant of the CPU is unknown.
    pub const UNKNOWN: ActorId = ActorId(0);
    /// The idle task.
    pub const IDLE: ActorId = ActorId(1);
    /// All kinds beyond [`Actors::LIMIT`].
    pub const OTHERS: ActorId = ActorId(2);
    /// The CPU itself did not run: a hypervisor, firmware or a section with interrupts off had it.
    pub const STOPPED: ActorId = ActorId(3);

    /// The index for tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ActorKind {
    /// Events are missing.
    Unknown,
    /// The CPU was idle.
    Idle,
    /// Kinds of tasks beyond the limit.
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
    /// An interrupt of the CPU's own, which has no handler.
    Vector(Vector),
    /// A softirq vector, served outside ksoftirqd.
    Softirq {
        /// 0 (HI) to 9 (RCU).
        vec: u8,
    },
    /// Tasks with one name and priority in cgroups of the same weight. A task that only has the name `ksoftirqd/0` is not of
    /// the same kind as a confirmed one: otherwise any user could remove the confirmation.
    Tasks {
        /// Their name.
        comm: Comm,
        /// Their priority.
        prio: Prio,
        /// Their cgroup, if known and not the root.
        group: Option<GroupId>,
        /// Whether they have a kernel thread's name without being known as kernel threads.
        claim: Claim,
        /// Their own load weight, if it does not follow from their priority (SCHED_IDLE).
        own_weight: Option<u32>,
    },
}

/// Something that can have a CPU or wait for it: tasks of one kind (128 threads named `nfsd` are one actor), an interrupt, a
/// softirq, idle, unknown.
#[derive(Clone, Debug)]
pub struct Actor {
    /// Its kind.
    pub kind: ActorKind,
    /// The kernel thread that its tasks are by name, unless they are known to be programs.
    pub kernel_thread: Option<KernelThread>,
    /// Whether the snapshot, or the creator of one of its tasks, confirms that they are kernel threads.
    pub confirmed_kernel: bool,
    /// Whether one of its tasks is known to be a program, and whether one of them is unconfirmed.
    has_program: bool,
    has_unknown: bool,
    /// Whether an event showed the priority of one of its tasks.
    pub ranked: bool,
    /// The tids of its tasks that waited or ran, in that order, the first [`Actors::MEMBERS_KEPT`].
    pub tids: Vec<Tid>,
    /// The identities of those tasks; for a reused tid, the last one.
    lives: Vec<Life>,
    /// Number of its tasks that waited or ran; beyond [`Actors::MEMBERS_COUNTED`] a lower bound.
    pub members: u32,
    /// The creators of its tasks, if seen: each parent once, the first [`Actors::BIRTHS_KEPT`].
    pub births: Vec<Birth>,
    /// Members that are not in `tids`.
    more: FxHashSet<Tid>,
    /// Woken members that wait now.
    pub(crate) woken_waiting: u32,
    /// The load weight of their top-level cgroup.
    top_weight: Option<u32>,
    pub(crate) contender: Contender,
    /// When more members were last waiting than `crowd` allows.
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

    /// Whether the task is a member, and not another one with a reused tid. `None` if its tid was not kept.
    pub fn had(&self, task: &Task) -> Option<bool> {
        self.life_of(task.tid).map(|life| life == task.life)
    }

    /// Whether both had the same task with that tid.
    pub fn shares(&self, other: &Actor, tid: Tid) -> bool {
        self.life_of(tid).is_some_and(|life| other.life_of(tid) == Some(life))
    }

    fn life_of(&self, tid: Tid) -> Option<Life> {
        let index = self.tids.iter().position(|known| *known == tid)?;
        self.lives.get(index).copied()
    }

    /// The name of its tasks; `None` if it is not a task.
    pub fn comm(&self) -> Option<Comm> {
        match self.kind {
            ActorKind::Tasks { comm, .. } => Some(comm),
            _ => None,
        }
    }

    /// Whether its tasks are confirmed as kernel threads, or as programs; `None` if one of them is unconfirmed, or it is not a
    /// task.
    pub fn is_kernel(&self) -> Option<bool> {
        match (self.confirmed_kernel, self.has_program, self.has_unknown) {
            (true, false, false) => Some(true),
            (false, true, false) => Some(false),
            _ => None,
        }
    }

    /// The snapshot may describe another task with the tid of one of its tasks.
    pub(crate) fn doubt(&mut self) {
        self.has_unknown = true;
    }

    /// Whether its tasks are programs with a kernel thread's name.
    pub fn is_impostor(&self) -> bool {
        matches!(self.kind, ActorKind::Tasks { claim: Claim::False, .. })
    }

    /// The priority of its tasks.
    pub fn prio(&self) -> Option<Prio> {
        prio_of(&self.kind)
    }

    /// The scheduling class of its tasks.
    pub fn policy(&self) -> Option<Policy> {
        match self.kind {
            ActorKind::Tasks { prio, .. } => Some(prio.policy()),
            ActorKind::Idle => Some(Policy::Idle),
            _ => None,
        }
    }

    /// The own load weight of each of its tasks, by nice or SCHED_IDLE; `None` for higher classes and for what is not a task.
    pub fn own_weight(&self) -> Option<u32> {
        own_weight_of(&self.kind)
    }

    /// The load weight of its tasks' top-level cgroup, if known and not the root.
    pub fn group_weight(&self) -> Option<u32> {
        self.top_weight
    }

    /// The cgroup of its tasks, if known and not the root.
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
    /// How often a task was assigned to a kind without its name, or to [`ActorId::OTHERS`].
    unnamed: u64,
}

impl Actors {
    /// Maximum number of kinds; the rest is [`ActorId::OTHERS`]. A trace of a busy machine has a few hundred; only scripts that
    /// give each process a new name, and hostile files, come near.
    pub const LIMIT: usize = 1 << 16;

    /// Maximum number of kinds up to which any user's task names are kept. Later ones become [`Actors::OTHER_NAMES`], separate
    /// by all other properties.
    pub const NAMED: usize = Actors::LIMIT - (1 << 14);

    /// The same for unconfirmed tasks with a kernel thread's name.
    const NAMED_LIKE_KERNEL: usize = Actors::LIMIT - (3 << 12);

    /// The same for real-time tasks and kernel threads, which an unprivileged user cannot create.
    const NAMED_BY_ROOT: usize = Actors::LIMIT - (1 << 13);

    /// From here on no task is separated by its cgroup. For tasks that any user can create, that begins at
    /// [`Actors::NAMED_LIKE_KERNEL`].
    const RANKED: usize = Actors::LIMIT - (1 << 11);

    /// The name of tasks beyond the limit.
    pub const OTHER_NAMES: &'static str = "(other names)";

    /// Maximum tids kept for each actor.
    pub const MEMBERS_KEPT: usize = 128;

    /// Maximum tasks counted for each actor.
    pub const MEMBERS_COUNTED: usize = 1 << 14;

    /// Maximum parents kept for each actor.
    pub const BIRTHS_KEPT: usize = 8;

    pub(crate) fn new(groups: Groups) -> Actors {
        let kinds = [ActorKind::Unknown, ActorKind::Idle, ActorKind::Others, ActorKind::Stopped];
        let list: Vec<Actor> = kinds.iter().map(|kind| Actor::new(*kind, &groups)).collect();
        let index = kinds.iter().enumerate().map(|(i, kind)| (*kind, ActorId(i as u32))).collect();
        Actors { list, index, groups, unnamed: 0 }
    }

    /// The actor of this kind, created if it is new.
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

    /// The kind to use for a new one: itself, or if there is no room, one without its name, then without its cgroup. Classes
    /// are always kept: any user can create any number of names, and must not be able to hide a real-time task that way.
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

    /// Adds a task that waits or runs to its actor's members.
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

    /// The cgroups of all actors.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// How often a task was assigned to a kind without its name, or to [`ActorId::OTHERS`].
    pub(crate) fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Whether an unprivileged user cannot create such a task: it is real-time, or a confirmed kernel thread.
    pub fn is_privileged(&self, id: ActorId) -> bool {
        match self.get(id).kind {
            ActorKind::Tasks { ref comm, prio, claim, .. } => needs_rights(comm, prio, claim),
            _ => false,
        }
    }

    /// Number of actors; ids are `0..len`.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Never true: three actors always exist.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All actors with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (ActorId, &Actor)> {
        self.list.iter().enumerate().map(|(index, actor)| (ActorId(index as u32), actor))
    }
}
