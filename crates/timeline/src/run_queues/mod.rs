pub(crate) mod fairness;

use crate::TaskKey;

/// Where each waiting task stands in the queue of its CPU, so that it leaves in one step.
///
/// Apart from the tasks: when one leaves, the last of the queue moves into its place, and a dense table is in the cache
/// where that other task is not.
#[derive(Debug, Default)]
pub(crate) struct Places {
    of_task: Vec<u32>,
}

impl Places {
    /// Puts a task at the end of `queue`. It must not stand in any.
    #[inline]
    pub fn push(&mut self, queue: &mut Vec<TaskKey>, key: TaskKey) {
        match self.of_task.get_mut(key.index()) {
            Some(place) => *place = queue.len() as u32,
            None => self.add(key, queue.len() as u32),
        }
        queue.push(key);
    }

    #[cold]
    fn add(&mut self, key: TaskKey, place: u32) {
        self.of_task.resize(key.index(), 0);
        self.of_task.push(place);
    }

    /// Takes a task out of `queue`, in which it stands.
    #[inline]
    pub fn remove(&mut self, queue: &mut Vec<TaskKey>, key: TaskKey) {
        let place = self.of_task[key.index()];
        debug_assert_eq!(queue.get(place as usize), Some(&key));
        queue.swap_remove(place as usize);
        if let Some(moved) = queue.get(place as usize) {
            self.of_task[moved.index()] = place;
        }
    }
}
