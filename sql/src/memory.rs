//! Memory of the whole program. DataFusion counts what sorting, grouping and joining take (`--memory`); what a function makes of a cell (`repeat`), or a decoder of a file, it
//! does not count. So the system is asked to refuse more than that and some room, and who is refused ends the program in words, before others of the machine lack memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is not counted: files being decoded, rows on their way, 128 threads that wait for files.
const ROOM: u64 = 1280 << 20;
/// The same of each processor.
const ROOM_OF_ONE: u64 = 64 << 20;

/// The allocator of a program that answers questions.
pub struct Bounded;

static IS_BOUNDED: AtomicBool = AtomicBool::new(false);

/// Threads that wait for files: each has a stack.
pub const THREADS: usize = 128;

/// From now on the program has no more memory than that for `--memory`, and some room. A smaller limit that it was started with stays.
pub fn bound(memory: usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let most = (memory as u64).saturating_add(ROOM).saturating_add(ROOM_OF_ONE * processors);
    let before = getrlimit(Resource::Data);
    let current = Some(before.current.map_or(most, |current| current.min(most)));
    let bounded = setrlimit(Resource::Data, Rlimit { current, maximum: before.maximum });
    IS_BOUNDED.store(bounded.is_ok(), Ordering::Release);
}

/// Ends the program if there is no memory.
fn some(memory: *mut u8) -> *mut u8 {
    if memory.is_null() && IS_BOUNDED.swap(false, Ordering::AcqRel) {
        // For the rest of the way.
        let before = getrlimit(Resource::Data);
        let _ = setrlimit(Resource::Data, Rlimit { current: before.maximum, ..before });
        let why = b"unstarve sql: stopped: the statement takes more memory than --memory and some room; a function that makes long texts or lists may be why, \
            or a damaged file: `--merged` leaves out what `unstarve fleet compact` has not examined\n";
        // Not by the standard library: whoever asks for memory may hold its lock.
        let _ = rustix::io::write(std::io::stderr(), why);
        std::process::exit(2);
    }
    memory
}

// SAFETY: everything is the system's allocator's; what it refuses is refused.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        some(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        some(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        some(unsafe { System.realloc(memory, layout, size) })
    }
}
