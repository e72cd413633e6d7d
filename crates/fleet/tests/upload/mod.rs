//! The way of tables from hosts to a store: `packaging/unstarve-upload` and its unit, with rclone and a real server of the S3 API (moto, from PyPI).

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use unstarve_fleet::{Options, Store, compact, counting};
use unstarve_model::WallTime;
use unstarve_tables::{Cell, HOSTS, Partition, Shelf, parquet_file};

use crate::world::files;

const START: u64 = 1_795_305_600_000_000_000;

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Whether a program is there; otherwise it is said that the test was left out.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !is_there {
        unstarve_testing::not_possible_here(format!("{program} is not installed (tools/setup.sh test)"));
    }
    is_there
}

struct Server {
    process: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
    endpoint: String,
}

impl Server {
    fn start() -> Option<Server> {
        if !unstarve_testing::python_module("moto.server") {
            return None;
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upload/s3.py");
        let mut command = Command::new("python3");
        command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("python3 is there");
        let asked = process.stdin.take().expect("it is a pipe");
        let mut answers = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("it answers");
        let begun: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let endpoint = begun["endpoint"].as_str().expect("an endpoint").to_owned();
        Some(Server { process, asked, answers, endpoint })
    }

    /// What is in the bucket.
    fn names(&mut self) -> Vec<String> {
        writeln!(self.asked).expect("it listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A host with its tables, and where it copies them.
struct Host {
    place: tempfile::TempDir,
    shelf: Shelf,
    to: String,
    config: String,
}

impl Host {
    fn new(to: &str, config: &str) -> Host {
        let place = tempfile::tempdir().expect("a place for files");
        let shelf = Shelf::open(&place.path().join("tables")).expect("a directory of our own");
        std::fs::create_dir(place.path().join("state")).expect("it can be made");
        Host { place, shelf, to: to.to_owned(), config: config.to_owned() }
    }

    /// A row, in a file that was written so long ago.
    fn write(&self, name: &str, ago: Duration) {
        let row = [Cell::Text(name), Cell::Empty, Cell::Empty, START.into()];
        let row = [&row[..], &[Cell::Empty; 6], &[Cell::Text("0.1")]].concat();
        let bytes = parquet_file(&HOSTS, |rows| rows.row(&row)).expect("it can be encoded");
        self.shelf.put(&hour(), name, &bytes).expect("it can be written");
        self.age(&format!("{name}.parquet"), ago);
    }

    fn age(&self, name: &str, ago: Duration) {
        let path = self.hour().join(name);
        let file = std::fs::File::options().write(true).open(path).expect("it is there");
        file.set_modified(SystemTime::now() - ago).expect("ours");
    }

    fn hour(&self) -> PathBuf {
        self.place.path().join("tables/v1").join(hour().path())
    }

    /// The command of the unit, with what the unit and its files set.
    fn command(&self) -> Command {
        let unit = std::fs::read_to_string(packaging("unstarve-upload.service")).expect("it is there");
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
        let path = |name: &str| self.place.path().join(name).display().to_string();
        std::fs::write(path("rclone.conf"), &self.config).expect("it can be written");
        let line = line
            .replace("/usr/local/bin/unstarve-upload", &packaging("unstarve-upload").display().to_string())
            .replace("${UNSTARVE_TABLES}", &path("tables"))
            .replace("${UNSTARVE_UPLOAD_TO}", &self.to)
            .replace("${STATE_DIRECTORY}", &path("state"));
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("RCLONE_CONFIG", path("rclone.conf")).stdin(Stdio::null());
        command
    }

    fn upload(&self) -> Output {
        self.command().output().expect("sh is there")
    }
}

fn hour() -> Partition {
    Partition::of(HOSTS.name, WallTime(START))
}

const MINUTE: Duration = Duration::from_secs(60);

/// A bucket as rclone knows it; without keys if there is none.
fn bucket(endpoint: &str, keys: &str) -> String {
    format!(
        "[central]\ntype = s3\nprovider = Other\nenv_auth = false\nendpoint = {endpoint}\nregion = us-east-1\n{keys}"
    )
}

#[test]
fn tables_get_into_a_bucket_and_from_there_into_a_store() {
    if !has("rclone") {
        return;
    }
    let Some(mut server) = Server::start() else { return };
    let keys = "access_key_id = x\nsecret_access_key = x\n";
    let host = Host::new("central:fleet/unstarve", &bucket(&server.endpoint, keys));
    host.write("a", 600 * MINUTE);
    host.write("b", 5 * MINUTE);
    // One that is being written, and what is nobody's.
    for name in [".new-c.parquet", "notes.txt"] {
        std::fs::write(host.hour().join(name), b"PAR1").expect("it can be written");
    }
    let output = host.upload();
    assert!(output.status.success(), "{output:?}");
    let below = |name: &str| format!("unstarve/hosts/v1/{}/{name}.parquet", hour().path().display());
    assert_eq!(server.names(), [below("a"), below("b")]);

    // What was copied before is not copied again, though it has gone from there; what came since is.
    let elsewhere = Host { to: "central:fleet/second".to_owned(), ..host };
    elsewhere.write("d", Duration::ZERO);
    assert!(elsewhere.upload().status.success());
    let second: Vec<String> = server.names().into_iter().filter(|name| name.contains("second")).collect();
    assert_eq!(second, ["b", "d"].map(|name| below(name).replace("unstarve/", "second/")));

    // At the centre, as docs/fleet.md says: down, merge, up.
    let store = elsewhere.place.path().join("store");
    let centre = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        // Nothing of whoever runs this, such as AWS_CA_BUNDLE.
        command.args(words).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let status = command.env("RCLONE_CONFIG", elsewhere.place.path().join("rclone.conf")).status();
        assert!(status.expect("it is there").success(), "{words:?}");
    };
    let there = store.display().to_string();
    std::fs::create_dir(&store).expect("it can be made");
    // The last run was an hour ago: the file of ten hours ago comes, since its host has just copied it.
    let fetched = elsewhere.place.path().join("fetched");
    let hour_ago = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_secs() - 3600;
    std::fs::write(&fetched, hour_ago.to_string()).expect("it can be written");
    let fetch = fetching()
        .replace("central:bucket", "central:fleet")
        .replace("/srv/unstarve", &there)
        .replace("/var/lib/unstarve/fetched", &fetched.display().to_string());
    centre("sh", &["-euc", &fetch]);
    let noted: u64 = std::fs::read_to_string(&fetched).expect("it is there").trim().parse().expect("a time");
    assert!((hour_ago..hour_ago + 600).contains(&noted), "{noted}");
    let options =
        Options { now: WallTime(2 * START), settle: Duration::ZERO, grace: Duration::from_secs(3600), keep: None };
    let done = compact(&Store::open(&store).expect("it is there"), &options).expect("it can be compacted");
    assert_eq!((done.inputs, done.problems), (2, Vec::new()));
    centre("rclone", &["copy", &format!("{there}/merged"), "central:fleet/unstarve/merged"]);
    let merged: Vec<String> = server.names().into_iter().filter(|name| name.contains("unstarve/merged/v1/")).collect();
    assert_eq!((merged.len(), counting(&store).expect("it can be read").files.len()), (1, 1));
}

/// What docs/fleet.md says brings hosts' files from a bucket.
fn fetching() -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fleet.md");
    let docs = std::fs::read_to_string(docs).expect("it is there");
    let lines = docs.lines().skip_while(|line| !line.starts_with("    began=$(date"));
    lines.take_while(|line| !line.contains("unstarve fleet compact")).collect::<Vec<_>>().join("\n")
}

/// Clocks and notes that are wrong make files be looked at again, and never left out.
#[test]
fn a_note_that_is_wrong_leaves_no_file_out() {
    if !has("rclone") {
        return;
    }
    for (note, copied) in [("", 2), ("later\n", 2), ("99999999999\n", 2), ("-5\n", 2), ("0\n", 2)] {
        let to = tempfile::tempdir().expect("a place for files");
        let host = Host::new(&to.path().display().to_string(), "");
        host.write("a", 90 * MINUTE);
        host.write("b", MINUTE);
        std::fs::write(host.place.path().join("state/uploaded-until"), note).expect("it can be written");
        assert!(host.upload().status.success(), "{note:?}");
        assert_eq!(files(to.path()).len(), copied, "{note:?}");
    }
}

/// A run that fails says so, remembers nothing, and asks nobody but the endpoint: without keys not the metadata of a cloud either.
#[test]
fn without_keys_nobody_else_is_asked() {
    if !has("rclone") {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut client = client;
            let _ = std::io::Read::read(&mut client, &mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let host = Host::new("central:fleet/unstarve", &bucket(&endpoint, ""));
    host.write("a", MINUTE);
    let trace = host.place.path().join("strace");
    let command = host.command();
    let mut traced = Command::new("strace");
    traced
        .args(["-f", "-qq", "-e", "trace=connect", "-o"])
        .arg(&trace)
        .arg(command.get_program())
        .args(command.get_args());
    traced.env_clear().envs(command.get_envs().filter_map(|(key, value)| Some((key, value?)))).stdin(Stdio::null());
    let Ok(output) = traced.output() else {
        return unstarve_testing::not_possible_here("strace is not installed");
    };
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("403"), "{output:?}");
    assert!(!host.place.path().join("state/uploaded-until").exists());
    let connects = std::fs::read_to_string(&trace).expect("it was traced");
    let asked: Vec<&str> = connects.lines().filter(|line| line.contains("AF_INET")).collect();
    assert!(!asked.is_empty() && asked.iter().all(|line| line.contains("127.0.0.1")), "{asked:?}");
}

/// Both units: their programs are what the packages install, and nothing starts by itself.
#[test]
fn units_name_programs_that_are_installed() {
    let mode = packaging("unstarve-upload").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    for name in ["upload", "compact"] {
        let [service, timer] = ["service", "timer"]
            .map(|kind| std::fs::read_to_string(packaging(&format!("unstarve-{name}.{kind}"))).expect("it is there"));
        let program =
            service.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/")).expect("a command");
        assert!(["unstarve", "unstarve-upload"].contains(&program.split(' ').next().unwrap_or_default()), "{program}");
        // The timer is what is enabled.
        assert!(timer.contains("WantedBy=timers.target") && !service.contains("[Install]"), "{name}");
    }
}
