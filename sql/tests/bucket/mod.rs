//! A real server of the S3 API (moto, from PyPI) with a bucket, for a test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What is put into it by most tests.
pub const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/store");

pub struct Server {
    child: Child,
    pub endpoint: String,
    /// The same, and each answer is cut short.
    pub cut: String,
    pub key: [String; 2],
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// One with the files of a directory; `None` where there is no moto.
    pub fn start(directory: &str) -> Option<Server> {
        if !unstarve_testing::python_module("moto") {
            return None;
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3.py");
        let mut command = Command::new("python3");
        command.arg(script).arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3 is there");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let text = |key: &str| said[key].as_str().expect("a text").to_owned();
        Some(Server { child, endpoint: text("endpoint"), cut: text("cut"), key: [text("id"), text("secret")] })
    }
}

/// The same with another key.
pub fn environment(key: &[String; 2]) -> Vec<(String, String)> {
    let values =
        [("AWS_ACCESS_KEY_ID", key[0].as_str()), ("AWS_SECRET_ACCESS_KEY", &key[1]), ("AWS_REGION", "us-east-1")];
    values.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}
