//! A cluster on loopback for a test: a scheduler and executors, at ports that the kernel chooses.
#![allow(dead_code)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{LazyLock, mpsc};

pub const REAL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/real");
pub const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/fleet");
pub const STORE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/store");

/// Where this user's token is: of all tests of a program, as it would be on a machine.
pub fn state() -> &'static Path {
    static STATE: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a place for files"));
    STATE.path()
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-cluster"));
    command.stdin(Stdio::null()).env("XDG_STATE_HOME", state());
    command
}

/// A part of a cluster, as long as the test runs.
pub struct Part {
    child: Child,
    lines: mpsc::Receiver<String>,
    pub errors: PathBuf,
    place: tempfile::TempDir,
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(&self.errors).unwrap_or_default());
        }
    }
}

impl Part {
    pub fn start(arguments: &[&str]) -> Part {
        Part::start_as(arguments, program())
    }

    pub fn start_as(arguments: &[&str], mut command: Command) -> Part {
        let place = tempfile::tempdir().expect("a place for files");
        let errors = place.path().join("stderr");
        let file = std::fs::File::create(&errors).expect("it can be written");
        command.args(arguments).env("XDG_CACHE_HOME", place.path()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().expect("it can be started");
        let (sender, lines) = mpsc::channel();
        let output = child.stdout.take().expect("a pipe");
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Part { child, lines, errors, place }
    }

    /// The word after this one in the next line that has it.
    pub fn says(&mut self, word: &str) -> String {
        loop {
            // Until it ends, however busy the machine is.
            let line = self.lines.recv();
            let errors = std::fs::read_to_string(&self.errors).unwrap_or_default();
            let line = line.unwrap_or_else(|_| panic!("nothing with {word:?} was said: {errors}"));
            if let Some((_, rest)) = line.split_once(&format!("{word} ")) {
                return rest.split([' ', ',']).next().unwrap_or_default().to_owned();
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where an executor keeps rows, if nothing else was said.
    pub fn work(&self) -> PathBuf {
        self.place.path().join("unstarve/executors")
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// SIGTERM; how it ended.
    pub fn end(&mut self) -> Option<i32> {
        let killed = Command::new("kill").arg(self.pid().to_string()).status();
        assert!(killed.expect("kill can be started").success());
        self.child.wait().expect("it ends").code()
    }

    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).expect("it is there")
    }
}

/// A scheduler and executors.
pub struct Cluster {
    pub scheduler: Part,
    pub executors: Vec<Part>,
    pub address: String,
    options: Vec<String>,
    /// What executors, and who asks, have in their environment.
    pub environment: Vec<(String, String)>,
}

impl Cluster {
    /// One with so many executors, which may read these places.
    pub fn start(count: usize, places: &[&str], more: &[&str]) -> Cluster {
        let mut scheduler = Part::start(&["scheduler", "--listen", "127.0.0.1:0"]);
        let address = scheduler.says("listening at");
        let (executors, options, environment) = (Vec::new(), Vec::new(), Vec::new());
        let mut cluster = Cluster { scheduler, executors, address, options, environment };
        for _ in 0..count {
            cluster.add(places, more);
        }
        cluster
    }

    /// One that reads a bucket: these options and this environment are of executors and of who asks.
    pub fn of_bucket(count: usize, place: &str, options: &[&str], environment: Vec<(String, String)>) -> Cluster {
        let mut cluster = Cluster::start(0, &[], &[]);
        cluster.environment = environment;
        cluster.options = options.iter().map(|option| (*option).to_owned()).collect();
        for _ in 0..count {
            cluster.add(&[place], options);
        }
        cluster
    }

    /// With TLS and a token: their options, for servers and for who asks.
    pub fn guarded(count: usize, places: &[&str], server: &[&str], client: &[&str]) -> Cluster {
        let mut scheduler = Part::start(&[&["scheduler", "--listen", "127.0.0.1:0"], server].concat());
        let address = scheduler.says("listening at");
        let options = client.iter().map(|option| (*option).to_owned()).collect();
        let (executors, environment) = (Vec::new(), Vec::new());
        let mut cluster = Cluster { scheduler, executors, address, options, environment };
        for _ in 0..count {
            cluster.add(places, server);
        }
        cluster
    }

    /// One executor more.
    pub fn add(&mut self, places: &[&str], more: &[&str]) {
        let address = self.address.clone();
        let mut arguments = vec!["executor", "--scheduler", &address, "--tasks", "2"];
        places.iter().for_each(|place| arguments.extend(["--place", place]));
        arguments.extend(more);
        let mut command = program();
        command.envs(self.environment.iter().cloned());
        let mut executor = Part::start_as(&arguments, command);
        executor.says("registered with");
        self.executors.push(executor);
    }

    /// What asks it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command.args(["sql", "--cluster", &format!("df://{}", self.address)]).args(&self.options).args(arguments);
        command.envs(self.environment.iter().cloned()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn ask(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it can be started")
    }

    /// The rows of a question, sorted: without an order they have none.
    pub fn rows(&self, question: &str, place: &str) -> Vec<String> {
        let output = self.ask(&["--format", "csv", question, place]);
        assert!(output.status.success(), "{question}: {output:?}\n{}", self.executors[0].errors());
        sorted(&String::from_utf8(output.stdout).expect("UTF-8"))
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

/// The answer of the engine of one machine, in a file.
pub fn write_here(question: &str, place: &str, file: &Path) {
    use unstarve_sql::answer::{How, answer};
    use unstarve_sql::args::Ask;
    let runtime = tokio::runtime::Runtime::new().expect("it can be made");
    runtime.block_on(async {
        let places = [place.to_owned()];
        let session = unstarve_sql::catalogue::open(&places, Default::default(), 1 << 30, Ask::All).await;
        let how = How { output: Some(file.to_owned()), ..How::default() };
        answer(&session.expect("tables"), question, &how).await.expect("an answer");
    });
}

/// The same rows as [`Cluster::rows`], of the engine of one machine.
pub fn rows_here(question: &str, place: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a place for files");
    let file = directory.path().join("rows.csv");
    write_here(question, place, &file);
    sorted(&std::fs::read_to_string(file).expect("it is there"))
}

/// It was refused, with these words.
pub fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && words.iter().all(|word| said.contains(word)), "{words:?}: {output:?}");
    assert!(output.stdout.is_empty(), "no rows beside an error: {output:?}");
    // The names of an engine's types say nothing to who asks.
    for name in ["Error(", "Status {", "Execution(", "Custom {", "External("] {
        assert!(!said.contains(name), "{said}");
    }
}
