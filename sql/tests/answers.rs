//! The program as a user meets it: tables of a small fleet with known faults, whose answers are known.
//!
//! `tests/fleet` is of `cargo run -p unstarve-tables --example fleet`, made by the main workspace's versions of arrow and parquet from the
//! rollups of a real host in `tests/real`.

mod days;

use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet");
/// Of `unstarve snapshot --tables`.
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshot");
const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real");

fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1").output().expect("it can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The rows of a question as CSV, without the names.
fn rows(question: &str, place: &str) -> Vec<String> {
    let output = sql(&["--format", "csv", question, place]);
    assert!(output.status.success(), "{question}: {output:?}");
    text(&output.stdout).lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn the_planted_hosts_are_found_and_no_others() {
    let found = rows("select host, occupant, rule from starved_io_workers order by host", FLEET);
    assert_eq!(found, ["host-0003,real-time,class", "host-0013,real-time,class"]);
    let found =
        rows("select host from starved_roles where victim_role = 'kworker' and ns > 30000000000 order by host", FLEET);
    assert_eq!(found, ["host-0002", "host-0006", "host-0010", "host-0014", "host-0018"]);
    let all = ["6.1.0-planted", "6.12.0-plain", "6.12.9-changed"];
    assert_eq!(rows("select kernel from kernels order by 1", FLEET), all);
    let found = rows("select host, kernel from kernel_changes order by first", FLEET);
    assert_eq!(found, ["host-0005,6.12.0-plain", "host-0005,6.12.9-changed"], "before and after");
    let found = rows("select cgroup, hosts, ns from throttled_groups where cgroup = '/limited.slice'", FLEET);
    assert_eq!(found, ["/limited.slice,1,120000000000"], "5 s in each of 24 intervals");
    let found = rows("select host, value, usual from setting_outliers", FLEET);
    assert_eq!(found, ["host-0006,-1,950000"]);
    let found = rows("select finding, culprit_role, rule, episodes, hosts from episode_causes", FLEET);
    assert_eq!(found, ["rt-starvation,real-time,class,4,2"]);
    assert_eq!(rows("select host from worst_episodes order by ns desc limit 1", FLEET), ["host-0013"]);
    let found = rows("select distinct host from blame_rollup where occupant = '/batch.slice'", FLEET);
    assert_eq!(found, ["host-0001"]);
    let found = rows("select host from peer_outliers where kernel = '6.12.0-plain' order by host", FLEET);
    assert_eq!(found, ["host-0001", "host-0003", "host-0007", "host-0013"]);
    let found = rows("select host from worst_hosts order by share desc limit 2", FLEET);
    assert_eq!(found.iter().collect::<std::collections::BTreeSet<_>>().len(), 2);
    assert!(found.iter().all(|host| ["host-0003", "host-0013"].contains(&host.as_str())), "{found:?}");
    assert_eq!(rows("select hosts from top_victims where victim_role = 'direct-io' and rule = 'class'", FLEET), ["2"]);
    assert_eq!(rows("select labels, hosts from by_labels order by hosts", FLEET), ["policy=v2,1", ",20"]);
    let found = rows("select host, labels, ns / 1e9 > 48, share > 0.013 from label_changes", FLEET);
    assert_eq!(found, ["host-0007,,true,true", "host-0007,policy=v2,false,false"], "4 s in each of 12 intervals");
}

/// The first of a view are its first, also if a question wants no more of them.
#[test]
fn views_keep_their_order() {
    let ordered = [
        "top_culprits",
        "worst_hosts",
        "starved_roles",
        "by_hour",
        "wait_quantiles",
        "kernels",
        "longest_waits",
        "rules",
    ];
    for view in ordered {
        let all = rows(&format!("select * from {view}"), FLEET);
        assert!(all.len() > 1, "{view}: {all:?}");
        assert_eq!(rows(&format!("select * from {view} limit 1"), FLEET), all[..1], "{view}");
    }
    assert!(rows("select * from top_culprits limit 1", FLEET)[0].starts_with("real-time,class,"));
    let worst = rows("select * from worst_hosts limit 2", FLEET);
    assert!(worst.iter().all(|row| row.starts_with("host-0003,") || row.starts_with("host-0013,")), "{worst:?}");
}

/// 10,000 hosts are watched for 2^64 ns in three weeks.
#[test]
fn sums_do_not_begin_again_at_0() {
    let much = "(select 18446744073709551615 as ns union all select 18446744073709551615 union all select null)";
    assert_eq!(rows(&format!("select sum(ns) from {much}"), FLEET), ["36893488147419103230"]);
    assert_eq!(
        rows(&format!("select sum(ns) as ns from {much} group by ns is null order by 1 nulls last"), FLEET).len(),
        2
    );
    assert_eq!(rows(&format!("select share(sum(ns), 73786976294838206460) from {much}"), FLEET), ["0.5"]);
    assert_eq!(rows(&format!("select sum(distinct ns) from {much}"), FLEET), ["18446744073709551615"]);
    assert_eq!(rows("select sum(x) over (order by x) from (values (1), (2)) as t(x)", FLEET), ["1", "3"]);
    assert_eq!(rows("select sum(x) from (values (1.5), (2)) as t(x)", FLEET), ["3.5"]);
    let said = sql(&["select sum(host) from blame_rollup", FLEET]);
    assert!(!said.status.success() && text(&said.stderr).contains("expected numbers"), "{said:?}");
    let json = sql(&["--format", "json", &format!("select sum(ns) as ns from {much}"), FLEET]);
    assert!(text(&json.stdout).contains("36893488147419103230"), "{json:?}");
}

#[test]
fn directories_may_have_any_name() {
    let place = tempfile::tempdir().expect("a place");
    let names = ["plain", "a~b", "données", "100% of it"];
    for name in names {
        let at = place.path().join(name);
        std::fs::create_dir(&at).expect("made");
        std::fs::copy(file_of_blame(), at.join("blame_rollup-1.parquet")).expect("copied");
    }
    let of = |place: &Path| rows("select count(*) from blame_rollup", place.to_str().expect("UTF-8"))[0].parse::<u64>();
    let one = of(&place.path().join("plain")).expect("a number");
    assert!(one > 0);
    assert_eq!(of(place.path()), Ok(one * names.len() as u64));
    assert_eq!(of(&place.path().join("a~b/blame_rollup-1.parquet")), Ok(one));
}

/// Some file of rollups.
fn file_of_blame() -> std::path::PathBuf {
    let mut open = vec![std::path::PathBuf::from(FLEET)];
    while let Some(at) = open.pop() {
        if at.is_dir() {
            open.extend(std::fs::read_dir(&at).expect("read").map(|entry| entry.expect("read").path()));
        } else if at.extension().is_some_and(|end| end == "parquet") && at.to_string_lossy().contains("blame_rollup") {
            return at;
        }
    }
    panic!("no file of blame_rollup");
}

/// What is there and no file is written to, and stays what it is.
#[test]
fn output_replaces_no_fifo() {
    use std::os::unix::fs::FileTypeExt;
    let place = tempfile::tempdir().expect("a place");
    let fifo = place.path().join("rows.csv");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read_to_string(fifo).expect("read")
    });
    let output = sql(&["-o", fifo.to_str().expect("UTF-8"), "select 1 as one", FLEET]);
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::symlink_metadata(&fifo).expect("there").file_type().is_fifo());
    assert_eq!(reader.join().expect("ended"), "one\n1\n");
}

#[test]
fn what_is_new_and_who_is_silent_is_found() {
    let place = days::fleet_with_a_day_before(write);
    let place = place.path().to_str().expect("UTF-8");
    let found = rows("select host, victim_role, occupant, rule from new_since_yesterday", place);
    assert_eq!(found, ["host-0001,rcu,/batch.slice,weight"]);
    assert_eq!(rows("select host from silent_hosts", place), ["host-gone"]);
}

/// The kernel on which groups outweigh kworkers has the most of that; real-time tasks are on hosts with any kernel.
#[test]
fn the_planted_kernel_is_the_worst_where_nothing_else_was_planted() {
    let found = rows(
        "select kernel, sum(ns) as ns from blame_rollup where victim_kind = 'kworker' and rule = 'weight' group by 1 order by 2 desc limit 1",
        FLEET,
    );
    assert!(found[0].starts_with("6.1.0-planted,"), "{found:?}");
}

#[test]
fn a_part_of_the_time_has_a_part_of_the_rows() {
    let count = |question: &str| rows(question, FLEET)[0].parse::<u64>().expect("a number");
    let all = count("select count(*) from blame_rollup");
    let before = count("select count(*) from blame_rollup where ts < timestamp '2026-11-22T01:00:00Z'");
    let after = count("select count(*) from blame_rollup where ts >= timestamp '2026-11-22T01:00:00Z'");
    assert!(before > 0 && after > 0 && before + after == all, "{before} + {after} = {all}");
    let none = count("select count(*) from blame_rollup where ts > timestamp '2027-01-01T00:00:00Z'");
    assert_eq!(none, 0);
}

#[test]
fn what_a_real_watch_wrote_adds_up() {
    let sums = "select w.victim_role, w.ns, b.ns from
        (select victim_role, sum(sum_ns) as ns from wait_rollup group by 1) w join
        (select victim_role, sum(ns) as ns from blame_rollup group by 1) b using (victim_role) where w.ns <> b.ns";
    assert_eq!(rows(sums, REAL), Vec::<String>::new());
    assert!(!rows("select * from wait_quantiles where p50_ns > 0 and p99_ns >= p50_ns", REAL).is_empty());
}

#[test]
fn every_view_has_an_answer_of_no_rows_too() {
    let views = rows(
        "select table_name from information_schema.tables where table_type = 'VIEW' and table_schema = 'public'",
        REAL,
    );
    assert!(views.len() >= 10, "{views:?}");
    for view in views {
        for place in [REAL, FLEET] {
            rows(&format!("select * from {view}"), place);
        }
    }
}

#[test]
fn formats_hold_the_same_rows() {
    let place = tempfile::tempdir().expect("a place for files");
    let file = |name: &str| place.path().join(name).display().to_string();
    let question = "select host, victim_role, sum(ns) as ns from blame_rollup group by 1, 2 order by 1, 2";
    let expected = rows(question, FLEET);
    for name in ["a.csv", "a.json", "a.parquet"] {
        let output = sql(&["-o", &file(name), question, FLEET]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(rows("select * from a order by 1, 2", &file("a.parquet")), expected);
    let csv = std::fs::read_to_string(file("a.csv")).expect("it was written");
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), expected);
    let json = std::fs::read_to_string(file("a.json")).expect("it was written");
    assert_eq!(json.matches("\"host\":").count(), expected.len());
    let output = sql(&[question, FLEET]);
    assert!(text(&output.stdout).contains(&format!("{} rows", expected.len())), "{output:?}");
    let names: Vec<_> = std::fs::read_dir(place.path()).expect("it is there").collect();
    assert_eq!(names.len(), 3, "nothing else is left");
}

#[test]
fn errors_say_what_is_wrong_and_what_there_is() {
    let cases: [(&[&str], &[&str]); 8] = [
        (&["select 1 from waitz", REAL], &["waitz", "wait_rollup", "top_culprits"]),
        (&["select hosst from hosts", REAL], &["hosst", "host"]),
        (&["select * frm hosts", REAL], &["SQL"]),
        (&["select 1 from hosts", "/nowhere/at/all"], &["/nowhere/at/all"]),
        (&["select 1 from hosts", "gs://bucket/x"], &["gs://", "s3://"]),
        (&["select 1 from hosts"], &["expected a PATH"]),
        (&["drop table hosts", REAL], &["DDL"]),
        (&["explain create table x as select 1", REAL], &["DDL"]),
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
fn nothing_is_changed_by_a_statement() {
    let place = tempfile::tempdir().expect("a place for files");
    let out = place.path().join("out.parquet").display().to_string();
    for statement in
        ["copy (select 1) to 'x.parquet'".to_owned(), format!("explain analyze copy (select 1) to '{out}'")]
    {
        let output = sql(&[&statement, REAL]);
        assert_eq!(output.status.code(), Some(2), "{statement}: {output:?}");
    }
    assert!(!Path::new(&out).exists());
}

#[test]
fn time_and_memory_have_limits() {
    let endless = "select count(*) from generate_series(1, 100000000) a(x), generate_series(1, 100000) b(y) where a.x % 7 = b.y % 3";
    let output = sql(&["--timeout", "200ms", endless, REAL]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("--timeout"), "{output:?}");
    let large = "select array_length(array_agg(x)) from generate_series(1, 5000000) a(x)";
    let output = sql(&["--memory", "16M", large, REAL]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("--memory"), "{output:?}");
}

/// What `unstarve lab proofs --parquet` and `unstarve snapshot --tables` of the other workspace write.
#[test]
fn proofs_and_settings_are_read() {
    let question =
        "select remedy, finding, victim, scenario, kernel, answer, round(effect * 1e4)::bigint, costs from proofs";
    let proof = "raise-bystander,wake-storm,task,nfsd,6.1,helped,-9968,pool.done";
    assert_eq!(rows(question, days::PROOFS), [proof], "as testdata/proofs has it");
    let place = days::fleet_with_a_day_before(write);
    let place = place.path().to_str().expect("UTF-8");
    let question = "select finding, victim, series, episodes, hosts, remedy, answer from proved_for_episodes";
    assert_eq!(
        rows(question, place),
        ["wake-storm,task,6.1,2,1,raise-bystander,helped"],
        "neither of rt-starvation nor of workers was anything proved there"
    );
    assert_eq!(rows("select count(*) from proved_for_episodes", FLEET), ["0"]);
    // A host's settings, of a real one.
    let found =
        rows("select count(distinct path) > 10, count(distinct host), count(value) = count(*) from settings", SNAPSHOT);
    assert_eq!(found, ["true,1,true"]);
    let digest = rows("select count(*) from hosts where settings_digest is not null and ts is not null", SNAPSHOT);
    assert_eq!(digest, ["1"]);
}

/// A file that an older version wrote has not all columns of today.
#[test]
fn an_old_file_has_nothing_in_a_new_column() {
    let place = tempfile::tempdir().expect("a place for files");
    let old = place.path().join("blame_rollup-old.parquet").display().to_string();
    let question = "select host, ts, span_ns, victim_role, occupant, rule, ns from blame_rollup";
    assert!(sql(&["-o", &old, question, REAL]).status.success());
    let both = sql(&["--format", "csv", "select count(*), count(kernel) from blame_rollup", REAL, &old]);
    let counts = text(&both.stdout);
    let counts: Vec<u64> =
        counts.lines().nth(1).expect("a row").split(',').map(|n| n.parse().expect("a number")).collect();
    assert_eq!(counts[0], counts[1] * 2, "{both:?}");
}

/// The answer to a question about the small fleet, as a file.
fn write(question: &str, file: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    let output = command.arg("-o").arg(file).args([question, FLEET]).output().expect("it can be started");
    assert!(output.status.success(), "{output:?}");
}
