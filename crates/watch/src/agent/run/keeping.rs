//! Decides which episodes are kept, and when their recordings are passed to the trace writer.

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
use crate::agent::machine::on_this_machine;
use crate::agent::trace_writer::{Job, Keep};
use crate::engine::reading::{LimitedGroup, Reading, VictimClass};
use crate::engine::{clocks, error_chain};
use crate::episode::{Begun, Detector, Episode, id_of};

/// Maximum episodes that share the trace of one that waits for a busy disk.
const MOST_ALONG: usize = 16;
/// When the maximum is reached, a cause can begin its next episode after this time.
const MANY: Duration = Duration::from_secs(1);

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
    pub(super) fn begin(&mut self, begun: &Begun) {
        let now = Instant::now();
        let class = VictimClass::of(begun.victim.kind);
        let last = self.last_kept.get(&class);
        let too_soon = last.map_or(Duration::ZERO, |last| self.config.store.every.0.saturating_sub(now - *last));
        let many = self.waits.as_ref().is_some_and(|waiting| waiting.along.len() >= MOST_ALONG);
        if !too_soon.is_zero() || many {
            // If the cause persists, an episode is kept later.
            self.detector.postpone(begun, too_soon.max(MANY));
            self.not_kept += 1;
            self.board.write(|published| {
                published.counts.not_kept += 1;
                published.counts.suppress(&begun.victim.name());
            });
            return;
        }
        let mut episode = Box::new(on_this_machine(Episode::begun(id_of(begun.at.wall), begun.at.wall), &self.board));
        episode.note_counters(begun);
        episode.not_kept = std::mem::take(&mut self.not_kept);
        self.last_kept.insert(class, now);
        let rule = begun.rule.unwrap_or(Rule::Unknown).word();
        self.board.write(|published| *published.counts.begun.entry(rule).or_insert(0) += 1);
        if let Some(waiting) = &mut self.waits {
            episode.id = format!("{}-{}", episode.id, waiting.along.len() + 2);
            announce(&self.board, &self.alerts, &episode);
            waiting.along.push(*episode);
            waiting.begun.push(begun.clone());
            return;
        }
        let after = match self.config.recorder.mode {
            // Without a trace, the trace writer publishes the final record at once.
            RecorderMode::Off => Duration::ZERO,
            RecorderMode::Always | RecorderMode::Armed => {
                announce(&self.board, &self.alerts, &episode);
                self.config.recorder.after.0
            }
        };
        let (along, begun) = (Vec::new(), vec![begun.clone()]);
        self.waits = Some(Waiting { until: now + after, seen: now, episode, along, begun, reply: None });
    }

    /// An episode could not be kept, and now there is room: if its cause persists, it begins again.
    pub(super) fn may_begin_again(&mut self, begun: &Begun) {
        self.last_kept.remove(&VictimClass::of(begun.victim.kind));
        self.detector.postpone(begun, Duration::ZERO);
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
fn announce(board: &Board, alerts: &Sender<Alert>, episode: &Episode) {
    let word = Arc::new(episode.announced());
    board.write(|published| published.list(Arc::clone(&word)));
    let _ = alerts.send(Alert::Opened(word));
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
