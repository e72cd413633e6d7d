//! Parses and creates the names of an hour's files.

/// What a file is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// A commit with this number.
    Commit(u64),
    /// Merged rows, made for the commit with this number; they count only if a commit lists them.
    Merged(u64),
    /// The same rows by the hour. The name does not end in `.parquet`, so that engines that read all Parquet files do not count
    /// rows twice.
    Hourly(u64),
    /// A file that a host wrote.
    Part,
    /// None of these: hidden, still being written, or another program's.
    Other,
}

const COMMIT: (&str, &str) = ("_commit-", ".json");
const MERGED: &str = "merged-by-commit-";
const PARQUET: &str = ".parquet";
const HOURLY: &str = ".hourly";
/// Minimum digits of a number, so that names sort as numbers do.
const DIGITS: usize = 8;
/// Digits that distinguish the outputs of two compactors.
const RANDOM: usize = 16;

impl Name {
    /// A name that a file of a table can have: UTF-8 without control characters. Files with other names are neither merged nor
    /// read (docs/decisions/0440).
    pub fn text(name: &[u8]) -> Option<&str> {
        std::str::from_utf8(name).ok().filter(|text| !text.chars().any(char::is_control))
    }

    /// What a file with this name is.
    pub fn of(name: &str) -> Name {
        if Name::text(name.as_bytes()).is_none() { Name::Other } else { Name::early(name) }
    }

    /// Also accepts names with control characters, which early versions merged: their commits list them.
    pub(crate) fn early(name: &str) -> Name {
        if name.starts_with('.') {
            return Name::Other;
        }
        if let Some(digits) = name.strip_prefix(COMMIT.0).and_then(|rest| rest.strip_suffix(COMMIT.1)) {
            return number(digits).map_or(Name::Other, Name::Commit);
        }
        if let Some(stem) = name.strip_suffix(HOURLY) {
            return made_for(stem).map_or(Name::Other, Name::Hourly);
        }
        let Some(stem) = name.strip_suffix(PARQUET) else { return Name::Other };
        made_for(stem).map_or(Name::Part, Name::Merged)
    }

    /// The name of a commit.
    pub fn commit(number: u64) -> String {
        format!("{}{number:0DIGITS$}{}", COMMIT.0, COMMIT.1)
    }

    /// The name of merged rows for a commit.
    pub fn merged(number: u64, random: u64) -> String {
        format!("{MERGED}{number:0DIGITS$}-{random:0RANDOM$x}{PARQUET}")
    }

    /// The name of the same rows by the hour.
    pub fn hourly(number: u64, random: u64) -> String {
        format!("{MERGED}{number:0DIGITS$}-{random:0RANDOM$x}{HOURLY}")
    }

    /// The number of the commit that a file was written for, for merged rows in either form.
    pub fn made_for(self) -> Option<u64> {
        match self {
            Name::Merged(number) | Name::Hourly(number) => Some(number),
            Name::Commit(_) | Name::Part | Name::Other => None,
        }
    }
}

/// The number in the name of merged rows, without the extension.
fn made_for(stem: &str) -> Option<u64> {
    let (digits, random) = stem.strip_prefix(MERGED)?.split_once('-')?;
    if is_random(random) { number(digits) } else { None }
}

/// Accepts only the form of [`Name::commit`], so that no two names have the same number.
fn number(digits: &str) -> Option<u64> {
    let number = digits.parse().ok()?;
    (format!("{number:0DIGITS$}") == digits).then_some(number)
}

fn is_random(text: &str) -> bool {
    text.len() == RANDOM && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        assert_eq!(Name::of(&Name::commit(7)), Name::Commit(7));
        assert_eq!(Name::of(&Name::commit(123_456_789)), Name::Commit(123_456_789));
        assert_eq!(Name::of(&Name::merged(7, 0xabc)), Name::Merged(7));
        assert_eq!(Name::of(&Name::hourly(7, 0xabc)), Name::Hourly(7));
        for part in
            ["web1-c05a1cd7-1795421990359013721.parquet", "merged-1795305600.parquet", "merged-by-commit-1-x.parquet"]
        {
            assert_eq!(Name::of(part), Name::Part, "{part}");
        }
        for other in [
            ".new-a.parquet",
            "_commit-7.json",
            "_commit-+0000007.json",
            "notes.txt",
            "_commit-00000007.json.old",
            "web1.hourly",
            "",
        ] {
            assert_eq!(Name::of(other), Name::Other, "{other}");
        }
    }

    #[test]
    fn what_is_no_plain_text_is_no_name() {
        for strange in
            ["a\x1b[2J.parquet", "a\nb.parquet", "a\u{9b}.parquet", "\u{7f}.parquet", "_commit-00000007.json\t"]
        {
            assert_eq!((Name::of(strange), Name::text(strange.as_bytes())), (Name::Other, None), "{strange:?}");
        }
        assert_eq!(Name::early("a\nb.parquet"), Name::Part);
        assert_eq!(Name::text(b"a\xff.parquet"), None);
        assert_eq!(Name::text("wéb 1.parquet".as_bytes()), Some("wéb 1.parquet"));
    }
}
