//! Errors of a cluster in words. Ballista makes one text of an error and its causes as its code writes them (`{:?}`): with the names of types, and texts in texts.

/// What such a text calls the values that an error is made of.
const TYPES: [&str; 25] = [
    "ArrowError",
    "BallistaError",
    "ConnectError",
    "Configuration",
    "Context",
    "Custom",
    "DataFusionError",
    "ExecuteQueryFailureResult",
    "Execution",
    "External",
    "FetchFailed",
    "General",
    "GrpcActionError",
    "GrpcConnectionError",
    "GrpcError",
    "Internal",
    "IoError",
    "NotImplemented",
    "ObjectStore",
    "Os",
    "ParquetError",
    "Status",
    "TokioError",
    "TonicError",
    "tonic::transport::Error",
];

/// What the reason comes after: names of queries, stages and tasks, which say nothing to who asks.
const BEFORE: [&str; 4] = [
    "most recent failure reason: ",
    "Task failed due to runtime execution error: ",
    "Task failed due to IO error: ",
    "Fail to execute query due to ",
];

/// The reason alone.
pub fn words(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    for before in BEFORE {
        let Some((_, rest)) = text.split_once(before) else { continue };
        // What several tries ended with is a text in the text.
        let quoted = rest.strip_prefix('"').and_then(|rest| Some(unquoted(rest)?.0));
        text = quoted.unwrap_or_else(|| rest.to_owned());
    }
    if let Some((_, why)) = text.split_once("Shuffle fetch partition error from ") {
        let why = why.split_once("error desc: ").map_or(why, |(_, why)| why);
        text = format!("rows of an executor cannot be fetched: {why}");
    }
    // The scheduler ends queries that lose an executor, and those that were given up, which nobody waits for.
    if text.starts_with("Job ") && text.ends_with(" failed: Cancelled") {
        return "an executor was lost while the query ran: ask again".to_owned();
    }
    let text = without_types(&status(&text));
    match text.split_once("Resources exhausted: ") {
        Some((_, rest)) => format!("an executor has too little memory (its --memory): {rest}"),
        None => text,
    }
}

/// What a server said that refused, or that went away: tonic has two ways to write it.
fn status(text: &str) -> String {
    let debug = text.strip_prefix("Status { code: ").and_then(|rest| rest.split_once(", "));
    let display = || text.strip_prefix("code: '").and_then(|rest| rest.split_once("', "));
    let Some((code, rest)) = debug.or_else(display) else { return text.to_owned() };
    let said = rest.strip_prefix("message: \"").and_then(|rest| Some(unquoted(rest)?.0));
    format!("the scheduler: {}", said.unwrap_or_else(|| code.to_owned()))
}

/// The text with the texts of each value in place of the value.
fn without_types(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((at, inside)) = TYPES.iter().filter_map(|name| value(rest, name)).min() {
        let (texts, end) = texts(&rest[inside..]);
        plain += &rest[..at];
        plain += &if texts.is_empty() { "no reason was given".to_owned() } else { texts.join(": ") };
        rest = &rest[inside + end..];
    }
    plain + rest
}

/// Where a value of this type begins, and what is in it.
fn value(text: &str, name: &str) -> Option<(usize, usize)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    text.match_indices(name).find_map(|(at, _)| {
        let opening = ["(", " { "].into_iter().find(|opening| text[at + name.len()..].starts_with(opening))?;
        // A path before it is one more name: `hyper::Error(…)`.
        let begin = text[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
        let is_whole = begin == at || text[begin..at].ends_with("::");
        is_whole.then_some((begin, at + name.len() + opening.len()))
    })
}

/// The texts in a value, without those that are known already, and where the value ends.
fn texts(value: &str) -> (Vec<String>, usize) {
    let (mut found, mut depth, mut at) = (Vec::<String>::new(), 1, 0);
    // Headers of an answer are no reason.
    let mut headers = None;
    while let Some(c) = value[at..].chars().next() {
        let rest = &value[at + c.len_utf8()..];
        at += c.len_utf8();
        match c {
            '(' | '{' | '[' => {
                if value[..at].ends_with("metadata: MetadataMap {") {
                    headers = Some(depth);
                }
                depth += 1;
            }
            ')' | '}' | ']' => {
                depth -= 1;
                headers = headers.filter(|headers| *headers < depth);
                if depth == 0 {
                    break;
                }
            }
            '"' => {
                let Some((text, length)) = unquoted(rest) else { continue };
                at += length;
                let text = without_types(&text);
                if headers.is_none() && !found.iter().any(|known| known.contains(&text)) {
                    found.push(text);
                }
            }
            _ => {}
        }
    }
    (found, at)
}

/// A text as `{:?}` writes it, from behind its first quote: what it is, and how long it was with the last quote.
fn unquoted(text: &str) -> Option<(String, usize)> {
    let mut plain = String::new();
    let mut rest = text.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '"' => return Some((plain, at + 1)),
            '\\' => match rest.next()?.1 {
                'n' => plain.push('\n'),
                't' => plain.push('\t'),
                'r' => plain.push('\r'),
                c => plain.push(c),
            },
            c => plain.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_reason_alone() {
        let cases = [
            (
                r#"Job 1 failed: Job failed due to stage 0 failed: Task failed due to runtime execution error: DataFusionError(Execution("no \"x\"\nin y"))"#,
                "no \"x\"\nin y",
            ),
            (
                r#"Job 1 failed: DataFusionError(Execution("Resources exhausted: 1 MB for Sort"))"#,
                "an executor has too little memory (its --memory): 1 MB for Sort",
            ),
            ("Job 1 failed: all executors were lost", "Job 1 failed: all executors were lost"),
            (
                r#"Job 1 failed: Job failed due to stage 2 failed: Task 3 in Stage 2 failed 4 times, fail the stage, most recent failure reason: "Task failed due to IO error: DataFusionError(IoError(Os { code: 28, kind: StorageFull, message: \"No space left on device\" }))"
"#,
                "No space left on device",
            ),
            (
                r#"Task failed due to runtime execution error: GrpcError(Status { code: Unknown, message: "transport error", metadata: MetadataMap { headers: {"date": "today"} }, source: Some(tonic::transport::Error(Transport, hyper::Error(Io, Custom { kind: BrokenPipe, error: "broken pipe" }))) })"#,
                "transport error: broken pipe",
            ),
            (
                r#"Status { code: Unavailable, message: "no executor has registered", source: None }"#,
                "the scheduler: no executor has registered",
            ),
            (
                r#"code: 'Unknown error', message: "h2 protocol error", source: tonic::transport::Error(Transport, ())"#,
                "the scheduler: h2 protocol error",
            ),
            ("Status { code: Cancelled, source: None }", "the scheduler: Cancelled"),
            ("Job 380c1e7f-bb91 failed: Cancelled\n", "an executor was lost while the query ran: ask again"),
            (
                r#"External error: Shuffle fetch partition error from Executor 1-2, map_stage 1, map_partition 0, error desc: Error connecting to Ballista scheduler or executor at http://[::1]:9: tonic::transport::Error(Transport, ConnectError(ConnectError("tcp connect error", [::1]:9, Os { code: 111, kind: ConnectionRefused, message: "Connection refused" })))"#,
                "rows of an executor cannot be fetched: Error connecting to Ballista scheduler or executor at http://[::1]:9: tcp connect error: Connection refused",
            ),
            (
                r#"error: GrpcActionError("Status { code: NotFound, message: \"no \\\"x\\\"\", source: None }") (again)"#,
                "error: no \"x\" (again)",
            ),
            ("IoError(Kind(UnexpectedEof))", "no reason was given"),
            // What is no value stays, and so does what ends too early.
            ("Int64(1) of Utf8(\"x\") is no Timestamp(ns)", "Int64(1) of Utf8(\"x\") is no Timestamp(ns)"),
            ("MyStatus(1), Status, IoErrors(\"x\")", "MyStatus(1), Status, IoErrors(\"x\")"),
            ("DataFusionError(Execution(\"cut", "no reason was given"),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), expected, "{text}");
        }
    }
}
