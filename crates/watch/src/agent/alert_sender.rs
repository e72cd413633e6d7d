//! Says that an episode begins, with what the counters know, and that it is over. It has its own thread: writing and explaining a trace take long.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::agent::board::Board;
use crate::agent::outputs::{Message, Outputs};
use crate::agent::priority_boost::PriorityBoost;
use crate::agent::store::Store;
use crate::engine::error_chain;
use crate::episode::Episode;

/// Work for the alert sender.
pub(crate) enum Alert {
    /// An episode has begun or ended.
    Said(Arc<Episode>),
    /// A record for the log alone.
    Noted(Box<Episode>),
    /// Outputs of a new configuration.
    Configure(Outputs),
}

pub(crate) struct AlertSender {
    pub(crate) outputs: Outputs,
    pub(crate) store: Arc<Store>,
    pub(crate) board: Arc<Board>,
}

impl AlertSender {
    pub(crate) fn run(mut self, words: &Receiver<Alert>) {
        // It does little, and people wait for the alert: busy programs must not delay it.
        let _boost = PriorityBoost::raise();
        for word in words {
            match word {
                Alert::Said(episode) => self.send(&episode),
                Alert::Noted(episode) => self.log(&episode),
                Alert::Configure(outputs) => self.outputs = outputs,
            }
        }
    }

    /// Outputs before the log on disk, which may be slow.
    fn send(&self, episode: &Arc<Episode>) {
        self.outputs.send(&Message::Episode(Arc::clone(episode)));
        self.log(episode);
    }

    fn log(&self, episode: &Episode) {
        if let Err(error) = self.store.add(episode) {
            self.board.store_problem(&error_chain(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::agent::config::{Config, Syslog};
    use crate::agent::outputs::Deliveries;
    use crate::agent::store::{Limits, read_log};
    use crate::episode::{Stage, id_of};

    #[test]
    fn the_first_word_is_in_the_log_until_the_last_one_is() {
        let (place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 9 });
        let store = Arc::new(store);
        let path = place.path().join("store");
        let board = Arc::new(Board::default());
        let mut config = Config::default();
        config.sinks.log = Syslog::Off;
        let outputs = Outputs::open(&config, &board, &Deliveries::default()).expect("outputs");
        let (words, inbox) = channel();
        let at = crate::testing::at(500).wall;
        let episode = Episode::begun(id_of(at), at);
        words.send(Alert::Said(Arc::new(episode.announced()))).expect("sent");
        drop(words);
        AlertSender { outputs, store: Arc::clone(&store), board: Arc::clone(&board) }.run(&inbox);
        let stages = || -> Vec<Stage> {
            read_log(&path).expect("a log").episodes.into_iter().map(|episode| episode.stage).collect()
        };
        assert_eq!(stages(), [Stage::Begun]);
        // If the watch is killed now, the next one must not report that nothing more is known.
        let left = store.unexplained().expect("read");
        assert_eq!((left.len(), left[0].episode.stage), (1, Stage::Complete));
        assert!(left[0].episode.problem.as_deref().is_some_and(|why| why.contains("ended")), "{left:?}");
        store.logbook().add(&episode).expect("added");
        assert_eq!(stages(), [Stage::Complete]);
        assert!(store.unexplained().expect("read").is_empty());
        assert!(board.read().problems.is_empty());
    }

    /// A full disk: outputs have the last word at once, the log when there is room.
    #[test]
    fn the_last_word_waits_for_the_disk_in_the_log_alone() {
        let (place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 9 });
        let store = Arc::new(store);
        let path = place.path().join("store");
        std::fs::create_dir(path.join("episodes.jsonl")).expect("in the way");
        let board = Arc::new(Board::default());
        let mut config = Config::default();
        config.sinks.log = Syslog::Off;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        config.webhook = Some(crate::agent::config::Webhook { url, headers: [].into() });
        let outputs = Outputs::open(&config, &board, &Deliveries::default()).expect("outputs");
        let (words, inbox) = channel();
        let at = crate::testing::at(500).wall;
        let end = crate::episode::End::continued(at, "x".into());
        let last = Episode::begun(id_of(at), at).ended(&end);
        words.send(Alert::Said(Arc::new(last.clone()))).expect("sent");
        drop(words);
        AlertSender { outputs, store: Arc::clone(&store), board: Arc::clone(&board) }.run(&inbox);
        let (mut stream, _) = listener.accept().expect("the webhook is posted");
        let mut text = [0; 4096];
        let length = std::io::Read::read(&mut stream, &mut text).expect("a request");
        assert!(length > 0 && board.read().problems.contains_key("store"));
        std::fs::remove_dir(path.join("episodes.jsonl")).expect("removed");
        store.logbook().add_waiting().expect("now there is room");
        assert_eq!(read_log(&path).expect("a log").episodes, [last]);
    }
}
