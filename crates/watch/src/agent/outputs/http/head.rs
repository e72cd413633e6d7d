//! Reads the head of a request, with limits on size and time.

use std::io::{self, Read};
use std::time::Instant;

/// Longer heads are refused.
const LONGEST: usize = 8 << 10;
const HEADERS: usize = 64;

/// The relevant parts of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// `GET`.
    pub method: String,
    /// Without the query (`?…`).
    pub path: String,
    /// The `Host` header.
    pub host: Option<String>,
    /// Whether the `Accept` header names OpenMetrics, as Prometheus's does.
    pub accepts_openmetrics: bool,
}

/// Why there is no valid head.
#[derive(Debug)]
pub enum BadHead {
    /// It came too slowly, or the connection broke.
    Io,
    /// It is invalid; the status to answer.
    Status(u16),
}

/// Reads a head until `end`; the stream's own read timeout must be short.
pub fn read(stream: &mut impl Read, end: Instant) -> Result<Head, BadHead> {
    let mut bytes = Vec::with_capacity(1024);
    let mut part = [0; 1024];
    loop {
        let length = match stream.read(&mut part) {
            Ok(0) => return Err(BadHead::Io),
            Ok(length) => length,
            Err(error) if is_pause(&error) && Instant::now() < end => continue,
            Err(_) => return Err(BadHead::Io),
        };
        bytes.extend_from_slice(&part[..length]);
        // Ignore what follows the head; the limit applies however the bytes are divided.
        bytes.truncate(LONGEST);
        if let Some(head) = parse(&bytes)? {
            return Ok(head);
        }
        if bytes.len() == LONGEST {
            return Err(BadHead::Status(431));
        }
        if Instant::now() >= end {
            return Err(BadHead::Io);
        }
    }
}

pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// `None` if the head is incomplete.
fn parse(bytes: &[u8]) -> Result<Option<Head>, BadHead> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(BadHead::Status(431)),
        Err(_) => return Err(BadHead::Status(400)),
    }
    let (Some(method), Some(target)) = (request.method, request.path) else { return Err(BadHead::Status(400)) };
    let path = target.split(['?', '#']).next().unwrap_or(target).to_owned();
    let mut hosts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().map(|header| String::from_utf8_lossy(header.value).into_owned());
    if hosts.next().is_some() {
        return Err(BadHead::Status(400));
    }
    let mut accepted = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accepts_openmetrics =
        accepted.any(|header| String::from_utf8_lossy(header.value).contains("application/openmetrics-text"));
    Ok(Some(Head { method: method.to_owned(), path, host, accepts_openmetrics }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read_all(text: &[u8]) -> Result<Head, String> {
        let end = Instant::now() + Duration::from_secs(5);
        read(&mut &text[..], end).map_err(|bad| match bad {
            BadHead::Io => "io".to_owned(),
            BadHead::Status(status) => status.to_string(),
        })
    }

    #[test]
    fn heads_are_read_and_what_is_none_is_refused() {
        let head = read_all(b"GET /metrics?x=1 HTTP/1.1\r\nHost: localhost:9846\r\n\r\n").expect("a head");
        let expected = Head {
            method: "GET".into(),
            path: "/metrics".into(),
            host: Some("localhost:9846".into()),
            accepts_openmetrics: false,
        };
        assert_eq!(head, expected);
        let asked = |accept: &str| read_all(format!("GET / HTTP/1.1\r\nAccept: {accept}\r\n\r\n").as_bytes());
        let accepts = |accept: &str| asked(accept).expect("a head").accepts_openmetrics;
        assert!(accepts("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
        assert!(!accepts("text/plain") && !accepts("*/*"));
        assert_eq!(read_all(b"\x16\x03\x01\x02\x00"), Err("400".into()), "somebody speaks TLS");
        assert_eq!(read_all(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Err("400".into()));
        let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
        assert_eq!(read_all(long.as_bytes()), Err("431".into()));
        // Exactly at the limit, and the same in one piece with more bytes behind it.
        let of = |length: usize| {
            let head = "GET / HTTP/1.1\r\nx: \r\n\r\n";
            head.replace("x: ", &format!("x: {}", "y".repeat(length - head.len())))
        };
        for (length, expected) in [(8191, None), (8192, None), (8193, Some("431")), (9000, Some("431"))] {
            assert_eq!(of(length).len(), length);
            for more in ["", "z", &"z".repeat(2000)] {
                let got = read_all(format!("{}{more}", of(length)).as_bytes());
                assert_eq!(got.err().as_deref(), expected, "{length} and {}", more.len());
            }
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
        assert_eq!(read_all(many.as_bytes()), Err("431".into()));
        assert!(read_all(b"GET / HTTP/1.1\r\n").is_err(), "it ends early");
    }
}
