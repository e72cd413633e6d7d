//! Programs that pass messages of others on, in a form of their own that says whose they are: systemd's journal as JSON, Kubernetes'
//! events, Android's logcat, loggers by RFC 5424, Talos. A row each.

use serde_json::{Map, Value};
use unstarve_model::Nanos;

use crate::line::{Message, wall};

/// The message that a line passes on, if it is of one of these programs. What another program than the kernel wrote has its name.
pub fn message(line: &str) -> Option<Message> {
    CARRIER_READERS.iter().find_map(|carrier| carrier(line))
}

/// A message that is printed as a list of bytes has none of the words by which lines are found.
pub const JOURNAL_TRIGGERS: [&str; 1] = ["\"MESSAGE\":["];

const CARRIER_READERS: [fn(&str) -> Option<Message>; 8] =
    [journal, event, event_of_node, problem_detector, logcat, rfc_5424, since_1970, talos];

// `3m12s (x2 over 9m)  Warning  TaskHung  node/node-1  INFO: task …` of `kubectl get events`, also with namespaces or of old versions.
pattern!(
    EVENT = r"^(?:[\w.-]+ +)?(?:(?:<unknown>|(?:\d+[smhdy])+)(?: \(x\d+ over (?:\d+[smhdy])+\))? +)?(?:Normal|Warning) +\w+ +(?<object>[a-z]+/[\w.:-]+) +(?:kernel-monitor, ?\S+ +)?(?<text>\S.*)$"
);
// `  Warning  TaskHung  5m23s (x2 over 9m)  kernel-monitor  INFO: task …` of `kubectl describe node`.
pattern!(
    EVENT_OF_NODE = r"^\s*(?:Normal|Warning) +\w+ +(?:<unknown>|(?:\d+[smhdy])+)(?: \(x\d+ over (?:\d+[smhdy])+\))? +(?<from>[a-z][\w.-]*)(?:, [\w.-]+)? +(?<text>\S.*)$"
);
// `I1130 10:11:12.1 1 log_monitor.go:160] New status generated: &{Source:kernel-monitor Events:[{… Message:INFO: task …}] …`
pattern!(
    PROBLEM_DETECTOR = r"^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.]+:\d+\] New status generated: &\{Source:kernel-monitor .*? Message:(?<text>.*?)\}"
);
// `11-30 10:11:12.123     0     0 W BUG     : soft lockup …`, also with a column of users; `W/BUG     (    0): soft lockup …`.
pattern!(
    LOGCAT = r"^(?:(?<date>\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}) +(?:[a-z]\w* +)?(?<pid>\d+) +\d+ [VDIWEFS] (?<tag>[^:]*?) *:|[VDIWEFS]/(?<brief>[^:(]*?) *\( *(?<of>\d+)\):) ?(?<text>.*)$"
);

// `<4>1 2026-11-30T10:11:12.123Z host kernel - - - [   12.345678] soft lockup …`: the program, its process, a kind, and data by name.
pattern!(
    RFC_5424 = r#"^<(?<priority>\d{1,3})>1 (?<date>\S+) (?<host>\S+) (?<program>\S+) \S+ \S+ (?:-|(?:\[[^"\]]*(?:"(?:[^"\\]|\\.)*"[^"\]]*)*\])+) ?\u{feff}?(?<text>.*)$"#
);
// `1764500000.123456 host kernel: soft lockup …` of `journalctl -o short-unix`.
pattern!(
    SINCE_1970 = r"^(?<seconds>\d{9,10})\.\d{6} (?<host>[\w.-]+) (?<program>[\w./@-]+(?:\[\d+\])?): ?(?<text>.*)$"
);
// `10.0.0.2: kern: warning: [2026-11-30T10:11:12.123456789Z]: soft lockup …` of `talosctl dmesg`.
pattern!(
    TALOS =
        r"^(?:(?<host>[\w.:-]+): )?(?<facility>[a-z]+): +[a-z]+: \[(?<date>\d{4}-\d\d-\d\dT[^\]]+)\]: ?(?<text>.*)$"
);

/// A line of `journalctl -o json`. What says nothing of where it comes from is not taken for the kernel's.
fn journal(line: &str) -> Option<Message> {
    const FIELDS: [&str; 2] = ["\"MESSAGE\"", "\"__"];
    if !line.starts_with('{') || !FIELDS.iter().all(|field| line.contains(field)) {
        return None;
    }
    let entry: Map<String, Value> = serde_json::from_str(line).ok()?;
    let field = |name: &str| entry.get(name).and_then(Value::as_str);
    let time = |name: &str| field(name)?.parse::<u64>().ok().map(|us| Nanos(us.saturating_mul(1_000)));
    let is_kernel = field("_TRANSPORT") == Some("kernel");
    let name = || field("SYSLOG_IDENTIFIER").or_else(|| field("_COMM")).unwrap_or("a program").to_owned();
    Some(Message {
        text: text(entry.get("MESSAGE")?)?,
        uptime: time("_SOURCE_MONOTONIC_TIMESTAMP").or_else(|| time("__MONOTONIC_TIMESTAMP")),
        wall: time("_SOURCE_REALTIME_TIMESTAMP").or_else(|| time("__REALTIME_TIMESTAMP")),
        program: (!is_kernel).then(name),
        host: field("_HOSTNAME").map(str::to_owned),
        boot: field("_BOOT_ID").map(str::to_owned),
        caller: None,
        has_columns: true,
        is_indented: false,
    })
}

/// A field that is not UTF-8 is a list of its bytes; one that was given twice a list of texts.
fn text(field: &Value) -> Option<String> {
    match field {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) if values.iter().all(Value::is_string) => values.first()?.as_str().map(str::to_owned),
        Value::Array(values) => {
            let bytes: Option<Vec<u8>> = values.iter().map(|value| value.as_u64()?.try_into().ok()).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    }
}

/// Events about a node are made of the kernel's messages; those about pods are of anybody.
fn event(line: &str) -> Option<Message> {
    let found = EVENT.captures(line)?;
    let node = found["object"].strip_prefix("node/").map(str::to_owned);
    let program = Some(found["object"].to_owned()).filter(|_| node.is_none());
    Some(Message { host: node, program, ..passed_on(&found["text"]) })
}

fn event_of_node(line: &str) -> Option<Message> {
    let found = EVENT_OF_NODE.captures(line)?;
    let program = Some(found["from"].to_owned()).filter(|from| from != "kernel-monitor");
    Some(Message { program, ..passed_on(&found["text"]) })
}

fn problem_detector(line: &str) -> Option<Message> {
    Some(passed_on(&PROBLEM_DETECTOR.captures(line)?["text"]))
}

/// Lines of the kernel have the process 0. What stands before a colon in them became the tag.
fn logcat(line: &str) -> Option<Message> {
    let found = LOGCAT.captures(line)?;
    let of = |one, other| found.name(one).or(found.name(other)).map_or("", |part| part.as_str());
    let (pid, tag) = (of("pid", "of"), of("tag", "brief"));
    let is_kernel = pid.parse() == Ok(0u32);
    let text =
        if tag.is_empty() || !is_kernel { found["text"].to_owned() } else { format!("{tag}: {}", &found["text"]) };
    Some(Message {
        wall: found.name("date").and_then(|date| wall(&format!("1970-{}", date.as_str()))),
        program: (!is_kernel).then(|| format!("{tag}[{pid}]")),
        ..passed_on(&text)
    })
}

/// The kernel's facility is 0, which no program can ask for (syslog(3)).
fn rfc_5424(line: &str) -> Option<Message> {
    const SYSLOG_LEVELS: u32 = 8;
    let found = RFC_5424.captures(line)?;
    let is_of_kernel = found["priority"].parse::<u32>().is_ok_and(|priority| priority < SYSLOG_LEVELS);
    Some(Message {
        wall: wall(&found["date"]),
        host: Some(found["host"].to_owned()).filter(|host| host != "-"),
        program: Some(found["program"].to_owned()).filter(|program| !(is_of_kernel && program == "kernel")),
        ..passed_on(&found["text"])
    })
}

fn since_1970(line: &str) -> Option<Message> {
    let found = SINCE_1970.captures(line)?;
    let seconds: u64 = found["seconds"].parse().ok()?;
    Some(Message {
        wall: Some(Nanos(seconds.saturating_mul(1_000_000_000))),
        host: Some(found["host"].to_owned()),
        program: Some(found["program"].to_owned()).filter(|program| program != "kernel"),
        ..passed_on(&found["text"])
    })
}

/// What programs write to the kernel's log is of another facility.
fn talos(line: &str) -> Option<Message> {
    let found = TALOS.captures(line)?;
    Some(Message {
        wall: wall(&found["date"]),
        host: found.name("host").map(|host| host.as_str().to_owned()),
        program: Some(found["facility"].to_owned()).filter(|facility| facility != "kern"),
        ..passed_on(&found["text"])
    })
}

fn passed_on(text: &str) -> Message {
    Message { text: text.to_owned(), has_columns: true, ..Message::default() }
}
