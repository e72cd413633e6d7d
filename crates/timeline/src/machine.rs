//! The machine as its events show it now: tasks and the clock (`World`), CPUs, run queues, interrupt handlers.

use unstarve_model::{Comm, CpuId, CpuSet, Names, Prio, TaskRef, Tid, Time};

use crate::cpus::idle::IdleWatch;
use crate::cpus::{Cpu, Cpus};
use crate::interrupts::{Handlers, Interrupts};
use crate::run_queues::RunQueues;
use crate::settings::BoxedSettings;
use crate::{ActorId, ActorKind, Actors, Nature, Settings, State, Task, TaskKey, Tasks, World};

/// What the events have shown of the machine up to now.
#[derive(Debug)]
pub(crate) struct Machine {
    pub world: World,
    pub cpus: Cpus,
    pub queues: RunQueues,
    pub interrupts: Interrupts,
}

impl Machine {
    /// A machine with `cpus` CPUs; if unknown, as many as events name.
    pub fn new(cpus: Option<u32>, settings: Box<dyn Settings>) -> Machine {
        let cpus = cpus.map(|cpus| cpus.min(CpuId::LIMIT));
        let world = World {
            tasks: Tasks::default(),
            actors: Actors::new(settings.groups()),
            names: Names::default(),
            cpus: cpus.unwrap_or(0),
            idle_until_heard: CpuSet::default(),
            start: Time(0),
            now: Time(0),
            settings: BoxedSettings(settings),
        };
        Machine { world, cpus: Cpus::new(cpus), queues: RunQueues::default(), interrupts: Interrupts::default() }
    }

    /// The index of a CPU, which is added when an event first names it.
    #[inline]
    pub fn cpu(&mut self, id: CpuId) -> usize {
        if self.cpus.len() <= id.index() {
            self.add_cpus(id);
        }
        id.index()
    }

    #[cold]
    fn add_cpus(&mut self, highest: CpuId) {
        while self.cpus.len() <= highest.index() {
            self.cpus.add();
            self.queues.add();
            self.interrupts.add_cpu();
        }
        self.world.cpus = self.world.cpus.max(highest.0 + 1);
    }

    /// The state of one CPU, and the handlers that run on it.
    #[inline(always)]
    pub fn at(&self, index: usize) -> (&Cpu, &Handlers) {
        (&self.cpus[index], self.interrupts.on(index))
    }

    /// Logs the CPU's current occupant.
    pub fn settle(&mut self, index: usize) {
        self.interrupts.on(index).settle(&mut self.cpus[index], self.world.now);
    }

    /// The task that an event names, updated; not for the idle task.
    #[inline(always)]
    pub fn task(&mut self, task: &TaskRef) -> TaskKey {
        match self.world.tasks.find(task.tid()) {
            Some(key) => {
                self.update(key, task.comm(), task.prio());
                key
            }
            None => self.new_task(task.tid(), *task.comm(), task.prio()),
        }
    }

    /// The task has this name and priority, if given.
    #[inline(always)]
    pub fn update(&mut self, key: TaskKey, comm: &Comm, prio: Option<Prio>) {
        // Almost every event names a task as the previous one did.
        if !self.world.tasks.get(key).is_named(comm, prio) {
            self.learn(key, *comm, prio);
        }
    }

    #[inline(never)]
    fn learn(&mut self, key: TaskKey, comm: Comm, prio: Option<Prio>) {
        let task = self.world.tasks.get_mut(key);
        if prio.is_some() && !task.ranked {
            task.ranked = true;
            self.world.actors.get_mut(task.actor).ranked |= prio == Some(task.prio);
        }
        let prio = prio.unwrap_or(task.prio);
        if prio == task.prio && (comm == task.comm || comm.is_unknown()) {
            return;
        }
        if !comm.is_unknown() {
            // The recording's task list may have a later name, so a difference to it proves no rename.
            if task.joined != ActorId::UNKNOWN {
                task.nature = task.nature.renamed(&task.comm, &comm);
            }
            task.comm = comm;
        }
        task.prio = prio;
        self.renew_actor(key);
        self.reweigh(key);
    }

    /// The task's priority has changed, and so has its load weight on its run queue.
    fn reweigh(&mut self, key: TaskKey) {
        let now = self.world.now;
        let task = self.world.tasks.get_mut(key);
        let weight = task.weight();
        let cpu = match (task.state, &task.pending) {
            (State::Running(cpu), _) => cpu,
            (State::Waiting, Some(pending)) => pending.cpu(),
            _ => return,
        };
        if task.account.weight != 0 && task.account.weight != weight {
            self.queues[cpu.index()].fairness().reweigh(now, &mut task.account, weight);
        }
    }

    /// Sets the actor that matches the task's current properties.
    fn renew_actor(&mut self, key: TaskKey) {
        let task = self.world.tasks.get_mut(key);
        task.kernel_thread = task.nature.kernel_thread(&task.comm);
        let settings_of = task.settings_of();
        task.actor = self.world.actors.of(ActorKind::Tasks {
            comm: task.comm,
            prio: task.prio,
            group: self.world.settings.0.group(settings_of),
            own_weight: task.own_weight,
            claim: task.nature.claim(&task.comm),
        });
        if task.ranked {
            self.world.actors.get_mut(task.actor).ranked = true;
        }
    }

    /// An event shows what kind of task it is.
    pub fn set_nature(&mut self, key: TaskKey, nature: Nature) {
        let task = self.world.tasks.get_mut(key);
        if task.nature == nature {
            return;
        }
        task.nature = nature;
        self.renew_actor(key);
    }

    #[cold]
    pub fn new_task(&mut self, tid: Tid, comm: Comm, prio: Option<Prio>) -> TaskKey {
        let nature = Nature::told(self.world.settings.0.is_kernel_thread(tid), tid);
        self.new_task_of(nature, (tid, tid), comm, prio)
    }

    /// Sets the task's tid, and the tid of the task whose settings it has.
    #[cold]
    pub fn new_task_of(
        &mut self,
        nature: Nature,
        (tid, settings_of): (Tid, Tid),
        comm: Comm,
        prio: Option<Prio>,
    ) -> TaskKey {
        let ranked = prio.is_some();
        let prio = prio.unwrap_or(Prio::NORMAL);
        let settings = &*self.world.settings.0;
        let own_weight = settings.own_weight(settings_of);
        let kind =
            ActorKind::Tasks { comm, prio, group: settings.group(settings_of), own_weight, claim: nature.claim(&comm) };
        let actor = self.world.actors.of(kind);
        self.world.actors.get_mut(actor).ranked |= ranked;
        let mut task = Task::new(tid, comm, prio, actor, nature);
        task.ranked = ranked;
        task.own_weight = own_weight;
        task.limited = settings.has_bandwidth_limit(settings_of);
        task.pinned = task.kernel_thread.is_some_and(|thread| thread.bound_cpu().is_some());
        if let Some(allowed) = settings.allowed_cpus(settings_of) {
            task.pinned = allowed.len() == 1;
            task.affinity = if allowed.len() as u32 >= self.world.cpus {
                Some(IdleWatch::ALL)
            } else {
                self.cpus.watch_idle(allowed, self.world.now)
            };
        }
        self.world.tasks.insert(task)
    }

    /// The task has exited, and its tid may be reused. For a task from before the recording, the snapshot may have been taken
    /// after that, so its actor is no longer certain.
    #[cold]
    pub fn bury(&mut self, key: TaskKey) {
        let task = self.world.tasks.get(key);
        if task.birth.is_none() && task.nature == Nature::Kernel {
            let actor = task.actor;
            self.world.actors.get_mut(actor).doubt();
        }
        self.world.tasks.remove(key);
    }
}
