//! Cache prefetch hints.

/// Prefetches all cache lines of `value`. A no-op on CPUs other than x86-64.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(CACHE_LINE) {
            // SAFETY: this needs SSE, which every x86-64 has. A prefetch is a hint and does not count as a read.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The size of a cache line.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;
