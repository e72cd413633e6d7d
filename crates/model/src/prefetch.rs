/// Asks the processor to fetch what is going to be read soon, by way of a cache that another core has just filled. Where it does not know how, nothing
/// happens.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: this needs SSE, which every x86-64 has, and is a hint: nothing is read as far as the program can tell.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
