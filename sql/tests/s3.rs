//! The same questions by a real server of the S3 API (moto, from PyPI): the same rows, and errors that say what is wrong.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store");
const QUESTION: &str = "select * from blame_rollup order by ts, victim_role, occupant, rule, ns";

struct Server {
    child: Child,
    endpoint: String,
    cut: String,
    key: [String; 2],
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// One with the files of the store; `None` where there is no moto.
    fn start() -> Option<Server> {
        if !unstarve_testing::python_module("moto") {
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(STORE).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3 is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let text = |key: &str| said[key].as_str().expect("a text").to_owned();
        Some(Server { child, endpoint: text("endpoint"), cut: text("cut"), key: [text("id"), text("secret")] })
    }

    fn ask(&self, place: &str, options: &[&str]) -> Output {
        self.ask_as(&self.key, place, options)
    }

    fn ask_as(&self, key: &[String; 2], place: &str, options: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("AWS_ACCESS_KEY_ID", &key[0]).env("AWS_SECRET_ACCESS_KEY", &key[1]).env("AWS_REGION", "us-east-1");
        command.args(["--format", "csv"]).args(options).args([QUESTION, place]).stdin(Stdio::null());
        command.output().expect("it can be started")
    }
}

fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let has = |word: &&str| said.to_lowercase().contains(&word.to_lowercase());
    assert!(output.status.code() == Some(2) && words.iter().all(has), "{words:?}: {output:?}");
    assert!(output.stdout.is_empty(), "no rows beside an error: {output:?}");
}

#[test]
fn a_store_in_a_bucket_has_the_rows_that_it_has_in_files() {
    let Some(server) = Server::start() else { return };
    let here = server.ask(STORE, &[]);
    assert!(here.status.success() && here.stdout.len() > 1000, "{here:?}");
    let endpoint = ["--endpoint", &server.endpoint, "--allow-http"];
    for place in ["s3://fleet/tables", "s3://fleet", "s3://fleet/tables/table=blame_rollup"] {
        let there = server.ask(place, &endpoint);
        assert!(there.status.success(), "{there:?}");
        assert_eq!(String::from_utf8_lossy(&there.stdout), String::from_utf8_lossy(&here.stdout), "{place}");
    }

    // Errors: what is wrong, and what to do.
    refused(&server.ask("s3://fleet/tables", &endpoint[..2]), &["--allow-http", "in the clear"]);
    refused(&server.ask("s3://nowhere/tables", &endpoint), &["s3://nowhere/tables", "NoSuchBucket"]);
    refused(&server.ask("s3://fleet/nothing", &endpoint), &["s3://fleet/nothing", "no Parquet file"]);
    let wrong = ["wrong".to_owned(), "wrong".to_owned()];
    refused(&server.ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables", "InvalidAccessKeyId"]);
    let wrong = [server.key[0].clone(), "wrong".to_owned()];
    refused(&server.ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables", "SignatureDoesNotMatch"]);
    // A connection that is cut again and again is an error within seconds, and never fewer rows.
    refused(&server.ask("s3://fleet/tables", &["--endpoint", &server.cut, "--allow-http"]), &["s3://fleet/tables"]);
    refused(
        &server.ask("s3://fleet/tables", &["--endpoint", "http://127.0.0.1:1", "--allow-http"]),
        &["s3://fleet/tables"],
    );
}
