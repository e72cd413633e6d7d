//! Publishes a completed episode: store, log, board and all outputs.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use unstarve_diagnose::report::FindingId;

use crate::agent::board::Board;
use crate::agent::outputs::{Message, Outputs};
use crate::agent::store::{Rank, Store};
use crate::engine::error_chain;
use crate::episode::{Episode, Explanation};

/// An episode whose files are on disk.
pub(crate) struct Written {
    pub(crate) episode: Episode,
    /// Episodes in the same trace.
    pub(crate) along: Vec<Episode>,
    /// Gets the outcome of a dump on demand.
    pub(crate) reply: Option<Sender<String>>,
}

impl Written {
    /// The class of the queue in which the episode waits for its explanation.
    pub(crate) fn rank(&self) -> Rank {
        Rank::of_all(&self.episode, &self.along)
    }
}

pub(crate) struct EpisodePublisher {
    pub(crate) store: Arc<Store>,
    pub(crate) outputs: Outputs,
    pub(crate) board: Arc<Board>,
}

impl EpisodePublisher {
    /// Publishes an episode and those in the same trace.
    pub fn publish(&self, written: Written, explanation: Option<&Explanation>) {
        let Written { mut episode, along, reply } = written;
        self.board.last_words.note(&mut episode);
        if explanation.is_some_and(|found| found.short_by(&episode).is_some()) {
            self.board.write(|published| published.counts.short_traces += 1);
        }
        // The owner of the trace comes last: until it is in the log, a starting watch looks for episodes in the same trace.
        for mut other in along {
            other.note_shared(&episode, explanation);
            if let Some(explanation) = explanation {
                other.note_tasks(explanation);
            }
            self.board.last_words.note(&mut other);
            self.publish_one(Arc::new(other), None);
        }
        self.publish_one(Arc::new(episode), reply);
    }

    fn publish_one(&self, episode: Arc<Episode>, reply: Option<Sender<String>>) {
        let logged = self.log(&episode);
        let is_dump = episode.trigger.is_none();
        self.board.write(|published| {
            if logged && episode.problem.is_none() {
                published.problems.remove("store");
            }
            if !is_dump {
                let finding = episode.counts_as().map_or("none", FindingId::as_str).to_owned();
                *published.counts.episodes.entry(finding).or_insert(0) += 1;
            }
            published.list(Arc::clone(&episode));
        });
        self.board.note_kept(&self.store);
        // A dump is answered at the control socket.
        if !is_dump {
            self.outputs.send(&Message::Episode(Arc::clone(&episode)));
        }
        if let Some(reply) = reply {
            let _ = reply.send(serde_json::to_string(episode.as_ref()).unwrap_or_default());
        }
        // It may have ended meanwhile.
        if let Some(last) = self.board.last_words.complete(&episode) {
            self.say_last(Arc::new(last));
        }
    }

    fn say_last(&self, last: Arc<Episode>) {
        self.log(&last);
        self.board.write(|published| {
            published.counts.ended += 1;
            published.list(Arc::clone(&last));
        });
        self.outputs.send(&Message::Episode(last));
    }

    /// Whether the log has it.
    fn log(&self, episode: &Episode) -> bool {
        let logged = self.store.add(episode);
        if let Err(error) = &logged {
            self.problem(&error_chain(error));
        }
        logged.is_ok()
    }

    fn problem(&self, problem: &str) {
        self.board.store_problem(problem);
    }
}
