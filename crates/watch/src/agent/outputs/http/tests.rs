//! Tests of the HTTP server with slow, hanging and hostile clients.

use std::os::unix::fs::DirBuilderExt;

use super::*;

fn server(listen: &Listen) -> (Server, Arc<Board>) {
    let board = Arc::new(Board::default());
    let server = Server::start(listen, Arc::clone(&board), "/nowhere".into()).expect("listening");
    (server.expect("a server"), board)
}

fn ask(stream: &mut (impl Read + Write), request: &str) -> String {
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn tcp(server: &Server) -> TcpStream {
    let Address::Tcp(address) = server.address() else { panic!("no TCP") };
    TcpStream::connect(address).expect("connected")
}

#[test]
fn who_hangs_is_waited_for_by_nobody() {
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let (server, _) = server(&listen);
    // Three times as many as there are slots.
    let mut hanging: Vec<TcpStream> = (0..MAX_CONNECTIONS * 3)
        .map(|_| {
            let mut stream = tcp(&server);
            stream.write_all(b"GET /metrics HTT").expect("written");
            stream
        })
        .collect();
    let answer = ask(&mut tcp(&server), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The connection that has hung longest is closed, with an answer that says why.
    let mut answer = String::new();
    hanging[0].read_to_string(&mut answer).expect("an answer, no reset");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}

#[test]
fn who_does_not_read_his_answer_keeps_nobody_out() {
    const ID: &str = "20261123-012345-678";
    const SIZE: u64 = 48 << 20;
    let store = crate::testing::private_directory();
    let directory = store.path().join(ID);
    std::fs::DirBuilder::new().mode(0o700).create(&directory).expect("made");
    // More than the buffers of both ends hold, and much memory if each connection held it.
    let page = std::fs::File::create(directory.join("report.html")).expect("made");
    page.set_len(SIZE).expect("long");
    let before = resident();
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let started = Server::start(&listen, Arc::new(Board::default()), store.path().to_owned());
    let server = started.expect("listening").expect("a server");
    let report = format!("GET /episodes/{ID}/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let deaf: Vec<TcpStream> = (0..MAX_CONNECTIONS + 4)
        .map(|_| {
            let mut stream = tcp(&server);
            stream.write_all(report.as_bytes()).expect("written");
            // The answer has begun.
            stream.peek(&mut [0; 12]).expect("an answer");
            stream
        })
        .collect();
    for _ in 0..3 {
        let answer = ask(&mut tcp(&server), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < SIZE / 2, "{grown} bytes for {} clients that do not read", MAX_CONNECTIONS + 4);
    drop(deaf);
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
    line.trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

#[test]
fn a_report_comes_whole_and_one_that_becomes_shorter_ends_early() {
    const ID: &str = "20261123-012345-678";
    let store = crate::testing::private_directory();
    let directory = store.path().join(ID);
    std::fs::DirBuilder::new().mode(0o700).create(&directory).expect("made");
    let page: Vec<u8> = (0..3 * PART + 77).map(|at| b'a' + (at % 23) as u8).collect();
    std::fs::write(directory.join("report.html"), &page).expect("written");
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let started = Server::start(&listen, Arc::new(Board::default()), store.path().to_owned());
    let server = started.expect("listening").expect("a server");
    let request = format!("GET /episodes/{ID}/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = ask(&mut tcp(&server), &request);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains(&format!("Content-Length: {}", page.len())), "{head}");
    assert!(body.as_bytes() == page);
    // Cut off while it is sent: more than the sockets' buffers hold, so that sending waits.
    let long = 32 << 20;
    let file = std::fs::File::create(directory.join("report.html")).expect("made");
    file.set_len(long).expect("long");
    let mut stream = tcp(&server);
    stream.write_all(request.as_bytes()).expect("written");
    stream.peek(&mut [0; 12]).expect("an answer");
    file.set_len(9).expect("short");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!((rest.len() as u64) < long, "{}", rest.len());
    assert!(ask(&mut tcp(&server), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 503"));
}

#[test]
fn an_answer_to_what_was_not_read_is_seen() {
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let (server, _) = server(&listen);
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    let post = format!("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{}", "z".repeat(20_000));
    for (request, expected) in [(long, "HTTP/1.1 431 "), (post, "HTTP/1.1 405 ")] {
        let answer = ask(&mut tcp(&server), &request);
        assert!(answer.starts_with(expected) && answer.ends_with('\n'), "{answer}");
    }
}

#[test]
fn only_this_machines_own_names_are_loopback() {
    for host in ["localhost", "LOCALHOST:9846", "127.0.0.1", "127.3.2.1:80", "[::1]", "[::1]:80"] {
        assert!(is_loopback(host), "{host}");
    }
    let others = [
        "[::1]evil.example",
        "[::1]:80.evil.example",
        "[127.0.0.1]",
        "[::1",
        "127.0.0.1:80@evil",
        "localhost.evil",
        "",
        "evil",
    ];
    for host in others {
        assert!(!is_loopback(host), "{host}");
    }
}

#[test]
fn other_hosts_methods_and_paths_are_refused() {
    let listen = Listen { address: "127.0.0.1:0".parse().expect("an address"), ..Listen::default() };
    let (server, _) = server(&listen);
    let status = |request: &str| ask(&mut tcp(&server), request).split(' ').nth(1).map(str::to_owned);
    let cases = [
        ("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]evil.example\r\n\r\n", "421"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /episodes/..%2f/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET /episodes/20261123-012345-678/report.html HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200"),
        ("nonsense\r\n\r\n", "400"),
    ];
    for (request, expected) in cases {
        assert_eq!(status(request).as_deref(), Some(expected), "{request}");
    }
}

#[test]
fn a_unix_socket_is_its_owners_and_an_old_one_is_replaced() {
    let directory = crate::testing::private_directory();
    let path = directory.path().join("http");
    drop(UnixListener::bind(&path).expect("what a killed process left"));
    let listen = Listen { address: Address::Unix(path.clone()), ..Listen::default() };
    let (server, _) = server(&listen);
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("connected");
    assert!(ask(&mut stream, "HEAD / HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"), "no content");
    // As from a proxy that only adds TLS.
    let mut stream = UnixStream::connect(&path).expect("connected");
    let answer = ask(&mut stream, "GET /metrics HTTP/1.1\r\nHost: web1.example:9847\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(server);
    assert!(!path.exists());
}

/// With any umask, which is not changed, because other threads create files.
#[test]
fn a_socket_is_its_owners_alone_from_the_beginning() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    let listener = bind_unix(&path).expect("bound");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut client = UnixStream::connect(&path).expect("it listens");
    let (mut server, _) = listener.accept().expect("accepted");
    client.write_all(b"x").expect("written");
    assert_eq!(server.read(&mut [0; 1]).expect("read"), 1);
    drop(listener);
    drop(bind_unix(&path).expect("one that nobody listens at is replaced"));
}
