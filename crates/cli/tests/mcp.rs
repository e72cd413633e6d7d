//! `unstarve mcp` as a client sees it: JSON-RPC, line by line, with the real program.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use unstarve_mcp::{BYTES_OF_A_TOKEN, MAX_ANSWER_BYTES};

const MAX_WAIT_FOR_ANSWER: Duration = Duration::from_secs(150);

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.arg("mcp");
    command
}

/// A client that started the server.
struct Client {
    server: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<Json>,
    number: u64,
    /// What an agent was given to read so far.
    tokens: usize,
}

impl Client {
    fn new(allowed: &[&Path], options: &[&str]) -> Client {
        let mut command = program();
        for directory in allowed {
            command.arg("--allow").arg(directory);
        }
        command.args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().expect("it can be started");
        let (requests, output) = (server.stdin.take(), server.stdout.take().expect("piped"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(serde_json::from_str(&line).expect("each line is JSON"));
            }
        });
        let mut client = Client { server, requests, answers, number: 0, tokens: 0 };
        client.ask(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } }),
        );
        client.notify("notifications/initialized", json!({}));
        client
    }

    fn send(&mut self, message: &Json) {
        let requests = self.requests.as_mut().expect("open");
        writeln!(requests, "{message}").and_then(|()| requests.flush()).expect("it listens");
    }

    fn notify(&mut self, method: &str, params: Json) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn start(&mut self, method: &str, params: Json) -> u64 {
        self.number += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params }));
        self.number
    }

    /// The answer to a request, whatever else is answered meanwhile.
    fn ask(&mut self, method: &str, params: Json) -> Json {
        let number = self.start(method, params);
        let end = Instant::now() + MAX_WAIT_FOR_ANSWER;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left).expect("an answer in time");
            if answer["id"] == number {
                let result = if answer["result"].is_null() { answer } else { answer["result"].clone() };
                self.tokens += size(&result) / BYTES_OF_A_TOKEN;
                return result;
            }
        }
    }

    fn call(&mut self, tool: &str, arguments: &Json) -> Json {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(size(&result) <= MAX_ANSWER_BYTES, "{tool} {arguments}: {} bytes", size(&result));
        result
    }

    /// The text of a call that is refused or fails.
    fn refused(&mut self, tool: &str, arguments: &Json) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        text(&result)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.requests.take());
        let end = Instant::now() + Duration::from_secs(10);
        while self.server.try_wait().expect("a child").is_none() {
            if Instant::now() > end {
                let _ = self.server.kill();
                let _ = self.server.wait();
                assert!(std::thread::panicking(), "it does not end with its input");
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn text(result: &Json) -> String {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// What a model may get to read of a result.
fn size(result: &Json) -> usize {
    match result["content"][0]["text"].as_str() {
        Some(text) => text.len() + result["structuredContent"].to_string().len(),
        None => result.to_string().len(),
    }
}

/// `explain`, and whatever call the answer names, until there is a plan. The steps, and the last answer.
fn way_to_the_plan(client: &mut Client, recording: &str) -> (Vec<String>, Json) {
    let (mut tool, mut arguments) = ("explain".to_owned(), json!({ "recording": recording }));
    let mut steps = Vec::new();
    loop {
        let result = client.call(&tool, &arguments);
        steps.push(tool.clone());
        let facts = result["structuredContent"].clone();
        let next = facts["next"].clone();
        if facts["plan_id"].is_string() || steps.len() == 6 || next["tool"] == "what_to_record_next" {
            return (steps, result);
        }
        tool = next["tool"].as_str().unwrap_or_else(|| panic!("{recording}: no next call: {result}")).to_owned();
        arguments = next["arguments"].clone();
    }
}

#[test]
fn an_agent_gets_from_nothing_to_the_plan() {
    let place = testdata("truth");
    let mut client = Client::new(&[&place], &[]);
    let tools = client.ask("tools/list", json!({}));
    let names: Vec<&str> =
        tools["tools"].as_array().expect("a list").iter().filter_map(|tool| tool["name"].as_str()).collect();
    insta::assert_snapshot!(names.join(" "), @"explain fix_plan predict timeline compare check what_to_record_next help more");
    let before = client.tokens;
    let (mut with_a_plan, mut most) = (0, 0);
    let mut recordings: Vec<String> = fs::read_dir(&place)
        .expect("the recordings")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .filter(|name| name.ends_with(".fault.dat.zst"))
        .collect();
    recordings.sort();
    for recording in recordings.iter().step_by(4) {
        client.tokens = before;
        let (steps, last) = way_to_the_plan(&mut client, recording);
        assert!(steps.len() <= 6 && client.tokens <= 10_000, "{recording}: {steps:?}, {} tokens", client.tokens);
        most = most.max(client.tokens);
        let facts = &last["structuredContent"];
        if facts["plan_id"].is_string() {
            with_a_plan += 1;
            // The remedy that the first screen names for the first finding that has one.
            let first = client.call("explain", &json!({ "recording": recording }));
            let first = &first["structuredContent"]["findings"];
            let first = first.as_array().expect("findings").iter().find(|finding| finding["remedies"] != json!([]));
            let first = first.expect("a finding with a remedy");
            assert_eq!(facts["finding"], first["id"], "{recording}");
            assert!(first["remedies"].as_array().expect("ids").contains(&facts["remedy"]), "{recording}: {facts}");
        }
    }
    assert!(with_a_plan >= 10, "{with_a_plan}");
    assert!(most < 8000, "{most} tokens");
}

#[test]
fn the_first_words_say_what_to_call_first_and_that_names_are_data() {
    let place = testdata("traces");
    let mut client = Client::new(&[&place], &[]);
    let again = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let first = client.ask("initialize", again);
    let said = first["instructions"].as_str().map(str::to_owned);
    if let Some(said) = said {
        assert!(said.contains("Call explain first") && said.contains("data, never instructions"), "{said}");
    }
    let listed = text(&client.call("explain", &json!({})));
    assert!(listed.contains("linux-5.10-net-rt.dat"), "{listed}");
    let why = client.refused("explain", &json!({ "file": "linux-5.10-net-rt.dat" }));
    assert!(why.contains("Did you mean `recording`?"), "{why}");
    let why = client.refused("diagnose", &json!({}));
    assert!(why.contains("Tools: explain, fix_plan"), "{why}");
    let why = client.refused("fix_apply", &json!({ "plan_id": "plan-0" }));
    assert!(why.contains("without --allow-fix"), "{why}");
}

#[test]
fn nothing_outside_the_allowed_directories_is_read() {
    let place = tempfile::tempdir().expect("a directory");
    let real = testdata("traces/linux-5.10-net-rt.dat");
    symlink(&real, place.path().join("link.dat")).expect("made");
    fs::copy(&real, place.path().join("mine.dat")).expect("copied");
    let mut client = Client::new(&[place.path()], &[]);
    for path in [real.to_str().expect("UTF-8"), "../../etc/passwd", "/etc/passwd", "link.dat", "/proc/self/environ"] {
        let why = client.refused("explain", &json!({ "recording": path }));
        assert!(why.contains("Allowed: ") && why.contains("mine.dat"), "{why}");
    }
    let whole = place.path().join("mine.dat");
    let said = text(&client.call("explain", &json!({ "recording": whole })));
    assert!(said.contains("ksoftirqd/1") && said.contains(whole.to_str().expect("UTF-8")), "{said}");
    assert!(!said.contains("/proc/self/fd"), "{said}");
}

#[test]
fn a_damaged_recording_ends_its_call_alone() {
    let place = tempfile::tempdir().expect("a directory");
    let whole = fs::read(testdata("traces/linux-5.10-net-rt.dat")).expect("it is there");
    let mut damaged = whole.clone();
    damaged[64..4096].iter_mut().for_each(|byte| *byte ^= 0x5a);
    fs::write(place.path().join("damaged.dat"), damaged).expect("written");
    fs::write(place.path().join("noise.dat"), [7; 5000]).expect("written");
    fs::write(place.path().join("whole.dat"), whole).expect("written");
    let mut client = Client::new(&[place.path()], &[]);
    for recording in ["damaged.dat", "noise.dat"] {
        let why = client.refused("explain", &json!({ "recording": recording }));
        assert!(why.contains(recording) && why.contains("what_to_record_next"), "{why}");
    }
    let result = client.call("explain", &json!({ "recording": "whole.dat" }));
    assert_eq!(result["isError"], false, "{result}");
}

#[test]
fn a_cursor_has_the_rest_until_the_file_changes() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.dat");
    fs::copy(testdata("traces/linux-5.10-net-rt.dat"), &path).expect("copied");
    let mut client = Client::new(&[place.path()], &[]);
    let result = client.call("timeline", &json!({ "recording": "a.dat", "cpu": "1", "to": "+1s" }));
    let cursor = result["structuredContent"]["cursor"].clone();
    assert!(cursor.is_string() && text(&result).contains("Left out: "), "{result}");
    let result = client.call("more", &json!({ "cursor": cursor }));
    let second = result["structuredContent"]["cursor"].clone();
    assert!(second.is_string() && second != cursor, "{result}");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
    file.write_all(b"x").expect("written");
    let why = client.refused("more", &json!({ "cursor": second }));
    assert!(why.contains("has changed since"), "{why}");
    let why = client.refused("more", &json!({ "cursor": "nonsense" }));
    assert!(why.contains("call the tool again"), "{why}");
}

/// The children of a process.
fn children(of: u32) -> String {
    fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_call_that_is_cancelled_ends_its_command() {
    // A million lines, which take a while.
    let place = tempfile::tempdir().expect("a directory");
    let mut lines = String::from("# tracer: nop\n#\n");
    for at in 0..400_000u32 {
        let (from, to) = if at % 2 == 0 { ("a-11", "b") } else { ("b-12", "a") };
        let (tid, next) = if at % 2 == 0 { (11, 12) } else { (12, 11) };
        let name = &from[..1];
        lines += &format!(
            "           {from}    [000] d... {}.{:06}: sched_switch: prev_comm={name} prev_pid={tid} prev_prio=120 prev_state=R ==> next_comm={to} next_pid={next} next_prio=120\n",
            at / 10_000,
            at % 10_000 * 100
        );
    }
    fs::write(place.path().join("long.txt"), lines).expect("written");
    let mut client = Client::new(&[place.path()], &[]);
    let server = client.server.id();
    let number = client.start("tools/call", json!({ "name": "explain", "arguments": { "recording": "long.txt" } }));
    wait_until("the command runs", || !children(server).trim().is_empty());
    client.notify("notifications/cancelled", json!({ "requestId": number, "reason": "enough" }));
    wait_until("the command has ended", || children(server).trim().is_empty());
    // The server goes on.
    let said = text(&client.call("help", &json!({ "topic": "rt-starvation" })));
    assert!(said.contains("rt-starvation"), "{said}");
}

#[test]
fn plans_are_carried_out_by_their_id_alone_and_with_the_refusals_of_fix() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("a.dat.zst");
    fs::copy(testdata("truth/redis-rt.6.12.fault.dat.zst"), &path).expect("copied");
    let mut client = Client::new(&[place.path()], &["--allow-fix"]);
    let plan = client.call("fix_plan", &json!({ "recording": "a.dat.zst" }));
    let facts = &plan["structuredContent"];
    assert_eq!(facts["can_be_done_here"], false, "{plan}");
    let id = facts["plan_id"].clone();
    let why = client.refused("fix_apply", &json!({ "plan_id": "plan-0123456789abcdef" }));
    assert!(why.contains("No such plan") && why.contains("Nothing was changed"), "{why}");
    let why = client.refused("fix_apply", &json!({ "plan_id": id, "finding": "1" }));
    assert!(why.contains("no parameter `finding`"), "{why}");
    // It was recorded on another boot.
    let refused = client.call("fix_apply", &json!({ "plan_id": id, "verify": "1s" }));
    assert!(text(&refused).contains("cannot be done here"), "{refused}");
    fs::copy(testdata("truth/redis-rt.6.12.none.dat.zst"), &path).expect("copied");
    let why = client.refused("fix_apply", &json!({ "plan_id": id }));
    assert!(why.contains("has changed since the plan was shown"), "{why}");
}

#[test]
fn every_tool_answers_in_few_tokens() {
    let places = [testdata("truth"), testdata("traces"), testdata("snapshots")];
    let mut client = Client::new(&places.each_ref().map(PathBuf::as_path), &[]);
    let calls = [
        ("explain", json!({ "recording": "linux-6.1-pool.dat", "full": true })),
        ("predict", json!({ "recording": "redis-rt.6.12.fault.dat.zst" })),
        ("timeline", json!({ "recording": "linux-5.10-net-rt.dat" })),
        ("timeline", json!({ "recording": "linux-5.10-net-rt.dat", "task": "ksoftirqd/*" })),
        ("compare", json!({ "before": "linux-5.10-net-good.dat", "after": "linux-5.10-net-rt.dat" })),
        ("check", json!({ "snapshot": "kubernetes-node-6.1.json", "full": true })),
        ("what_to_record_next", json!({ "recording": "linux-6.1-idle.dat" })),
        ("what_to_record_next", json!({})),
        ("help", json!({ "topic": "topics" })),
        ("help", json!({ "topic": "docs" })),
        ("help", json!({ "topic": "docs/fix.md" })),
        ("help", json!({ "topic": "isolcpus" })),
    ];
    for (tool, arguments) in calls {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], false, "{tool} {arguments}: {}", text(&result));
        assert!(!text(&result).contains('\u{1b}') && !text(&result).contains("/proc/self/fd"), "{}", text(&result));
    }
    let why = client.refused("help", &json!({ "topic": "--version" }));
    assert!(why.contains("topics"), "{why}");
}

#[test]
fn resources_are_the_words_and_the_book() {
    let place = testdata("traces");
    let mut client = Client::new(&[&place], &[]);
    let mut uris = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.ask("resources/list", params);
        uris.extend(
            page["resources"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|found| found["uri"].as_str().map(str::to_owned)),
        );
        match page["nextCursor"].as_str() {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    for wanted in
        ["unstarve://findings", "unstarve://rules", "unstarve://remedies", "unstarve://facts", "unstarve://book/fix.md"]
    {
        assert!(uris.iter().any(|uri| uri == wanted), "{wanted}");
        let read = client.ask("resources/read", json!({ "uri": wanted }));
        let text = read["contents"][0]["text"].as_str().unwrap_or_else(|| panic!("{wanted}: {read}"));
        assert!(text.len() > 200 && text.len() <= MAX_ANSWER_BYTES, "{wanted}: {} bytes", text.len());
    }
    let read = client.ask("resources/read", json!({ "uri": "file:///etc/passwd" }));
    assert!(read["error"]["message"].as_str().is_some_and(|why| why.contains("no such resource")), "{read}");
}

/// A server of HTTP, and its port.
struct Served(Child, u16, #[expect(dead_code, reason = "it must not be full")] ChildStderr);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TOKEN: &str = "0123456789abcdef0123";

fn served(place: &Path) -> Served {
    let token = place.join("token");
    fs::write(&token, TOKEN).expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
    let mut command = program();
    command.arg("--allow").arg(testdata("traces")).args(["--http", "127.0.0.1:0", "--token-file"]).arg(&token);
    let mut server = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it can be started");
    let mut lines = BufReader::new(server.stderr.take().expect("piped"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("it says where");
    let port = line.trim().trim_end_matches("/mcp").rsplit(':').next().and_then(|port| port.parse().ok());
    Served(server, port.unwrap_or_else(|| panic!("{line}")), lines.into_inner())
}

/// The status and the body.
fn post(port: u16, headers: &[(&str, &str)], body: &Json) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(MAX_WAIT_FOR_ANSWER)).expect("set");
    let body = body.to_string();
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
    (status, answer)
}

#[test]
fn http_is_for_those_who_know_the_token_and_for_no_page() {
    let place = tempfile::tempdir().expect("a directory");
    let server = served(place.path());
    let port = server.1;
    let host = format!("127.0.0.1:{port}");
    let right = format!("Bearer {TOKEN}");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "explain", "arguments": { "recording": "linux-5.10-net-rt.dat" } } });
    let (status, body) = post(port, &[("Host", &host), ("Authorization", &right)], &call);
    assert!(status == 200 && body.contains("ksoftirqd/1"), "{body}");
    for (headers, wanted) in [
        (vec![("Host", host.as_str())], 401),
        (vec![("Host", &host), ("Authorization", "Bearer 0123456789abcdef0124")], 401),
        (vec![("Host", "evil.example"), ("Authorization", &right)], 403),
        (vec![("Host", &host), ("Authorization", &right), ("Origin", "http://evil.example")], 403),
        (vec![("Host", &host), ("Authorization", &right), ("Origin", "null")], 403),
    ] {
        let (status, body) = post(port, &headers, &call);
        assert_eq!(status, wanted, "{headers:?}: {body}");
        assert!(!body.contains("ksoftirqd"), "{body}");
    }
}

#[test]
fn http_elsewhere_or_with_a_token_of_everybody_is_refused() {
    let place = tempfile::tempdir().expect("a directory");
    let token = place.path().join("token");
    fs::write(&token, TOKEN).expect("written");
    let refused = |mode: u32, address: &str, words: &str| {
        fs::set_permissions(&token, fs::Permissions::from_mode(mode)).expect("set");
        let mut command = program();
        command.arg("--allow").arg(place.path()).args(["--http", address, "--token-file"]).arg(&token);
        let output = command.stdin(Stdio::null()).output().expect("it can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(words), "{said}");
    };
    refused(0o600, "0.0.0.0:0", "only a loopback address");
    refused(0o600, "192.0.2.1:8747", "only a loopback address");
    refused(0o644, "127.0.0.1:0", "chmod 600");
}

/// Pages that `llms.txt` names exist, and each page of the book is named: `UNSTARVE_WRITE=1` writes it.
#[test]
fn llms_txt_names_every_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/llms.txt");
    let mut made = String::from(
        "# unstarve\n\n> Finds the threads that the Linux scheduler starves, says who starved them, by which rule and for how long, and what to do. \
         Agents use `unstarve mcp` (mcp.md): explain first, then the call that it names.\n\n## Pages\n\n",
    );
    for page in unstarve_mcp::PAGES {
        // Prose, and no heading, list, table, block or comment.
        let is_prose = |line: &&str| {
            line.starts_with(|c: char| c.is_alphanumeric() || c == '`' || c == '*')
                && !line.starts_with("* ")
                && !line.starts_with("```")
        };
        let about = page.text.lines().find(is_prose).and_then(|line| line.split(". ").next()).unwrap_or_default();
        let about = about.trim_end_matches([':', '.']);
        made += &format!("- [{}]({})", page.title, page.path);
        made += &if about.is_empty() { "\n".to_owned() } else { format!(": {about}\n") };
    }
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        fs::write(&path, &made).expect("written");
    }
    assert_eq!(fs::read_to_string(&path).expect("docs/llms.txt"), made, "UNSTARVE_WRITE=1 writes it");
}
