//! A worker that sleeps because it has nothing to do loses nothing, however long another worker waits.

use std::path::Path;

use unstarve_diagnose::{Options, explain};

#[test]
fn an_idle_worker_pays_from_when_there_is_work() {
    // kworker/u2:3 slept for 992 ms. In the last 236 ms of it kworker/u2:2, about to do what had been queued, waited for a CPU.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/truth/writeback-weight.6.1.fault.dat.zst");
    let source = unstarve_readers::open(&path).expect("it is readable");
    let report = explain(source, &Options::default(), |_| {}).expect("it has events");
    let finding = &report.findings[0];
    assert_eq!((finding.id.as_str(), finding.victim.comm.as_str()), ("weight-starvation", "kworker/u2:2"));
    let paid = finding.price.iter().find(|payer| payer.comm == "kworker/u2:3").expect("it paid").ns;
    assert!((200_000_000..260_000_000).contains(&paid), "{paid}");
}
