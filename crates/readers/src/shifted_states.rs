//! Corrects the task states that Linux 4.14 to 4.19 recorded one bit too high.
//!
//! `sched_switch` then stored `1 << index`, where index 0 is "running". So a task that stays runnable reads as `S`, a
//! sleeping one as `D`, and one in `D` as `T`: every sleep of a disk reader looks stopped, and every yield looks like a
//! sleep. The idle task reveals it: it is always runnable but reads as sleeping. ("sched/tracing: Fix
//! trace_sched_switch task-state printing" of 4.14; "sched, trace: Fix prev_state output in sched_switch tracepoint" of
//! 5.0, which was backported to later 4.14.y and 4.19.y.)

use std::collections::VecDeque;

use unstarve_model::{
    Batch, Event, EventKind, EventSource, Loss, LossKind, PrevState, SourceError, TaskRef, TraceInfo,
};

/// A source with corrected task states.
pub struct CorrectedStates {
    source: Box<dyn EventSource>,
    states: States,
    /// Batches that were read before the idle task left a CPU for the first time.
    held: VecDeque<Batch>,
    /// How the source ended while these were read.
    end: Option<Result<(), SourceError>>,
    corrected: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum States {
    Undecided,
    AsTheyAre,
    Shifted,
}

/// If no idle task runs in this many batches, stop waiting for one.
const MAX_HELD_BATCHES: usize = 8;

impl CorrectedStates {
    /// The events of `source`.
    pub fn new(source: Box<dyn EventSource>) -> CorrectedStates {
        CorrectedStates { source, states: States::Undecided, held: VecDeque::new(), end: None, corrected: 0 }
    }

    /// Reads on until an idle task shows how states were recorded.
    fn decide(&mut self) {
        while self.states == States::Undecided && self.end.is_none() {
            let mut batch = Batch::with_room();
            match self.source.read(&mut batch) {
                Ok(true) => {
                    self.states = batch.events.iter().find_map(states_by).unwrap_or(States::Undecided);
                    self.held.push_back(batch);
                }
                Ok(false) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
            if self.held.len() == MAX_HELD_BATCHES && self.states == States::Undecided {
                self.states = States::AsTheyAre;
            }
        }
    }

    fn correct(&mut self, batch: &mut Batch) {
        if self.states != States::Shifted {
            return;
        }
        for event in &mut batch.events {
            if let EventKind::Switch { prev, prev_state, .. } = &mut event.kind {
                let right = shifted_back(*prev_state, prev);
                self.corrected += u64::from(right != *prev_state);
                *prev_state = right;
            }
        }
    }
}

fn states_by(event: &Event) -> Option<States> {
    match event.kind {
        EventKind::Switch { prev, prev_state, .. } if prev.tid().is_idle() => match prev_state {
            PrevState::Runnable | PrevState::Preempted => Some(States::AsTheyAre),
            PrevState::Sleeping => Some(States::Shifted),
            _ => None,
        },
        _ => None,
    }
}

fn shifted_back(state: PrevState, task: &TaskRef) -> PrevState {
    match state {
        PrevState::Sleeping => PrevState::Runnable,
        PrevState::Uninterruptible => PrevState::Sleeping,
        // `T` was `D`. `t` was `T`, which is rare and not a wait either way.
        PrevState::Stopped => PrevState::Uninterruptible,
        PrevState::Parked => PrevState::Dead,
        PrevState::Idle => PrevState::Parked,
        // The idle state of kernel threads got the bit of preemption.
        PrevState::Preempted if sleeps_idly(task.comm().as_bytes()) => PrevState::Unknown,
        other => other,
    }
}

/// Kernel threads that sleep in the idle state in these versions.
fn sleeps_idly(comm: &[u8]) -> bool {
    comm.starts_with(b"kworker/") || comm.starts_with(b"rcu_")
}

impl EventSource for CorrectedStates {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if self.states == States::Undecided {
            self.decide();
        }
        let more = match self.held.pop_front() {
            Some(held) => {
                *batch = held;
                true
            }
            None => match self.end.take() {
                Some(end) => {
                    batch.clear();
                    self.end = Some(Ok(()));
                    end?;
                    false
                }
                None => self.source.read(batch)?,
            },
        };
        self.correct(batch);
        Ok(more)
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.source.losses();
        if self.corrected > 0 {
            let detail = "a fault of Linux 4.14 to 4.19: there the idle task reads as S and a sleeper as D; idle workers \
                          cannot be distinguished from preempted ones";
            losses.push(Loss::new(LossKind::ShiftedStates, self.corrected).with_detail(detail));
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Names;

    use super::*;
    use crate::ftrace_text::FtraceText;
    use crate::picture;

    fn read(text: &str) -> String {
        let text = FtraceText::new(Box::new(std::io::Cursor::new(text.to_owned())));
        let mut source = CorrectedStates::new(Box::new(text));
        let (mut batch, mut names, mut lines) = (Batch::default(), Names::default(), Vec::new());
        while source.read(&mut batch).unwrap() {
            names.extend(batch.names.drain(..));
            lines.extend(batch.events.iter().map(|event| picture::kind(&event.kind, &names)));
        }
        assert!(!source.read(&mut batch).unwrap() && batch.events.is_empty());
        let is_shifted_states = |loss: &Loss| loss.kind == LossKind::ShiftedStates;
        lines.extend(source.losses().iter().filter(|loss| is_shifted_states(loss)).map(|loss| loss.count.to_string()));
        lines.join("\n")
    }

    fn switch(at: u32, prev: &str, state: &str, next: &str) -> String {
        let task = |name: &str| if name.starts_with("swapper") { 0 } else { name.len() };
        format!(
            "  x-1 [000] 5.{at:06}: sched_switch: prev_comm={prev} prev_pid={} prev_prio=120 prev_state={state} ==> \
             next_comm={next} next_pid={} next_prio=120\n",
            task(prev),
            task(next)
        )
    }

    #[test]
    fn states_one_bit_too_high_are_put_right() {
        let text = switch(1, "fio", "T", "bash")
            + &switch(2, "bash", "D", "swapper/0")
            + &switch(3, "swapper/0", "S", "kworker/0:1")
            + &switch(4, "kworker/0:1", "R+", "bash")
            + &switch(5, "bash", "R+", "loop-0")
            + &switch(6, "loop-0", "S", "bash");
        insta::assert_snapshot!(read(&text), @r"
        switch fio:3(120) D -> bash:4(120)
        switch bash:4(120) S -> swapper/0:0(120)
        switch swapper/0:0(120) R -> kworker/0:1:11(120)
        switch kworker/0:1:11(120) ? -> bash:4(120)
        switch bash:4(120) R+ -> loop-0:6(120)
        switch loop-0:6(120) R -> bash:4(120)
        5
        ");
    }

    #[test]
    fn other_states_stay_as_they_are() {
        let plain =
            switch(1, "fio", "D", "swapper/0") + &switch(2, "swapper/0", "R", "bash") + &switch(3, "bash", "S", "fio");
        insta::assert_snapshot!(read(&plain), @r"
        switch fio:3(120) D -> swapper/0:0(120)
        switch swapper/0:0(120) R -> bash:4(120)
        switch bash:4(120) S -> fio:3(120)
        ");
        insta::assert_snapshot!(read(&switch(1, "fio", "D", "bash")), @"switch fio:3(120) D -> bash:4(120)");
    }
}
