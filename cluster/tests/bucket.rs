//! A cluster with two executors answers from a bucket, by a real server of the S3 API, what one machine answers from the same files, and what DuckDB does.

#[path = "../../sql/tests/bucket/mod.rs"]
mod bucket;
#[path = "../../sql/tests/days/mod.rs"]
mod days;
#[path = "../../sql/tests/duck/mod.rs"]
mod duck;
mod parts;

use std::collections::BTreeMap;

use bucket::Server;
use parts::{Cluster, FLEET, refused, rows_here, write_here};
use unstarve_sql::views::VIEWS;

const PLACE: &str = "s3://fleet/tables";

/// Each view's question, with its definition, as `sql/tests/oracle.rs` asks them.
fn questions() -> Vec<[String; 3]> {
    let questions: BTreeMap<String, String> =
        serde_json::from_str(include_str!("../../sql/tests/questions.json")).expect("texts by views");
    let of =
        |view: &unstarve_sql::views::View| [view.name.to_owned(), view.query.to_owned(), questions[view.name].clone()];
    VIEWS.iter().map(of).collect()
}

#[test]
fn two_executors_read_a_bucket_as_one_machine_reads_files() {
    let days = days::fleet_with_a_day_before(|question, file| write_here(question, FLEET, file));
    let here = days.path().to_str().expect("UTF-8");
    let Some(server) = Server::start(here) else { return };
    let options = ["--endpoint", &server.endpoint, "--allow-http"];
    let cluster = Cluster::of_bucket(2, PLACE, &options, server.environment());
    for view in &VIEWS {
        let question = format!("select * from {}", view.name);
        let expected = rows_here(&question, here);
        assert!(expected.len() > 1, "{}: nothing was compared", view.name);
        assert_eq!(cluster.rows(&question, PLACE), expected, "{}", view.name);
    }
    let questions = questions();
    if let Some(expected) = duck::answers(here, &questions) {
        for ([view, _, question], expected) in questions.iter().zip(expected) {
            let output = cluster.ask(&["--format", "csv", question, PLACE]);
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            assert_eq!(text.split_once('\n').map_or("", |(_, rows)| rows), expected, "{view} by DuckDB");
        }
    }
    // Both have read: neither one answered alone for lack of a key.
    for executor in &cluster.executors {
        let said = executor.errors();
        assert!(!said.to_lowercase().contains("denied") && !said.contains("403"), "{said}");
    }
}

#[test]
fn what_a_bucket_refuses_is_said() {
    let Some(server) = Server::start(bucket::STORE) else { return };
    let options = ["--endpoint", &server.endpoint, "--allow-http"];
    // Who asks may list it, and executors may not read it.
    let wrong = bucket::environment(&["wrong".to_owned(), "wrong".to_owned()]);
    let mut cluster = Cluster::of_bucket(1, PLACE, &options, wrong);
    cluster.environment = server.environment();
    refused(&cluster.ask(&["select count(*) as n from blame_rollup where ns > 5", PLACE]), &["InvalidAccessKeyId"]);
    // What is outside of the place of an executor is not read, in a bucket as in a directory.
    let cluster = Cluster::of_bucket(1, "s3://fleet/tables/table=hosts", &options, server.environment());
    refused(&cluster.ask(&["select count(*) as n from blame_rollup where ns > 5", PLACE]), &["--place"]);
    // Connections that are cut again and again.
    let cut = ["--endpoint", &server.cut, "--allow-http"];
    refused(
        &Cluster::of_bucket(1, PLACE, &cut, server.environment()).ask(&["select * from blame_rollup", PLACE]),
        &["s3://fleet"],
    );
}
