//! A thread that delivers to one output, from a queue with an end, and tries again.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::Board;

/// What may wait.
const QUEUE: usize = 32;
/// Tries of one delivery, and how long is waited before the second one; four times as long before each further one.
const TRIES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Delivers to one output.
#[derive(Debug)]
pub struct Courier<T> {
    queue: SyncSender<T>,
    output: &'static str,
    board: Arc<Board>,
}

/// How a try went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It was taken.
    Done,
    /// Another try may help.
    Later(String),
    /// It will never be taken.
    Refused(String),
}

impl<T: Send + 'static> Courier<T> {
    /// Starts the thread. `deliver` is called for each thing, again while that may help.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(
        output: &'static str,
        board: Arc<Board>,
        mut deliver: impl FnMut(&T) -> Tried + Send + 'static,
    ) -> std::io::Result<Courier<T>> {
        let (queue, things) = sync_channel::<T>(QUEUE);
        let noted = Arc::clone(&board);
        std::thread::Builder::new().name(format!("unstarve-{output}")).spawn(move || {
            for thing in things {
                let problem = persist(&thing, &mut deliver, FIRST_PAUSE);
                noted.write(|published| {
                    match problem {
                        None => drop(published.problems.remove(output)),
                        Some(why) => {
                            *published.counts.undelivered.entry(output).or_insert(0) += 1;
                            published.problems.insert(output, format!("{output}: {why}"));
                        }
                    };
                });
            }
        })?;
        Ok(Courier { queue, output, board })
    }

    /// Puts something into the queue; what has no room there is counted.
    pub fn send(&self, thing: T) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = self.queue.try_send(thing) {
            self.board.undelivered(self.output);
        }
    }
}

/// Why it was not delivered in the end.
fn persist<T>(thing: &T, deliver: &mut impl FnMut(&T) -> Tried, first_pause: Duration) -> Option<String> {
    let mut pause = first_pause;
    for attempt in 1..=TRIES {
        match deliver(thing) {
            Tried::Done => return None,
            Tried::Refused(why) => return Some(why),
            Tried::Later(why) if attempt == TRIES => return Some(why),
            Tried::Later(_) => std::thread::sleep(pause),
        }
        pause *= 4;
    }
    None
}

/// Posts a body; which answers mean that another try may help is as OTLP says (429, 502, 503, 504) and usual for webhooks.
pub fn post<'a>(
    agent: &ureq::Agent,
    url: &str,
    kind: &str,
    headers: impl IntoIterator<Item = (&'a String, &'a String)>,
    body: &[u8],
) -> Tried {
    let mut request = agent.post(url).header("Content-Type", kind);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match request.send(body) {
        Ok(answer) if answer.status().is_success() => Tried::Done,
        Ok(answer) => {
            let status = answer.status().as_u16();
            let why = format!("{} answered {status}", origin(url));
            if matches!(status, 408 | 429 | 500..=599) { Tried::Later(why) } else { Tried::Refused(why) }
        }
        Err(error) => Tried::Later(format!("{}: {}", origin(url), error.to_string().replace(url, "the URL"))),
    }
}

/// Where a URL leads, without what may be a secret: a name and a password, a path, a query. Everybody on the machine may read problems.
fn origin(url: &str) -> String {
    let uri = url.parse::<ureq::http::Uri>().ok();
    let known = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?, uri.port_u16())));
    match known {
        Some((scheme, host, Some(port))) => format!("{scheme}://{host}:{port}"),
        Some((scheme, host, None)) => format!("{scheme}://{host}"),
        None => "a URL that is none".to_owned(),
    }
}

/// Connects and asks within bounded time; follows no redirection, which could lead anywhere.
pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(10)))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("unstarve/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of a hook is often its secret.
    #[test]
    fn problems_say_no_secret_of_a_url() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let url = format!("http://me:hunter2@127.0.0.1:{port}/services/T0/s3cret?key=k3y");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\n\r\n");
        });
        let tried = |url: &str| match post(&agent(), url, "text/plain", [], b"x") {
            Tried::Later(why) | Tried::Refused(why) => why,
            Tried::Done => panic!("it was refused"),
        };
        let answered = tried(&url);
        server.join().expect("it answered");
        assert_eq!(answered, format!("http://127.0.0.1:{port} answered 500"));
        let nobody = tried(&url);
        let nonsense = tried("http://me:hunter2@[::1:x/s3cret?key=k3y");
        for said in [answered, nobody, nonsense] {
            let secrets = ["hunter2", "s3cret", "k3y"];
            assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
        }
    }

    #[test]
    fn what_may_help_is_tried_again_and_the_rest_is_not() {
        let mut tries = 0;
        let mut deliver = |(): &()| {
            tries += 1;
            if tries < 3 { Tried::Later("busy".into()) } else { Tried::Done }
        };
        assert_eq!(persist(&(), &mut deliver, Duration::ZERO), None);
        assert_eq!(tries, 3);
        let mut tries = 0;
        let mut refused = |(): &()| {
            tries += 1;
            Tried::Refused("no".into())
        };
        assert_eq!(persist(&(), &mut refused, Duration::ZERO).as_deref(), Some("no"));
        assert_eq!(tries, 1);
        let mut never = |(): &()| Tried::Later("busy".into());
        assert_eq!(persist(&(), &mut never, Duration::ZERO).as_deref(), Some("busy"));
    }
}
