//! Through this crate alone: events, and waits whose pieces add up, from a file of each main format.

use unstarve_trace::{Nanos, events, open, waits};

use crate::examples::recording;

#[test]
fn pieces_add_up_in_every_format() {
    let files = [
        ("linux-5.10-net-rt.dat", "trace.dat v7"),
        ("linux-6.18-perf-rt-hog.data.zst", "perf.data"),
        ("perfetto-rt-hog.pftrace", "Perfetto"),
        ("linux-6.18-loop-rt.txt.zst", "ftrace text"),
        ("fsdevel-perf-script.txt", "perf script text"),
    ];
    for (name, format) in files {
        let mut count = 0;
        let analysis = waits(open(&recording(name)).unwrap(), |_, wait| {
            let sum: Nanos = wait.pieces.iter().map(|piece| piece.length).sum();
            assert_eq!(sum, wait.length(), "{name}");
            count += 1;
        });
        let analysis = analysis.unwrap();
        assert!(analysis.info.format.starts_with(format), "{name}: {}", analysis.info.format);
        assert!(count > 0, "{name} has no waits");

        let mut iterator = events(open(&recording(name)).unwrap());
        let read = iterator.by_ref().map(|event| event.unwrap().time).collect::<Vec<_>>();
        assert!(read.is_sorted(), "{name}");
        assert_eq!(read.len() as u64, analysis.events, "{name}");
        assert!(iterator.info().format.starts_with(format), "{name}");
    }
}

#[test]
fn an_error_ends_the_events() {
    use unstarve_trace::{Batch, EventSource, Loss, SourceError, TraceInfo};
    #[derive(Default)]
    struct Failing(TraceInfo);
    impl EventSource for Failing {
        fn info(&self) -> &TraceInfo {
            &self.0
        }
        fn read(&mut self, _: &mut Batch) -> Result<bool, SourceError> {
            Err("the device is gone".into())
        }
        fn losses(&self) -> Vec<Loss> {
            Vec::new()
        }
    }
    let results: Vec<_> = events(Box::new(Failing::default())).collect();
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].as_ref().unwrap_err().to_string(), "the device is gone");
}
