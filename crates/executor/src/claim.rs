//! What a recording claims of a live thread, beside what the host shows of it. Who made the file may have written what he liked, and
//! boot ids, thread ids and start times are for everybody to read: a claim that the host contradicts ends the matter.
//!
//! | claim | the host shows the same | the host shows another | no claim |
//! |---|---|---|---|
//! | when it was created | agreed | refused | the name has to be the same |
//! | kernel thread or program | agreed | refused | unknown; a program with a kernel thread's name is not raised |
//! | its user | agreed | refused if it would be raised | unknown |
//! | its name, beside its creation | agreed | refused if it would be raised | unknown |
//!
//! Every door asks here: the plan that `fix` shows, applies and verifies, and what `--as` prints, by [`crate::plan::plan`]. Printed
//! commands make the same comparison themselves (`unstarve_change::commands`), since they run where nobody else asks.

use unstarve_change::Thread;
use unstarve_facts::flag;
use unstarve_model::{Comm, Tid};
use unstarve_sched::KernelThread;

use crate::plan::Look;

/// A thread as the host shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Live {
    /// When it was created.
    pub start: u64,
    /// Its name.
    pub comm: String,
    /// Whether it is a kernel thread (PF_KTHREAD).
    pub is_kernel: bool,
    /// The real user of a program.
    pub user: Option<u32>,
}

impl Live {
    /// `None` if there is none of this id.
    pub fn of<L: Look>(look: &L, tid: Tid) -> Option<Live> {
        Some(Live {
            start: look.start_of(tid)?,
            comm: look.comm_of(tid)?,
            is_kernel: look.flags_of(tid)? & flag::KTHREAD != 0,
            user: look.user_of(tid),
        })
    }
}

/// What the thread would be changed to, as far as that matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It would go before more of the others.
    Raised,
    /// It would not.
    Otherwise,
}

/// What comes of the comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The host shows what is claimed.
    Agreed,
    /// Nothing is claimed.
    Unknown,
    /// The host shows something else.
    Refused(Contradiction),
}

/// What the host shows instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contradiction {
    /// Another thread of this number.
    Another,
    /// A program instead of a kernel thread.
    Program,
    /// A program with the name of a kernel thread, and nothing else says what it is.
    ProgramByName,
    /// A kernel thread instead of a program.
    Kernel,
    /// A program of another user.
    User {
        /// Then.
        was: u32,
        /// Now.
        now: u32,
    },
    /// The same thread under another name: another program, for all that is known.
    Renamed,
}

/// Compares all claims; the first contradiction counts.
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
        // A recording that does not say when it was created says at least how it is called.
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

/// Without a snapshot a recording knows a kernel thread by its name alone.
fn is_name_of_kernel_thread(comm: &str) -> bool {
    KernelThread::is_name_of_one(&Comm::from(comm))
}
