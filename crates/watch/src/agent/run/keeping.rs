//! Says that episodes begin and end, decides which get a trace, and when their recordings are passed to the trace writer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use unstarve_record::{Flight, Look};
use unstarve_sched::Rule;

use super::{Event, INTERVAL, Watch};
use crate::agent::alert_sender::Alert;
use crate::agent::board::{Board, RecorderState};
use crate::agent::config::RecorderMode;
use crate::agent::control;
use crate::agent::last_words::{Awaits, Word};
use crate::agent::machine::on_this_machine;
use crate::agent::trace_writer::{Job, Keep};
use crate::engine::reading::{LimitedGroup, Reading, VictimClass};
use crate::engine::{clocks, error_chain};
use crate::episode::{Begun, Cause, Detector, End, Ended, Episode, Joined, Said, Suffered, id_of};

/// Maximum episodes that share the trace of one that waits for a busy disk.
const MOST_ALONG: usize = 16;

/// An episode that has begun, and is recorded until a given time.
pub(super) struct Waiting {
    pub until: Instant,
    pub seen: Instant,
    pub episode: Box<Episode>,
    pub along: Vec<Episode>,
    /// What the counters saw of this episode and of those that share its trace.
    pub begun: Vec<Begun>,
    pub reply: Option<Sender<String>>,
}

impl Watch {
    /// Each episode that begins gets a line; a trace only if the budget allows.
    pub(super) fn begin(&mut self, begun: &Begun) {
        let now = Instant::now();
        if let Err(wait) = self.take_line(begun, now) {
            return self.leave_out(begun, wait);
        }
        let episode = self.announced(begun);
        if let Some(waiting) = self.waits.as_mut().filter(|waiting| waiting.along.len() < MOST_ALONG) {
            self.traces.share(&Cause::of(begun), now);
            announce(&self.board, &self.alerts, &episode, Awaits::Explanation);
            waiting.along.push(episode);
            waiting.begun.push(begun.clone());
            return;
        }
        match self.refusal(begun, now) {
            None => self.record(episode, begun, now),
            Some(why) => {
                self.board.write(|published| published.counts.without_trace += 1);
                let episode = Episode { problem: Some(why), ..episode };
                announce(&self.board, &self.alerts, &episode, Awaits::Nothing);
            }
        }
    }

    /// The record of an episode that begins. If it goes on in another one's place, that has ended.
    fn announced(&mut self, begun: &Begun) -> Episode {
        let mut episode = on_this_machine(Episode::begun(self.next_id(begun), begun.at.wall), &self.board);
        episode.note_counters(begun);
        (episode.not_kept, episode.lasts) = (std::mem::take(&mut self.not_kept), true);
        let rule = begun.rule.unwrap_or(Rule::Unknown).word();
        self.board.write(|published| *published.counts.begun.entry(rule).or_insert(0) += 1);
        if let Some(former) = begun.continues {
            self.end_episode(former, End::continued(begun.at.wall, episode.id.clone()));
        }
        self.ids.insert(begun.number, episode.id.clone());
        episode
    }

    /// Why an episode that cannot share a trace gets none.
    fn refusal(&mut self, begun: &Begun, now: Instant) -> Option<String> {
        match (&self.waits, self.config.recorder.mode) {
            (Some(_), _) => Some(format!("no trace: {MOST_ALONG} others share the present one")),
            // The trace writer says so.
            (None, RecorderMode::Off) => None,
            (None, _) => self.traces.take(&Cause::of(begun), self.config.store.every.0, now).refusal(),
        }
    }

    /// Records an episode until its time is over.
    fn record(&mut self, episode: Episode, begun: &Begun, now: Instant) {
        let after = match self.config.recorder.mode {
            // Without a trace, the trace writer publishes the next record at once.
            RecorderMode::Off => {
                self.board.last_words.begin(Arc::new(episode.announced()), Awaits::Explanation);
                Duration::ZERO
            }
            RecorderMode::Always | RecorderMode::Armed => {
                announce(&self.board, &self.alerts, &episode, Awaits::Explanation);
                self.config.recorder.after.0
            }
        };
        let (episode, along, begun) = (Box::new(episode), Vec::new(), vec![begun.clone()]);
        self.waits = Some(Waiting { until: now + after, seen: now, episode, along, begun, reply: None });
    }

    /// An episode that goes on in another one's place needs no line of the budget: that had one.
    fn take_line(&mut self, begun: &Begun, now: Instant) -> Result<(), Duration> {
        match begun.continues {
            Some(_) => Ok(()),
            None => self.lines.take(VictimClass::of(begun.victim.kind), now),
        }
    }

    /// There are too many lines. If the cause persists, the episode gets one later.
    fn leave_out(&mut self, begun: &Begun, wait: Duration) {
        self.detector.postpone(begun, wait, Said::Nothing);
        self.not_kept += 1;
        self.board.write(|published| {
            published.counts.not_kept += 1;
            published.counts.suppress(&begun.victim.name());
        });
    }

    /// An id of its own: several episodes can begin in one reading.
    fn next_id(&mut self, begun: &Begun) -> String {
        let id = id_of(begun.at.wall);
        let number = match &self.last_id {
            Some((last, number)) if *last == id => number.saturating_add(1),
            _ => 1,
        };
        self.last_id = Some((id.clone(), number));
        if number > 1 { format!("{id}-{number}") } else { id }
    }

    /// Another victim of an open episode's cause: it has no line of its own, and is in that episode's last one.
    pub(super) fn join(&mut self, joined: &Joined) {
        self.board.write(|published| published.counts.suppress(&joined.begun.victim.name()));
        let Some(id) = joined.number.and_then(|number| self.ids.get(&number)) else { return };
        let victim = Suffered::of_counters(&joined.begun);
        self.board.last_words.join(id, &victim);
        // It is in the trace that is being recorded.
        if let Some(waiting) = &mut self.waits {
            let mut all = std::iter::once(waiting.episode.as_mut()).chain(&mut waiting.along);
            all.find(|episode| episode.id == *id).into_iter().for_each(|episode| episode.note_joined(&victim));
        }
    }

    pub(super) fn end_episodes(&mut self, ended: Vec<Ended>) {
        ended.into_iter().for_each(|ended| self.end_episode(ended.number, ended.into()));
    }

    /// Says the last word, or leaves it to who explains the trace.
    fn end_episode(&mut self, number: u64, end: End) {
        // One that was left out has no id.
        let Some(id) = self.ids.remove(&number) else { return };
        let said = match self.board.last_words.end(&id, end) {
            Some(Word::Last(last)) => {
                let last = Arc::new(*last);
                self.board.write(|published| {
                    published.counts.ended += 1;
                    published.list(Arc::clone(&last));
                });
                Alert::Said(last)
            }
            Some(Word::Note(word)) => Alert::Noted(word),
            None => return,
        };
        let _ = self.alerts.send(said);
    }

    /// An episode could not be kept, and now there is room: if its cause persists, it begins again.
    pub(super) fn may_begin_again(&mut self, begun: &Begun) {
        self.traces.give_back(&Cause::of(begun));
        self.detector.postpone(begun, Duration::ZERO, Said::Line);
    }

    pub(super) fn dump(&mut self, reply: Sender<String>) {
        let refusal = match (&self.flight, &self.waits) {
            (None, _) => Some("there is no flight recorder: see `unstarve watch status`"),
            (_, Some(_)) => Some("an episode is being recorded; ask again in a second"),
            _ => None,
        };
        if let Some(refusal) = refusal {
            let _ = reply.send(control::error(refusal));
            return;
        }
        let at = clocks::now().wall;
        let episode = Box::new(on_this_machine(Episode::begun(id_of(at), at), &self.board));
        let now = Instant::now();
        let (along, begun) = (Vec::new(), Vec::new());
        self.waits = Some(Waiting { until: now, seen: now, episode, along, begun, reply: Some(reply) });
    }

    /// Passes on an episode that has begun: the recording so far is kept, and explained now or by the next watch.
    pub(super) fn keep_last(&mut self, inbox: &Receiver<Event>, end: Instant) {
        while let Some(waiting) = &mut self.waits {
            if Instant::now() >= end {
                return;
            }
            waiting.until = Instant::now();
            self.keep_if_due();
            // The instance of the previous episode may not have been returned yet.
            if let (Some(_), Ok(Event::Roll(roll))) = (&self.waits, inbox.recv_timeout(Duration::from_millis(20))) {
                self.take_back(roll);
            }
        }
    }

    /// Passes on the episode if its time is over; returns whether it did. It waits while the previous one is still being written to the disk.
    pub(super) fn keep_if_due(&mut self) -> bool {
        if self.waits.as_ref().is_none_or(|waiting| Instant::now() < waiting.until) {
            return false;
        }
        let frozen = match self.flight.as_mut().map(Flight::freeze) {
            None => None,
            Some(Ok(Some(mut frozen))) => {
                frozen.note_limits(looks(&self.detector));
                Some(frozen)
            }
            Some(Ok(None)) => {
                if let Some(waiting) = &mut self.waits {
                    waiting.until = Instant::now() + INTERVAL;
                }
                return false;
            }
            Some(Err(error)) => {
                self.recorder(RecorderState::Broken(error_chain(&error)));
                None
            }
        };
        let Some(Waiting { seen, mut episode, along, begun, reply, .. }) = self.waits.take() else { return false };
        if frozen.is_none() && self.config.recorder.mode != RecorderMode::Off {
            episode.problem = Some("no trace: the flight recorder is not ready".to_owned());
        }
        let _ = self.jobs.send(Job::Keep(Box::new(Keep { episode, along, begun, frozen, seen, reply })));
        true
    }
}

/// Publishes the first record of an episode, because explaining it takes time.
fn announce(board: &Board, alerts: &Sender<Alert>, episode: &Episode, awaits: Awaits) {
    let word = Arc::new(episode.announced());
    board.last_words.begin(Arc::clone(&word), awaits);
    board.write(|published| published.list(Arc::clone(&word)));
    let _ = alerts.send(Alert::Said(word));
}

/// The kernel's throttling counters at each reading kept, oldest first; of each reading, only the counters read then.
fn looks(detector: &Detector) -> Vec<Look> {
    let counted = |reading: &Reading| {
        let now = reading.limits.iter().map(|group| group.read).max();
        let is_new = |group: &&LimitedGroup| Some(group.read) == now;
        let fresh = reading.limits.iter().filter(is_new);
        fresh.map(|group| (group.path.to_string(), group.counted)).collect::<BTreeMap<_, _>>()
    };
    detector.remembered().map(|reading| Look { at: reading.at, counted: counted(reading) }).collect()
}
