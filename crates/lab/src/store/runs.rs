//! Stored results of guests, and their removal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Cache;
use super::cache::{check_way, remove};

/// Disk space for results; the least recently used are removed first.
pub const RUNS_LIMIT: u64 = 256 << 20;

/// Results used within this time are never removed: an experiment may still read them.
const MIN_IDLE_BEFORE_REMOVAL: Duration = Duration::from_secs(3_600);

/// The file that identifies a result; its modification time is the last use.
const OUTCOME_FILE: &str = "outcome.json";

/// One result in the cache.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KeptRun {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name.
    pub kernel: String,
    /// Its files.
    pub directory: PathBuf,
    /// Their size.
    pub bytes: u64,
    /// The time of its last use.
    pub used: SystemTime,
}

/// The removed results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// How many.
    pub runs: usize,
    /// Their size.
    pub bytes: u64,
}

/// All results, most recently used first.
pub fn kept_runs(cache: &Cache) -> io::Result<Vec<KeptRun>> {
    let mut all = Vec::new();
    for scenario in directories(&cache.runs())? {
        for kernel in directories(&scenario)? {
            for directory in directories(&kernel)? {
                all.extend(kept(&scenario, &kernel, directory));
            }
        }
    }
    all.sort_by(|a: &KeptRun, b| b.used.cmp(&a.used).then_with(|| a.directory.cmp(&b.directory)));
    Ok(all)
}

/// Removes the least recently used results until the rest takes at most `keep` bytes.
pub fn clean_runs(cache: &Cache, keep: u64) -> io::Result<Removed> {
    remove_beyond(cache, keep, None)
}

/// Like [`clean_runs`] with [`RUNS_LIMIT`], but keeps results used within the hour.
pub(crate) fn limit_runs(cache: &Cache) -> io::Result<Removed> {
    remove_beyond(cache, RUNS_LIMIT, SystemTime::now().checked_sub(MIN_IDLE_BEFORE_REMOVAL))
}

/// Records that a result was used.
pub(crate) fn touch(directory: &Path) {
    // On failure the result is only removed earlier.
    let _ = fs::File::options()
        .append(true)
        .open(directory.join(OUTCOME_FILE))
        .and_then(|file| file.set_modified(SystemTime::now()));
}

fn remove_beyond(cache: &Cache, keep: u64, spared_since: Option<SystemTime>) -> io::Result<Removed> {
    let (mut kept, mut removed) = (0u64, Removed::default());
    for run in kept_runs(cache)? {
        kept = kept.saturating_add(run.bytes);
        if kept <= keep || spared_since.is_some_and(|since| run.used > since) {
            continue;
        }
        if let Some(above) = run.directory.parent() {
            check_way(above)?;
        }
        remove(&run.directory)?;
        removed.runs += 1;
        removed.bytes += run.bytes;
    }
    Ok(removed)
}

/// Directories that are neither links nor under construction; empty if `of` is missing.
fn directories(of: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(of) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn kept(scenario: &Path, kernel: &Path, directory: PathBuf) -> Option<KeptRun> {
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let used = fs::metadata(directory.join(OUTCOME_FILE)).and_then(|metadata| metadata.modified()).ok()?;
    let sizes = fs::read_dir(&directory).ok()?.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
    Some(KeptRun { scenario: name(scenario)?, kernel: name(kernel)?, bytes: sizes.sum(), directory, used })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of 100 bytes each, used an hour apart, the first longest ago.
    fn cache(runs: u64) -> (tempfile::TempDir, Cache) {
        let scratch = tempfile::tempdir().expect("a directory");
        let cache = Cache::at(scratch.path().to_owned());
        for number in 0..runs {
            let directory = cache.runs().join("spike/6.1").join(format!("{number:016x}"));
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join("trace.dat"), [0; 60]).expect("written");
            fs::write(directory.join(OUTCOME_FILE), [0; 40]).expect("written");
            let used = SystemTime::now() - Duration::from_secs(3_600 * (runs - number) - 60);
            fs::File::options()
                .append(true)
                .open(directory.join(OUTCOME_FILE))
                .expect("open")
                .set_modified(used)
                .expect("set");
        }
        (scratch, cache)
    }

    fn names(cache: &Cache) -> Vec<u64> {
        let name = |run: KeptRun| run.directory.file_name().map(|name| name.to_string_lossy().into_owned());
        let all = kept_runs(cache).expect("listed").into_iter().filter_map(name);
        all.filter_map(|name| u64::from_str_radix(&name, 16).ok()).collect()
    }

    #[test]
    fn the_least_recently_used_results_go_first() {
        let (_scratch, cache) = cache(5);
        assert_eq!(names(&cache), [4, 3, 2, 1, 0]);
        touch(&cache.runs().join("spike/6.1/0000000000000001"));
        assert_eq!(clean_runs(&cache, 250).expect("cleaned"), Removed { runs: 3, bytes: 300 });
        assert_eq!(names(&cache), [1, 4]);
        assert_eq!(clean_runs(&cache, 0).expect("cleaned").runs, 2);
        assert_eq!(names(&cache), Vec::<u64>::new());
    }

    #[test]
    fn what_an_experiment_may_still_read_stays() {
        let (_scratch, cache) = cache(3);
        let since = SystemTime::now().checked_sub(MIN_IDLE_BEFORE_REMOVAL);
        assert_eq!(remove_beyond(&cache, 0, since).expect("cleaned").runs, 2);
        assert_eq!(names(&cache), [2]);
    }

    #[test]
    fn an_absent_cache_is_empty() {
        let cache = Cache::at(PathBuf::from("/nonexistent/unstarve"));
        assert_eq!(
            (kept_runs(&cache).expect("none"), clean_runs(&cache, 0).expect("none")),
            (Vec::new(), Removed::default())
        );
    }
}
