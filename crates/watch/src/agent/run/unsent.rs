//! What a watch could not deliver before it ended: the next start delivers the episodes and counts the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Watch;
use crate::agent::board::Board;
use crate::agent::outputs::{Message, OutputKind, Outputs, Undelivered, WEBHOOK};
use crate::agent::store::{Outbox, Unsent};
use crate::agent::trace_writer::Job;
use crate::engine::error_chain;

/// Queues the episodes that the previous run has left for the webhook, and counts what is lost. Returns whether there are any.
pub(super) fn deliver_left(outbox: &Outbox, outputs: &Outputs, board: &Board, say: &dyn Fn(&str)) -> bool {
    let unsent = match outbox.read() {
        Ok(unsent) if unsent.is_empty() => return false,
        Ok(unsent) => unsent,
        Err(error) => {
            say(&format!(
                "cannot read what the previous run could not deliver, it is counted as one loss: {}",
                error_chain(&error)
            ));
            board.undelivered(WEBHOOK);
            note(outbox, &Unsent::default(), board);
            return false;
        }
    };
    let mut counts = unsent.counts;
    let queue = outputs.queue_of(WEBHOOK).filter(|_| !unsent.words.is_empty());
    match queue {
        Some(queue) => {
            say(&format!("delivering {} left by the previous run", named(WEBHOOK, unsent.words.len() as u64)));
            queue.send_first(unsent.words.iter().cloned().map(|word| Message::Episode(Arc::new(word))));
        }
        None if unsent.words.is_empty() => {}
        None => *counts.entry(WEBHOOK.to_owned()).or_insert(0) += unsent.words.len() as u64,
    }
    board.write(|published| {
        for (output, count) in &counts {
            // The file may name anything.
            if let Some(kind) = OutputKind::named(output) {
                *published.counts.undelivered.entry(kind.name).or_insert(0) += count;
            }
        }
    });
    if !counts.is_empty() {
        say(&format!("lost by the previous run, and counted now: {}", listed(&counts, "")));
    }
    // The episodes stay in the file until they are delivered.
    let rest = Unsent { words: queue.map_or_else(Vec::new, |_| unsent.words), counts: BTreeMap::new() };
    note(outbox, &rest, board);
    queue.is_some()
}

fn note(outbox: &Outbox, unsent: &Unsent, board: &Board) {
    if let Err(error) = outbox.note(unsent) {
        board.store_problem(&error_chain(&error));
    }
}

/// Maximum episodes kept; older ones are counted.
const MOST_WORDS: usize = 128;

/// What is left at shutdown, with what was counted meanwhile.
pub(super) fn of(left: Undelivered, counted: &BTreeMap<&'static str, u64>) -> Unsent {
    let mut counts: BTreeMap<String, u64> =
        counted.iter().map(|(output, count)| ((*output).to_owned(), *count)).collect();
    for (output, count) in left.others {
        *counts.entry(output.to_owned()).or_insert(0) += count;
    }
    let more = left.words.len().saturating_sub(MOST_WORDS);
    if more > 0 {
        *counts.entry(WEBHOOK.to_owned()).or_insert(0) += more as u64;
    }
    let words = left.words.into_iter().skip(more).map(Arc::unwrap_or_clone);
    Unsent { words: words.collect(), counts }.fitting()
}

/// A sentence about it; `None` if nothing is left.
pub(super) fn words(unsent: &Unsent) -> Option<String> {
    if unsent.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    if !unsent.words.is_empty() {
        parts.push(named(WEBHOOK, unsent.words.len() as u64) + " (kept; sent at the next start)");
    }
    if !unsent.counts.is_empty() {
        parts.push(listed(&unsent.counts, " (lost; counted at the next start)"));
    }
    Some(format!("not delivered at shutdown: {}", parts.join(", ")))
}

fn listed(counts: &BTreeMap<String, u64>, fate: &str) -> String {
    let parts = counts.iter().map(|(output, count)| named(output, *count) + fate);
    parts.collect::<Vec<_>>().join(", ")
}

/// The number of messages of an output, with the word for them.
fn named(output: &str, count: u64) -> String {
    let [one, many] = OutputKind::named(output).map_or([output; 2], |kind| kind.message);
    format!("{count} {}", if count == 1 { one } else { many })
}

impl Watch {
    /// Clears the file once the episodes of the previous run are delivered or counted.
    pub(super) fn note_sent(&mut self) {
        if self.delivers_left && self.deliveries.is_idle(WEBHOOK) {
            self.delivers_left = false;
            let _ = self.jobs.send(Job::Sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::agent::config::{Config, Syslog, Webhook};
    use crate::agent::outputs::Deliveries;
    use crate::agent::store::{Limits, Store};
    use crate::episode::Episode;

    fn word(number: u32) -> Episode {
        Episode { id: format!("20261123-012345-{number:03}"), ..Episode::default() }
    }

    /// A store, and a webhook with this URL.
    struct Rig {
        store: Store,
        config: Config,
        board: Arc<Board>,
        said: RefCell<Vec<String>>,
        _place: tempfile::TempDir,
    }

    impl Rig {
        fn new(url: Option<String>) -> Rig {
            let (place, store) = crate::testing::store(Limits { bytes: u64::MAX, episodes: 9 });
            let mut config = Config::default();
            config.sinks.log = Syslog::Off;
            config.webhook = url.map(|url| Webhook { url, headers: [].into() });
            Rig { store, config, board: Arc::new(Board::default()), said: RefCell::default(), _place: place }
        }

        /// What the next watch does when it starts.
        fn start(&self, deliveries: &Deliveries) -> (Outputs, bool) {
            let outputs = Outputs::open(&self.config, &self.board, deliveries).expect("outputs");
            let say = |text: &str| self.said.borrow_mut().push(text.to_owned());
            let delivers = deliver_left(&self.store.outbox(), &outputs, &self.board, &say);
            (outputs, delivers)
        }
    }

    /// Answers `count` posts; returns their ids.
    fn hook(listener: TcpListener, count: usize) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let ids = (0..count).map(|_| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut text = Vec::new();
                let mut part = [0; 4096];
                while !text.ends_with(b"}") {
                    let length = stream.read(&mut part).expect("a request");
                    text.extend_from_slice(&part[..length]);
                }
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .expect("answered");
                let body = String::from_utf8_lossy(&text).into_owned();
                let body = body.split("\r\n\r\n").nth(1).expect("a body").to_owned();
                serde_json::from_str::<Episode>(&body).expect("an episode").id
            });
            ids.collect()
        })
    }

    #[test]
    fn what_a_dead_webhook_did_not_get_the_next_watch_delivers_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let rig = Rig::new(Some(url));
        // The server is down, and the watch ends.
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let deliveries = Deliveries::default();
        let (outputs, delivers) = rig.start(&deliveries);
        assert!(!delivers && rig.said.borrow().is_empty());
        (0..3).for_each(|number| outputs.send(&Message::Episode(Arc::new(word(number)))));
        let begun = Instant::now();
        let until = begun + Duration::from_secs(14);
        deliveries.end(until);
        drop(outputs);
        let unsent = of(deliveries.finish(until), &BTreeMap::new());
        assert!(begun.elapsed() < Duration::from_secs(10), "whom nobody answers is not waited for");
        assert_eq!(unsent.words, [0, 1, 2].map(word));
        assert!(
            words(&unsent).is_some_and(
                |text| text == "not delivered at shutdown: 3 webhook messages (kept; sent at the next start)"
            )
        );
        rig.store.outbox().note(&unsent).expect("noted");

        // The next watch finds them, and the server is up.
        let hook = hook(TcpListener::bind(address).expect("the same port"), 3);
        let deliveries = Deliveries::default();
        let (outputs, delivers) = rig.start(&deliveries);
        assert!(delivers);
        assert_eq!(*rig.said.borrow(), ["delivering 3 webhook messages left by the previous run"]);
        // Saved until delivered: this watch can be killed too.
        assert_eq!(rig.store.outbox().read().expect("read").words.len(), 3);
        assert_eq!(hook.join().expect("posted"), [0, 1, 2].map(|number| word(number).id));
        let end = Instant::now() + Duration::from_secs(20);
        while !deliveries.is_idle("webhook") && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(deliveries.is_idle("webhook"));
        drop(outputs);
    }

    #[test]
    fn what_cannot_be_read_is_counted_once_and_said() {
        let rig = Rig::new(None);
        let file = rig.store.path().join("unsent.json");
        std::fs::write(&file, "{").expect("written");
        let count = || rig.board.read().counts.undelivered.get("webhook").copied();
        rig.start(&Deliveries::default());
        assert_eq!(count(), Some(1), "words may have been lost");
        assert!(rig.said.borrow().iter().any(|text| text.starts_with("cannot read what")), "{:?}", rig.said);
        assert!(!file.exists() && rig.board.read().problems.is_empty(), "it is removed");
        rig.start(&Deliveries::default());
        assert_eq!((count(), rig.said.borrow().len()), (Some(1), 1), "once");
    }

    /// The message at the end matches what was saved.
    #[test]
    fn of_what_is_too_much_to_be_noted_the_end_says_how_many_are_lost() {
        let large = |number| Arc::new(Episode { problem: Some("x".repeat(1 << 20)), ..word(number) });
        let left = Undelivered { words: (0..5).map(large).collect(), ..Undelivered::default() };
        let said = words(&of(left, &BTreeMap::new()));
        assert!(
            said.is_some_and(
                |text| text.contains("3 webhook messages (kept") && text.contains("2 webhook messages (lost")
            )
        );
    }

    #[test]
    fn what_nobody_can_deliver_any_more_is_counted_by_the_next_watch() {
        let rig = Rig::new(None);
        let counts = [("otlp".to_owned(), 2), ("evil".to_owned(), 7)].into();
        rig.store.outbox().note(&Unsent { words: vec![word(1)], counts }).expect("noted");
        let (_outputs, delivers) = rig.start(&Deliveries::default());
        assert!(!delivers, "no webhook any more");
        let counted = rig.board.read().counts.undelivered.clone();
        assert_eq!(counted, [("otlp", 2), ("webhook", 1)].into());
        assert!(
            rig.said.borrow().iter().any(|text| text.ends_with("2 OTLP pushes, 1 webhook message")),
            "{:?}",
            rig.said
        );
        let unsent = Unsent { words: vec![word(1)], counts: [("otlp".to_owned(), 2)].into() };
        assert_eq!(
            words(&unsent).as_deref(),
            Some(
                "not delivered at shutdown: 1 webhook message (kept; sent at the next start), 2 OTLP pushes (lost; counted at the next start)"
            )
        );
        assert!(rig.store.outbox().read().expect("read").is_empty(), "once");
    }
}
