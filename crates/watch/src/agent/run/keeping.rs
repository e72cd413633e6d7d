//! Which episodes are kept, and when what was recorded of them is handed over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use unstarve_model::WallTime;
use unstarve_record::{Flight, Look};
use unstarve_sched::Rule;

use super::{Event, INTERVAL, Watch};
use crate::agent::alert_sender::Alert;
use crate::agent::board::{Board, RecorderState};
use crate::agent::config::RecorderMode;
use crate::agent::control;
use crate::agent::machine::on_this_machine;
use crate::agent::trace_writer::{Job, Keep};
use crate::engine::error_chain;
use crate::engine::reading::{LimitedGroup, Reading, VictimClass};
use crate::episode::{Begun, Detector, Episode, id_of};

/// Episodes that share the trace of one that waits for a disk which is busy.
const MOST_ALONG: usize = 16;
/// When they are that many, the next one of a cause may come so much later.
const MANY: Duration = Duration::from_secs(1);

/// An episode that has begun, and is recorded on until a time.
pub(super) struct Waiting {
    pub until: Instant,
    pub seen: Instant,
    pub episode: Box<Episode>,
    pub along: Vec<Episode>,
    /// What the counters saw of it, and of those along it.
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
            // If it lasts it is kept later.
            self.detector.postpone(begun, too_soon.max(MANY));
            self.not_kept += 1;
            self.board.write(|published| {
                published.counts.not_kept += 1;
                published.counts.suppress(&begun.victim.name());
            });
            return;
        }
        let mut episode = Box::new(on_this_machine(Episode::begun(id_of(begun.at.wall), begun.at.wall)));
        episode.note_counters(begun);
        episode.not_kept = std::mem::take(&mut self.not_kept);
        self.last_kept.insert(class, now);
        let rule = begun.rule.unwrap_or(Rule::Unknown).word();
        self.board.write(|published| *published.counts.begun.entry(rule).or_insert(0) += 1);
        if let Some(waiting) = &mut self.waits {
            episode.id = format!("{}-{}", episode.id, waiting.along.len() + 2);
            announce(&self.board, &self.words, &episode);
            waiting.along.push(*episode);
            waiting.begun.push(begun.clone());
            return;
        }
        let after = match self.config.recorder.mode {
            // Without a trace the scribe says all that there is, at once.
            RecorderMode::Off => Duration::ZERO,
            RecorderMode::Always | RecorderMode::Armed => {
                announce(&self.board, &self.words, &episode);
                self.config.recorder.after.0
            }
        };
        let (along, begun) = (Vec::new(), vec![begun.clone()]);
        self.waits = Some(Waiting { until: now + after, seen: now, episode, along, begun, reply: None });
    }

    /// An episode that began could not be kept, and now it could: if its cause still lasts, it begins again.
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
        let at = wall_now();
        let episode = Box::new(on_this_machine(Episode::begun(id_of(at), at)));
        let now = Instant::now();
        let (along, begun) = (Vec::new(), Vec::new());
        self.waits = Some(Waiting { until: now, seen: now, episode, along, begun, reply: Some(reply) });
    }

    /// Hands over an episode that has begun: what is recorded of it so far is kept, and explained now or by the next watch.
    pub(super) fn keep_last(&mut self, inbox: &Receiver<Event>, end: Instant) {
        while let Some(waiting) = &mut self.waits {
            if Instant::now() >= end {
                return;
            }
            waiting.until = Instant::now();
            self.keep_if_due();
            // The instance of the episode before may still be on its way back.
            if let (Some(_), Ok(Event::Roll(roll))) = (&self.waits, inbox.recv_timeout(Duration::from_millis(20))) {
                self.take_back(roll);
            }
        }
    }

    /// Hands over the episode whose time has come, and says whether it did. While the one before is still being written to the disk it waits.
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

/// Has the first word on an episode said: what explains it takes its time.
fn announce(board: &Board, words: &Sender<Alert>, episode: &Episode) {
    let word = Arc::new(episode.announced());
    board.write(|published| published.list(Arc::clone(&word)));
    let _ = words.send(Alert::Opened(word));
}

/// What the kernel had counted of limits at each reading that is remembered, oldest first: of each reading the counters that were read then.
fn looks(detector: &Detector) -> Vec<Look> {
    let counted = |reading: &Reading| {
        let now = reading.limits.iter().map(|group| group.read).max();
        let is_new = |group: &&LimitedGroup| Some(group.read) == now;
        let fresh = reading.limits.iter().filter(is_new);
        fresh.map(|group| (group.path.to_string(), group.counted)).collect::<BTreeMap<_, _>>()
    };
    detector.remembered().map(|reading| Look { at: reading.at, counted: counted(reading) }).collect()
}

fn wall_now() -> WallTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    WallTime(since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)))
}
