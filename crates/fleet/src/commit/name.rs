//! Parses and creates the names of files.

/// What a file is, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// A commit with this number, below `state/`.
    Commit(u64),
    /// Merged rows, or the same rows by the hour.
    Merged,
    /// Rows by the hour that have not got their place yet, below `state/`.
    Hourly,
    /// A file that a host wrote.
    Part,
    /// None of these: hidden, still being written, or another program's.
    Other,
}

const COMMIT: (&str, &str) = ("commit-", ".json");
/// Engines pass over names that begin with `_` or `.`; this one they read.
const MERGED: &str = "merged-by-commit-";
const PARQUET: &str = ".parquet";
const HOURLY: &str = ".hourly";
/// Minimum digits of a number, so that names sort as numbers do.
const DIGITS: usize = 8;

impl Name {
    /// A name that a file of a table can have: UTF-8 without control characters. Files with other names are neither merged nor
    /// read (docs/decisions/0440).
    pub fn text(name: &[u8]) -> Option<&str> {
        std::str::from_utf8(name).ok().filter(|text| !text.chars().any(char::is_control))
    }

    /// What a file with this name is.
    pub fn of(name: &str) -> Name {
        if Name::text(name.as_bytes()).is_none() || name.starts_with(['.', '_']) || name.contains('/') {
            return Name::Other;
        }
        if let Some(digits) = name.strip_prefix(COMMIT.0).and_then(|rest| rest.strip_suffix(COMMIT.1)) {
            return number(digits).map_or(Name::Other, Name::Commit);
        }
        match (name.starts_with(MERGED), name.ends_with(PARQUET), name.ends_with(HOURLY)) {
            (true, true, _) => Name::Merged,
            (true, _, true) => Name::Hourly,
            (false, true, _) => Name::Part,
            _ => Name::Other,
        }
    }

    /// The name of a commit.
    pub fn commit(number: u64) -> String {
        format!("{}{number:0DIGITS$}{}", COMMIT.0, COMMIT.1)
    }

    /// The name of merged rows of a commit. The random digits keep a later file from the name of one that somebody still reads.
    pub fn merged(number: u64, random: u64) -> String {
        format!("{MERGED}{number:0DIGITS$}-{random:016x}{PARQUET}")
    }

    /// What the rows by the hour beside these merged rows are called until they have their place.
    pub fn waiting_hourly(merged: &str) -> String {
        format!("{}{HOURLY}", merged.strip_suffix(PARQUET).unwrap_or(merged))
    }
}

/// Accepts only the form of [`Name::commit`], so that no two names have the same number.
fn number(digits: &str) -> Option<u64> {
    let number = digits.parse().ok()?;
    (format!("{number:0DIGITS$}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_a_file_is() {
        let merged = Name::merged(7, 0xabc);
        for (name, expected) in [
            (Name::commit(7).as_str(), Name::Commit(7)),
            (&Name::commit(123_456_789), Name::Commit(123_456_789)),
            (&merged, Name::Merged),
            (&Name::waiting_hourly(&merged), Name::Hourly),
            ("web1-c05a1cd7-1795421990359013721.parquet", Name::Part),
            ("merged-1795305600.parquet", Name::Part),
            ("merged-by-commit-1-x.parquet", Name::Merged),
            (".new-a.parquet", Name::Other),
            ("_metadata.parquet", Name::Other),
            ("../a.parquet", Name::Other),
            ("commit-7.json", Name::Other),
            ("commit-+0000007.json", Name::Other),
            ("notes.txt", Name::Other),
            ("commit-00000007.json.old", Name::Other),
            ("web1.hourly", Name::Other),
            ("", Name::Other),
        ] {
            assert_eq!(Name::of(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_no_plain_text_is_no_name() {
        for strange in
            ["a\x1b[2J.parquet", "a\nb.parquet", "a\u{9b}.parquet", "\u{7f}.parquet", "commit-00000007.json\t"]
        {
            assert_eq!((Name::of(strange), Name::text(strange.as_bytes())), (Name::Other, None), "{strange:?}");
        }
        assert_eq!(Name::text(b"a\xff.parquet"), None);
        assert_eq!(Name::text("wéb 1.parquet".as_bytes()), Some("wéb 1.parquet"));
    }
}
