//! Answers of bounded size, and what was left out of them.
//!
//! A token is taken for two bytes: the densest tables of numbers have 2.4 (docs/mcp.md). The text and `structuredContent`
//! together are no larger than that, as a client may give an agent both.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value as Json, json};

use crate::places::{Opened, Refusal};

/// What an answer may have.
pub const MAX_ANSWER_TOKENS: usize = 2000;
/// A conservative estimate.
pub const BYTES_OF_A_TOKEN: usize = 2;
/// What an answer may have.
pub const MAX_ANSWER_BYTES: usize = MAX_ANSWER_TOKENS * BYTES_OF_A_TOKEN;
/// Reserved for what is said below a text that is cut.
const FOOT_BYTES: usize = 240;
/// The least text of an answer.
const MIN_TEXT_BYTES: usize = 1000;
/// Answers whose rest is kept.
const MAX_KEPT: usize = 32;

/// A whole answer, of any size.
pub struct Answer {
    pub text: String,
    /// For a program.
    pub facts: Map<String, Json>,
    /// The next call: a tool and its arguments.
    pub next: Option<(&'static str, Json)>,
    pub is_error: bool,
}

/// The texts that were cut, the newest last.
#[derive(Default)]
pub struct Rests(Mutex<(u64, VecDeque<Rest>)>);

#[derive(Clone)]
struct Rest {
    number: u64,
    text: Arc<str>,
    files: Arc<Vec<Opened>>,
    next: Option<(&'static str, Json)>,
}

impl Answer {
    pub fn new(text: String) -> Answer {
        Answer { text, facts: Map::new(), next: None, is_error: false }
    }
}

impl Rests {
    /// The beginning of an answer; the rest is kept.
    pub fn first(&self, answer: Answer, files: Vec<Opened>) -> CallToolResult {
        let Answer { text, facts, next, is_error } = answer;
        let mut rest = Rest { number: 0, text: text.into(), files: Arc::new(files), next };
        if rest.text.len() > room(&facts, &rest) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.0 += 1;
            rest.number = kept.0;
            kept.1.push_back(rest.clone());
            if kept.1.len() > MAX_KEPT {
                kept.1.pop_front();
            }
        }
        part(&rest, 0, facts, is_error)
    }

    /// What follows.
    ///
    /// # Errors
    /// If the cursor is not known, or its file was changed.
    pub fn more(&self, cursor: &str) -> Result<CallToolResult, Refusal> {
        let unknown = || {
            let cursor = unstarve_model::clean(cursor);
            Refusal::new(format!(
                "No such cursor: {cursor}. The last {MAX_KEPT} answers are kept: call the tool again."
            ))
        };
        let (number, from) = cursor.strip_prefix('c').and_then(|rest| rest.split_once('-')).ok_or_else(unknown)?;
        let (number, from): (u64, usize) = number.parse().ok().zip(from.parse().ok()).ok_or_else(unknown)?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = kept.1.iter().find(|rest| rest.number == number).cloned().ok_or_else(unknown)?;
        drop(kept);
        if let Some(changed) = rest.files.iter().find(|file| !file.is_unchanged()) {
            let shown = &changed.shown;
            return Err(Refusal::new(format!("{shown} has changed since: the cursor is void. Call the tool again.")));
        }
        if from >= rest.text.len() || !rest.text.is_char_boundary(from) {
            return Err(unknown());
        }
        Ok(part(&rest, from, Map::new(), false))
    }
}

/// Bytes of text that fit beside the rest of an answer.
fn room(facts: &Map<String, Json>, rest: &Rest) -> usize {
    let facts = Json::Object(facts.clone()).to_string().len();
    let next = rest.next.as_ref().map_or(0, |(_, arguments)| 2 * arguments.to_string().len() + 120);
    MAX_ANSWER_BYTES.saturating_sub(facts + next + FOOT_BYTES).max(MIN_TEXT_BYTES)
}

fn part(rest: &Rest, from: usize, mut facts: Map<String, Json>, is_error: bool) -> CallToolResult {
    let whole = rest.text.get(from..).unwrap_or_default();
    let text = beginning(whole, room(&facts, rest));
    let to = from + text.len();
    let mut shown = text.trim_end().to_owned();
    if to < rest.text.len() {
        let left = rest.text.get(to..).unwrap_or_default();
        let cursor = format!("c{}-{to}", rest.number);
        let lines = left.lines().count();
        shown += &format!(
            "\n\nLeft out: {lines} lines, {} bytes. more {} has them.",
            left.len(),
            json!({ "cursor": cursor })
        );
        facts.insert("cursor".to_owned(), json!(cursor));
        facts.insert("left_out_lines".to_owned(), json!(lines));
    }
    if let Some((tool, arguments)) = &rest.next {
        shown += &format!("\n\nNext call: {tool} {arguments}");
        facts.insert("next".to_owned(), json!({ "tool": tool, "arguments": arguments }));
    }
    let content = vec![ContentBlock::text(shown)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(Json::Object(facts));
    result
}

/// Whole lines, of at most so many bytes; a part of a line if that is longer.
pub fn beginning(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let cut = (0..=bytes).rev().find_map(|end| text.get(..end)).unwrap_or_default();
    match cut.rfind('\n') {
        Some(line) => cut.get(..=line).unwrap_or(cut),
        None => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: &CallToolResult) -> String {
        let json = serde_json::to_value(result).expect("JSON");
        json["content"][0]["text"].as_str().expect("text").to_owned()
    }

    #[test]
    fn parts_are_small_and_make_the_whole() {
        let whole: String = (0..5000).map(|line| format!("line {line} µ\n")).collect();
        let rests = Rests::default();
        let mut answer = Answer::new(whole.clone());
        answer.facts.insert("findings".to_owned(), json!(["x".repeat(900)]));
        answer.next = Some(("explain", json!({ "recording": "x".repeat(100) })));
        let mut result = rests.first(answer, Vec::new());
        let mut read = String::new();
        loop {
            let said = text(&result);
            let facts = result.structured_content.clone().expect("facts");
            assert!(said.len() + facts.to_string().len() <= MAX_ANSWER_BYTES, "{}", said.len());
            assert!(
                said.ends_with(&format!("Next call: explain {}", json!({ "recording": "x".repeat(100) }))),
                "{said}"
            );
            let end = said.find("\n\nLeft out").or_else(|| said.find("\n\nNext call")).expect("a foot");
            read += &said[..end];
            read += "\n";
            let Some(cursor) = facts.get("cursor").and_then(Json::as_str) else { break };
            result = rests.more(cursor).expect("it is kept");
        }
        assert_eq!(read, whole);
        for cursor in ["c1-99999999", "c9-0", "c1", "", "c-1-1", "c1-6"] {
            let outcome = rests.more(cursor).map(|result| text(&result));
            assert!(outcome.is_err() || cursor == "c1-6", "{cursor}");
        }
    }

    #[test]
    fn old_rests_are_forgotten() {
        let rests = Rests::default();
        let long = || Answer::new("x\n".repeat(MAX_ANSWER_BYTES));
        for _ in 0..=MAX_KEPT {
            rests.first(long(), Vec::new());
        }
        let why = rests.more("c1-2").expect_err("forgotten").to_string();
        assert!(why.contains("call the tool again"), "{why}");
        assert!(rests.more("c2-2").is_ok());
    }
}
