//! Lines that a mail program broke: an event whose rest may be in the next lines.

/// A mail program breaks the longest event, 200 bytes, into no more lines than this.
const MAX_LINES: usize = 8;

/// The lines of an event that is not whole yet, with their numbers.
#[derive(Debug, Default)]
pub struct Wrapped {
    lines: Vec<(u64, Vec<u8>)>,
}

impl Wrapped {
    /// Begins with the first line of an event.
    pub fn begin(&mut self, number: u64, text: &[u8]) {
        self.lines = vec![(number, text.to_vec())];
    }

    /// Adds the next line: all of them as one, if there is an event to be completed.
    pub fn join(&mut self, number: u64, text: &[u8]) -> Option<Vec<u8>> {
        if self.lines.is_empty() || self.lines.len() >= MAX_LINES {
            return None;
        }
        self.lines.push((number, text.to_vec()));
        let parts: Vec<&[u8]> = self.lines.iter().map(|(_, line)| line.trim_ascii()).collect();
        Some(parts.join(&b' '))
    }

    /// Gives the lines up.
    pub fn take(&mut self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut self.lines)
    }
}
