//! What every reader must keep whatever it is given: it ends, its times never decrease, its batches are bounded and
//! its names are there.

use unstarve_model::{Batch, EventKind, EventSource, Names};
use unstarve_readers::{Input, open_input};

/// Reads `bytes` with the reader that their beginning asks for.
#[allow(dead_code, reason = "not every target uses it")]
pub fn drain_bytes(bytes: &[u8]) {
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    if let Ok(input) = Input::from_stream(stream, "fuzz".into())
        && let Ok(source) = open_input(input)
    {
        drain(source, bytes.len());
    }
}

/// Reads `source`, which came out of `length` bytes, to its end.
pub fn drain(mut source: Box<dyn EventSource>, length: usize) {
    let (mut batch, mut names, mut last, mut count) = (Batch::default(), Names::default(), 0, 0usize);
    while source.read(&mut batch).unwrap_or(false) {
        assert!(!batch.events.is_empty(), "a batch without events is no end");
        assert!(batch.events.len() <= 2 * Batch::TARGET, "a batch of {}", batch.events.len());
        names.extend(batch.names.drain(..));
        for event in &batch.events {
            assert!(event.time.0 >= last, "time goes back");
            last = event.time.0;
            if let EventKind::WorkStart { function: Some(name), .. } | EventKind::IrqEntry { name: Some(name), .. } =
                event.kind
            {
                // Unless the input itself has a name like that, which a fuzzer finds out.
                assert!(names.get(name) != "(undefined)" || names.find("(undefined)").is_some());
            }
        }
        count += batch.events.len();
        // Packed data can hold a thousand events a byte; more than that and the reader goes round in a circle.
        assert!(count <= 100_000 + length.saturating_mul(2000), "{count} events out of {length} bytes");
    }
    let _ = source.losses();
    let _ = source.info();
}
