//! The same questions by a real server of the S3 API (moto, from PyPI): the same rows, and errors that say what is wrong.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{ALL, REAL, has_duckdb, text};

struct Server {
    child: Child,
    endpoint: String,
    /// The same, and each answer is cut short.
    cut: String,
    key: [String; 2],
    home: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// One with the files of a directory below `tables/` of the bucket `fleet`; `None` where it or DuckDB's extension is missing.
    fn start(directory: &str) -> Option<Server> {
        if !has_duckdb() || !unstarve_testing::python_module("moto, duckdb_extension_httpfs") {
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sql/s3.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3 is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let value = |key: &str| said[key].as_str().expect("a text").to_owned();
        let (endpoint, cut, key) = (value("endpoint"), value("cut"), [value("id"), value("secret")]);
        Some(Server { child, endpoint, cut, key, home: home_with_extension() })
    }

    fn ask(&self, place: &str, options: &[&str]) -> Output {
        self.ask_as(&self.key, place, options)
    }

    fn ask_as(&self, key: &[String; 2], place: &str, options: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.home.path());
        command.envs([("AWS_ACCESS_KEY_ID", &key[0]), ("AWS_SECRET_ACCESS_KEY", &key[1])]);
        command.args(["sql", "--format", "csv"]).args(options).args([ALL, place]).stdin(Stdio::null());
        command.output().expect("it can be started")
    }
}

/// Where `duckdb -c 'install httpfs'` puts it.
fn home_with_extension() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a place for files");
    let script = "import duckdb_extension_httpfs, pathlib; print(*pathlib.Path(duckdb_extension_httpfs.__file__).parent.glob('extensions/*/*'))";
    let output = Command::new("python3").args(["-c", script]).output().expect("python3 is there");
    let extension = PathBuf::from(text(&output.stdout).trim());
    let version = extension.parent().and_then(Path::file_name).expect("a version");
    let output = Command::new("duckdb").args(["-csv", "-noheader", "-c", "pragma platform"]).output();
    let platform = text(&output.expect("it is there").stdout).trim().to_owned();
    let directory = home.path().join(".duckdb/extensions").join(version).join(platform);
    std::fs::create_dir_all(&directory).expect("it can be made");
    std::fs::copy(extension, directory.join("httpfs.duckdb_extension")).expect("it can be copied");
    home
}

fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    let has = |word: &&str| said.to_lowercase().contains(&word.to_lowercase());
    assert!(output.status.code() == Some(2) && words.iter().all(has), "{words:?}: {output:?}");
    assert!(output.stdout.is_empty(), "no rows beside an error: {output:?}");
}

#[test]
fn tables_in_a_bucket_have_the_rows_that_they_have_in_files() {
    let Some(server) = Server::start(REAL) else { return };
    let here = server.ask(REAL, &[]);
    assert!(here.status.success() && here.stdout.len() > 1000, "{here:?}");
    let endpoint = ["--endpoint", &server.endpoint, "--allow-http"];
    for place in ["s3://fleet/tables", "s3://fleet", "s3://fleet/tables/merged/v1/table=blame_rollup"] {
        let there = server.ask(place, &endpoint);
        assert!(there.status.success(), "{there:?}");
        assert_eq!(text(&there.stdout), text(&here.stdout), "{place}");
    }

    // Errors: what is wrong, and what to do.
    refused(&server.ask("s3://fleet/tables", &endpoint[..2]), &["--allow-http", "in the clear"]);
    refused(&server.ask("s3://nowhere/tables", &endpoint), &["s3://nowhere/tables"]);
    refused(&server.ask("s3://fleet/nothing", &endpoint), &["s3://fleet/nothing", "no Parquet file"]);
    let wrong = ["wrong".to_owned(), "wrong".to_owned()];
    refused(&server.ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables"]);
    let wrong = [server.key[0].clone(), "wrong".to_owned()];
    refused(&server.ask_as(&wrong, "s3://fleet/tables", &endpoint), &["s3://fleet/tables"]);
    // A connection that is cut again and again is an error, and never fewer rows.
    refused(&server.ask("s3://fleet/tables", &["--endpoint", &server.cut, "--allow-http"]), &["s3://fleet/tables"]);
    refused(
        &server.ask("s3://fleet/tables", &["--endpoint", "http://127.0.0.1:1", "--allow-http"]),
        &["s3://fleet/tables"],
    );
}
