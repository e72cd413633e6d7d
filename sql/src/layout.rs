//! What the path of a file says: `table=blame_rollup/date=2026-11-23/hour=07/…`.

use object_store::path::Path;
use unstarve_tables::Partition;

/// The keys of directories, from the outermost.
const KEYS: [&str; 3] = ["table", "date", "hour"];

/// The last directory `KEY=VALUE` that a file is in.
pub fn value(location: &Path, key: &str) -> Option<String> {
    let of_key = |part: &str| Some(part.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    location.parts().filter_map(|part| of_key(part.as_ref())).next_back()
}

/// The directory that a file is in.
pub fn directory(file: &Path) -> Path {
    let parts: Vec<_> = file.parts().collect();
    parts[..parts.len().saturating_sub(1)].iter().cloned().collect()
}

/// The hour that a directory is of, if it is one: as its commits call it.
pub fn hour(directory: &Path) -> Option<Partition> {
    let names: Vec<String> = directory.parts().map(|part| part.as_ref().to_owned()).collect();
    let last: [&String; 3] = [names.len().checked_sub(3)?, names.len() - 2, names.len() - 1].map(|at| &names[at]);
    let value = |at: usize| Some(last[at].strip_prefix(KEYS[at])?.strip_prefix('=')?.to_owned());
    let hour = Partition { table: value(0)?, date: value(1)?, hour: value(2)? };
    hour.begin().is_some_and(|begin| Partition::of(&hour.table, begin) == hour).then_some(hour)
}

/// Whether a directory below a place is where a table's files are. Any directory is, except for those of tables: what is in them by hour has a place
/// of its own, and what else a host puts there, such as a table in a table, is not read.
pub fn is_plain(place: &Path, directory: &Path) -> bool {
    let names: Vec<String> = directory.parts().map(|part| part.as_ref().to_owned()).collect();
    let named = place.parts().count();
    let is_table = |name: &String| name.starts_with("table=");
    // A place may be a part of a table; or lie below a directory that is only called so.
    let within = names[..named.min(names.len())].iter().rposition(is_table).filter(|at| is_keyed(&names[*at..named]));
    let first = within.or_else(|| Some(named + names.get(named..)?.iter().position(is_table)?));
    first.is_none_or(|at| is_keyed(&names[at..]))
}

fn is_keyed(names: &[String]) -> bool {
    let has_key = |(name, key): (&String, &str)| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
    names.len() <= KEYS.len() && names.iter().zip(KEYS).all(has_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_its_hour() {
        let key = |path: &str| hour(&path.into()).map(|hour| hour.path().display().to_string());
        let good = "table=hosts/date=2026-11-23/hour=07";
        assert_eq!(key(&format!("srv/{good}")).as_deref(), Some(good));
        for bad in [
            "table=hosts/date=2026-11-23",
            "table=hosts/date=2026-11-23/hour=7",
            "table=hosts/date=2026-02-30/hour=07",
            "hour=07",
            "",
        ] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_table_in_a_table_is_not_read() {
        let is = |place: &str, directory: &str| is_plain(&place.into(), &directory.into());
        assert!(is("srv", "srv/exports/monday"));
        assert!(is("srv", "srv/table=hosts"));
        assert!(is("srv", "srv/a/table=hosts/date=2026-11-23/hour=07"));
        assert!(is("srv/table=hosts/date=2026-11-23", "srv/table=hosts/date=2026-11-23/hour=07"));
        assert!(is("srv/table=x/store", "srv/table=x/store/table=hosts/date=2026-11-23"));
        assert!(!is("srv", "srv/table=hosts/date=2026-11-23/hour=07/table=settings/date=2026-11-23/hour=07"));
        assert!(!is("srv", "srv/table=hosts/more"));
        assert!(!is("srv", "srv/table=hosts/date=2026-11-23/hour=07/more"));
        assert!(!is("srv/table=hosts", "srv/table=hosts/table=settings"));
    }
}
