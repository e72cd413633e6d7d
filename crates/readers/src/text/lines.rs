//! Splits text into lines, in bounded memory.

use std::io::{self, Read};

use memchr::memchr;
use unstarve_model::{Loss, LossKind};

use super::TextError;

/// No line of a trace is longer: the longest is a `sched_process_exec` with the longest path (4096 bytes). A file with
/// longer lines is not text, and must not fill the memory.
const MAX_LINE: usize = 16 << 10;

const BLOCK_BYTES: usize = 256 << 10;

/// Yields the lines of a text without their line ends, in bounded memory.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    number: u64,
    at_end: bool,
    complete: bool,
    too_long: u64,
    /// Where the text stops though more was to come.
    cut: Option<String>,
}

impl<R: Read> Lines<R> {
    /// The lines of `input`.
    pub fn new(input: R) -> Lines<R> {
        Lines {
            input,
            buffer: vec![0; BLOCK_BYTES],
            start: 0,
            end: 0,
            number: 0,
            at_end: false,
            complete: true,
            too_long: 0,
            cut: None,
        }
    }

    /// The next line of a trace. Where it cannot be read, what was read before counts if `any_event` is among it.
    pub fn next_of_trace(&mut self, any_event: bool) -> Result<Option<&[u8]>, TextError> {
        let before = self.number;
        match self.advance() {
            Ok(line) => Ok(line.map(|line| self.line(line))),
            Err(source) if any_event => {
                self.cut = Some(format!("after line {before}: {source}"));
                Ok(None)
            }
            Err(source) => Err(TextError::Read { line: before + 1, source }),
        }
    }

    fn line(&self, (start, end): (usize, usize)) -> &[u8] {
        let line = &self.buffer[start..end];
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// The last line lacks its end.
    pub fn note_cut(&mut self) {
        self.cut = Some(format!("line {} stops in its middle", self.number));
    }

    /// What is missing of a text that was cut.
    pub fn cut(&self) -> Option<Loss> {
        self.cut.as_ref().map(|cut| Loss::new(LossKind::Truncated, 1).with_detail(cut.clone()))
    }

    /// The next line, without `\n` or `\r\n`; `None` at the end. Lines over 16 KiB are skipped and counted.
    pub fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        Ok(self.advance()?.map(|line| self.line(line)))
    }

    /// Skips blank lines that have already been read, so that a file of nothing else costs little more than its
    /// reading.
    pub fn skip_blank(&mut self) {
        loop {
            let length = match &self.buffer[self.start..self.end] {
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                _ => return,
            };
            self.start += length;
            self.number += 1;
        }
    }

    /// The number of the last line returned; the first is 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the last line returned ended with a newline. If not, the text stops in the middle of it.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// How many lines were skipped because they were too long.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    fn advance(&mut self) -> io::Result<Option<(usize, usize)>> {
        let mut skipping = false;
        let mut searched = 0;
        loop {
            let from = self.start + searched;
            if let Some(at) = memchr(b'\n', &self.buffer[from..self.end]) {
                let line = (self.start, from + at);
                self.start = from + at + 1;
                self.number += 1;
                searched = 0;
                if skipping || line.1 - line.0 > MAX_LINE {
                    self.too_long += 1;
                    skipping = false;
                    continue;
                }
                return Ok(Some(line));
            }
            searched = self.end - self.start;
            if searched > MAX_LINE {
                skipping = true;
                self.start = self.end;
                searched = 0;
            }
            if self.at_end {
                return Ok(self.last_line(skipping));
            }
            self.fill()?;
        }
    }

    fn last_line(&mut self, skipping: bool) -> Option<(usize, usize)> {
        let line = (self.start, self.end);
        self.start = self.end;
        if skipping {
            self.number += 1;
            self.too_long += 1;
            return None;
        }
        if line.0 == line.1 {
            return None;
        }
        self.number += 1;
        self.complete = false;
        Some(line)
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(());
                }
                Ok(length) => {
                    self.end += length;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &[u8]) -> (Vec<String>, bool, u64) {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            let text = String::from_utf8_lossy(&line[..line.len().min(9)]).into_owned();
            all.push(format!("{}: {text}", lines.number()));
        }
        (all, lines.is_complete(), lines.too_long())
    }

    #[test]
    fn lines_come_without_their_ends() {
        assert_eq!(lines_of(b"a\n\nb c\r\n"), (vec!["1: a".into(), "2: ".into(), "3: b c".into()], true, 0));
        assert_eq!(lines_of(b"a\nb"), (vec!["1: a".into(), "2: b".into()], false, 0));
        assert_eq!(lines_of(b""), (vec![], true, 0));
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        let mut lines = Lines::new(&b"a\n\n\r\n\nb\n"[..]);
        assert_eq!(lines.next_line().unwrap(), Some(&b"a"[..]));
        lines.skip_blank();
        assert_eq!(lines.next_line().unwrap(), Some(&b"b"[..]));
        assert_eq!(lines.number(), 5);
    }

    #[test]
    fn a_line_without_end_is_passed_over_in_bounded_memory() {
        let mut text = b"first\n".to_vec();
        text.extend(vec![b'x'; 3 << 20]);
        text.extend(b"\nlast\n");
        assert_eq!(lines_of(&text), (vec!["1: first".into(), "3: last".into()], true, 1));
        assert_eq!(lines_of(&vec![b'x'; 1 << 20]), (vec![], true, 1));
    }
}
