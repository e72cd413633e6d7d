//! Checks the outputs with other programs: Debian's Prometheus, promtool, Chromium, and the OpenTelemetry project's Python package.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use unstarve_testing as need;

use super::http::Server;
use super::{Deliveries, Message, Outputs};
use crate::agent::board::Board;
use crate::agent::config::{Address, Config, Listen, Metrics, Otlp, Preset, SeriesLimits, Syslog, Webhook};
use crate::agent::machine::Machine;
use crate::engine::reading::{Reading, RoleKind};
use crate::episode::Episode;
use crate::testing::{Scene, at};

const EVIL: &str = "/a\"b\\c\n{x=\"y\"}";

fn reading() -> Reading {
    let scene = Scene::new().group(EVIL).blame(EVIL, RoleKind::RealTime, 7_250_000_000).wait(EVIL, 85_000_000);
    scene.lasts("ksoftirqd", 18, "real-time", 3_000_000_000).reading(at(2_000))
}

fn board() -> Arc<Board> {
    let board = Arc::new(Board::default());
    board.write(|published| {
        published.engine = "scripted";
        published.machine = Arc::new(Machine {
            named: Some("web1".to_owned()),
            machine_id: Some("0123456789abcdef0123456789abcdef".to_owned()),
            boot_id: None,
            labels: [("topology.zone".to_owned(), "a".to_owned())].into(),
        });
        published.reading = Some(Arc::new(reading()));
        published.admitted = Arc::new(published.admitted.next(&reading()).unwrap_or_default());
        published.counts.episodes.insert("rt-starvation".to_owned(), 2);
    });
    board
}

/// A child that is killed when the test ends.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn prometheus_scrapes_every_series_with_its_names() {
    let (Some(prometheus), Some(promtool)) = (need::tool("prometheus"), need::tool("promtool")) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let server = Server::start(&listen, board(), "/nowhere".into()).expect("listening").expect("a server");
    let Address::Tcp(address) = server.address() else { panic!("no TCP") };
    let config = directory.path().join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs: [{{job_name: unstarve, static_configs: [{{targets: ['{address}']}}]}}]\n"
    );
    fs::write(&config, text).expect("written");
    let data = directory.path().join("data");
    let mut command = Command::new(prometheus);
    command.arg(format!("--config.file={}", config.display())).arg(format!("--storage.tsdb.path={}", data.display()));
    command.args(["--web.listen-address=127.0.0.1:0", "--log.level=warn"]);
    let running =
        Ends(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started"));
    let end = Instant::now() + Duration::from_secs(60);
    // `tsdb dump` also reads the write-ahead log of a running database.
    let dumped = loop {
        let text = said(Command::new(&promtool).args(["tsdb", "dump"]).arg(&data));
        if text.contains("unstarve_blame_seconds_total") || Instant::now() > end {
            break text;
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    drop(running);
    let line = |parts: &[&str]| dumped.lines().find(|line| parts.iter().all(|part| line.contains(part)));
    let found = line(&["unstarve_blame_seconds_total", "occupant=\"real-time\"", "rule=\"class\""]);
    let found = found.unwrap_or_else(|| panic!("{dumped}"));
    assert!(found.contains(r#"victim="/a\"b\\c\\n{x=\"y\"}""#) && found.contains(" 7.25 "), "{found}");
    assert!(line(&["unstarve_oldest_wait_seconds", "victim=\"ksoftirqd\"", " 3 "]).is_some());
    assert!(line(&["unstarve_wait_seconds_bucket", "le=\"0.0625\"", r#"victim="/a"#, " 0 "]).is_some());
    assert!(line(&["unstarve_wait_seconds_bucket", "le=\"0.25\"", r#"victim="/a"#, " 1 "]).is_some());
    assert!(line(&["unstarve_wait_seconds_bucket", "le=\"+Inf\"", r#"victim="/a"#, " 1 "]).is_some());
    assert!(line(&["target_info", "host_name=\"web1\"", "topology_zone=\"a\"", " 1 "]).is_some());
    assert!(line(&["unstarve_episodes_total", "finding=\"rt-starvation\"", " 2 "]).is_some());
    assert!(line(&["up{", " 1 "]).is_some() || line(&["\"up\"", " 1 "]).is_some(), "{dumped}");
}

#[test]
fn promtool_has_nothing_to_say_about_the_plain_text() {
    let Some(promtool) = need::tool("promtool") else { return };
    let thin = Metrics { preset: Preset::Thin, ..Metrics::default() }.limits();
    for series in [SeriesLimits::default(), thin] {
        let board = super::metrics_doc::full_board();
        board.write(|published| published.series = series);
        let text = super::http::metrics::plain(&super::http::metrics::text(board.read()).expect("metrics"));
        let mut check = Command::new(&promtool);
        check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().expect("it runs");
        check.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
        let checked = check.wait_with_output().expect("it ends");
        let said = [checked.stdout, checked.stderr].concat();
        assert!(checked.status.success() && said.is_empty(), "{}\n{text}", String::from_utf8_lossy(&said));
    }
}

#[test]
fn the_shipped_alert_rules_are_right() {
    let Some(promtool) = need::tool("promtool") else { return };
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus");
    let checked = Command::new(&promtool).args(["check", "rules", "unstarve-alerts.yml"]).current_dir(&rules).status();
    assert!(checked.expect("it runs").success());
    let tested = said(Command::new(&promtool).args(["test", "rules", "unstarve-alerts.test.yml"]).current_dir(&rules));
    assert!(tested.contains("SUCCESS") && !tested.contains("FAILED"), "{tested}");
    let dashboard = fs::read_to_string(rules.join("../grafana/unstarve.json")).expect("the dashboard");
    let panels: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    // The query of the panel of episodes is among those tested by promtool.
    let tried = fs::read_to_string(rules.join("unstarve-alerts.test.yml")).expect("the tests");
    let of_episodes = panels["panels"].as_array().into_iter().flatten().find(|panel| panel["title"] == "Episodes");
    let asked = of_episodes.and_then(|panel| panel["targets"][0]["expr"].as_str()).expect("the panel of episodes");
    assert!(tried.contains(&asked.replace("$instance", "b").replace("$__interval", "2m")), "{asked}");
    let many = fs::read_to_string(rules.join("../grafana/unstarve-fleet.json")).expect("the dashboard of many hosts");
    expressions_are_right(&promtool, &[&dashboard, &many]);
    // Each metric that a rule or a dashboard uses is served.
    let board = super::metrics_doc::full_board();
    let served = super::http::metrics::plain(&super::http::metrics::text(board.read()).expect("metrics"));
    let text = fs::read_to_string(rules.join("unstarve-alerts.yml")).expect("the rules");
    let asked = [text, dashboard, many].concat();
    let is_ours = |word: &&str| word.starts_with("unstarve_") || *word == "target_info";
    let names = asked.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(is_ours);
    let mut count = 0;
    for name in names {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let family = of_histogram.filter(|family| *family == "unstarve_wait_seconds").unwrap_or(name);
        assert!(served.contains(&format!("# TYPE {family} ")), "{name}");
        count += 1;
    }
    assert!(count > 10);
}

/// Each expression of the dashboards as a recording rule, which promtool parses.
fn expressions_are_right(promtool: &Path, dashboards: &[&str]) {
    let mut rules = String::from("groups:\n- name: a\n  rules:\n");
    let mut count = 0;
    for dashboard in dashboards {
        let dashboard: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
        let targets = dashboard["panels"].as_array().into_iter().flatten();
        let targets = targets.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
        for expression in targets.map(|target| target["expr"].as_str().expect("an expression")) {
            let written = expression.replace("$__rate_interval", "2m").replace("$__interval", "2m");
            let written = written.replace("$label", "host_name").replace("$instance", ".*");
            assert!(!written.contains('$'), "{expression}");
            rules += &format!("  - record: r{count}\n    expr: {}\n", serde_json::Value::String(written));
            count += 1;
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("rules.yml");
    fs::write(&file, rules).expect("written");
    let checked = said(Command::new(promtool).args(["check", "rules"]).arg(&file));
    assert!(checked.contains(&format!("SUCCESS: {count} rules found")), "{checked}");
}

/// The outputs of a configuration, except the log.
fn outputs(mut config: Config, board: &Arc<Board>) -> Outputs {
    config.sinks.log = Syslog::Off;
    Outputs::open(&config, board, &Deliveries::default()).expect("a thread")
}

fn webhook(url: String, board: &Arc<Board>) -> Outputs {
    outputs(Config { webhook: Some(Webhook { url, headers: [].into() }), ..Config::default() }, board)
}

/// Receives one request and answers it.
fn receive(listener: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part).expect("a request");
        bytes.extend_from_slice(&part[..length]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length =
            head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let length: usize = length.expect("a length");
        if bytes.len() >= end + 4 + length {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").expect("answered");
            return (head, bytes[end + 4..].to_vec());
        }
    }
}

const DECODE: &str = "
import sys, json
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
r = ExportMetricsServiceRequest(); r.ParseFromString(sys.stdin.buffer.read())
json.dump(MessageToDict(r), sys.stdout)";

#[test]
fn opentelemetry_reads_what_is_pushed() {
    if !need::python_module("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}/v1/metrics", listener.local_addr().expect("an address"));
    let board = board();
    let headers = [("x-tenant".to_owned(), "a".to_owned())].into();
    let interval = "10s".parse().expect("a time");
    let otlp = Some(Otlp { endpoint, interval, headers });
    let outputs = outputs(Config { otlp, ..Config::default() }, &board);
    outputs.send(&Message::Metrics(board.read()));
    let (head, body) = receive(&listener);
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/metrics ") && head.contains("content-type: application/x-protobuf"), "{head}");
    assert!(head.contains("x-tenant: a"), "{head}");
    let mut python = Command::new("python3")
        .args(["-c", DECODE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python");
    python.stdin.take().expect("its input").write_all(&body).expect("written");
    let decoded = python.wait_with_output().expect("its output");
    let json: serde_json::Value = serde_json::from_slice(&decoded.stdout).expect("JSON");
    let attributes = json["resourceMetrics"][0]["resource"]["attributes"].as_array().cloned().unwrap_or_default();
    let attribute = |key: &str| {
        let found = attributes.iter().find(|attribute| attribute["key"] == key);
        found.and_then(|attribute| attribute["value"]["stringValue"].as_str()).map(str::to_owned)
    };
    for (key, value) in [
        ("service.name", "unstarve-watch"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", "01234567-89ab-cdef-0123-456789abcdef"),
        ("host.name", "web1"),
        ("host.id", "0123456789abcdef0123456789abcdef"),
        ("topology.zone", "a"),
    ] {
        assert_eq!(attribute(key).as_deref(), Some(value), "{attributes:?}");
    }
    let metrics = &json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
    let of = |name: &str| {
        metrics.as_array().into_iter().flatten().find(|metric| metric["name"] == name).cloned().unwrap_or_default()
    };
    let blame = of("unstarve.blame");
    assert_eq!(blame["sum"]["dataPoints"][0]["asDouble"], 7.25, "{json}");
    assert_eq!(blame["sum"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
    assert_eq!(blame["sum"]["isMonotonic"], true);
    let waits = of("unstarve.wait");
    let points = waits["exponentialHistogram"]["dataPoints"].as_array().cloned().unwrap_or_default();
    let group = points.iter().find(|point| point["count"] == "1").expect("the group's waits");
    assert_eq!((&group["scale"], &group["sum"]), (&2.into(), &7.25.into()), "{group}");
    // 85 ms are in (2^-3.75, 2^-3.5] s.
    assert_eq!(
        (&group["positive"]["offset"], &group["positive"]["bucketCounts"][0]),
        (&(-15).into(), &"1".into()),
        "{group}"
    );
}

#[test]
fn a_webhook_gets_the_episode() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let outputs = webhook(url, &board());
    let episode =
        Episode { id: "20261123-012345-678".into(), rule: Some(unstarve_sched::Rule::Class), ..Episode::default() };
    outputs.send(&Message::Episode(Arc::new(episode.clone())));
    let (head, body) = receive(&listener);
    assert!(head.starts_with("POST /hook "), "{head}");
    assert_eq!(serde_json::from_slice::<Episode>(&body).expect("JSON"), episode);
}

/// Senders never wait for a server that accepts the connection and does not answer.
#[test]
fn a_webhook_that_never_answers_holds_nobody_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let board = board();
    let outputs = webhook(url, &board);
    let (stream, _) = {
        outputs.send(&Message::Episode(Arc::default()));
        listener.accept().expect("a connection")
    };
    // One is being delivered, 32 can wait, and the others are counted.
    (0..40).for_each(|_| outputs.send(&Message::Episode(Arc::default())));
    assert_eq!(board.read().counts.undelivered.get("webhook"), Some(&8));
    drop(stream);
}

/// The page of a busy host, with an hour of history and an episode.
fn busy_board() -> Arc<Board> {
    let board = Arc::new(Board::default());
    let mut scene = Scene::new().group(EVIL).group("/system.slice");
    board.write(|published| {
        published.engine = "scripted";
        let mut history = crate::agent::history::History::default();
        for minute in 0..50_u64 {
            scene = scene.clone().blame("kworker", RoleKind::RealTime, 1_000_000 * (minute % 7));
            scene = scene.clone().blame(EVIL, RoleKind::RealTime, 3_000_000 * (minute % 5));
            history.add(&scene.reading(at(minute * 60_000)));
        }
        published.history = Arc::new(history);
        published.next(Arc::new(scene.reading(at(50 * 60_000))));
        let rule = unstarve_sched::Rule::Fair;
        let now = scene.clone().blame_group("/system.slice", "/system.slice", rule, 900_000_000);
        let now =
            now.blame("ksoftirqd", RoleKind::RealTime, 80_000_000).lasts("ksoftirqd", 18, "real-time", 80_000_000);
        published.next(Arc::new(now.reading(at(50 * 60_000 + 1_000))));
        let party =
            |comm: &str| Some(crate::episode::Party { comm: comm.to_owned(), tid: Some(7), ..Default::default() });
        let episode = Episode {
            id: "20251124-160307-205".into(),
            at_ns: at(0).wall.0,
            victim: party("<script>alert(1)</script>"),
            culprit: party("hog"),
            rule: Some(unstarve_sched::Rule::Class),
            ns: Some(85_000_000),
            finding: Some("rt-starvation".into()),
            trace_bytes: Some(5),
            ..Episode::default()
        };
        published.list(Arc::new(episode));
    });
    board
}

/// The page as Chromium renders it. `UNSTARVE_SHOT=FILE.png` saves a picture.
#[test]
fn a_browser_shows_the_live_page() {
    let Some(chromium) = need::tool("chromium") else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let server = Server::start(&listen, busy_board(), "/nowhere".into()).expect("listening").expect("a server");
    let Address::Tcp(address) = server.address() else { panic!("no TCP") };
    let look = |more: &str| {
        let out = fs::File::create(directory.path().join("out")).expect("a file");
        let err = fs::File::create(directory.path().join("err")).expect("a file");
        let mut command = Command::new(&chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--enable-logging=stderr", "--window-size=1100,900", more]);
        command.arg(format!("--user-data-dir={}", directory.path().join("profile").display()));
        command.arg(format!("http://{address}/")).stdin(Stdio::null()).stdout(out).stderr(err);
        let mut running = Ends(command.spawn().expect("started"));
        let end = Instant::now() + Duration::from_secs(240);
        while running.0.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < end, "Chromium does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        (read("out"), read("err"))
    };
    let (dom, said) = look("--dump-dom");
    assert!(dom.contains("ksoftirqd[18] is starved by hog[4711] on CPU 0: 80.0 ms so far"), "{dom}{said}");
    assert!(dom.contains("&lt;script&gt;alert(1)&lt;/script&gt;[7]") && !dom.contains("<script"), "{dom}");
    assert_eq!(dom.matches("<svg").count(), 2, "a course for each role that waited: {dom}");
    let axis = dom.split("class=\"axis\"").nth(1).and_then(|rest| rest.split("</div>").next()).unwrap_or_default();
    assert!(axis.matches("<span>").count() == 7 && axis.contains(">now<"), "{axis}");
    let place = |text: &str| dom.find(text).unwrap_or_else(|| panic!("{text}: {dom}"));
    assert!(place(">class<") < place(">fair<"), "a turn among equals does not come first");
    assert!(dom.contains("href=\"/episodes/20251124-160307-205/report.html\""), "{dom}");
    assert!(!said.contains("Content Security Policy") && !said.contains("Refused to"), "{said}");
    if let Some(shot) = std::env::var_os("UNSTARVE_SHOT") {
        look(&format!("--screenshot={}", Path::new(&shot).display()));
    }
}

#[path = "central_tests.rs"]
mod central;
