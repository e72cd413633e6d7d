//! Answers that are known, formats, errors, limits.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ALL, FLEET, REAL, copy, file_of_blame, fleet_with_a_day_before, has_duckdb, path, rows, sql, text};

#[test]
fn the_planted_hosts_are_found_and_no_others() {
    if !has_duckdb() {
        return;
    }
    let cases: [(&str, &[&str]); 14] = [
        (
            "select host, occupant, rule from starved_io_workers order by host",
            &["host-0003,real-time,class", "host-0013,real-time,class"],
        ),
        (
            "select host from starved_roles where victim_role = 'kworker' and ns > 30000000000 order by host",
            &["host-0002", "host-0006", "host-0010", "host-0014", "host-0018"],
        ),
        ("select kernel from kernels order by 1", &["6.1.0-planted", "6.12.0-plain", "6.12.9-changed"]),
        (
            "select host, kernel from kernel_changes order by first",
            &["host-0005,6.12.0-plain", "host-0005,6.12.9-changed"],
        ),
        // 5 s in each of 24 intervals.
        (
            "select cgroup, hosts, ns from throttled_groups where cgroup = '/limited.slice'",
            &["/limited.slice,1,120000000000"],
        ),
        ("select host, value, usual from setting_outliers", &["host-0006,-1,950000"]),
        (
            "select finding, culprit_role, rule, episodes, hosts from episode_causes",
            &["rt-starvation,real-time,class,4,2"],
        ),
        ("select host from worst_episodes order by ns desc limit 1", &["host-0013"]),
        ("select distinct host from blame_rollup where occupant = '/batch.slice'", &["host-0001"]),
        (
            "select host from peer_outliers where kernel = '6.12.0-plain' order by host",
            &["host-0001", "host-0003", "host-0007", "host-0013"],
        ),
        ("select * from (select host from worst_hosts limit 2) order by 1", &["host-0003", "host-0013"]),
        ("select hosts from top_victims where victim_role = 'direct-io' and rule = 'class'", &["2"]),
        ("select labels, hosts from by_labels order by hosts", &["policy=v2,1", ",20"]),
        // 4 s in each of 12 intervals.
        (
            "select host, labels, ns / 1e9 > 48, share > 0.013 from label_changes",
            &["host-0007,,true,true", "host-0007,policy=v2,false,false"],
        ),
    ];
    for (question, expected) in cases {
        assert_eq!(rows(question, FLEET), expected, "{question}");
    }
}

/// The first of a view are its first, also if a question wants no more of them.
#[test]
fn views_keep_their_order() {
    if !has_duckdb() {
        return;
    }
    for view in ["top_culprits", "worst_hosts", "starved_roles", "by_hour", "wait_quantiles", "kernels", "rules"] {
        let all = rows(&format!("select * from {view}"), FLEET);
        assert!(all.len() > 1, "{view}: {all:?}");
        assert_eq!(rows(&format!("select * from {view} limit 1"), FLEET), all[..1], "{view}");
    }
}

#[test]
fn what_is_new_and_who_is_silent_is_found() {
    if !has_duckdb() {
        return;
    }
    let place = fleet_with_a_day_before();
    let found = rows("select host, victim_role, occupant, rule from new_since_yesterday", path(place.path()));
    assert_eq!(found, ["host-0001,rcu,/batch.slice,weight"]);
    assert_eq!(rows("select host from silent_hosts", path(place.path())), ["host-gone"]);
}

#[test]
fn a_part_of_the_time_has_a_part_of_the_rows() {
    if !has_duckdb() {
        return;
    }
    let count = |question: &str| rows(question, FLEET)[0].parse::<u64>().expect("a number");
    let all = count("select count(*) from blame_rollup");
    let before = count("select count(*) from blame_rollup where ts < timestamptz '2026-11-22T01:00:00Z'");
    let after = count("select count(*) from blame_rollup where ts >= timestamptz '2026-11-22T01:00:00Z'");
    assert!(before > 0 && after > 0 && before + after == all, "{before} + {after} = {all}");
}

#[test]
fn what_a_real_watch_wrote_adds_up() {
    if !has_duckdb() {
        return;
    }
    let sums = "select w.victim_role, w.ns, b.ns from
        (select victim_role, sum(sum_ns) as ns from wait_rollup group by 1) w join
        (select victim_role, sum(ns) as ns from blame_rollup group by 1) b using (victim_role) where w.ns <> b.ns";
    assert_eq!(rows(sums, REAL), Vec::<String>::new());
    assert!(!rows("select * from wait_quantiles where p50_ns > 0 and p99_ns >= p50_ns", REAL).is_empty());
}

/// Each view by itself: what it is made of is defined, too.
#[test]
fn every_view_and_table_has_an_answer() {
    if !has_duckdb() {
        return;
    }
    let shown = rows("show tables", REAL);
    assert!(shown.len() >= 35 && shown.contains(&"top_culprits".to_owned()), "{shown:?}");
    for name in &shown {
        rows(&format!("select * from {name} limit 3"), REAL);
    }
    for name in ["describe waits", "select count(*) from duckdb_views()"] {
        assert!(!rows(name, REAL).is_empty(), "{name}");
    }
}

#[test]
fn formats_hold_the_same_rows() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place for files");
    let file = |name: &str| place.path().join(name).display().to_string();
    let question = "select host, victim_role, sum(ns) as ns from blame_rollup group by 1, 2 order by 1, 2";
    let expected = rows(question, FLEET);
    for name in ["a.csv", "a.json", "a.parquet"] {
        let output = sql(&["-o", &file(name), question, FLEET]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(rows("select host, victim_role, ns::bigint from a order by 1, 2", &file("a.parquet")), expected);
    let csv = std::fs::read_to_string(file("a.csv")).expect("it was written");
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), expected);
    let json: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(file("a.json")).expect("it was written")).expect("JSON");
    assert_eq!(json.len(), expected.len());
    let commented = file("b.parquet");
    assert!(sql(&["-o", &commented, &format!("{question}; -- a comment\n"), FLEET]).status.success());
    std::fs::remove_file(commented).expect("it was written");
    let table = text(&sql(&[question, FLEET]).stdout);
    assert!(expected.iter().all(|row| table.contains(row.split(',').nth(2).expect("a number"))), "{table}");
    assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 3, "nothing else is left");
}

#[test]
fn errors_say_what_is_wrong_and_what_there_is() {
    if !has_duckdb() {
        return;
    }
    let cases: [(&[&str], &[&str]); 13] = [
        (&["select 1 from waitz", REAL], &["waitz", "wait_rollup", "top_culprits"]),
        (&["select hosst from hosts", REAL], &["hosst", "host"]),
        (&["select * frm hosts", REAL], &["syntax error"]),
        (&["selct 1", REAL], &["syntax error"]),
        (&["select 1 from hosts", "/nowhere/at/all"], &["/nowhere/at/all"]),
        (&["select 1 from hosts", "gs://bucket/x"], &["gs://", "s3://"]),
        (&["select 1 from hosts"], &["expected a PATH"]),
        (&["drop view hosts", REAL], &["only read"]),
        (&["explain create table x as select 1", REAL], &["only read"]),
        (&["select 1; drop view hosts", REAL], &["only read"]),
        (&["copy (select 1) to 'x.parquet'", REAL], &["only read"]),
        (&["set memory_limit = '90GB'", REAL], &["only read"]),
        (&["--memory", "1M", "select 1", REAL], &["16M"]),
    ];
    for (arguments, words) in cases {
        let output = sql(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn time_and_memory_have_limits() {
    if !has_duckdb() {
        return;
    }
    let endless = "select count(*) from range(100000000) a(x), range(100000000) b(y) where a.x % 7 = b.y % 3";
    let output = sql(&["--timeout", "200ms", endless, REAL]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("--timeout"), "{output:?}");
    let output = sql(&["--memory", "16M", "select len(list(x)) from range(50000000) a(x)", REAL]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("--memory"), "{output:?}");
}

/// A file that an older version wrote has not all columns of today, and other types.
#[test]
fn an_old_file_has_nothing_in_a_new_column() {
    if !has_duckdb() {
        return;
    }
    let place = copy(REAL);
    let old = place.path().join("blame_rollup-old.parquet");
    let question = "select host, ts::timestamp_ns as ts, span_ns::ubigint as span_ns, victim_role, occupant, rule, ns::ubigint as ns
        from blame_rollup";
    assert!(sql(&["-o", path(&old), question, REAL]).status.success());
    let output =
        sql(&["--format", "csv", "select count(*), count(kernel), sum(ns) from blame_rollup", REAL, path(&old)]);
    let both: Vec<u64> =
        text(&output.stdout).lines().nth(1).expect("a row").split(',').map(|n| n.parse().expect("a number")).collect();
    let once = rows("select count(*), sum(ns) from blame_rollup", REAL);
    assert_eq!(once, [format!("{},{}", both[1], both[2] / 2)], "{output:?}");
    assert_eq!(both[0], both[1] * 2);
}

#[test]
fn directories_and_globs_may_have_any_name() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let names = ["plain", "a~b", "données", "100% of it", "it's"];
    for name in names {
        let at = place.path().join(name);
        std::fs::create_dir(&at).expect("made");
        std::fs::copy(file_of_blame(Path::new(FLEET)), at.join("blame_rollup-1.parquet")).expect("copied");
    }
    let of =
        |place: PathBuf| rows("select count(*) from blame_rollup", path(&place))[0].parse::<usize>().expect("a number");
    let one = of(place.path().join("plain"));
    assert!(one > 0);
    assert_eq!(of(place.path().to_owned()), one * names.len());
    assert_eq!(of(place.path().join("a~b/blame_rollup-1.parquet")), one);
    assert_eq!(of(place.path().join("*/blame_rollup-*.parquet")), one * names.len());
    let output =
        sql(&["--format", "csv", ALL, path(&place.path().join("plain")), path(&place.path().join("pl*/*.parquet"))]);
    assert_eq!(text(&output.stdout).lines().count(), one + 1, "no file is read twice");
}

/// What is there and no file is written to, and stays what it is.
#[test]
fn output_replaces_no_fifo() {
    use std::os::unix::fs::FileTypeExt;
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place");
    let fifo = place.path().join("rows.csv");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read_to_string(fifo).expect("read")
    });
    let output = sql(&["-o", path(&fifo), "select 1 as one", FLEET]);
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
    assert_eq!(reader.join().expect("ended"), "one\n1\n");
}

/// Who has no engine reads how to have one.
#[test]
fn without_the_engine_the_way_to_it_is_shown() {
    let place = tempfile::tempdir().expect("a place for files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    let output = command.args(["sql", "select 1", REAL]).env("PATH", place.path()).output().expect("it can be started");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("duckdb is not installed") && said.contains("pip install duckdb-cli"), "{said}");
}
