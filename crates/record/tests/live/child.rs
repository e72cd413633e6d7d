//! This program as a recorder or a load, and a handle to it.

use std::error::Error;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use unstarve_record::{BufferSize, CommandEnd, Events, Full, Names, Notice, Options, Recording, Until, record};

use crate::loads;

/// Makes this program play a role instead of running the tests.
const ROLE: &str = "UNSTARVE_TEST_ROLE";

/// Options of a recorder other than its arguments.
pub const MAX_SIZE: &str = "UNSTARVE_TEST_MAX_SIZE";
pub const REDACT: &str = "UNSTARVE_TEST_REDACT";

/// Maximum run time of a child.
const LIMIT: Duration = Duration::from_secs(20);

/// Plays the role in the environment, if there is one.
pub fn act() -> Option<ExitCode> {
    let role = std::env::var(ROLE).ok()?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    Some(match role.as_str() {
        "recorder" => recorder(&arguments),
        "attack" => crate::attack::attack(),
        load => loads::run(load),
    })
}

/// Records according to `OUTPUT BUFFER_KIB EVENTS MILLISECONDS|- [CMD…]`, and prints the result.
fn recorder(arguments: &[OsString]) -> ExitCode {
    let word = |index: usize| arguments[index].to_str().unwrap_or_default();
    let until = match word(3).parse() {
        Ok(milliseconds) => Until::Elapsed(Duration::from_millis(milliseconds)),
        Err(_) if arguments.len() > 4 => Until::CommandEnds(arguments[4..].to_vec()),
        Err(_) => Until::Signal,
    };
    let options = Options {
        output: arguments[0].clone().into(),
        until,
        events: match word(2) {
            "block" => Events::WithBlock,
            "predictable" => Events::Predictable,
            _ => Events::Usual,
        },
        buffer: word(1).parse().map_or(BufferSize::Auto, BufferSize::KiB),
        max_size: std::env::var(MAX_SIZE).ok().and_then(|size| size.parse().ok()),
        names: if std::env::var_os(REDACT).is_some() { Names::Redacted } else { Names::Real },
    };
    match record(&options, &mut |notice: Notice| println!("notice {notice}"), None) {
        Ok(recording) => {
            println!("{}", Report::of(&recording).line());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            println!("error {error}{cause}");
            ExitCode::from(2)
        }
    }
}

/// A recorder's report of its recording.
#[derive(Debug, Default)]
pub struct Report {
    pub events: u64,
    pub lost: u64,
    pub seconds: f64,
    /// Why it ended early.
    pub stopped: String,
    /// The command's exit code, or minus the signal that killed it.
    pub command: Option<i32>,
}

impl Report {
    fn of(recording: &Recording) -> Report {
        Report {
            events: recording.events,
            lost: recording.lost.iter().map(|lost| lost.count).sum(),
            seconds: recording.duration.as_secs_f64(),
            stopped: match recording.stopped {
                Some(Full::MaxSize) => "size",
                Some(Full::Disk) => "disk",
                None => "no",
            }
            .to_owned(),
            command: recording.command.and_then(|end| match end {
                CommandEnd::Exited(code) => Some(code),
                CommandEnd::Killed(signal) => Some(-signal),
                CommandEnd::StillRunning => None,
            }),
        }
    }

    fn line(&self) -> String {
        let command = self.command.map_or("-".to_owned(), |end| end.to_string());
        format!("report {} {} {} {command} {}", self.events, self.lost, self.seconds, self.stopped)
    }

    fn parse(output: &str) -> Option<Report> {
        let line = output.lines().find_map(|line| line.strip_prefix("report "))?;
        let words: Vec<&str> = line.split(' ').collect();
        Some(Report {
            events: words.first()?.parse().ok()?,
            lost: words.get(1)?.parse().ok()?,
            seconds: words.get(2)?.parse().ok()?,
            command: words.get(3)?.parse().ok(),
            stopped: (*words.get(4)?).to_owned(),
        })
    }
}

/// A recorder's options.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    pub output: &'a Path,
    pub buffer_kib: Option<u32>,
    pub block: bool,
    pub predictable: bool,
    /// Duration; `None` records until the command ends or a signal comes.
    pub milliseconds: Option<u64>,
    /// The command: a load of [`loads`], or a program.
    pub command: Option<&'a str>,
}

impl<'a> Task<'a> {
    pub fn to(output: &'a Path) -> Task<'a> {
        Task { output, buffer_kib: None, block: false, predictable: false, milliseconds: None, command: None }
    }

    /// The command line of a recorder with these options.
    pub fn invocation(&self) -> Command {
        let mut invocation = Command::new(std::env::current_exe().expect("this program"));
        invocation.env(ROLE, "recorder").arg(self.output);
        invocation.arg(self.buffer_kib.map_or("-".to_owned(), |kib| kib.to_string()));
        invocation.arg(match (self.predictable, self.block) {
            (true, _) => "predictable",
            (false, true) => "block",
            (false, false) => "-",
        });
        invocation.arg(self.milliseconds.map_or("-".to_owned(), |milliseconds| milliseconds.to_string()));
        match self.command {
            Some(load) if loads::is_load(load) => {
                let this = std::env::current_exe().expect("this program");
                invocation.arg("env").arg(format!("{ROLE}={load}")).arg(this);
            }
            Some(program) => {
                invocation.args(program.split(' '));
            }
            None => {}
        }
        invocation
    }

    pub fn start(&self) -> Recorder {
        Recorder::start(self.invocation())
    }

    /// A load without a recorder.
    pub fn load(name: &str) -> Recorder {
        let mut load = Command::new(std::env::current_exe().expect("this program"));
        load.env(ROLE, name);
        Recorder::start(load)
    }

    /// Runs a whole recording.
    pub fn run(&self) -> Ended {
        self.start().finish()
    }
}

/// A running recorder; killed if its test fails.
pub struct Recorder {
    child: Child,
    started: Instant,
}

/// A recorder that has ended.
#[derive(Debug)]
pub struct Ended {
    pub pid: u32,
    pub status: ExitStatus,
    pub output: String,
}

impl Recorder {
    pub fn start(mut invocation: Command) -> Recorder {
        invocation.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Recorder { child: invocation.spawn().expect("a child"), started: Instant::now() }
    }

    /// Time since its start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a signal");
    }

    /// Waits until it has ended.
    pub fn finish(mut self) -> Ended {
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                break status;
            }
            assert!(self.started.elapsed() < LIMIT, "the recorder does not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut output = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            // A few lines at most, which fit into the pipe.
            stdout.read_to_string(&mut output).expect("its output");
        }
        Ended { pid: self.child.id(), status, output }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Its report; panics if it did not record.
    pub fn report(&self) -> Report {
        assert!(self.status.success(), "{self:?}");
        Report::parse(&self.output).unwrap_or_else(|| panic!("no report: {self:?}"))
    }

    /// Its error; panics if it did record.
    pub fn error(&self) -> &str {
        assert_eq!((self.status.code(), self.status.signal()), (Some(2), None), "{self:?}");
        let line = self.output.lines().find_map(|line| line.strip_prefix("error "));
        line.unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}
