//! What a ticket has attached: logs, tables of tools, bundles of them.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use unstarve_evidence::{Limits, explain, gather_input};
use unstarve_readers::Input;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { files: 1000, archives: 3, bytes: 64 << 20, time: Duration::from_secs(20) };
    let stream = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let Ok(input) = Input::from_stream(stream, "fuzz".into()) else { return };
    for host in gather_input(input, limits).hosts {
        let report = explain(&host.facts, &host.sources);
        assert!(report.findings.iter().all(|finding| (0.0..=1.0).contains(&finding.confidence)));
    }
});
