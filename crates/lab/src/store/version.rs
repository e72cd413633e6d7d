//! Compares Debian package versions.

use std::cmp::Ordering;

/// Orders two package versions as dpkg does: epoch, upstream version, revision, each as alternating runs of other
/// characters and numbers. `~` sorts before everything, even the end; letters sort before other characters.
///
/// Source: deb-version(7), "Sorting algorithm". Implemented here because a library would bring more code; tested
/// against dpkg.
pub fn dpkg_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (Parts::of(a), Parts::of(b));
    part_order(a.epoch, b.epoch)
        .then_with(|| part_order(a.upstream, b.upstream))
        .then_with(|| part_order(a.revision, b.revision))
}

struct Parts<'a> {
    epoch: &'a str,
    upstream: &'a str,
    revision: &'a str,
}

impl Parts<'_> {
    /// A missing epoch is 0; a missing revision is empty, which equals 0.
    fn of(version: &str) -> Parts<'_> {
        let (epoch, rest) = version.trim().split_once(':').unwrap_or(("", version.trim()));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        Parts { epoch, upstream, revision }
    }
}

/// `verrevcmp()`: non-digits, then a number, repeatedly.
fn part_order(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let (text_a, rest_a) = split_at_first(a, |byte| byte.is_ascii_digit());
        let (text_b, rest_b) = split_at_first(b, |byte| byte.is_ascii_digit());
        let (number_a, left_a) = split_at_first(rest_a, |byte| !byte.is_ascii_digit());
        let (number_b, left_b) = split_at_first(rest_b, |byte| !byte.is_ascii_digit());
        let order = text_order(text_a, text_b).then_with(|| number_order(number_a, number_b));
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (left_a, left_b);
    }
    Ordering::Equal
}

fn split_at_first(text: &[u8], ends: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|&byte| ends(byte)).unwrap_or(text.len()))
}

fn text_order(a: &[u8], b: &[u8]) -> Ordering {
    /// The sort position of a character, or of the end.
    fn rank(byte: Option<&u8>) -> u16 {
        match byte {
            Some(b'~') => 0,
            None => 1,
            Some(&byte) if byte.is_ascii_alphabetic() => u16::from(byte) + 1,
            Some(&byte) => u16::from(byte) + 257,
        }
    }
    let ranks = |text: &[u8], index: usize| rank(text.get(index));
    let differs = (0..a.len().max(b.len())).map(|index| ranks(a, index).cmp(&ranks(b, index)));
    differs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Of any length: without leading zeros the longer number is larger.
fn number_order(a: &[u8], b: &[u8]) -> Ordering {
    let (_, a) = split_at_first(a, |byte| byte != b'0');
    let (_, b) = split_at_first(b, |byte| byte != b'0');
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ascending; versions in one list are equal.
    const ASCENDING: &[&[&str]] = &[
        &["0~~", "0~~-0"],
        &["0~~a"],
        &["0~"],
        &["0", "", "0-", "0:0", "00", "0-0"],
        &["0a"],
        &["0+"],
        &["1.0~beta1~svc2"],
        &["1.0~beta1"],
        &["1.0"],
        &["1.0-1~"],
        &["1.0-1"],
        &["1.0-1a"],
        &["1.0-1+b1"],
        &["1.0-1.1"],
        &["1.0-2"],
        &["1.0.0"],
        &["6.1.0-50"],
        &["6.1.9"],
        &["6.12.94-1~bpo"],
        &["6.12.94-1", "0:6.12.94-1"],
        &["6.12.107~rc1-1"],
        &["6.12.107-1"],
        &["6.12.107-1+deb13u1"],
        &["7.2~rc7-1~exp1"],
        &["7.2~rc7-1"],
        &["7.2-1~exp1"],
        &["7.2-1"],
        &["7.2.1-1"],
        &["99999999999999999999999999.1"],
        &["100000000000000000000000000.1"],
        &["1:0"],
        &["2:0~"],
    ];

    fn pairs() -> impl Iterator<Item = (&'static str, &'static str, Ordering)> {
        let all = || ASCENDING.iter().enumerate().flat_map(|(at, line)| line.iter().map(move |version| (at, *version)));
        all().flat_map(move |(at, a)| all().map(move |(other, b)| (a, b, at.cmp(&other))))
    }

    #[test]
    fn versions_are_ordered_as_deb_version_says() {
        for (a, b, expected) in pairs() {
            assert_eq!(dpkg_order(a, b), expected, "{a} and {b}");
        }
    }

    /// dpkg confirms the list above.
    #[test]
    fn dpkg_orders_neighbours_alike() {
        let Some(dpkg) = unstarve_testing::tool("dpkg") else { return };
        for (a, b) in ASCENDING.windows(2).map(|pair| (pair[0][0], pair[1][0])) {
            let output = std::process::Command::new(&dpkg).args(["--compare-versions", a, "lt-nl", b]).output();
            let status = output.expect("dpkg runs").status;
            assert!(status.success(), "dpkg does not put {a} before {b}");
        }
    }
}
