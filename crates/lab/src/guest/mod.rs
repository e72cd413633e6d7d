//! Inside the guest: this program as init (process 1), as the starter of the loads, and as the loads of our own.
//!
//! Everything here is driven by the request and by virtual time alone: no host time, and no device that answers in host
//! time until nothing is measured any more.

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
mod running;
mod setup;
mod trial;

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::console::Message;
use crate::image::REQUEST;
use crate::run::Request;

/// Where results are gathered before they are written out.
const RESULTS_DIR: &str = "/run/results";

/// Why the starter of the loads failed, for init to tell.
const LOADS_FAILURE: &str = "/run/loads-failed";

/// The argument that makes this program the starter of the loads.
const LOADS_ROLE: &str = "@lab-loads";

/// The argument that makes it the recorder.
const RECORD_ROLE: &str = "@lab-record";

/// What this process is in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Process 1.
    Init,
    /// Records while the starter of the loads runs.
    Recorder,
    /// Starts the loads and waits for the main one.
    Loads,
    /// A load of our own.
    Load,
}

impl Role {
    /// What this process is, if it is in a guest at all: there the request lies in the root directory.
    pub fn of_this_process() -> Option<Role> {
        if !Path::new(REQUEST).exists() {
            return None;
        }
        if std::process::id() == 1 {
            return Some(Role::Init);
        }
        let mut arguments = std::env::args();
        let program = arguments.next().unwrap_or_default();
        match arguments.next().as_deref() {
            _ if Path::new(&program).file_name().is_some_and(|name| name == "load") => Some(Role::Load),
            Some(LOADS_ROLE) => Some(Role::Loads),
            Some(RECORD_ROLE) => Some(Role::Recorder),
            _ => None,
        }
    }

    /// Does what the role asks for; the result is the exit code. As init it does not return.
    pub fn play(self) -> u8 {
        match self {
            Role::Init => init::run(),
            Role::Recorder => told(init::record()),
            Role::Loads => told(loads::run()),
            Role::Load => {
                let arguments: Vec<String> = std::env::args().skip(1).collect();
                match unstarve_load::measured::run(&arguments, &mut std::io::stdout()) {
                    Ok(()) => 0,
                    Err(error) => {
                        let _ = writeln!(std::io::stderr(), "{error}");
                        1
                    }
                }
            }
        }
    }
}

/// What went wrong, in words for the console.
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

/// Leaves the reason for init to tell.
fn told(result: Result<(), GuestError>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            // The recorder fails because the loads did: theirs is the reason.
            if !Path::new(LOADS_FAILURE).exists() {
                let _ = fs::write(LOADS_FAILURE, error.to_string());
            }
            1
        }
    }
}

/// Says something on the console. A console that does not take it leaves nobody to tell.
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

/// A line on the guest's console. Without one the guest goes on.
fn remark(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}
