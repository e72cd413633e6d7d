//! Writes the HTML file.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use sha2::{Digest, Sha256};
use unstarve_diagnose::compare::Comparison;
use unstarve_diagnose::report::{LEGEND, Verdict};
use unstarve_model::Severity;
use unstarve_sched::Rule;

use crate::blob::Columns;
use crate::data::{Trace, TraceData};

const PROGRAM: &str = include_str!("../assets/page.js");
pub(crate) const STYLE: &str = include_str!("../assets/page.css");

/// Why a page cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The data has a value that JSON cannot hold.
    #[error("the page's data cannot be written as JSON: {0}")]
    Json(serde_json::Error),
    /// The data could not be compressed.
    #[error("the page's data cannot be compressed: {0}")]
    Compress(std::io::Error),
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PageData<'a> {
    schema: &'static str,
    generator: &'a str,
    /// All rules, in the order of the legend.
    rules: Vec<RuleData>,
    comparison: Option<ComparisonData<'a>>,
    traces: Vec<TraceData>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct RuleData {
    word: &'static str,
    meaning: &'static str,
}

impl RuleData {
    pub(crate) fn all(rules: &[Rule]) -> Vec<RuleData> {
        rules.iter().map(|rule| RuleData { word: rule.word(), meaning: rule.meaning() }).collect()
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Comparison"))]
struct ComparisonData<'a> {
    severity: Option<Severity>,
    text: &'a str,
    /// What `compare --json` says.
    report: &'a Comparison,
}

/// Makes the page of these traces. `generator` names the program (`unstarve 0.1.0`).
///
/// # Errors
/// None known; see [`PageError`].
pub fn html(traces: Vec<Trace>, generator: &str) -> Result<String, PageError> {
    let title = match traces.as_slice() {
        [only] => format!("{} · unstarve", only.name()),
        _ => "unstarve".to_owned(),
    };
    let plain: String = traces.iter().map(plain).collect();
    page(traces, None, &title, &plain, generator)
}

/// Makes the page of two traces: what changed, then each of them.
///
/// # Errors
/// As [`html`].
pub fn comparison_html(sides: [Trace; 2], comparison: &Comparison, generator: &str) -> Result<String, PageError> {
    let Verdict { severity, text } = comparison.verdict();
    let names = escaped(&format!("A: {}, B: {}", sides[0].name(), sides[1].name()));
    let title = format!("{} and {} · unstarve", sides[0].name(), sides[1].name());
    let both: String = sides.iter().map(plain).collect();
    let plain = format!("<section class=\"plain\">\n<h1>{}</h1>\n<p>{names}</p>\n</section>\n{both}", escaped(&text));
    let data = ComparisonData { severity, text: &text, report: comparison };
    page(sides.into(), Some(data), &title, &plain, generator)
}

fn page(
    traces: Vec<Trace>,
    comparison: Option<ComparisonData<'_>>,
    title: &str,
    plain: &str,
    generator: &str,
) -> Result<String, PageError> {
    let mut columns = Columns::default();
    let traces: Vec<TraceData> = traces.into_iter().map(|trace| trace.into_data(&mut columns)).collect();
    let data = PageData { schema: "unstarve.page/1", generator, rules: RuleData::all(&LEGEND), comparison, traces };
    let blob = columns.finish(&data).map_err(PageError::Json)?;
    document(&Document { title, plain, blob: &blob, program: PROGRAM, more_style: "" })
}

/// The parts in which pages differ.
pub(crate) struct Document<'a> {
    pub title: &'a str,
    /// HTML shown where no program runs.
    pub plain: &'a str,
    /// The data for the program.
    pub blob: &'a [u8],
    pub program: &'a str,
    /// Rules beside those of all pages; may be empty.
    pub more_style: &'a str,
}

/// Assembles the file.
pub(crate) fn document(page: &Document<'_>) -> Result<String, PageError> {
    let Document { plain, program, more_style, .. } = page;
    let more = if more_style.is_empty() { String::new() } else { format!("\n<style>{more_style}</style>") };
    let data = STANDARD.encode(compressed(page.blob).map_err(PageError::Compress)?);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>{more}\n</head>\n<body>\n<main id=\"page\">\n{plain}\
         <p class=\"plain-note\">The rest of this page needs JavaScript, which is switched off here. Save the file and \
         open it in a browser.</p>\n</main>\n\
         <script type=\"application/octet-stream\" id=\"data\">{data}</script>\n<script>{program}</script>\n\
         </body>\n</html>\n",
        policy = policy(program, more_style),
        title = escaped(page.title),
    ))
}

/// The content security policy: no loading, no program but the page's own, no text as HTML.
fn policy(program: &str, more_style: &str) -> String {
    let more = if more_style.is_empty() { String::new() } else { format!(" '{}'", hash(more_style)) };
    format!(
        "default-src 'none'; script-src '{}'; style-src '{}'{more}; img-src data:; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
        hash(program),
        hash(STYLE)
    )
}

pub(crate) fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

fn compressed(blob: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(blob)?;
    encoder.finish()
}

/// The page without its program, as in a mail's preview: the verdict and the findings' sentences.
fn plain(trace: &Trace) -> String {
    let Verdict { severity, text: verdict } = trace.verdict();
    let mut text =
        format!("<section class=\"plain\">\n<h1>{}</h1>\n<p>{}</p>\n", escaped(verdict), escaped(trace.name()));
    let findings: Vec<String> = trace
        .report()
        .findings
        .iter()
        .map(|finding| {
            format!(
                "<li>{} {}: {}</li>\n",
                finding.severity.word(),
                escaped(finding.id.as_str()),
                escaped(&finding.sentence)
            )
        })
        .collect();
    if *severity > Some(Severity::Info) || !findings.is_empty() {
        text.push_str(&format!("<ul>\n{}</ul>\n", findings.concat()));
    }
    text + "</section>\n"
}

/// The text escaped for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in unstarve_model::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_and_style_cannot_end_their_elements() {
        assert!(!PROGRAM.to_ascii_lowercase().contains("</script"));
        assert!(!PROGRAM.contains("<!--"));
        assert!(!STYLE.to_ascii_lowercase().contains("</style"));
        assert!(PROGRAM.is_ascii(), "its hash does not depend on how a mail is encoded");
    }

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(
            escaped("</title><img src=x onerror=\"a('b')\">&"),
            "&lt;/title&gt;&lt;img src=x onerror=&quot;a(&#39;b&#39;)&quot;&gt;&amp;"
        );
        assert_eq!(escaped("\u{1b}[31m\u{202e}"), "\\u{1b}[31m\\u{202e}");
    }
}
