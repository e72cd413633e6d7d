//! A cluster answers as one machine does.

#[path = "../../sql/tests/days/mod.rs"]
mod days;
mod parts;

use parts::{Cluster, FLEET, REAL, STORE, refused, rows_here, write_here};
use unstarve_sql::views::VIEWS;

#[test]
fn every_view_has_the_same_rows() {
    let days = days::fleet_with_a_day_before(|question, file| write_here(question, FLEET, file));
    let days = days.path().to_str().expect("UTF-8");
    let cluster = Cluster::start(2, &[REAL, days], &[]);
    for place in [REAL, days] {
        for view in &VIEWS {
            let question = format!("select * from {}", view.name);
            let expected = rows_here(&question, place);
            assert_eq!(cluster.rows(&question, place), expected, "{} of {place}", view.name);
            assert!(place == REAL || expected.len() > 1, "{}: nothing was compared", view.name);
        }
    }
}

/// Functions, filters, and rows of which one machine or the other leaves files out.
#[test]
fn questions_of_ones_own_have_the_same_rows() {
    let cluster = Cluster::start(2, &[FLEET, STORE], &[]);
    for question in [
        "select hist_quantile(hist_sum(buckets), 0.9) as q from wait_rollup",
        "select role(victim_role) as role, count(*) as n, share(sum(sum_ns), sum(span_ns)) as share from wait_rollup group by 1",
        "select victim_role, hist_quantile(buckets, 0.5) as half from wait_rollup where hist_quantile(buckets, 0.5) > 1e5",
        "select host, sum(ns) as ns from blame_rollup where ts >= timestamp '2026-11-22T01:00:00Z' group by host",
        "select occupant, ns from blame_rollup where date_trunc('minute', ts) = (select min(date_trunc('minute', ts)) from blame_rollup)",
        "select ns from blame_rollup where rule = 'class' and victim_kind like 'direct%' and ns > 1000",
        "select host, ts, ns, row_number() over (partition by host order by ns desc, ts, occupant, rule, victim_role) as place from blame_rollup",
        "select distinct a.host from blame_rollup a join wait_rollup b on a.host = b.host and a.ts = b.ts where role(a.victim_role) <> 'x'",
        "select count(*) as n from waits",
        "select * from blame_rollup where host not in (select host from episodes where host is not null)",
        "select 1 + 1 as two",
        "select table_name, rows from manifest",
        "select * from blame_rollup",
    ] {
        for place in [FLEET, STORE] {
            if question.contains("manifest") && place == FLEET {
                continue;
            }
            let expected = rows_here(question, place);
            assert_eq!(cluster.rows(question, place), expected, "{question} of {place}");
            assert!(!expected.is_empty());
        }
    }
    // An order is kept, and so is a limit.
    let question = "select host, ts, ns from blame_rollup order by ns desc, host, ts limit 7";
    let output = cluster.ask(&["--format", "csv", question, FLEET]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let amounts: Vec<u64> = text.lines().skip(1).filter_map(|row| row.rsplit(',').next()?.parse().ok()).collect();
    assert!(amounts.len() == 7 && amounts.is_sorted_by(|one, next| one >= next), "{text}");
    // What is asked of this session is answered by it.
    let output = cluster.ask(&["--format", "csv", "show tables", FLEET]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("top_culprits"), "{output:?}");
    for explain in ["explain select * from rules", "explain analyze select * from rules"] {
        let output = cluster.ask(&["--format", "csv", explain, FLEET]);
        assert!(output.status.success() && output.stdout.len() > 100, "{explain}: {output:?}");
    }
}

#[test]
fn what_cannot_be_answered_says_why() {
    let cluster = Cluster::start(1, &[FLEET], &[]);
    refused(&cluster.ask(&["select * from nothing", FLEET]), &["nothing", "blame_rollup"]);
    refused(&cluster.ask(&["select ns / 0 from blame_rollup", FLEET]), &["Divide"]);
    refused(&cluster.ask(&["create table x as select 1", FLEET]), &["DDL"]);
    refused(&cluster.ask(&["copy (select 1) to '/tmp/x.csv'", FLEET]), &["DML"]);
    // A file that was there when the files were found, and is not a table's.
    let place = tempfile::tempdir().expect("a place for files");
    let directory = place.path().join("table=blame_rollup");
    std::fs::create_dir(&directory).expect("it can be made");
    std::fs::write(directory.join("damaged.parquet"), "PAR1 but not really PAR1").expect("it can be written");
    let mut cluster = cluster;
    let path = place.path().to_str().expect("UTF-8");
    cluster.executors.clear();
    cluster.add(&[path], &[]);
    refused(&cluster.ask(&["select * from blame_rollup", path]), &["damaged"]);
    // A page is made of several answers, on one machine.
    let page = place.path().join("page.html");
    let asked = cluster.ask(&["--page", page.to_str().expect("UTF-8"), FLEET]);
    refused(&asked, &["--page is made on one machine", "leave out --cluster"]);
    assert!(!page.exists());
    // Nobody is there.
    let nobody = ["sql", "--cluster", "df://127.0.0.1:1", "select 1 from rules", FLEET];
    refused(&parts::program().args(nobody).output().expect("it can be started"), &["127.0.0.1:1", "cannot be reached"]);
}

/// Who reaches the scheduler reads nothing but the places that an executor was started with.
#[test]
fn what_is_outside_of_the_places_is_not_read() {
    let cluster = Cluster::start(1, &[REAL], &[]);
    assert!(!cluster.rows("select ns from blame_rollup", REAL).is_empty());
    refused(&cluster.ask(&["select ns from blame_rollup", FLEET]), &["--place", "table=blame_rollup"]);
    refused(&cluster.ask(&["select ns from blame_rollup", FLEET, REAL]), &["--place"]);
}

#[test]
fn a_query_without_an_executor_is_an_error() {
    let cluster = Cluster::start(0, &[], &[]);
    refused(&cluster.ask(&["select * from rules", FLEET]), &["no executor"]);
}
