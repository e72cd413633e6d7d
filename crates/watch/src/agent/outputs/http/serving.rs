//! Starts the HTTP server, and retries if its address is taken: any user can take a port, which must not end the watch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::agent::board::Board;
use crate::agent::config::{Address, Listen};
use crate::agent::outputs::http::Server;
use crate::engine::error_chain;

/// How often binding is retried.
const BIND_RETRY: Duration = Duration::from_secs(10);

/// The key of this problem.
const PROBLEM: &str = "listen";

/// The running server, or the next attempt to start it.
pub(crate) struct Serving {
    listen: Listen,
    board: Arc<Board>,
    store: PathBuf,
    server: Option<Server>,
    /// `None`: it is running, or nothing is to be served.
    next: Option<Instant>,
}

impl Serving {
    /// Tries once. `say` prints messages for people.
    pub fn start(listen: Listen, board: Arc<Board>, store: PathBuf, say: &dyn Fn(&str)) -> Serving {
        let now = Instant::now();
        let mut serving = Serving { listen, board, store, server: None, next: Some(now) };
        serving.look(now, say);
        serving
    }

    /// The address that was configured at the start.
    pub fn wanted(&self) -> &Address {
        &self.listen.address
    }

    /// Retries if it is time to.
    pub fn look(&mut self, now: Instant, say: &dyn Fn(&str)) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        match Server::start(&self.listen, Arc::clone(&self.board), self.store.clone()) {
            Ok(server) => {
                if let Some(server) = &server {
                    say(&format!("listening at {}", server.address()));
                }
                let address = server.as_ref().map(|server| server.address().clone());
                self.server = server;
                self.next = None;
                self.board.write(|published| {
                    published.listening = address;
                    published.problems.remove(PROBLEM);
                });
            }
            Err(error) => {
                self.next = Some(now + BIND_RETRY);
                let text = format!("no metrics and no page: {}", error_chain(&error));
                // Report once, not at each attempt.
                if self.board.read().problems.get(PROBLEM) != Some(&text) {
                    say(&format!("{text}; it is tried again every {} s", BIND_RETRY.as_secs()));
                    self.board.write(|published| drop(published.problems.insert(PROBLEM, text)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_address_that_is_taken_is_a_problem_and_is_tried_again() {
        // An address used by this test only: no other process takes its port between two attempts.
        let pid = std::process::id().to_le_bytes();
        let taken = TcpListener::bind((std::net::Ipv4Addr::new(127, 77, pid[1], pid[0]), 0)).expect("a port");
        let address = taken.local_addr().expect("an address");
        let listen = Listen { address: address.to_string().parse().expect("an address"), ..Listen::default() };
        let board = Arc::new(Board::default());
        let said = RefCell::new(Vec::new());
        let say = |text: &str| said.borrow_mut().push(text.to_owned());
        let mut serving = Serving::start(listen, Arc::clone(&board), "/nowhere".into(), &say);
        let problem = board.read().problems.get(PROBLEM).cloned().expect("a problem");
        assert!(problem.contains(&address.to_string()) && problem.contains("in use"), "{problem}");
        serving.look(Instant::now() + BIND_RETRY, &say);
        assert_eq!(said.borrow().len(), 1, "said once: {said:?}");
        drop(taken);
        serving.look(Instant::now(), &say);
        assert!(serving.server.is_none(), "not before its time");
        serving.look(Instant::now() + 3 * BIND_RETRY, &say);
        assert!(serving.server.is_some() && board.read().problems.is_empty(), "{said:?}");
        assert!(std::net::TcpStream::connect(address).is_ok());
    }
}
