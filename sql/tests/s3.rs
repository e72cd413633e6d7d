//! The same questions by a real server of the S3 API (moto, from PyPI): the same rows, and errors that say what is wrong.

mod bucket;

use std::process::{Command, Output, Stdio};

use bucket::{STORE, Server};

const QUESTION: &str = "select * from blame_rollup order by ts, victim_role, occupant, rule, ns";

fn ask(server: &Server, place: &str, options: &[&str]) -> Output {
    ask_as(&server.key, place, options)
}

fn ask_as(key: &[String; 2], place: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(bucket::environment(key));
    command.args(["--format", "csv"]).args(options).args([QUESTION, place]).stdin(Stdio::null());
    command.output().expect("it can be started")
}

fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let has = |word: &&str| said.to_lowercase().contains(&word.to_lowercase());
    assert!(output.status.code() == Some(2) && words.iter().all(has), "{words:?}: {output:?}");
    assert!(output.stdout.is_empty(), "no rows beside an error: {output:?}");
}

#[test]
fn a_store_in_a_bucket_has_the_rows_that_it_has_in_files() {
    let Some(server) = Server::start(STORE) else { return };
    let here = ask(&server, STORE, &[]);
    assert!(here.status.success() && here.stdout.len() > 1000, "{here:?}");
    let endpoint = ["--endpoint", &server.endpoint, "--allow-http"];
    for place in ["s3://fleet/tables", "s3://fleet", "s3://fleet/tables/table=blame_rollup"] {
        let there = ask(&server, place, &endpoint);
        assert!(there.status.success(), "{there:?}");
        assert_eq!(String::from_utf8_lossy(&there.stdout), String::from_utf8_lossy(&here.stdout), "{place}");
    }

    // Errors: what is wrong, and what to do.
    refused(&ask(&server, "s3://fleet/tables", &endpoint[..2]), &["--allow-http", "in the clear"]);
    refused(&ask(&server, "s3://nowhere/tables", &endpoint), &["s3://nowhere/tables", "NoSuchBucket"]);
    refused(&ask(&server, "s3://fleet/nothing", &endpoint), &["s3://fleet/nothing", "no Parquet file"]);
    let wrong = ["wrong".to_owned(), "wrong".to_owned()];
    refused(&ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables", "InvalidAccessKeyId"]);
    let wrong = [server.key[0].clone(), "wrong".to_owned()];
    refused(&ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables", "SignatureDoesNotMatch"]);
    // A connection that is cut again and again is an error within seconds, and never fewer rows.
    refused(&ask(&server, "s3://fleet/tables", &["--endpoint", &server.cut, "--allow-http"]), &["s3://fleet/tables"]);
    refused(
        &ask(&server, "s3://fleet/tables", &["--endpoint", "http://127.0.0.1:1", "--allow-http"]),
        &["s3://fleet/tables"],
    );
}
