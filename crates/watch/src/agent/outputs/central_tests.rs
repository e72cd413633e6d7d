//! How a central Prometheus gets the metrics of a host (docs/metrics.md): the shipped files, with the paths and ports of a test in them.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use unstarve_testing as need;

use super::{Ends, board, said};
use crate::agent::config::{Address, Listen};
use crate::agent::outputs::http::Server;

const PASSWORD: &str = "test";
/// Of [`PASSWORD`], from prometheus.io/docs/guides/basic-auth.
const BCRYPT: &str = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay";

/// A watch, a directory with a certificate and a password, and what runs.
struct Rig {
    directory: tempfile::TempDir,
    server: Server,
    running: Vec<Ends>,
}

impl Rig {
    fn new(openssl: &Path) -> Rig {
        let directory = tempfile::tempdir().expect("a directory");
        let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
        let server = Server::start(&listen, board(), "/nowhere".into()).expect("listening").expect("a server");
        let rig = Rig { directory, server, running: Vec::new() };
        let mut command = Command::new(openssl);
        command.args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "1",
        ]);
        command.args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"]);
        command.arg(rig.path("key")).arg("-out").arg(rig.path("ca")).stderr(Stdio::null());
        assert!(command.status().expect("it runs").success());
        fs::write(rig.path("password"), PASSWORD).expect("written");
        rig
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn watch(&self) -> String {
        let Address::Tcp(address) = self.server.address() else { panic!("no TCP") };
        address.to_string()
    }

    /// A shipped file, with other words for some of its own, each of which it has.
    fn shipped(&self, file: &str, words: &[(&str, &str)]) -> PathBuf {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file);
        let mut text = fs::read_to_string(path).expect("a shipped file");
        let own = [
            ("/etc/prometheus/unstarve.password", self.path("password")),
            ("/etc/prometheus/unstarve-ca.pem", self.path("ca")),
            ("/etc/nginx/unstarve.crt", self.path("ca")),
            ("/etc/nginx/unstarve.key", self.path("key")),
            ("/etc/nginx/unstarve.htpasswd", self.path("htpasswd")),
        ];
        for (from, to) in own {
            text = text.replace(from, &to.display().to_string());
        }
        for (from, to) in words {
            assert!(text.contains(from), "{from} is in {file}");
            text = text.replace(from, to);
        }
        let path = self.path(&file.replace('/', "-"));
        fs::write(&path, text).expect("written");
        path
    }

    fn run(&mut self, program: &Path, arguments: &[&str]) {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(Ends(command.spawn().expect("started")));
    }

    /// What a Prometheus has, as soon as it has the metrics.
    fn dumped(&self, promtool: &Path, data: &Path) -> String {
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            let text = said(Command::new(promtool).args(["tsdb", "dump"]).arg(data));
            if text.contains("unstarve_blame_seconds_total") || Instant::now() > end {
                return text;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr()).expect("a port").port()
}

/// The status of an answer, `000` while nobody listens.
fn status(curl: &Path, url: &str, more: &[&str]) -> String {
    let all = ["-s", "-k", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "5"];
    said(Command::new(curl).args(all).args(more).arg(url))
}

fn status_once_up(curl: &Path, url: &str, more: &[&str]) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let status = status(curl, url, more);
        if status != "000" || Instant::now() > end {
            return status;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn has_line(text: &str, parts: &[&str]) -> bool {
    text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn an_agent_on_the_host_sends_to_a_central_prometheus() {
    let tools = ["prometheus", "promtool", "openssl", "curl"].map(need::tool);
    let [Some(prometheus), Some(promtool), Some(openssl), Some(curl)] = tools else { return };
    let mut rig = Rig::new(&openssl);
    let central = format!("127.0.0.1:{}", free_port());
    let (ca, key) = (rig.path("ca"), rig.path("key"));
    let web = format!(
        "tls_server_config: {{cert_file: '{}', key_file: '{}'}}\nbasic_auth_users: {{unstarve: '{BCRYPT}'}}\n",
        ca.display(),
        key.display()
    );
    fs::write(rig.path("web.yml"), web).expect("written");
    fs::write(rig.path("none.yml"), "").expect("written");
    let watch = rig.watch();
    let words = [
        ("127.0.0.1:9846", watch.as_str()),
        ("'HOST'", "web1"),
        ("//CENTRAL/", &format!("//{central}/")),
        ("30s", "1s"),
    ];
    let agent = rig.shipped("prometheus/agent.yml", &words);
    let of = |name: &str, path: &Path| format!("{name}={}", path.display());
    let (data, log) = (rig.path("data"), "--log.level=warn");
    let central_arguments = [
        of("--config.file", &rig.path("none.yml")),
        of("--web.config.file", &rig.path("web.yml")),
        of("--storage.tsdb.path", &data),
        format!("--web.listen-address={central}"),
    ];
    let more = ["--web.enable-remote-write-receiver", log];
    let arguments: Vec<&str> = central_arguments.iter().map(String::as_str).chain(more).collect();
    rig.run(&prometheus, &arguments);
    let agent_arguments = [of("--config.file", &agent), of("--storage.agent.path", &rig.path("agent"))];
    let more = ["--enable-feature=agent", "--web.listen-address=127.0.0.1:0", log];
    let arguments: Vec<&str> = agent_arguments.iter().map(String::as_str).chain(more).collect();
    rig.run(&prometheus, &arguments);
    let url = format!("https://{central}/-/healthy");
    assert_eq!(status_once_up(&curl, &url, &[]), "401", "nobody writes without the password");
    let dumped = rig.dumped(&promtool, &data);
    let blame = ["unstarve_blame_seconds_total", "instance=\"web1\"", "job=\"unstarve\"", " 7.25 "];
    assert!(has_line(&dumped, &blame), "{dumped}");
    assert!(has_line(&dumped, &["target_info", "host_name=\"web1\"", "topology_zone=\"a\""]), "{dumped}");
}

#[test]
fn a_central_prometheus_scrapes_through_nginx() {
    let tools = ["prometheus", "promtool", "openssl", "nginx", "curl"].map(need::tool);
    let [Some(prometheus), Some(promtool), Some(openssl), Some(nginx), Some(curl)] = tools else { return };
    let mut rig = Rig::new(&openssl);
    let hash = said(Command::new(&openssl).args(["passwd", "-6", PASSWORD]));
    fs::write(rig.path("htpasswd"), format!("unstarve:{hash}")).expect("written");
    let (port, watch) = (free_port().to_string(), rig.watch());
    let listen = format!("listen {port} ssl");
    let listen6 = format!("listen [::]:{port} ssl");
    let words =
        [("listen 9847 ssl", listen.as_str()), ("listen [::]:9847 ssl", &listen6), ("127.0.0.1:9846", watch.as_str())];
    let site = rig.shipped("nginx/unstarve-metrics.conf", &words);
    let here = rig.directory.path().display().to_string();
    // One process, which ends with the test.
    let main = format!(
        "daemon off; master_process off; pid {here}/pid; error_log {here}/errors;\nevents {{}}\nhttp {{ access_log off; \
         client_body_temp_path {here}/a; proxy_temp_path {here}/b; fastcgi_temp_path {here}/c; uwsgi_temp_path {here}/d; \
         scgi_temp_path {here}/e; include {}; }}\n",
        site.display()
    );
    fs::write(rig.path("nginx.conf"), main).expect("written");
    rig.run(&nginx, &["-p", &here, "-c", &format!("{here}/nginx.conf"), "-e", &format!("{here}/errors")]);
    let address = format!("https://127.0.0.1:{port}");
    let user = format!("unstarve:{PASSWORD}");
    let known = ["-u", user.as_str()];
    for (path, more, expected) in [
        ("/metrics", &known[..], "200"),
        ("/metrics", &[], "401"),
        ("/metrics", &["-u", "unstarve:other"], "401"),
        ("/metrics", &["-u", user.as_str(), "-X", "POST"], "403"),
        ("/", &known, "404"),
        ("/episodes.json", &known, "404"),
        ("/metrics/../episodes.json", &known, "404"),
    ] {
        let got = status_once_up(&curl, &format!("{address}{path}"), &[more, &["--path-as-is"]].concat());
        assert_eq!(got, expected, "{path} {more:?}: {}", fs::read_to_string(rig.path("errors")).unwrap_or_default());
    }
    let words = [("web1.example:9847", format!("127.0.0.1:{port}")), ("30s", "1s".to_owned())];
    let words: Vec<(&str, &str)> = words.iter().map(|(from, to)| (*from, to.as_str())).collect();
    let config = rig.shipped("prometheus/central.yml", &words);
    let data = rig.path("data");
    let arguments = [format!("--config.file={}", config.display()), format!("--storage.tsdb.path={}", data.display())];
    let more = ["--web.listen-address=127.0.0.1:0", "--log.level=warn"];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(more).collect();
    rig.run(&prometheus, &arguments);
    let dumped = rig.dumped(&promtool, &data);
    assert!(has_line(&dumped, &["unstarve_blame_seconds_total", "occupant=\"real-time\"", " 7.25 "]), "{dumped}");
    assert!(has_line(&dumped, &["target_info", "host_name=\"web1\""]), "{dumped}");
}
