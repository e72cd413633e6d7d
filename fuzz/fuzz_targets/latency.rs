//! An application's latency log of any kind: refused with a line, or read into figures that hold together.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_latency::Log;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    if let Ok(log) = Log::read(text) {
        assert!(log.stats.p50_ns <= log.stats.p99_ns || log.stats.p99_ns.is_none());
        assert!(log.worst.is_sorted_by_key(|point| std::cmp::Reverse(point.latency)));
        for point in &log.worst {
            let (first, last) = log.span.expect("points have times");
            assert!(point.latency.0 <= log.stats.max_ns && last >= point.end && first <= point.start.max(first));
        }
    }
    Corpus::Keep
});
