//! The examples, run on a recording of each main format.

use std::path::{Path, PathBuf};

#[allow(dead_code, reason = "its main is not used here")]
#[path = "../examples/blame_matrix.rs"]
mod blame_matrix;
#[allow(dead_code, reason = "its main is not used here")]
#[path = "../examples/longest_waits.rs"]
mod longest_waits;
#[allow(dead_code, reason = "its main is not used here")]
#[path = "../examples/scheduling_to_csv.rs"]
mod scheduling_to_csv;

pub fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name)
}

#[test]
fn longest_waits_names_the_real_time_task() {
    let mut out = Vec::new();
    longest_waits::print_longest(&recording("linux-5.10-net-rt.dat"), 2, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("ksoftirqd/1[18] from 794 ms: 90.0 ms wl (class), 4.34 µs idle (idle)"), "{text}");
    assert!(lines[1].contains("ksoftirqd/1[18] from 1.80 s: 87.4 ms wl (class)"), "{text}");
    assert!(lines[2..].iter().all(|line| line.starts_with("not certain: ")), "{text}");
}

#[test]
fn blame_matrix_has_the_real_time_task_in_a_column() {
    let mut out = Vec::new();
    blame_matrix::print_matrix(&recording("linux-5.10-net-rt.dat"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let head = text.lines().next().unwrap();
    let row = text.lines().find(|line| line.starts_with("ksoftirqd/1")).unwrap();
    let end = head.find("wl (rt)").unwrap() + "wl (rt)".len();
    assert!(row[..end].ends_with(" 177 ms"), "{text}");
    let mut out = Vec::new();
    blame_matrix::print_matrix(&recording("linux-6.18-perf-rt-hog.data.zst"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().any(|line| line.starts_with("not certain: ")), "{text}");
}

#[test]
fn scheduling_to_csv_writes_waits_and_runs() {
    let mut out = Vec::new();
    let mut remarks = Vec::new();
    scheduling_to_csv::write_csv(&recording("linux-6.18-perf-rt-hog.data.zst"), &mut out, &mut remarks).unwrap();
    let remarks = String::from_utf8(remarks).unwrap();
    assert!(!remarks.is_empty() && remarks.lines().all(|line| line.starts_with("not certain: ")), "{remarks}");
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("what,start_ns,length_ns,cpu,tid,task,why\n"));
    assert!(text.lines().any(|line| line.starts_with("wait,") && line.ends_with(",class")));
    assert!(text.lines().any(|line| line.starts_with("run,") && line.ends_with(",preempted")));
    assert!(text.lines().skip(1).all(|line| line.matches(',').count() >= 6));
    let starts = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse::<u64>().unwrap());
    assert!(starts.min().is_some_and(|first| first < 1_000_000_000), "from the recording's first event");
}

/// As behind `| head`.
#[test]
fn a_closed_pipe_is_no_error() {
    struct Closed;
    impl std::io::Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let path = recording("linux-5.10-net-rt.dat");
    longest_waits::ends_well(longest_waits::print_longest(&path, 2, &mut Closed)).unwrap();
    blame_matrix::ends_well(blame_matrix::print_matrix(&path, &mut Closed)).unwrap();
    scheduling_to_csv::ends_well(scheduling_to_csv::write_csv(&path, Closed, &mut Closed)).unwrap();
    assert!(longest_waits::ends_well(Err("another error".into())).is_err());
}
