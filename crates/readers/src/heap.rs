//! Binary heap operations for merging by time: each entry is the next event of one CPU, the earliest first.

/// Moves the first entry of a heap down to its place.
///
/// With many CPUs the entry sinks through most levels for each event, and which of two children is earlier cannot be
/// predicted, so it is chosen without a branch.
#[inline(always)]
pub fn sink_first<T: Copy>(heap: &mut [T], key: impl Fn(&T) -> u128) {
    match heap {
        [first, second] => {
            if key(second) < key(first) {
                std::mem::swap(first, second);
            }
        }
        _ => sink_far(heap, key),
    }
}

fn sink_far<T: Copy>(heap: &mut [T], key: impl Fn(&T) -> u128) {
    let Some(&first) = heap.first() else { return };
    let mut at = 0;
    loop {
        let child = match heap.get(2 * at + 1..) {
            Some([one, other, ..]) => 2 * at + 1 + usize::from(key(other) < key(one)),
            Some([_]) => 2 * at + 1,
            _ => break,
        };
        if key(&first) <= key(&heap[child]) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = first;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_from_a_heap_comes_in_order() {
        for length in 0..40_u64 {
            let mut heap: Vec<u64> = (0..length).collect();
            let mut taken = Vec::new();
            while let Some(&first) = heap.first() {
                taken.push(first);
                // Each entry comes twice, the second time much later.
                if first < length {
                    heap[0] = (first * 7919) % 97 + length;
                } else {
                    heap.swap_remove(0);
                }
                sink_first(&mut heap, |&value| u128::from(value));
            }
            assert!(taken.is_sorted() && taken.len() as u64 == 2 * length, "{taken:?}");
        }
    }
}
