//! What a cluster does when parts of it end: right rows or an error, never wrong rows, and never a wait without end.

mod parts;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use parts::{Cluster, FLEET, Part, refused};

/// Long enough that something can happen meanwhile; its rows are known.
const LONG: &str = "select a.host, count(*) as n, sum((a.ns + b.ns) % 7) as s from blame_rollup a,
    (select distinct victim_role, occupant, ns from blame_rollup where host = 'host-0000' order by ns desc limit 100) b group by a.host order by a.host";

/// Looks that something takes at most to happen: minutes on an idle machine, and more where this test itself gets little of it. What never happens fails.
const LOOKS: u32 = 20_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Waits for what has to happen at last.
fn until(what: &str, mut happened: impl FnMut() -> bool) {
    let is_there = (0..LOOKS).any(|_| {
        let is_there = happened();
        if !is_there {
            std::thread::sleep(BETWEEN_LOOKS);
        }
        is_there
    });
    assert!(is_there, "{what} did not happen");
}

/// The directories of queries that an executor has rows of.
fn jobs(executor: &Part) -> usize {
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below(&executor.work()).flat_map(|work| below(&work).collect::<Vec<_>>()).count()
}

fn begin(cluster: &Cluster, question: &str) -> std::process::Child {
    cluster.command(&["--format", "csv", question, FLEET]).stdin(Stdio::null()).spawn().expect("it can be started")
}

/// How it ended, and how long after that moment.
fn end(mut child: std::process::Child, since: Instant) -> (Output, Duration) {
    // What never ends fails, too.
    until("the end of a query", || child.try_wait().expect("it can be asked").is_some());
    let output = child.wait_with_output().expect("it ends");
    (output, since.elapsed())
}

fn is_right_or_an_error(output: &Output, expected: &[u8]) -> bool {
    match output.status.code() {
        Some(0) => output.stdout == expected,
        Some(2) => !output.stderr.is_empty(),
        _ => false,
    }
}

#[test]
fn an_executor_that_is_killed_costs_no_rows() {
    let mut cluster = Cluster::start(2, &[FLEET], &[]);
    let expected = cluster.ask(&["--format", "csv", LONG, FLEET]);
    assert!(expected.status.success() && expected.stdout.len() > 100, "{expected:?}");
    // At different moments of a query.
    let mut ends = Vec::new();
    for pause in [0, 2000] {
        let before = cluster.executors.iter().map(jobs).collect::<Vec<_>>();
        let child = begin(&cluster, LONG);
        until("a task with rows", || cluster.executors.iter().zip(&before).any(|(part, before)| jobs(part) > *before));
        std::thread::sleep(Duration::from_millis(pause));
        let mut victim = cluster.executors.remove(0);
        victim.kill();
        let (output, time) = end(child, Instant::now());
        assert!(is_right_or_an_error(&output, &expected.stdout), "killed after {pause} ms: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || said.contains("executor"), "killed after {pause} ms: {said}");
        ends.push((output.status.code(), time, said));
        drop(victim);
        cluster.add(&[FLEET], &[]);
        // And the next one is answered.
        let next = cluster.ask(&["--format", "csv", LONG, FLEET]);
        assert!(is_right_or_an_error(&next, &expected.stdout), "{next:?}");
    }
    eprintln!("after a kill: {ends:?}");
}

#[test]
fn all_executors_killed_is_an_error() {
    let mut cluster = Cluster::start(2, &[FLEET], &[]);
    let child = begin(&cluster, LONG);
    until("a task with rows", || cluster.executors.iter().any(|part| jobs(part) > 0));
    let since = Instant::now();
    cluster.executors.iter_mut().for_each(Part::kill);
    let (output, time) = end(child, since);
    assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{output:?}");
    eprintln!("after all executors were killed: an error in {time:?}");
}

#[test]
fn executors_come_back_to_a_scheduler_that_was_restarted() {
    let mut cluster = Cluster::start(2, &[FLEET], &[]);
    let expected = cluster.ask(&["--format", "csv", LONG, FLEET]);
    assert!(expected.status.success(), "{expected:?}");
    // After all executors have noticed, and at once, which one that is busy does not notice.
    for is_noticed in [true, false] {
        let before = cluster.executors.iter().map(jobs).collect::<Vec<_>>();
        let child = begin(&cluster, LONG);
        until("a task with rows", || cluster.executors.iter().zip(&before).any(|(part, before)| jobs(part) > *before));
        let since = Instant::now();
        cluster.scheduler.kill();
        let (output, time) = end(child, since);
        assert!(is_right_or_an_error(&output, &expected.stdout), "{output:?}");
        eprintln!("after the scheduler was killed: {time:?}");
        if is_noticed {
            for executor in &cluster.executors {
                until("that the scheduler is missed", || executor.errors().contains("lost the scheduler"));
            }
        }
        let address = cluster.address.clone();
        cluster.scheduler = Part::start(&["scheduler", "--listen", &address]);
        assert_eq!(cluster.scheduler.says("listening at"), address);
        if is_noticed {
            cluster.executors.iter_mut().for_each(|executor| assert_eq!(executor.says("registered with"), address));
        }
        let next = cluster.ask(&["--format", "csv", LONG, FLEET]);
        assert!(next.status.success(), "{next:?}");
        assert_eq!(next.stdout, expected.stdout);
    }
}

#[test]
fn an_executor_that_is_ended_leaves_nothing() {
    let mut cluster = Cluster::start(1, &[FLEET], &[]);
    assert!(cluster.ask(&["select * from rules", FLEET]).status.success());
    let work = cluster.executors[0].work();
    let mine: Vec<_> = std::fs::read_dir(&work).expect("it is there").flatten().collect();
    assert_eq!(mine.len(), 1);
    let mode = std::os::unix::fs::PermissionsExt::mode(&mine[0].metadata().expect("it is there").permissions());
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(cluster.executors[0].end(), Some(0));
    assert_eq!(std::fs::read_dir(&work).expect("it is there").count(), 0);
    assert_eq!(cluster.scheduler.end(), Some(0));
}

#[test]
fn limits_of_an_executor_end_a_query_with_an_error() {
    let disk = Cluster::start(1, &[FLEET], &["--disk", "16M"]);
    let many = "select a.host, a.occupant, b.victim_role, a.ns + b.ns as ns, count(*) over (partition by a.ns, b.ns) as n from blame_rollup a, blame_rollup b, hosts c";
    refused(&disk.ask(&["--format", "csv", many, FLEET]), &["--disk"]);
    let time = Cluster::start(1, &[FLEET], &["--task-time", "1s"]);
    refused(&time.ask(&["--format", "csv", many, FLEET]), &["--task-time"]);
    // The executor goes on.
    assert!(time.ask(&["select 1 from hosts limit 1", FLEET]).status.success());
}

/// A query that nobody waits for is not worked on.
#[test]
fn a_query_that_was_given_up_ends() {
    let cluster = Cluster::start(1, &[FLEET], &[]);
    let endless =
        "select count(*) as n from blame_rollup a, blame_rollup b, blame_rollup c where a.ns + b.ns + c.ns = 1";
    refused(&cluster.ask(&["--timeout", "3s", endless, FLEET]), &["--timeout"]);
    let pid = cluster.executors[0].pid();
    until("the end of its work", || {
        let before = ticks(pid);
        std::thread::sleep(Duration::from_secs(1));
        // Asking for work takes some, too.
        ticks(pid) - before < 20
    });
    assert!(cluster.ask(&["select 1 from hosts limit 1", FLEET]).status.success());
}

/// Hundredths of a second of CPU time: proc_pid_stat(5).
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = text.rsplit(')').next().expect("fields").split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn what_listens_to_other_machines_needs_tls_and_a_token() {
    for arguments in [
        &["scheduler", "--listen", "0.0.0.0:0"][..],
        &["scheduler", "--listen", "[::]:0"],
        &["executor", "--scheduler", "127.0.0.1:1", "--place", FLEET, "--listen", "0.0.0.0:0"],
    ] {
        let output = parts::program().args(arguments).output().expect("it can be started");
        refused(&output, &["--listen", "--token-file", "--tls-cert"]);
    }
    let output =
        parts::program().args(["sql", "--cluster", "df://192.0.2.1:50050", "select 1 from hosts", FLEET]).output();
    refused(&output.expect("it can be started"), &["192.0.2.1", "--tls-ca"]);
    let far = ["executor", "--scheduler", "192.0.2.1:50050", "--place", FLEET];
    refused(&parts::program().args(far).output().expect("it can be started"), &["192.0.2.1", "--tls-ca"]);
}

/// Another user of the machine, with a home of his own. What he is given is copied there: he may not enter where the build or the
/// checkout is.
struct Stranger {
    home: tempfile::TempDir,
}

impl Stranger {
    const ID: u32 = 65534;

    fn new() -> Stranger {
        let home = tempfile::tempdir().expect("a place for files");
        let stranger = Stranger { home };
        std::fs::copy(env!("CARGO_BIN_EXE_unstarve-cluster"), stranger.file("unstarve-cluster")).expect("a copy");
        let copied = Command::new("cp").args(["-r", FLEET]).arg(stranger.file("fleet")).status();
        assert!(copied.expect("cp can be started").success());
        let owner = format!("{0}:{0}", Stranger::ID);
        let owned = Command::new("chown").args(["-R", &owner]).arg(stranger.home.path()).status();
        assert!(owned.expect("chown can be started").success());
        stranger
    }

    fn file(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn program(&self) -> Command {
        use std::os::unix::process::CommandExt;
        let home = self.home.path();
        let mut command = Command::new(self.file("unstarve-cluster"));
        command.stdin(Stdio::null()).current_dir("/").uid(Stranger::ID).gid(Stranger::ID);
        command.env("XDG_STATE_HOME", home).env("XDG_CACHE_HOME", home);
        command
    }

    fn asks(&self, address: &str) -> Output {
        let mut command = self.program();
        command.args(["sql", "--cluster", &format!("df://{address}"), "select 1 from hosts limit 1"]);
        command.arg(self.file("fleet")).output().expect("it can be started")
    }
}

#[test]
fn another_user_of_the_machine_is_neither_let_in_nor_told_the_token() {
    if !rustix::process::geteuid().is_root() {
        println!("\nskipped: another_user_of_the_machine: it takes root to be one");
        return;
    }
    let stranger = Stranger::new();
    let cluster = Cluster::start(1, &[FLEET], &[]);
    let token = parts::state().join("unstarve/cluster-token");
    let mode = std::os::unix::fs::PermissionsExt::mode(&token.metadata().expect("a token").permissions());
    assert_eq!(mode & 0o777, 0o600);
    refused(&stranger.asks(&cluster.address), &["refuses", "no token"]);
    // With a token of his own he is no better off.
    let mut theirs = Part::start_as(&["scheduler", "--listen", "127.0.0.1:0"], stranger.program());
    let address = theirs.says("listening at");
    refused(&stranger.asks(&cluster.address), &["refuses", "another token"]);
    // Who asks him, or works for him, by mistake.
    let asked =
        parts::program().args(["sql", "--cluster", &format!("df://{address}"), "select 1 from hosts", FLEET]).output();
    refused(&asked.expect("it can be started"), &["65534", "--token-file"]);
    let works = parts::program().args(["executor", "--scheduler", &address, "--place", FLEET]).output();
    refused(&works.expect("it can be started"), &["65534", "--token-file"]);
    assert_eq!(theirs.end(), Some(0));
}

/// Takes a port as soon as it is free, says so, and then for eight seconds counts what who connects says.
const TAKES_A_PORT: &str = r#"
import socket, sys, time
while True:
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        door.bind(("127.0.0.1", int(sys.argv[1])))
        break
    except OSError:
        door.close()
        time.sleep(0.0005)
door.listen()
door.settimeout(0.2)
came, heard, until = 0, 0, time.monotonic() + 8
while time.monotonic() < until:
    try:
        one, _ = door.accept()
    except TimeoutError:
        continue
    came += 1
    one.settimeout(0.5)
    try:
        # As a server of HTTP/2 begins.
        one.sendall(b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        while part := one.recv(65536):
            heard += len(part)
    except OSError:
        pass
print(came, heard)
"#;

#[test]
fn who_takes_the_port_of_a_scheduler_that_ended_is_told_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("\nskipped: who_takes_the_port_of_a_scheduler: it takes root to be another user");
        return;
    }
    let mut cluster = Cluster::start(1, &[FLEET], &[]);
    let port = cluster.address.rsplit(':').next().expect("a port").to_owned();
    // One of a user's own may be where others may not look.
    let mut thief = Command::new("/usr/bin/python3");
    std::os::unix::process::CommandExt::uid(&mut thief, Stranger::ID);
    let thief = thief.args(["-c", TAKES_A_PORT, &port]).current_dir("/").stdin(Stdio::null());
    let thief = thief.stdout(Stdio::piped()).spawn().expect("python3 can be started");
    std::thread::sleep(Duration::from_millis(500));
    cluster.scheduler.kill();
    let told = thief.wait_with_output().expect("it ends by itself");
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert_eq!(told.split_whitespace().nth(1), Some("0"), "connections and bytes: {told}");
    let said = cluster.executors[0].errors();
    assert!(said.contains("another user") && said.contains("waiting for it"), "{said}");
}

/// Certificates and a token of a test.
struct Secrets {
    place: tempfile::TempDir,
}

impl Secrets {
    /// `None` where there is no openssl.
    fn make() -> Option<Secrets> {
        if Command::new("openssl").arg("version").output().is_err() {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "openssl is not installed: in CI that is a failure");
            println!("\nskipped: with_tls_and_a_token: openssl is not installed");
            return None;
        }
        let place = tempfile::tempdir().expect("a place for files");
        for name in ["ca", "other"] {
            let mut command = Command::new("openssl");
            command.current_dir(place.path()).args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ]);
            command.args(["-nodes", "-days", "2", "-subj", &format!("/CN={name}")]);
            command.args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
            assert!(command.output().expect("it can be started").status.success());
        }
        let run = |arguments: &[&str]| {
            let output = Command::new("openssl").current_dir(place.path()).args(arguments).output();
            let output = output.expect("it can be started");
            assert!(output.status.success(), "{output:?}");
        };
        let new =
            ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=host"];
        run(&[&new[..], &["-keyout", "host.key", "-out", "host.csr"]].concat());
        std::fs::write(place.path().join("names"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").expect("written");
        let sign = ["x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"];
        run(&[&sign[..], &["-extfile", "names", "-out", "host.pem"]].concat());
        std::fs::write(place.path().join("others"), "subjectAltName=DNS:elsewhere.example\n").expect("written");
        run(&[&sign[..], &["-extfile", "others", "-out", "elsewhere.pem"]].concat());
        run(&[&sign[..8], &["-days", "-1", "-extfile", "names", "-out", "expired.pem"]].concat());
        for (name, text) in [("token", "0123456789abcdef".repeat(4)), ("wrong", "fedcba9876543210".repeat(4))] {
            std::fs::write(place.path().join(name), text + "\n").expect("it can be written");
        }
        let secrets = Secrets { place };
        for name in ["token", "wrong", "host.key"] {
            secrets.mode(name, 0o600);
        }
        Some(secrets)
    }

    fn path(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    fn mode(&self, name: &str, mode: u32) {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(self.path(name), mode).expect("it is ours");
    }
}

#[test]
fn with_tls_and_a_token_everything_works_and_nobody_else_gets_in() {
    let Some(secrets) = Secrets::make() else { return };
    let [token, wrong, ca, other] = ["token", "wrong", "ca.pem", "other.pem"].map(|name| secrets.path(name));
    let [certificate, key] = ["host.pem", "host.key"].map(|name| secrets.path(name));
    let client = ["--token-file", &token, "--tls-ca", &ca];
    let server = [&client[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat();
    let cluster = Cluster::guarded(2, &[FLEET], &server, &client);
    let question = "select victim_role, count(distinct host) as n from wait_rollup group by 1";
    assert_eq!(cluster.rows(question, FLEET), parts::rows_here(question, FLEET));

    let address = format!("df://{}", cluster.address);
    let asked = |options: &[&str]| {
        let mut command = parts::program();
        command.args(["sql", "--cluster", &address]).args(options).args([question, FLEET]);
        command.output().expect("it can be started")
    };
    // This user's own token, if he has one, is not the one.
    refused(&asked(&["--tls-ca", &ca]), &["refuses", "token"]);
    refused(&asked(&["--tls-ca", &ca, "--token-file", &wrong]), &["refuses", "another token"]);
    refused(&asked(&["--tls-ca", &other, "--token-file", &token]), &["cannot be reached", "certificate"]);
    refused(&asked(&["--token-file", &token]), &["cannot be reached"]);
    let stranger = [
        &["executor", "--scheduler", &cluster.address, "--place", FLEET, "--tls-ca", &ca, "--token-file", &wrong][..],
        &["--tls-cert", &certificate, "--tls-key", &key],
    ];
    let output = parts::program().args(stranger.concat()).output().expect("it can be started");
    refused(&output, &["refuses", "another token"]);

    // Who shows a certificate of another machine, or one whose time is over.
    for (certificate, why) in [("elsewhere.pem", "not valid for name"), ("expired.pem", "Expired")] {
        let certificate = secrets.path(certificate);
        let server = [&client[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat();
        let mut scheduler = Part::start(&[&["scheduler", "--listen", "127.0.0.1:0"], &server[..]].concat());
        let address = format!("df://{}", scheduler.says("listening at"));
        let mut command = parts::program();
        command.args(["sql", "--cluster", &address]).args(client).args([question, FLEET]);
        refused(&command.output().expect("it can be started"), &["cannot be reached", "certificate", why]);
    }

    // A token that everybody can read is none.
    secrets.mode("token", 0o644);
    refused(&asked(&client), &["mode 640"]);
}

/// A scheduler and an executor, and where that hands out rows.
fn with_one_executor() -> (Cluster, String) {
    let mut cluster = Cluster::start(0, &[FLEET], &[]);
    let mut executor = Part::start(&["executor", "--scheduler", &cluster.address, "--place", FLEET]);
    let rows = executor.says("listening at");
    cluster.executors.push(executor);
    (cluster, rows)
}

/// Connections that say nothing.
fn silent(address: &str, count: usize) -> Vec<TcpStream> {
    let connect = || TcpStream::connect_timeout(&address.parse().expect("an address"), Duration::from_secs(10)).ok();
    (0..count).filter_map(|_| connect()).collect()
}

/// Of connections those that the other end has closed.
fn closed(connections: &[TcpStream]) -> usize {
    let is_closed = |connection: &&TcpStream| {
        let mut connection: &TcpStream = connection;
        connection.set_nonblocking(true).expect("it can be set");
        let mut bytes = [0; 256];
        loop {
            match connection.read(&mut bytes) {
                Ok(0) => return true,
                // How a server of HTTP/2 begins.
                Ok(_) => {}
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
            }
        }
    };
    connections.iter().filter(is_closed).count()
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

/// What a process takes of a CPU while nothing is asked, in hundredths of a second: in a second, the least of some.
fn idle_ticks(pid: u32) -> u64 {
    let second = |_| {
        let before = ticks(pid);
        std::thread::sleep(Duration::from_secs(1));
        ticks(pid) - before
    };
    (0..5).map(second).min().unwrap_or_default()
}

/// Who has no token can open connections: there are only so many, they end, and who has it is served meanwhile. At the port of an executor, too.
#[test]
fn connections_without_a_token_are_few_and_end() {
    let (cluster, rows) = with_one_executor();
    let address = cluster.address.clone();
    let ports = [(cluster.scheduler.pid(), address), (cluster.executors[0].pid(), rows)];
    let before = ports.each_ref().map(|(pid, _)| descriptors(*pid));
    let open = ports.each_ref().map(|(_, address)| silent(address, 400));
    assert!(open.iter().all(|open| open.len() > 300), "they are accepted");
    for ((pid, _), before) in ports.iter().zip(before) {
        until("that most of them are ended", || descriptors(*pid) < before + 100);
        assert!(idle_ticks(*pid) < 20, "they cost nothing");
    }
    assert!(cluster.ask(&["select 1 from hosts limit 1", FLEET]).status.success());
    for open in &open {
        until("the end of all", || closed(open) == open.len());
    }
    assert!(cluster.ask(&["select 1 from hosts limit 1", FLEET]).status.success());
}

/// A scheduler that has no descriptors left waits, and is there again.
#[test]
fn a_scheduler_without_descriptors_waits() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 32; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_unstarve-cluster")]);
    command.stdin(Stdio::null()).env("XDG_STATE_HOME", parts::state());
    let mut scheduler = Part::start_as(&["scheduler", "--listen", "127.0.0.1:0"], command);
    let address = scheduler.says("listening at");
    let open = silent(&address, 100);
    until("that it has none left", || descriptors(scheduler.pid()) >= 30);
    assert!(idle_ticks(scheduler.pid()) < 20, "it waits");
    drop(open);
    // What it says is that there is no executor: it was asked.
    let asked =
        parts::program().args(["sql", "--cluster", &format!("df://{address}"), "select 1 from hosts", FLEET]).output();
    refused(&asked.expect("it can be started"), &["no executor"]);
}

/// What is no HTTP/2, or breaks its rules, ends its own connection.
#[test]
fn malformed_frames_end_their_own_connection() {
    let (cluster, rows) = with_one_executor();
    let address = cluster.address.clone();
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frame = |length: u32, kind: u8, flags: u8, stream: u32, body: &[u8]| {
        [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
    };
    let settings = frame(0, 4, 0, 0, b"");
    let bodies: Vec<Vec<u8>> = vec![
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
        PREFACE.to_vec(),
        [PREFACE, &frame(0xff_ffff, 4, 0, 0, &[0; 64])].concat(),
        [PREFACE, &settings, &frame(4, 1, 5, 1, &[0xff; 4])].concat(),
        [PREFACE, &settings, &frame(0, 1, 0, 0, b"")].concat(),
        [PREFACE, &settings, &frame(5, 0, 1, 7, b"\0\xff\xff\xff\xff")].concat(),
        // Headers without an end, of one continuation after another.
        [PREFACE.to_vec(), settings.clone(), frame(0, 1, 0, 1, b""), frame(0, 9, 0, 1, b"").repeat(2000)].concat(),
        [PREFACE.to_vec(), settings.clone(), frame(8, 6, 0, 0, &[0; 8]).repeat(5000)].concat(),
    ];
    for (at, body) in bodies.iter().enumerate() {
        for port in [&address, &rows] {
            let mut connection = TcpStream::connect(port).expect("it listens");
            // It may have ended already.
            let _ = connection.write_all(body);
            let connection = [connection];
            until(&format!("the end of {at}"), || closed(&connection) == 1);
        }
    }
    let output = cluster.ask(&["select 1 from hosts limit 1", FLEET]);
    assert!(output.status.success(), "{output:?}");
}
