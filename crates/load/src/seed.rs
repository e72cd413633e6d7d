//! Pseudo-random numbers derived from a seed.

/// One step of SplitMix64 (Steele, Lea, Flood 2014): neighbouring seeds give unrelated numbers.
#[must_use]
pub fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
