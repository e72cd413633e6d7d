//! Sessions as the scheduler sees them: autogroups, each with its own nice value (sched(7), "The autogroup feature").

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};

use unstarve_facts::Autogroup;
use unstarve_model::Tid;

use crate::proc;

/// A thread's session; `None` if it has none, as for kernel threads, or if the kernel has no autogroups.
pub(crate) fn of(tid: Tid) -> Option<Autogroup> {
    Autogroup::parse(&fs::read_to_string(path(tid)).ok()?)
}

/// A session's nice value; `None` if it has no process.
pub(crate) fn nice_of(id: u64) -> Option<i32> {
    members(id).map(|(_, session)| session.nice).next()
}

/// Sets a session's nice value.
///
/// # Errors
/// ESRCH if the session has no process, and errors of the kernel.
pub(crate) fn set_nice(id: u64, nice: i32) -> io::Result<()> {
    for (tid, _) in members(id) {
        match write(tid, id, nice) {
            Err(error) if is_gone(&error) => {}
            result => return result,
        }
    }
    Err(gone())
}

/// An open file keeps referring to its process: after its exit it gives ESRCH, even if the pid was reused.
fn write(tid: Tid, id: u64, nice: i32) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path(tid))?;
    match read(&mut file)? {
        Some(session) if session.id == id => file.write_all(nice.to_string().as_bytes()),
        _ => Err(gone()),
    }
}

fn read(file: &mut File) -> io::Result<Option<Autogroup>> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(Autogroup::parse(&text))
}

/// A number, a word and a number.
const LONGEST: u64 = 256;

/// The processes of a session, found one by one.
fn members(id: u64) -> impl Iterator<Item = (Tid, Autogroup)> {
    let all = proc::numbers_in("/proc").into_iter().filter_map(|tid| Some((tid, of(tid)?)));
    all.filter(move |(_, session)| session.id == id)
}

fn path(tid: Tid) -> String {
    format!("/proc/{tid}/autogroup")
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || error.kind() == ErrorKind::NotFound
}
