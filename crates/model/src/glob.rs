//! Patterns for names of tasks, units and cgroups.

use std::fmt;

/// A pattern for a whole name: `*` is any run of characters (also of `/`), `?` any one, `\` makes the next one literal.
/// Always anchored at both ends, so `sh` never matches `ssh`.
///
/// Not a library: those for paths treat `/`, `[` and `{` as special, and none decides whether two patterns can match
/// the same name ([`Glob::overlaps`]), on which the guard's refusals rely.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Glob {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Piece {
    Char(char),
    One,
    Any,
}

impl Glob {
    /// Never fails: a `\` at the end is literal.
    pub fn new(text: &str) -> Glob {
        let mut chars = text.chars();
        let piece = || {
            Some(match chars.next()? {
                '*' => Piece::Any,
                '?' => Piece::One,
                '\\' => Piece::Char(chars.next().unwrap_or('\\')),
                c => Piece::Char(c),
            })
        };
        Glob::of(text, std::iter::from_fn(piece))
    }

    /// A pattern in which only `*` is special, for names typed as they are displayed: names of Windows programs under
    /// Wine contain `\`.
    pub fn with_stars(text: &str) -> Glob {
        Glob::of(text, text.chars().map(|c| if c == '*' { Piece::Any } else { Piece::Char(c) }))
    }

    fn of(text: &str, all: impl Iterator<Item = Piece>) -> Glob {
        let mut pieces = Vec::new();
        for piece in all {
            // Two `*` in a row mean the same as one.
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        Glob { text: text.to_owned(), pieces }
    }

    /// Whether the whole of `name` matches. Time is at most the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        self.search(name, || {})
    }

    /// The same; `step` is called for each character or piece compared, for tests.
    fn search(&self, name: &str, mut step: impl FnMut()) -> bool {
        let pieces = &self.pieces;
        let mut rest = name.chars();
        let mut at = 0;
        // Where to resume if the part after the last `*` does not match: the `*` then takes one character more.
        let mut retry: Option<(usize, std::str::Chars)> = None;
        loop {
            step();
            let before = rest.clone();
            match (pieces.get(at), rest.next()) {
                (Some(Piece::Any), _) => {
                    rest = before;
                    at += 1;
                    retry = Some((at, rest.clone()));
                    continue;
                }
                (Some(Piece::One), Some(_)) => at += 1,
                (Some(Piece::Char(wanted)), Some(c)) if *wanted == c => at += 1,
                (None, None) => return true,
                _ => {
                    let Some((after, mut from)) = retry.take() else { return false };
                    if from.next().is_none() {
                        return false;
                    }
                    at = after;
                    rest = from.clone();
                    retry = Some((after, from));
                }
            }
        }
    }

    /// The only name it matches, if it has no wildcard.
    pub fn literal(&self) -> Option<String> {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Char(c) => Some(*c),
                _ => None,
            })
            .collect()
    }

    /// The text before the first wildcard.
    pub fn beginning(&self) -> String {
        let chars = self.pieces.iter().map_while(|piece| match piece {
            Piece::Char(c) => Some(*c),
            _ => None,
        });
        chars.collect()
    }

    /// Whether it consists of wildcards with at least one `*`, and so matches every name of `length` characters or
    /// more.
    pub fn matches_all_from(&self, length: usize) -> bool {
        let least = self.pieces.iter().filter(|piece| **piece == Piece::One).count();
        self.pieces.contains(&Piece::Any) && least <= length && !self.pieces.iter().any(|p| matches!(p, Piece::Char(_)))
    }

    /// Whether some name matches both. Patterns longer than any name of a task or group match nothing.
    pub fn overlaps(&self, other: &Glob) -> bool {
        /// PATH_MAX: no name of a task, unit or group is longer.
        const LONGEST: usize = 4096;
        let (ours, theirs) = (&self.pieces, &other.pieces);
        let required = |pieces: &[Piece]| pieces.iter().filter(|piece| **piece != Piece::Any).count();
        if required(ours) > LONGEST || required(theirs) > LONGEST {
            return false;
        }
        // Which pairs of positions in the two patterns some common prefix of a name can reach; one row per position in
        // `self`.
        let mut row = vec![false; theirs.len() + 1];
        row[0] = true;
        for at in 0..=ours.len() {
            let mut next = vec![false; theirs.len() + 1];
            for other_at in 0..=theirs.len() {
                if !row[other_at] {
                    continue;
                }
                let (mine, its) = (ours.get(at).copied(), theirs.get(other_at).copied());
                // The `*` matches nothing more.
                if mine == Some(Piece::Any) {
                    next[other_at] = true;
                }
                if its == Some(Piece::Any) {
                    row[other_at + 1] = true;
                }
                // One character matches both patterns. A `*` stays where it is.
                match (mine, its) {
                    (None, _) | (_, None) | (Some(Piece::Any), Some(Piece::Any)) => {}
                    (Some(Piece::Any), Some(_)) => row[other_at + 1] = true,
                    (Some(_), Some(Piece::Any)) => next[other_at] = true,
                    (Some(Piece::Char(a)), Some(Piece::Char(b))) if a != b => {}
                    (Some(_), Some(_)) => next[other_at + 1] = true,
                }
            }
            if at == ours.len() {
                return row[theirs.len()];
            }
            row = next;
        }
        false
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_anchored_at_both_ends() {
        for (pattern, name, matches) in [
            ("sh", "sh", true),
            ("sh", "ssh", false),
            ("sh", "sh1", false),
            ("dio/*", "dio/nvme0n1", true),
            ("dio/*", "xdio/nvme0n1", false),
            ("/kubepods*", "/kubepods/pod1/c", true),
            ("*", "", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("*.service", "x.service", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("", "", true),
            ("", "x", false),
            ("**x", "yyx", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), matches, "{pattern} on {name}");
        }
    }

    #[test]
    fn with_stars_everything_else_stands_for_itself() {
        for (pattern, name, matches) in [
            ("fio", "fio", true),
            ("fio", "fio2", false),
            ("kworker/*", "kworker/0:2", true),
            ("*/1", "ksoftirqd/1", true),
            ("*o*o*", "kworker/0:2", false),
            ("*o*k*", "kworker/0:2", true),
            ("*", "", true),
            ("", "x", false),
            (r"C:\*", r"C:\app.exe", true),
            ("a?", "ab", false),
            ("a?", "a?", true),
        ] {
            assert_eq!(Glob::with_stars(pattern).matches(name), matches, "{pattern} on {name}");
        }
    }

    #[test]
    fn patterns_overlap_where_a_name_matches_both() {
        for (one, other, overlap) in [
            ("nfs?", "nfsd", true),
            ("nfs?", "nfs", false),
            ("*", "", true),
            ("?*", "", false),
            ("a*c", "*b*", true),
            ("a*c", "b*", false),
            ("ks*", "*/0", true),
            ("*x", "*y", false),
            ("/*/db.service*", "/user.slice/user-*.slice/user@*.service/*", true),
            ("/system.slice/*", "/user.slice/user-*.slice/user@*.service/*", false),
            ("", "", true),
        ] {
            let (a, b) = (Glob::new(one), Glob::new(other));
            assert_eq!((a.overlaps(&b), b.overlaps(&a)), (overlap, overlap), "{one} and {other}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_exponential_time() {
        let pattern = Glob::new(&"*a".repeat(200));
        let name = "a".repeat(5000) + "b";
        let most = pattern.pieces.len() * name.len();
        let mut steps = 0;
        let count = || {
            steps += 1;
            assert!(steps <= most, "more than {most} steps");
        };
        assert!(!pattern.search(&name, count));
        assert!(steps > name.len(), "it looked at the whole name");
    }
}
