//! Says everywhere what is known of an episode of which all is written that will be.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use unstarve_diagnose::report::FindingId;

use crate::agent::board::Board;
use crate::agent::outputs::{Message, Outputs};
use crate::agent::store::{Rank, Store};
use crate::engine::error_chain;
use crate::episode::{Episode, Explanation};

/// An episode of which all is on the disk that will be.
pub(crate) struct Written {
    pub(crate) episode: Episode,
    /// Those that share its trace.
    pub(crate) along: Vec<Episode>,
    /// Gets the outcome of a dump on demand.
    pub(crate) reply: Option<Sender<String>>,
}

impl Written {
    /// Whose turn to be explained it has.
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
    /// The last word on an episode, and on those that share its trace.
    pub fn tell(&self, written: Written, explanation: Option<&Explanation>) {
        let Written { episode, along, reply } = written;
        if episode.trace_bytes.is_some()
            && let Err(error) = self.store.note(&episode)
        {
            self.problem(&error_chain(&error));
        }
        if explanation.is_some_and(|found| found.missed(&episode).is_some()) {
            self.board.write(|published| published.counts.short_traces += 1);
        }
        // The one that has the trace comes last: until it is in the log, a watch that starts looks for those that share it.
        for mut other in along {
            other.note_shared(&episode, explanation);
            if let Some(explanation) = explanation {
                other.note_tasks(explanation);
            }
            self.tell_one(Arc::new(other), None);
        }
        self.tell_one(Arc::new(episode), reply);
    }

    fn tell_one(&self, episode: Arc<Episode>, reply: Option<Sender<String>>) {
        let logged = self.store.logbook().add(&episode);
        if let Err(error) = &logged {
            self.problem(&error_chain(error));
        }
        let is_dump = episode.trigger.is_none();
        self.board.write(|published| {
            if logged.is_ok() && episode.problem.is_none() {
                published.problems.remove("store");
            }
            if !is_dump {
                let finding = episode.counts_as().map_or("none", FindingId::as_str).to_owned();
                *published.counts.episodes.entry(finding).or_insert(0) += 1;
            }
            published.list(Arc::clone(&episode));
        });
        self.board.note_kept(&self.store);
        // Who asked for a dump hears it there.
        if !is_dump {
            self.outputs.send(&Message::Episode(Arc::clone(&episode)));
        }
        if let Some(reply) = reply {
            let _ = reply.send(serde_json::to_string(episode.as_ref()).unwrap_or_default());
        }
    }

    fn problem(&self, problem: &str) {
        self.board.store_problem(problem);
    }
}
