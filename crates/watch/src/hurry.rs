//! Going before ordinary programs, for a while.

use unstarve_executor::sched;
use unstarve_model::Tid;

/// The calling thread.
const SELF: Tid = Tid(0);

/// Lets this thread go before other ordinary tasks, where it may. What it starts meanwhile, threads and programs, begins at nice 0.
pub(crate) struct Hurry {
    before: i32,
    had_reset: bool,
}

impl Hurry {
    pub(crate) fn up() -> Option<Hurry> {
        let before = rustix::process::getpriority_process(None).ok()?;
        let had_reset = sched::read(SELF).ok()?.reset_on_fork;
        sched::set_reset_on_fork(SELF, true).ok()?;
        let hurry = Hurry { before, had_reset };
        rustix::process::setpriority_process(None, -20).ok().map(|()| hurry)
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        let _ = rustix::process::setpriority_process(None, self.before);
        if !self.had_reset {
            let _ = sched::set_reset_on_fork(SELF, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hurries_does_so_for_a_while() {
        let nice = || rustix::process::getpriority_process(None).expect("known");
        let before = nice();
        let of_thread = || std::thread::spawn(nice).join().expect("it ends");
        let Some(hurry) = Hurry::up() else { return };
        assert_eq!((nice(), of_thread()), (-20, 0), "what is started meanwhile has nothing of it");
        drop(hurry);
        assert_eq!((nice(), of_thread()), (before, before));
    }
}
