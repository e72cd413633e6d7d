//! Which of hosts' files are asked: those that `fleet compact` would merge. What was found is kept for later questions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use unstarve_files::Directory;
use unstarve_fleet::{CountingFile, Verdicts, WhyLeftOut, examine_unmerged};
use unstarve_model::{WallTime, clean, counted};

/// How long a question examines files that it has not seen.
const MAX_EXAMINING: Duration = Duration::from_secs(60);
/// Verdicts of one place.
const MAX_VERDICTS_BYTES: u64 = 128 << 20;
/// Places whose verdicts are kept.
const MAX_PLACES: usize = 32;

/// The files of hosts of a place that are not to be asked, by their place among `files`. One line says how many, and the first.
///
/// # Errors
/// If the place cannot be read.
pub fn left_out(place: &Path, files: &[CountingFile]) -> Result<Vec<usize>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let kept = Kept::of(place);
    let mut verdicts = kept.as_ref().map(Kept::read).unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let now = WallTime(u64::try_from(now).unwrap_or(u64::MAX));
    let store = crate::fleet::open(place)?;
    let left = examine_unmerged(&store, files, &mut verdicts, (now, Instant::now() + MAX_EXAMINING))?;
    if let (Some(kept), Some(text)) = (kept, verdicts.encode()) {
        kept.write(&text);
    }
    // By what is said: how many, and the first with its reason.
    let mut said: BTreeMap<&str, (u64, String)> = BTreeMap::new();
    for left in &left {
        let (what, why) = match &left.why {
            WhyLeftOut::Refused(why) => ("left out, as `unstarve fleet compact` would", why),
            WhyLeftOut::NotExamined(why) => ("left out, not examined yet", why),
        };
        let first = || (0, format!("{}: {}", clean(&files[left.at].path.to_string_lossy()), clean(why)));
        said.entry(what).or_insert_with(first).0 += 1;
    }
    for (what, (count, first)) in said {
        note!("{} of hosts {what}: {first}{}", counted(count, "file"), if count > 1 { "; …" } else { "" });
    }
    Ok(left.into_iter().map(|left| left.at).collect())
}

/// Where the verdicts about a place are: in the user's cache, if nobody else can write there.
struct Kept {
    directory: Directory,
    name: OsString,
}

impl Kept {
    fn of(place: &Path) -> Option<Kept> {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        let directory = Directory::make(&base.join("unstarve/examined")).ok()?;
        Some(Kept { directory, name: OsString::from(Verdicts::name(place)) })
    }

    fn read(&self) -> Verdicts {
        let text = self.directory.read(&self.name, MAX_VERDICTS_BYTES);
        text.ok().flatten().map(|text| Verdicts::decode(&text)).unwrap_or_default()
    }

    /// Without them the next question takes longer, and that is all.
    fn write(self, text: &[u8]) {
        if self.directory.replace(&self.name, text, 0o600).is_ok() {
            self.forget_others();
        }
    }

    /// Removes those of places that were not asked for the longest time.
    fn forget_others(&self) {
        let Ok(entries) = std::fs::read_dir(self.directory.path()) else { return };
        let age = |entry: std::fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.file_name()));
        let mut all: Vec<(SystemTime, OsString)> = entries.flatten().filter_map(age).collect();
        all.sort();
        for (_, name) in all.iter().rev().skip(MAX_PLACES) {
            let _ = self.directory.remove(name);
        }
    }
}
