/// Whether a name fits an anchored pattern: plain characters, `*`, `?`, and alternatives with `|` between.
pub fn fits(pattern: &str, name: &str) -> bool {
    pattern.split('|').any(|one| fits_one(one.as_bytes(), name.as_bytes()))
}

fn fits_one(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skipped| fits_one(rest, &name[skipped..])),
        (Some((b'?', rest)), Some((_, name))) => fits_one(rest, name),
        (Some((expected, rest)), Some((byte, name))) => expected == byte && fits_one(rest, name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_anchored_and_have_alternatives() {
        assert!(fits("kworker/0:*", "kworker/0:1H"));
        assert!(fits("ksoftirqd/?", "ksoftirqd/1"));
        assert!(fits("*:1*", "kworker/u4:1-x"));
        assert!(!fits("kworker/0:*", "kworker/1:0"));
        assert!(!fits("nfsd", "nfsd4"));
        assert!(!fits("nfsd?", "nfsd"));
        assert!(fits("webwork|webapi", "webapi") && !fits("webwork|webapi", "web"));
    }
}
