//! What the loads of guests print is what the lab reads.

use std::net::UdpSocket;
use std::time::Duration;

use unstarve_lab::metric;
use unstarve_load::measured::run;

/// Runs a load natively and returns its metrics as a name and a value each.
fn measured(line: &str) -> Vec<(String, f64)> {
    let arguments: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
    let mut out = Vec::new();
    run(&arguments, &mut out).unwrap_or_else(|error| panic!("{line}: {error}"));
    let out = String::from_utf8(out).expect("text");
    let metrics = metric::parse("load", &out, "x").unwrap_or_else(|error| panic!("{line}: {error}"));
    metrics.into_iter().map(|metric| (metric.name, metric.value)).collect()
}

fn value(metrics: &[(String, f64)], name: &str) -> f64 {
    metrics.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name} in {metrics:?}")).1
}

/// A UDP port that nobody has now.
fn free_port() -> u16 {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    socket.local_addr().expect("an address").port()
}

#[test]
fn burn_keeps_its_duty() {
    let metrics = measured("burn busy_ms=5 period_ms=50 seconds=0.3 name=monitor helper=helper");
    assert!((1.0..=7.0).contains(&value(&metrics, "x.rounds")), "{metrics:?}");
}

#[test]
fn a_daemon_measures_how_late_it_is_and_how_many_are_runnable() {
    let metrics = measured("daemon period_us=2000 work_us=100 seconds=0.2");
    assert!(value(&metrics, "x.n") > 5.0 && value(&metrics, "x.max") >= value(&metrics, "x.p50"), "{metrics:?}");
    assert!(value(&metrics, "x.runnable_mean") >= 1.0, "it is runnable itself when it looks: {metrics:?}");
}

#[test]
fn packets_come_back_and_a_flood_goes_out() {
    let (to_echo, to_sink) = (free_port(), free_port());
    let echo = std::thread::spawn(move || measured(&format!("echo port={to_echo} seconds=0.6")));
    let sink = std::thread::spawn(move || measured(&format!("echo port={to_sink} seconds=0.6")));
    std::thread::sleep(Duration::from_millis(100));
    let flood =
        std::thread::spawn(move || measured(&format!("flood port={to_sink} burst=4 gap_us=2000 bytes=64 seconds=0.2")));
    let ping = measured(&format!("ping port={to_echo} gap_us=1000 seconds=0.3"));
    assert!(value(&ping, "x.n") > 5.0 && value(&ping, "x.max") > 0.0, "{ping:?}");
    assert!(value(&flood.join().expect("flood ends"), "x.sent") > 4.0);
    assert!(value(&echo.join().expect("echo ends"), "x.packets") > 5.0);
    sink.join().expect("sink ends");
}

#[test]
fn a_pool_serves_calls_and_its_gate_holds_some_back() {
    let open = measured("pool threads=16 work_us=100 rate=6000 gate=0 seconds=0.3");
    let gated = measured("pool threads=16 work_us=100 rate=6000 gate=1 seconds=0.3");
    assert!(value(&open, "x.done") > 10.0, "{open:?}");
    assert!(value(&gated, "x.woken_not_running_max") <= 1.0, "{gated:?}");
    assert!(value(&gated, "x.done") > 10.0, "{gated:?}");
}

#[test]
fn compilers_count_their_units_and_lost_cpus() {
    let metrics = measured("compile jobs=2 tickers=2 seconds=0.3");
    assert!(value(&metrics, "x.units") > 0.0 && value(&metrics, "x.involuntary") >= 0.0, "{metrics:?}");
}

#[test]
fn a_stream_carries_packets() {
    let metrics = measured(&format!("stream port={} bytes=64 seconds=0.3", free_port()));
    assert!(value(&metrics, "x.packets") > 100.0, "{metrics:?}");
}

#[test]
fn wrong_arguments_are_named() {
    let said: Vec<String> =
        ["", "nope", "burn busy=1", "burn busy_ms", "burn busy_ms=-1", "burn seconds=61", "pool threads=0"]
            .iter()
            .map(|line| {
                let arguments: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
                run(&arguments, &mut Vec::new()).expect_err("an error").to_string()
            })
            .collect();
    insta::assert_snapshot!(said.join("\n"), @"
    no load ``; there are burn, daemon, ping, echo, flood, pool, compile, stream, lock, pair, yield, nap, poll
    no load `nope`; there are burn, daemon, ping, echo, flood, pool, compile, stream, lock, pair, yield, nap, poll
    unknown argument `busy`
    `busy_ms`: expected key=value
    busy_ms=-1: expected 0 to 60000
    seconds=61: expected more than 0, at most 60
    threads=0: expected 1 to 4096
    ");
}

/// Two loads share a file's lock: one has it while the other waits.
#[test]
fn who_wants_a_lock_waits_for_who_has_it() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().display().to_string();
    let line = |name: &str, hold: u32| format!("lock file={path} hold_us={hold} gap_us=500 name={name} seconds=0.3");
    let (keeper, asker) = (line("keeper", 10_000), line("asker", 100));
    let metrics = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| measured(&keeper));
        let asker = measured(&asker);
        keeper.join().expect("it ended");
        asker
    });
    assert!(value(&metrics, "x.max") >= 5_000_000.0, "a hold of 10 ms: {metrics:?}");
}

#[test]
fn a_pair_takes_turns() {
    let metrics = measured("pair work_us=100 answer_us=100 seconds=0.2");
    assert!(value(&metrics, "x.n") > 20.0 && value(&metrics, "x.p50") >= 200_000.0, "{metrics:?}");
}

#[test]
fn who_yields_measures_how_long_it_was_away() {
    let metrics = measured("yield turn_us=5000 seconds=0.1");
    assert!(value(&metrics, "x.n") > 3.0 && value(&metrics, "x.max") > 0.0, "{metrics:?}");
}

#[test]
fn one_call_asks_about_all_descriptors() {
    let metrics = measured("poll descriptors=3000 gap_us=1000 seconds=0.1");
    assert!(value(&metrics, "x.n") > 3.0 && value(&metrics, "x.p50") > 10_000.0, "{metrics:?}");
}

#[test]
fn naps_are_counted() {
    assert!(value(&measured("nap sleep_us=500 seconds=0.1"), "x.naps") > 100.0);
}
