//! How text names tasks.

use std::fmt;

use rustc_hash::FxHashMap;
use unstarve_model::Tid;

use crate::claim::{Actors, Kind};
use crate::finding::stem;
use crate::report::Work;

/// Maximum numbered names that are listed; of more, only the stem.
const MAX_NUMBERED_NAMES: usize = 3;
/// Maximum names listed; the last place says how many more there are.
const MAX_LISTED_NAMES: usize = 4;
/// Maximum ids listed per side of a sentence.
const MAX_LISTED_TIDS: usize = 4;

/// `a, b and c`, `job… (12 names)`, `cc1[7, 8]`.
impl fmt::Display for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = by_stem(&self.names);
        if names.len() > MAX_LISTED_NAMES {
            let more = names.len() - (MAX_LISTED_NAMES - 1);
            names.truncate(MAX_LISTED_NAMES - 1);
            names.push(format!("{more} more"));
        }
        match names.split_last() {
            Some((last, [])) => f.write_str(last)?,
            Some((last, rest)) => write!(f, "{} and {last}", rest.join(", "))?,
            None => {}
        }
        write_tids(f, &self.tids)
    }
}

/// The names, with many numbered ones as one.
fn by_stem(names: &[String]) -> Vec<String> {
    let mut known: FxHashMap<&str, usize> = FxHashMap::default();
    let mut stems: Vec<Vec<&String>> = Vec::new();
    for name in names {
        let index = *known.entry(stem(name)).or_insert(stems.len());
        if index == stems.len() {
            stems.push(Vec::new());
        }
        stems[index].push(name);
    }
    let listed = |names: Vec<&String>| match names.len() {
        count if count > MAX_NUMBERED_NAMES => vec![format!("{}… ({count} names)", stem(names[0]))],
        _ => names.into_iter().cloned().collect(),
    };
    stems.into_iter().flat_map(listed).collect()
}

/// `kworker/0:2 (iomap_dio_complete_work on dio/nullb0)`, `nfsd (128 threads)`, `cc1`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        // `load[101, …] (131 threads)`
        write_tids(f, &self.tids)?;
        match &self.work {
            Some(work) => write!(f, " ({work})")?,
            None if self.tasks > 1 => write!(f, " ({} threads)", self.tasks)?,
            None => {}
        }
        Ok(())
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.workqueue {
            Some(workqueue) => write!(f, "{} on {workqueue}", self.function),
            None => f.write_str(&self.function),
        }
    }
}

fn write_tids(f: &mut fmt::Formatter<'_>, tids: &[Tid]) -> fmt::Result {
    if tids.is_empty() {
        return Ok(());
    }
    let listed: Vec<String> = tids.iter().take(MAX_LISTED_TIDS).map(Tid::to_string).collect();
    let more = if tids.len() > MAX_LISTED_TIDS { ", …" } else { "" };
    write!(f, "[{}{more}]", listed.join(", "))
}
