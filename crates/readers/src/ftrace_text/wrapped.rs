//! Joins event lines that a mail program has wrapped.

/// A mail program wraps the longest event, 200 bytes, into no more lines than this.
const MAX_LINES: usize = 8;

/// The lines of an incomplete event, with their numbers.
#[derive(Debug, Default)]
pub struct Wrapped {
    lines: Vec<(u64, Vec<u8>)>,
}

impl Wrapped {
    /// Starts with the first line of an event.
    pub fn begin(&mut self, number: u64, text: &[u8]) {
        self.lines = vec![(number, text.to_vec())];
    }

    /// Adds the next line. Returns all lines joined, if an event is being collected.
    pub fn join(&mut self, number: u64, text: &[u8]) -> Option<Vec<u8>> {
        if self.lines.is_empty() || self.lines.len() >= MAX_LINES {
            return None;
        }
        self.lines.push((number, text.to_vec()));
        let parts: Vec<&[u8]> = self.lines.iter().map(|(_, line)| line.trim_ascii()).collect();
        Some(parts.join(&b' '))
    }

    /// Takes the lines that could not be completed.
    pub fn take(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.lines)
    }
}
