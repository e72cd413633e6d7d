//! Maps a tid to the task's slot.

use rustc_hash::FxHashMap;
use unstarve_model::Tid;

use crate::TaskKey;

const PAGE: usize = 1024;
/// `PID_MAX_LIMIT` of 64-bit kernels (`include/linux/threads.h`). Larger tids only occur in damaged files.
const DIRECT: usize = 4 << 20;
const NONE: u32 = u32::MAX;

/// A paged table for the tids that Linux assigns, and a hash map for others.
#[derive(Debug, Default)]
pub(crate) struct TidMap {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    rest: FxHashMap<Tid, TaskKey>,
}

impl TidMap {
    #[inline]
    pub fn get(&self, tid: Tid) -> Option<TaskKey> {
        let number = tid.0 as usize;
        if number >= DIRECT {
            return self.rest.get(&tid).copied();
        }
        let page = self.pages.get(number / PAGE)?.as_ref()?;
        let slot = page[number % PAGE];
        (slot != NONE).then_some(TaskKey(slot))
    }

    pub fn insert(&mut self, tid: Tid, key: TaskKey) {
        let number = tid.0 as usize;
        if number >= DIRECT {
            self.rest.insert(tid, key);
            return;
        }
        if self.pages.len() <= number / PAGE {
            self.pages.resize_with(number / PAGE + 1, || None);
        }
        let page = self.pages[number / PAGE].get_or_insert_with(|| Box::new([NONE; PAGE]));
        page[number % PAGE] = key.0;
    }

    pub fn remove(&mut self, tid: Tid) {
        let number = tid.0 as usize;
        if number >= DIRECT {
            self.rest.remove(&tid);
        } else if let Some(Some(page)) = self.pages.get_mut(number / PAGE) {
            page[number % PAGE] = NONE;
        }
    }
}
