//! Extracts ftrace text from the HTML pages of Android's systrace, which also contain a megabyte of JavaScript.
//!
//! Old pages have the text in a JavaScript string (`var linuxPerfData = "\`, each line ending in `\n\`). Newer ones
//! have it in its own element `<script class="trace-data">`, among others with Chrome's events and process lists.

use std::io::{self, Read};

use crate::ftrace_text::{self, FtraceText};
use crate::text::lines::Lines;

/// Whether a file that begins with `prefix` is an HTML page.
pub fn recognises(prefix: &[u8]) -> bool {
    let start = prefix.trim_ascii_start();
    [&b"<!doctype html"[..], b"<html"]
        .iter()
        .any(|tag| start.get(..tag.len()).is_some_and(|s| s.eq_ignore_ascii_case(tag)))
}

/// A reader of the trace in the page.
pub fn open(page: Box<dyn Read + Send>) -> FtraceText {
    FtraceText::of_format(Box::new(PageText::new(page)), "systrace HTML")
}

/// The lines of ftrace text in a page. All other lines become empty, so that line numbers are those of the page.
struct PageText<R> {
    lines: Lines<R>,
    place: Place,
    found: bool,
    text: Vec<u8>,
    given: usize,
    /// Lines returned so far.
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In the page's head, viewer or end.
    Page,
    /// In the JavaScript string.
    Quoted,
    /// At the beginning of an element with data.
    Element,
    /// In an element with ftrace text.
    Trace,
    /// In an element with other data.
    Other,
}

const TRACE_STRING: &[u8] = b"linuxPerfData = \"";
const TRACE_ELEMENT: &[u8] = b"<script class=\"trace-data\"";
const ELEMENT_END: &[u8] = b"</script>";

/// How much text is prepared at a time.
const BLOCK_BYTES: usize = 1 << 16;

impl<R: Read> PageText<R> {
    fn new(page: R) -> PageText<R> {
        let lines = Lines::new(page);
        PageText { lines, place: Place::Page, found: false, text: Vec::new(), given: 0, number: 0 }
    }

    /// Prepares the next lines. Returns `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.given = 0;
        while self.text.len() < BLOCK_BYTES {
            let Some(line) = self.lines.next_line()? else { return self.finish() };
            let (place, kept) = self.place.line(line);
            self.place = place;
            let kept = kept.map(<[u8]>::to_vec);
            // Lines skipped for their length count too.
            let number = self.lines.number();
            self.text.extend(std::iter::repeat_n(b'\n', (number - self.number).saturating_sub(1) as usize));
            if let Some(kept) = kept {
                self.found = true;
                match self.place {
                    Place::Quoted => unescape(&kept, &mut self.text),
                    _ => self.text.extend_from_slice(&kept),
                }
            }
            self.text.push(b'\n');
            self.number = number;
        }
        Ok(true)
    }

    fn finish(&mut self) -> io::Result<bool> {
        if self.found {
            return Ok(!self.text.is_empty());
        }
        let reason = "this page of HTML has no trace of a kernel in it: expected an element `<script \
                      class=\"trace-data\">` that begins with `# tracer:`, or `var linuxPerfData`";
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    }
}

impl Place {
    /// The state after `line`, and the part of `line` that is ftrace text.
    fn line(self, line: &[u8]) -> (Place, Option<&[u8]>) {
        match self {
            Place::Page => {
                match (memchr::memmem::find(line, TRACE_STRING), memchr::memmem::find(line, TRACE_ELEMENT)) {
                    (Some(_), _) if line.ends_with(b"\"\\") => (Place::Quoted, None),
                    (_, Some(at)) => match memchr::memchr(b'>', &line[at..]) {
                        Some(end) => Place::Element.line(&line[at + end + 1..]),
                        None => (Place::Element, None),
                    },
                    _ => (Place::Page, None),
                }
            }
            Place::Quoted => match line.strip_suffix(b"\";") {
                Some(last) => (Place::Page, last.strip_suffix(b"\\n").filter(|last| !last.contains(&b'\\'))),
                None => (Place::Quoted, Some(line.strip_suffix(b"\\n\\").unwrap_or(line))),
            },
            Place::Element if line.trim_ascii().is_empty() => (Place::Element, None),
            Place::Element if ftrace_text::is_line(line) => (Place::Trace, Some(line)),
            Place::Element | Place::Other | Place::Trace if memchr::memmem::find(line, ELEMENT_END).is_some() => {
                (Place::Page, None)
            }
            Place::Element | Place::Other => (Place::Other, None),
            Place::Trace => (Place::Trace, Some(line)),
        }
    }
}

/// Resolves `\"` and `\\` in a JavaScript string.
fn unescape(quoted: &[u8], text: &mut Vec<u8>) {
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        text.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
}

impl<R: Read> Read for PageText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() && !self.fill()? {
            return Ok(0);
        }
        let length = buffer.len().min(self.text.len() - self.given);
        buffer[..length].copy_from_slice(&self.text[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: &str) -> String {
        let mut text = String::new();
        match PageText::new(page.as_bytes()).read_to_string(&mut text) {
            Ok(_) => text,
            Err(error) => error.to_string(),
        }
    }

    const EVENT: &str = "  a-1  [000] 5.000000: sched_waking: comm=x pid=1 prio=120 target_cpu=000";

    #[test]
    fn a_javascript_string_of_old_pages() {
        let viewer = "x".repeat(100_000);
        let page = format!(
            "<!DOCTYPE html>\n<script>{viewer}\nif(/^# tracer:/.exec(a))</script>\n  var linuxPerfData = \"\\\n# tracer: \
             nop\\n\\\n{EVENT}\\n\\\n  a \\\"b\\\" \\\\-1\\n\\\n{EVENT}\\n\";\n  </script>\n</html>\n"
        );
        let expected = format!("\n\n\n\n# tracer: nop\n{EVENT}\n  a \"b\" \\-1\n{EVENT}\n\n\n");
        assert_eq!(text(&page), expected);
    }

    #[test]
    fn elements_of_newer_pages_with_other_data_between() {
        let page = format!(
            "<html>\n  <script class=\"trace-data\" type=\"application/text\">\n{{\"traceEvents\": []}}\n{EVENT}\n  \
             </script>\n  <script class=\"trace-data\" type=\"application/text\">\n# tracer: nop\n{EVENT}\n  </script>\n\
             {EVENT}\n</html>\n"
        );
        assert_eq!(text(&page), format!("\n\n\n\n\n\n# tracer: nop\n{EVENT}\n\n\n\n"));
    }

    #[test]
    fn a_page_without_a_trace_says_so() {
        assert!(text("<html>\nhello\n</html>\n").starts_with("this page of HTML has no trace of a kernel in it"));
        assert!(recognises(b"\n<!DOCTYPE HTML>\n") && recognises(b"<html>") && !recognises(b"# tracer: nop <html>"));
    }
}
