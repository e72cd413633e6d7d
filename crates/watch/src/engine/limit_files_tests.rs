//! Tests of finding groups with a quota and reading their counters.

use unstarve_model::Nanos;

use super::*;

fn write(place: &Path, path: &str, files: &[(&str, &str)]) {
    let directory = place.join(path);
    fs::create_dir_all(&directory).expect("made");
    files.iter().for_each(|(name, text)| fs::write(directory.join(name), text).expect("written"));
}

fn files(place: &Path, unified: bool) -> LimitFiles {
    LimitFiles::new(&Hierarchy::at(place, unified))
}

#[test]
fn limits_are_found_however_deep_and_their_counters_read_where_somebody_waits() {
    let place = tempfile::tempdir().expect("a directory");
    let place = place.path();
    let stat = "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 70\n";
    write(place, "kubepods/pod1", &[("cpu.max", "10000 100000\n"), ("cpu.stat", stat)]);
    write(place, "kubepods/pod2", &[("cpu.max", "max 100000\n"), ("cpu.stat", stat)]);
    write(place, "idle", &[("cpu.max", "10000 100000\n"), ("cpu.stat", stat)]);
    let mut files = files(place, true);
    let role_of = |path: &str| RoleId(if path.starts_with("/kubepods") { 12 } else { 13 });
    let seen = files.look(role_of, |role| role == RoleId(12));
    let ns = |seen: &[LimitedGroup]| {
        seen.iter().map(|group| (group.path.to_string(), group.counted.ns.0)).collect::<Vec<_>>()
    };
    assert_eq!(ns(&seen), [("/idle".to_owned(), 70_000), ("/kubepods/pod1".to_owned(), 70_000)]);
    assert_eq!((seen[1].role, seen[1].limit.quota_us), (RoleId(12), 10_000));
    let stat = "usage_usec 9\nnr_periods 11\nnr_throttled 5\nthrottled_usec 90\n";
    for path in ["idle", "kubepods/pod1"] {
        fs::write(place.join(path).join("cpu.stat"), stat).expect("written");
    }
    let seen = files.look(role_of, |role| role == RoleId(12));
    assert_eq!(ns(&seen), [("/idle".to_owned(), 70_000), ("/kubepods/pod1".to_owned(), 90_000)]);
    // A group that was removed, or has no quota any more, is dropped by the next walk.
    fs::write(place.join("idle/cpu.max"), "max 100000\n").expect("written");
    files.begun = Instant::now().checked_sub(EVERY);
    assert_eq!(ns(&files.look(role_of, |_| true)), [("/kubepods/pod1".to_owned(), 90_000)]);
}

#[test]
fn the_first_version_has_other_files() {
    let place = tempfile::tempdir().expect("a directory");
    let stat = "nr_periods 9\nnr_throttled 3\nthrottled_time 12345\n";
    let limit = |quota| [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "1000000\n"), ("cpu.stat", stat)];
    write(place.path(), "limited", &limit("3000\n"));
    write(place.path(), "free", &limit("-1\n"));
    let seen = files(place.path(), false).look(|_| RoleId(12), |_| true);
    assert_eq!(seen.len(), 1);
    assert_eq!((&*seen[0].path, seen[0].counted.ns, seen[0].counted.count), ("/limited", Nanos(12_345), 3));
}

#[test]
fn a_reading_reads_so_many_and_the_next_one_goes_on() {
    let place = tempfile::tempdir().expect("a directory");
    let group = |number: usize, count: u64| {
        let stat = format!("nr_periods {count}\nnr_throttled {count}\nthrottled_usec {count}\n");
        write(place.path(), &format!("g{number:03}"), &[("cpu.max", "1000 100000\n"), ("cpu.stat", &stat)]);
    };
    (0..100).for_each(|number| group(number, 1));
    let mut files = files(place.path(), true);
    assert_eq!(files.look(|_| RoleId(12), |_| true).len(), 100);
    (0..100).for_each(|number| group(number, 2));
    let read = |files: &mut LimitFiles| {
        let groups = files.look(|_| RoleId(12), |_| true);
        groups.iter().filter(|group| group.counted.count == 2).count()
    };
    assert_eq!([read(&mut files), read(&mut files), read(&mut files)], [32, 64, 96]);
}

/// Repeats readings until a walk is complete; returns the groups of the last one.
fn all(files: &mut LimitFiles) -> Vec<String> {
    let first = files.walk;
    for _ in 0..100_000 {
        let seen = files.look(|_| RoleId(12), |_| false);
        if files.walk > first && files.pending.is_empty() {
            return seen.iter().map(|group| group.path.to_string()).collect();
        }
        files.begun = files.begun.and_then(|begun| begun.checked_sub(EVERY));
    }
    panic!("the walk does not end");
}

const LIMIT: [(&str, &str); 2] =
    [("cpu.max", "1000 100000\n"), ("cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_usec 1\n")];

#[test]
fn who_makes_groups_without_end_keeps_no_others_from_being_looked_at() {
    let place = tempfile::tempdir().expect("a directory");
    let mine = "user.slice/user-1000.slice/user@1000.service";
    // Many siblings, and deep nesting.
    (0..MOST_BELOW + 500)
        .for_each(|number| fs::create_dir_all(place.path().join(mine).join(number.to_string())).expect("made"));
    let deep: PathBuf = std::iter::repeat_n("d", 4 * DEEPEST).collect();
    fs::create_dir_all(place.path().join(mine).join("0").join(&deep)).expect("made");
    write(place.path(), "kubepods/besteffort/pod1/container", &LIMIT);
    write(place.path(), &format!("{mine}/0/{}", deep.display()), &LIMIT);
    let mut files = files(place.path(), true);
    let mut most = 0;
    let mut found_after = None;
    for reading in 0..10_000 {
        let seen = files.look(|_| RoleId(12), |_| false);
        most = most.max(files.pending.len());
        if found_after.is_none() && !seen.is_empty() {
            found_after = Some(reading);
        }
        if files.pending.is_empty() {
            assert_eq!(seen.len(), 1, "what is too deep is not looked at");
            break;
        }
    }
    assert!(most <= MOST_BELOW + 16, "{most}");
    assert_eq!(found_after, Some(0), "what is nearer to the root comes first");
}

#[test]
fn who_limits_groups_without_end_fills_the_list_with_its_own_alone() {
    let place = tempfile::tempdir().expect("a directory");
    (0..MAX_LIMITED_GROUPS + 100).for_each(|number| write(place.path(), &format!("a/{number:04}"), &LIMIT));
    let mut files = files(place.path(), true);
    assert_eq!(all(&mut files).len(), MAX_LIMITED_GROUPS);
    (0..20).for_each(|number| write(place.path(), &format!("kubepods/burstable/pod{number}"), &LIMIT));
    let seen = all(&mut files);
    assert_eq!(seen.len(), MAX_LIMITED_GROUPS);
    assert_eq!(seen.iter().filter(|path| path.starts_with("/kubepods")).count(), 20);
}

#[test]
fn a_counter_says_when_it_was_read() {
    let place = tempfile::tempdir().expect("a directory");
    (0..40).for_each(|number| write(place.path(), &format!("g{number:02}"), &LIMIT));
    let mut files = files(place.path(), true);
    let now = |groups: &[LimitedGroup]| {
        let latest = groups.iter().map(|group| group.read).max().expect("some");
        groups.iter().filter(|group| group.read == latest).count()
    };
    assert_eq!(now(&files.look(|_| RoleId(12), |_| false)), 40, "nobody waits, so nothing has changed since");
    assert_eq!(now(&files.look(|_| RoleId(12), |_| true)), MOST_COUNTERS);
    // A group that stopped waiting may have been throttled until now: its counters are read once more, then not again.
    assert_eq!(now(&files.look(|_| RoleId(12), |_| false)), MOST_COUNTERS);
    assert_eq!(now(&files.look(|_| RoleId(12), |_| false)), 40);
}
