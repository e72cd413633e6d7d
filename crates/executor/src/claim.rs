//! Compares what a recording claims about a live thread with what the host shows.
//!
//! The author of the file may have written anything, and boot ids, tids and start times are readable by all users: a claim that
//! the host contradicts is refused.
//!
//! | claim | the host shows the same | the host shows another | no claim |
//! |---|---|---|---|
//! | its start time | agreed | refused | the name must be the same |
//! | kernel thread or program | agreed | refused | unknown; a program with a kernel thread's name is not raised |
//! | its user | agreed | refused if it would be raised | unknown |
//! | its name, besides the start time | agreed | refused if it would be raised | unknown |
//!
//! All callers use this: the plan that `fix` shows, applies and verifies, and what `--as` prints, by [`crate::plan::plan`].
//! Printed commands do the same comparison themselves (`unstarve_change::commands`), because they run without this program.

use unstarve_change::Thread;
use unstarve_facts::flag;
use unstarve_model::{Comm, Tid};
use unstarve_sched::KernelThread;

use crate::look::Look;

/// A thread as the host shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Live {
    /// Its start time.
    pub start: u64,
    /// Its name.
    pub comm: String,
    /// Whether it is a kernel thread (PF_KTHREAD).
    pub is_kernel: bool,
    /// The real user of a program.
    pub user: Option<u32>,
}

impl Live {
    /// `None` if the host has no thread of this id.
    pub fn of<L: Look>(look: &L, tid: Tid) -> Option<Live> {
        Some(Live {
            start: look.start_of(tid)?,
            comm: look.comm_of(tid)?,
            is_kernel: look.flags_of(tid)? & flag::KTHREAD != 0,
            user: look.user_of(tid),
        })
    }
}

/// The direction of the thread's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It would get more CPU time, at the cost of others.
    Raised,
    /// Any other change.
    Otherwise,
}

/// The result of the comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The host shows what is claimed.
    Agreed,
    /// Nothing is claimed.
    Unknown,
    /// The host contradicts the claim.
    Refused(Contradiction),
}

/// What the host shows instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// Another thread with this tid.
    Another,
    /// A program instead of a kernel thread.
    Program,
    /// A program with a kernel thread's name, and no claim of what it is.
    ProgramByName,
    /// A kernel thread instead of a program.
    Kernel,
    /// A program of another user.
    User {
        /// The recorded uid.
        was: u32,
        /// The uid now.
        now: u32,
    },
    /// The same thread under another name, so possibly another program.
    Renamed,
}

/// Compares all claims; returns the first contradiction.
pub fn compare(thread: &Thread, live: &Live, direction: Direction) -> Verdict {
    let each = [
        created(thread, live),
        kind(thread, live, direction),
        user(thread, live, direction),
        name(thread, live, direction),
    ];
    let refused = each.iter().find(|verdict| matches!(verdict, Verdict::Refused(_)));
    match refused {
        Some(refused) => refused.clone(),
        None if each.contains(&Verdict::Unknown) => Verdict::Unknown,
        None => Verdict::Agreed,
    }
}

fn created(thread: &Thread, live: &Live) -> Verdict {
    match thread.start {
        Some(start) if start == live.start => Verdict::Agreed,
        // A recording without a start time has at least the name.
        None if thread.is_called(&live.comm) => Verdict::Unknown,
        _ => Verdict::Refused(Contradiction::Another),
    }
}

fn kind(thread: &Thread, live: &Live, direction: Direction) -> Verdict {
    match (thread.kernel_thread, live.is_kernel) {
        (Some(true), false) => Verdict::Refused(Contradiction::Program),
        (Some(false), true) => Verdict::Refused(Contradiction::Kernel),
        (Some(_), _) => Verdict::Agreed,
        (None, false) if direction == Direction::Raised && is_name_of_kernel_thread(&live.comm) => {
            Verdict::Refused(Contradiction::ProgramByName)
        }
        (None, _) => Verdict::Unknown,
    }
}

fn user(thread: &Thread, live: &Live, direction: Direction) -> Verdict {
    match (thread.user, live.user) {
        (Some(was), Some(now)) if was != now && direction == Direction::Raised && !live.is_kernel => {
            Verdict::Refused(Contradiction::User { was, now })
        }
        (Some(_), Some(_)) => Verdict::Agreed,
        _ => Verdict::Unknown,
    }
}

fn name(thread: &Thread, live: &Live, direction: Direction) -> Verdict {
    match thread.exact_name() {
        None => Verdict::Unknown,
        Some(_) if thread.is_called(&live.comm) => Verdict::Agreed,
        Some(_) if direction == Direction::Raised && !live.is_kernel => Verdict::Refused(Contradiction::Renamed),
        Some(_) => Verdict::Unknown,
    }
}

/// Without a snapshot a recording knows kernel threads only by name.
fn is_name_of_kernel_thread(comm: &str) -> bool {
    KernelThread::is_name_of_one(&Comm::from(comm))
}
