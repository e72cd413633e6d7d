//! The head of a request to the watch's server, in pieces of any length: refused with a status, or what was asked for, without what could
//! break an answer or a path.
#![no_main]

use std::io::Read;
use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use unstarve_watch::http_head::{BadHead, Head, read};

/// Gives so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(buffer.len());
        (&mut self.0).take(length as u64).read(buffer)
    }
}

fn ask(bytes: &[u8], piece: usize) -> Result<Head, Option<u16>> {
    let end = Instant::now() + Duration::from_secs(5);
    read(&mut Pieces(bytes, piece), end).map_err(|bad| match bad {
        BadHead::Io => None,
        BadHead::Status(status) => Some(status),
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Some((piece, bytes)) = bytes.split_first() else { return };
    let whole = ask(bytes, usize::MAX);
    match &whole {
        Ok(head) => {
            let is_clean = |text: &str| !text.contains(['\r', '\n', '\0']);
            assert!(is_clean(&head.method) && is_clean(&head.path) && !head.path.contains(['?', '#']));
            assert!(head.host.as_deref().is_none_or(is_clean));
        }
        Err(status) => assert!(matches!(status, None | Some(400 | 431))),
    }
    // However it comes. One that is too long may be refused for another reason first.
    let pieces = ask(bytes, usize::from(*piece) + 1);
    assert!(pieces == whole || bytes.len() > 8 << 10 || pieces.is_err() && whole.is_err());
});
