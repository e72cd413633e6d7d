//! Inside the guest: this program as init (process 1), as the starter of the loads, and as the lab's own loads.
//!
//! Only the request and virtual time control what happens here: host time, and devices that answer in host time, must
//! not affect measurements.

mod cgroup;
mod changes;
mod collect;
mod device;
mod early;
mod guard;
mod init;
mod keeper;
mod knobs;
mod loads;
mod mark;
mod modules;
mod mounts;
mod place;
mod playing;
mod running;
mod setup;
mod trial;
mod turns;

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::console::Message;
use crate::image::REQUEST;
use crate::player::PLAYER;
use crate::run::Request;

/// The directory of results before they are written to the disk.
const RESULTS_DIR: &str = "/run/results";

/// The file with the reason why the starter of the loads failed; init reports it.
const LOADS_FAILURE: &str = "/run/loads-failed";

/// The argument that makes this program start the loads.
const LOADS_ROLE: &str = "@lab-loads";

/// The argument that makes this program the recorder.
const RECORD_ROLE: &str = "@lab-record";

/// The role of this process in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Process 1.
    Init,
    /// Records while the starter of the loads runs.
    Recorder,
    /// Starts the loads and waits for the main one.
    Loads,
    /// One of the lab's own loads.
    Load,
    /// Plays a program.
    Player,
}

impl Role {
    /// The role of this process; `None` outside a guest, where the root directory has no request.
    pub fn of_this_process() -> Option<Role> {
        if !Path::new(REQUEST).exists() {
            return None;
        }
        if std::process::id() == 1 {
            return Some(Role::Init);
        }
        let mut arguments = std::env::args();
        let program = arguments.next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default();
        match arguments.next().as_deref() {
            _ if program == "load" => Some(Role::Load),
            _ if program == PLAYER => Some(Role::Player),
            Some(LOADS_ROLE) => Some(Role::Loads),
            Some(RECORD_ROLE) => Some(Role::Recorder),
            _ => None,
        }
    }

    /// Runs the role; returns the exit code. As init it does not return.
    pub fn play(self) -> u8 {
        match self {
            Role::Init => init::run(),
            Role::Recorder => exit_code(init::record()),
            Role::Loads => exit_code(loads::run()),
            Role::Load => {
                let arguments: Vec<String> = std::env::args().skip(1).collect();
                end_of_load(unstarve_load::measured::run(&arguments, &mut std::io::stdout()))
            }
            Role::Player => end_of_load(playing::run()),
        }
    }
}

/// The exit code of a load. Its error is shown by the starter of the loads.
fn end_of_load<E: std::fmt::Display>(result: Result<(), E>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            1
        }
    }
}

/// An error, as shown on the console.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct GuestError(String);

impl GuestError {
    /// `what: error`.
    fn doing(what: impl std::fmt::Display) -> impl FnOnce(std::io::Error) -> GuestError {
        let what = what.to_string();
        move |error| GuestError(format!("{what}: {error}"))
    }
}

/// Stores the reason for init to report.
fn exit_code(result: Result<(), GuestError>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            // The recorder fails because the loads failed: their reason counts.
            if !Path::new(LOADS_FAILURE).exists() {
                let _ = fs::write(LOADS_FAILURE, error.to_string());
            }
            1
        }
    }
}

/// Writes a message to the console; ignores errors, which could not be reported.
fn say(message: &Message) {
    if let Ok(mut console) = fs::File::options().write(true).open("/dev/console") {
        let _ = console.write_all(message.to_line().as_bytes());
    }
}

fn read_request() -> Result<Request, GuestError> {
    let text = fs::read_to_string(REQUEST).map_err(GuestError::doing(REQUEST))?;
    serde_json::from_str(&text).map_err(|error| GuestError(format!("{REQUEST}: {error}")))
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<(), GuestError> {
    let path = path.as_ref();
    fs::write(path, text).map_err(GuestError::doing(format_args!("cannot write `{text}` to {}", path.display())))
}

/// Writes a line to the guest's console; the guest continues without a console.
fn remark(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
