//! HTTP POST to a configured URL.

use std::time::Duration;

use ureq::http::Uri;

use super::Tried;
use super::delivery_queue::LONGEST_TRY;

/// Posts a body within this time. Statuses for which a retry makes sense are those of OTLP (429, 502, 503, 504) and those usual for webhooks.
pub fn post<'a>(
    agent: &ureq::Agent,
    url: &str,
    kind: &str,
    headers: impl IntoIterator<Item = (&'a String, &'a String)>,
    body: &[u8],
    within: Duration,
) -> Tried {
    let request = agent.post(url).config().timeout_global(Some(within)).build();
    let mut request = request.header("Content-Type", kind);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match request.send(body) {
        Ok(answer) if answer.status().is_success() => Tried::Done,
        Ok(answer) => {
            let status = answer.status().as_u16();
            let why = format!("{} answered {status}", origin_in(url));
            if matches!(status, 408 | 429 | 500..=599) { Tried::Later(why) } else { Tried::Refused(why) }
        }
        Err(error) => Tried::Later(format!("{}: {}", origin_in(url), error.to_string().replace(url, "the URL"))),
    }
}

/// The origin of a URL, for problems, which all users on the machine can read.
fn origin_in(url: &str) -> String {
    url.parse::<Uri>().map_or_else(|_| "a URL that is none".to_owned(), |uri| origin(&uri))
}

/// Without parts that can be secret: user, password, path, query.
pub fn origin(uri: &Uri) -> String {
    let (scheme, host) = (uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default());
    match uri.port_u16() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

/// An agent with timeouts that does not follow redirects, which could lead anywhere.
pub fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(LONGEST_TRY))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("unstarve/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of a webhook is often its secret.
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
        let tried = |url: &str| match post(&agent(), url, "text/plain", [], b"x", LONGEST_TRY) {
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
}
