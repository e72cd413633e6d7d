//! Names that a task, a group or a file on a host was given by somebody who wants to write on root's terminal, into a page, or into
//! a shell: what is shown of them is harmless, and what machines read is well formed.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;

use serde_json::Value;

/// At most 15 bytes each, as the kernel has them.
const NAMES: [&str; 9] = [
    "\u{1b}[31m\u{7}evil",
    "\u{1b}]0;x\u{7}",
    "</script><x>",
    "<img/onerror=x>",
    "\u{202e}evil\u{2066}",
    "\"';`$(id)`&&#\\",
    "\u{9b}31m\u{85}\u{200b}",
    "a\rb\u{8}\u{7f}",
    "x;$(id)`id` &",
];

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60", env!("CARGO_BIN_EXE_unstarve")]).args(arguments).stdin(Stdio::null());
    let output = command.env("LC_ALL", "C.UTF-8").output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0..=1)), "{arguments:?}: {said}");
    assert_harmless(&said, &format!("{arguments:?} on standard error"));
    output
}

/// Nothing in it moves the cursor, colours, rings, hides or reorders.
fn assert_harmless(text: &str, what: &str) {
    let harmful = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    if let Some((line, c)) = text.lines().find_map(|line| Some((line, line.chars().find(harmful)?))) {
        panic!("{what}: {c:?} in {:?}", line.escape_debug().to_string());
    }
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("UTF-8")
}

fn json(text: &str, what: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// A page in which a name has become an element is one that runs what the name says.
fn assert_page(page: &str, name: &str) {
    let shown = name.escape_debug().to_string();
    assert!(!name.contains('<') || !page.contains(name), "{shown} is in the page as it is");
    let control = page.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
    assert_eq!(control, None, "{shown}: in the page");
}

#[test]
fn names_of_tasks_in_a_recording() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let original = fs::read_to_string(testdata("traces/fsdevel-perf-script.txt")).expect("a recording");
    for name in NAMES.iter().filter(|name| !name.contains('\r')) {
        let shown = name.escape_debug().to_string();
        let path = place.path().join("trace.txt");
        // A blank would end the name here.
        let name = name.replace(' ', "");
        let name = name.as_str();
        fs::write(&path, original.replace("fio", name)).expect("written");
        let trace = path.to_str().expect("text");
        let other = place.path().join("other.txt");
        fs::copy(&path, &other).expect("copied");
        let other_run = other.to_str().expect("text");
        let never = ["--fail-on", "never"];
        let page = run(&[&["explain", trace][..], &never].concat());
        assert_harmless(text(&page), &format!("explain {shown}"));
        let page = run(&[&["explain", "--full", trace][..], &never].concat());
        assert_harmless(text(&page), &format!("explain --full {shown}"));
        assert!(text(&page).contains("kworker/11:68"), "the trace is read: {}", text(&page));
        let report = json(text(&run(&["explain", trace, "--json"])), "explain --json");
        assert_eq!(report["schema"], "unstarve.explain/1");
        for arguments in [
            &["timeline", trace][..],
            &["timeline", trace, "--summary"],
            &["compare", trace, trace, "--all"],
            &["compare", trace, other_run, "--all", "--fail-on", "never"],
            &["top", trace, "--once"],
        ] {
            assert_harmless(text(&run(arguments)), &format!("{arguments:?} {shown}"));
        }
        json(text(&run(&["compare", trace, trace, "--json"])), "compare --json");
        let files = ["gate.xml", "gate.sarif", "comment.md"].map(|name| place.path().join(name));
        let [junit, sarif, markdown] = files.each_ref().map(|file| file.to_str().expect("text"));
        let outputs = ["--junit", junit, "--sarif", sarif, "--markdown", markdown];
        run(&[&["compare", trace, other_run, "--fail-on", "never"][..], &outputs].concat());
        for file in files {
            assert_harmless(&fs::read_to_string(&file).expect("written"), &format!("{} {shown}", file.display()));
        }
        json(text(&run(&["export", trace, "--format", "firefox", "-o", "-"])), "firefox");
        for line in text(&run(&["top", trace, "--json"])).lines() {
            json(line, "top --json");
        }
        let folded = run(&["export", trace, "--format", "folded", "-o", "-"]);
        assert_harmless(text(&folded), &format!("folded {shown}"));
        for line in text(&folded).lines() {
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
            assert!(count.is_some() && line.matches(';').count() >= 2, "{shown}: {line:?}");
        }
        for table in ["waits", "pieces", "blame"] {
            let output = run(&["export", trace, "--format", "csv", "--table", table, "-o", "-"]);
            let lines = csv_records(text(&output));
            let columns = lines[0].len();
            assert!(columns > 3 && lines.len() > 1, "{shown}: {table}");
            assert!(lines.iter().all(|line| line.len() == columns), "{shown}: {table}: {lines:?}");
        }
        for arguments in [&["report", trace, "-o", "-"][..], &["compare", trace, trace, "-o", "-"]] {
            assert_page(text(&run(arguments)), name);
        }
    }
}

/// Records of RFC 4180.
fn csv_records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut characters) = (false, text.chars().peekable());
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    records
}

/// Puts a name into everything of a snapshot that somebody on the host, or who made the file, could choose.
fn poisoned(snapshot: &Value, name: &str) -> String {
    let mut snapshot = snapshot.clone();
    let poison = |value: &mut Value| {
        if let Value::String(text) = value {
            text.push_str(name);
        }
    };
    let each = |snapshot: &mut Value, list: &str, keys: &[&str], poison: &dyn Fn(&mut Value)| {
        for item in snapshot.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            keys.iter().for_each(|key| item.get_mut(*key).into_iter().for_each(poison));
        }
    };
    each(&mut snapshot, "tasks", &["comm", "cmdline"], &poison);
    let group = |value: &mut Value| {
        if value.as_str().is_some_and(|path| path.len() > 1) {
            // Below and as part of the first component, so that parents stay parents.
            let path = value.as_str().unwrap_or_default().replacen('/', &format!("/{}", name.replace('/', "!")), 1);
            *value = path.into();
        }
    };
    each(&mut snapshot, "tasks", &["cgroup"], &group);
    each(&mut snapshot, "cgroups", &["path"], &group);
    each(&mut snapshot, "mounts", &["device", "target", "options"], &poison);
    each(&mut snapshot, "networks", &["name"], &poison);
    each(&mut snapshot, "configured", &["file", "owner", "value"], &poison);
    each(&mut snapshot, "missing", &["what", "why"], &poison);
    each(&mut snapshot, "workqueues", &["name"], &poison);
    for irq in snapshot["irqs"].as_array_mut().into_iter().flatten() {
        for list in ["handlers", "devices"] {
            irq.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(poison);
        }
    }
    for value in snapshot["settings"].as_object_mut().into_iter().flatten().map(|(_, value)| value) {
        if value.as_str().is_some_and(|text| text.parse::<i64>().is_err()) {
            poison(value);
        }
    }
    for key in ["release", "version"] {
        snapshot["kernel"].get_mut(key).into_iter().for_each(poison);
    }
    // The schema first, as the program writes it: that is how it is told from a recording.
    let schema = snapshot.as_object_mut().and_then(|all| all.remove("schema")).expect("a schema");
    snapshot.to_string().replacen('{', &format!("{{\"schema\":{schema},"), 1)
}

#[test]
fn names_in_a_snapshot() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = place.path().join("host.json");
    let file = path.to_str().expect("text");
    let mut seen = 0;
    for original in ["snapshots/kubernetes-node-6.1.json", "snapshots/storage-controller-5.10.json"] {
        let original_path = testdata(original);
        let original = json(&fs::read_to_string(&original_path).expect("a snapshot"), original);
        for name in NAMES.into_iter().chain(["a\nCRITICAL  forged\nb"]) {
            let shown = name.escape_debug().to_string();
            fs::write(&path, poisoned(&original, name)).expect("written");
            let never = ["--fail-on", "never"];
            for arguments in
                [&["check", "--snapshot", file][..], &["check", "--snapshot", file, "--upgrade-to", "6.12"]]
            {
                let page = run(&[arguments, &never].concat());
                let page = text(&page);
                assert_harmless(page, &format!("check {shown}"));
                assert!(!page.lines().any(|line| line.starts_with("CRITICAL  forged")), "{page}");
                // What it says to run is one line, and holds nothing that a shell takes as its own.
                for line in page.lines().filter_map(|line| line.trim_start().strip_prefix("do:")) {
                    assert!(!line.contains("$(id)") || line.contains("'/sys"), "{shown}: {line}");
                }
                seen += page.matches("evil").count() + page.matches("script").count();
                for form in ["--json", "--sarif"] {
                    json(text(&run(&[arguments, &never, &[form]].concat())), form);
                }
            }
            for arguments in [
                &["knobs", "list", "--snapshot", file][..],
                &["knobs", "diff", &original_path, file],
                &["compare", &original_path, file],
            ] {
                assert_harmless(text(&run(arguments)), &format!("{arguments:?} {shown}"));
            }
            json(text(&run(&["knobs", "diff", &original_path, file, "--json"])), "knobs diff --json");
        }
    }
    assert!(seen > 0, "some of the names are shown at all");
}

/// A thread of this very process under each name, while the program looks at the host.
#[test]
fn names_of_running_tasks() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let names: Vec<Vec<u8>> = NAMES
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .chain([b"a\nb\x1b[2J".to_vec(), b"\xff\xfe\x9b".to_vec()])
        .collect();
    let policy = place.path().join("policy.toml");
    // Every thread of this program.
    let rule = format!(
        "version = 1\n[[rule]]\nname = \"mine\"\nmatch = {{ cmdline = \"*{}*\" }}\nset = {{ nice = 5 }}\n",
        std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned())).expect("a name")
    );
    fs::write(&policy, rule).expect("written");
    let all = std::thread::scope(|scope| {
        let (ready, named) = mpsc::channel();
        let mut ends = Vec::new();
        for name in &names {
            let (end, wait) = mpsc::channel::<()>();
            let ready = ready.clone();
            scope.spawn(move || {
                let bytes: Vec<u8> = name.iter().copied().take(15).collect();
                let name = std::ffi::CString::new(bytes).expect("no zero");
                rustix::thread::set_name(&name).expect("a name");
                ready.send(()).expect("sent");
                let _ = wait.recv();
            });
            ends.push(end);
        }
        names.iter().for_each(|_| named.recv().expect("named"));
        // The threads end with their channels, however this ends.
        look(place.path(), &policy)
    });
    assert!(all.contains("evil"), "the names were seen");
}

/// What the program says of this host; the snapshot's text is given back.
fn look(place: &Path, policy: &Path) -> String {
    let file = place.join("host.json");
    let name = file.to_str().expect("text");
    run(&["snapshot", "-o", name]);
    let text_of_file = fs::read_to_string(&file).expect("UTF-8");
    let snapshot = json(&text_of_file, "snapshot");
    assert_eq!(snapshot["schema"], "unstarve.snapshot/1");
    for arguments in [&["check"][..], &["check", "--snapshot", name], &["snapshot", "--redact"]] {
        let never: &[&str] = if arguments[0] == "check" { &["--fail-on", "never"] } else { &[] };
        assert_harmless(text(&run(&[arguments, never].concat())), &format!("{arguments:?}"));
    }
    json(text(&run(&["check", "--sarif", "--fail-on", "never"])), "check --sarif");
    let policy = policy.to_str().expect("text");
    let plan = run(&["guard", "plan", "--policy", policy]);
    assert_harmless(text(&plan), "guard plan");
    json(text(&run(&["guard", "plan", "--json", "--policy", policy])), "guard plan --json");
    text_of_file
}
