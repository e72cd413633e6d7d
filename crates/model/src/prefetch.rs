/// Asks the processor to fetch what is going to be read soon, all lines of it. Where it does not know how, nothing happens.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: this needs SSE, which every x86-64 has, and is a hint: nothing is read as far as the program can tell.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// What a cache fetches at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
