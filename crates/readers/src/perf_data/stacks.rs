//! Finds the work item of a kernel worker in the call stacks of samples.

use rustc_hash::FxHashMap;
use unstarve_model::NameId;

use crate::endian::Endian;
use crate::interner::Interner;
use crate::work_stack::{is_work_function, is_worker_loop};

/// Values from here on are marks in the call chain: what follows is of the kernel (−128), of user space (−512) and so
/// on. Source: `enum perf_callchain_context` in `include/uapi/linux/perf_event.h`.
const FIRST_MARK: u64 = u64::MAX - 4094;
const KERNEL_MARK: u64 = -128i64 as u64;

/// Limit of the cache. Few different addresses occur in call chains; more are looked up each time.
const MAX_KNOWN: usize = 1 << 16;

/// Caches what addresses mean.
#[derive(Debug, Default)]
pub struct Stacks {
    loops: FxHashMap<u64, bool>,
    works: FxHashMap<u64, Option<NameId>>,
}

impl Stacks {
    /// The work function in a call chain, given innermost first: the function that the worker's loop called.
    pub fn work(&mut self, callchain: &[u8], endian: Endian, names: &mut Interner) -> Option<NameId> {
        let (mut in_kernel, mut inner, mut is_return) = (false, None, false);
        for frame in callchain.chunks_exact(8) {
            let address = endian.u64_at(frame, 0)?;
            if address >= FIRST_MARK {
                (in_kernel, inner, is_return) = (address == KERNEL_MARK, None, false);
                continue;
            }
            // If the call does not return, the return address may be the first byte of the next function.
            let address = if is_return { address.wrapping_sub(1) } else { address };
            is_return = true;
            if in_kernel && self.is_loop(address, names) {
                return self.work_at(inner?, names);
            }
            inner = Some(address);
        }
        None
    }

    fn is_loop(&mut self, address: u64, names: &mut Interner) -> bool {
        if let Some(&known) = self.loops.get(&address) {
            return known;
        }
        let is_loop = names.symbol(address).is_some_and(is_worker_loop);
        if self.loops.len() < MAX_KNOWN {
            self.loops.insert(address, is_loop);
        }
        is_loop
    }

    fn work_at(&mut self, address: u64, names: &mut Interner) -> Option<NameId> {
        if let Some(&known) = self.works.get(&address) {
            return known;
        }
        let name = names.symbol(address).filter(|name| is_work_function(name)).map(<[u8]>::to_vec);
        let work = name.map(|name| names.intern(&name));
        if self.works.len() < MAX_KNOWN {
            self.works.insert(address, work);
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Names;

    use super::*;
    use crate::symbols::Symbols;

    #[test]
    fn the_function_that_the_workers_loop_called_is_the_work() {
        let mut names = Interner::new();
        let symbols = "ffffffff81000000 T try_to_wake_up\nffffffff81001000 t xfs_end_io\n\
                       ffffffff81002000 t process_one_work\nffffffff81003000 t worker_thread\n";
        names.set_symbols(Symbols::from_text(symbols.into()));
        let mut stacks = Stacks::default();
        let mut work = |frames: &[u64]| {
            let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
            stacks.work(&bytes, Endian::Little, &mut names)
        };
        let base = 0xffff_ffff_8100_0000;
        let [waking, end_io, one_work, thread] = [base + 9, base + 0x1009, base + 0x2009, base + 0x3009];
        let found = work(&[KERNEL_MARK, waking, end_io, one_work, thread]);
        assert!(found.is_some());
        assert_eq!(work(&[KERNEL_MARK, end_io, one_work]), found);
        // A wakeup directly below the loop is done by the loop itself, not by a work item.
        assert_eq!(work(&[KERNEL_MARK, waking, one_work, thread]), None);
        assert_eq!(work(&[KERNEL_MARK, one_work, thread]), None);
        assert_eq!(work(&[-512i64 as u64, end_io, one_work]), None, "these are addresses of a program");
        assert_eq!(work(&[]), None);
        let (mut new, mut table) = (Vec::new(), Names::default());
        names.take_new(&mut new);
        table.extend(new);
        assert_eq!(found.map(|id| table.get(id)), Some("xfs_end_io"));
    }
}
