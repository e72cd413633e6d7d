//! Handles new tasks, and the exit of tasks whose tids they reuse.

use unstarve_model::{Comm, Tid};

use crate::tasks::nature::KTHREADD;
use crate::timeline::Timeline;
use crate::{Ancestor, Birth, Nature, State};

impl Timeline {
    /// A new thread has this tid, so the thread that had it before is gone.
    pub(super) fn fork(&mut self, parent: Tid, child: Tid, comm: Comm) {
        if child.is_idle() {
            return;
        }
        let machine = &mut self.machine;
        if let Some(old) = machine.world.tasks.find(child) {
            match machine.world.tasks.get(old).state {
                State::Waiting => self.waits.drop_wait(machine, old),
                // Events of its own CPU will correct that; the new thread cannot have started while the old one ran.
                State::Running(_) => return,
                _ => {}
            }
            machine.bury(old);
        }
        let nature = if parent == KTHREADD { Nature::Kernel } else { Nature::Program };
        // fork() copies policy, affinity and cgroup. Children of kthreadd do not have kthreadd's: they are bound, and get a
        // policy, later.
        let tasks = &machine.world.tasks;
        let creator = tasks.find(parent).map_or(parent, |key| tasks.get(key).settings_of());
        let is_own = nature == Nature::Kernel || machine.world.settings().knows(child);
        let settings_of = if is_own { child } else { creator };
        let key = machine.new_task_of(nature, (child, settings_of), comm, None);
        // A thread starts with its creator's name.
        let parent_is = Ancestor { tid: parent, comm };
        let tasks = &mut machine.world.tasks;
        let (root, debts) = match tasks.find(parent) {
            Some(parent) => {
                let parent = tasks.get(parent);
                (parent.birth.as_ref().map_or(parent_is, |birth| birth.root), parent.debts.clone())
            }
            None => (parent_is, Default::default()),
        };
        let task = tasks.get_mut(key);
        task.birth = Some(Box::new(Birth { parent: parent_is, root, settings_of }));
        // A task that sleeps until the child has done something also slept while the child's creator waited.
        task.debts = debts;
    }
}
