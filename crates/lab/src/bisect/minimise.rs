//! Delta debugging: the smallest subset that still passes a test.

/// The smallest part of `set` that still passes `test`: without any one element it fails (1-minimal). Assumes that the
/// whole `set` passes. Tests the larger half first, so that one planted element of n costs at most 2·log2(n) tests.
pub(super) fn minimise<E>(
    mut set: Vec<usize>,
    test: &mut dyn FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Vec<usize>, E> {
    let mut parts = 2;
    while set.len() > 1 {
        let chunks = split(&set, parts);
        if let Some(chunk) = first_passing(&chunks, test)? {
            set = chunk;
            parts = 2;
            continue;
        }
        // With two parts each is the other's complement, and both failed.
        if parts > 2 {
            let complements: Vec<Vec<usize>> = chunks.iter().map(|chunk| without(&set, chunk)).collect();
            if let Some(rest) = first_passing(&complements, test)? {
                set = rest;
                parts = (parts - 1).max(2).min(set.len());
                continue;
            }
        }
        if parts >= set.len() {
            break;
        }
        parts = (parts * 2).min(set.len());
    }
    Ok(set)
}

fn first_passing<E>(
    sets: &[Vec<usize>],
    test: &mut dyn FnMut(&[usize]) -> Result<bool, E>,
) -> Result<Option<Vec<usize>>, E> {
    for set in sets {
        if test(set)? {
            return Ok(Some(set.clone()));
        }
    }
    Ok(None)
}

/// Splits into `parts` pieces of nearly equal size, larger ones first.
fn split(set: &[usize], parts: usize) -> Vec<Vec<usize>> {
    let (size, larger) = (set.len() / parts, set.len() % parts);
    let mut rest = set;
    (0..parts)
        .map(|number| {
            let (piece, left) = rest.split_at(size + usize::from(number < larger));
            rest = left;
            piece.to_vec()
        })
        .collect()
}

fn without(set: &[usize], chunk: &[usize]) -> Vec<usize> {
    set.iter().copied().filter(|element| !chunk.contains(element)).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Minimises 0..n against "all of `planted` are in it", counting tests of different sets.
    fn found(n: usize, planted: &[usize]) -> (Vec<usize>, usize) {
        let mut seen = std::collections::HashSet::new();
        let set = minimise((0..n).collect(), &mut |set| {
            seen.insert(set.to_vec());
            Ok::<bool, Infallible>(planted.iter().all(|element| set.contains(element)))
        });
        let Ok(mut set) = set;
        set.sort_unstable();
        (set, seen.len())
    }

    #[test]
    fn one_of_n_is_found_within_twice_the_logarithm() {
        for n in 1..=70usize {
            for planted in 0..n {
                let (set, tests) = found(n, &[planted]);
                assert_eq!(set, [planted]);
                assert!(tests as f64 <= 2.0 * (n as f64).log2(), "{tests} tests for {planted} of {n}");
            }
        }
    }

    #[test]
    fn every_pair_and_some_triples_are_found_exactly() {
        for n in 2..=16 {
            for first in 0..n {
                for second in first + 1..n {
                    assert_eq!(found(n, &[first, second]).0, [first, second]);
                }
            }
        }
        assert_eq!(found(16, &[0, 7, 15]).0, [0, 7, 15]);
        assert_eq!(found(5, &[0, 1, 2, 3, 4]).0, [0, 1, 2, 3, 4]);
    }
}
