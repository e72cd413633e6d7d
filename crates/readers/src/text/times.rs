//! Times that are no times, or run backwards.

use unstarve_model::Time;

use super::TextError;

/// After so many events it is clear.
const ENOUGH: u32 = 256;
/// Fewer say nothing.
const LEAST: u32 = 16;

/// How often the times of the first events go back. Recorders sort, or give one CPU's events after another's: in a whole text they
/// hardly ever do. Differences (`perf script --deltatime`) go down as often as up, and a text in reverse order nearly always.
#[derive(Debug, Default)]
pub struct Times {
    events: u32,
    back: u32,
    last: Time,
}

impl Times {
    /// Takes the next event's time.
    pub fn note(&mut self, time: Time) {
        if self.events < ENOUGH {
            self.events += 1;
            self.back += u32::from(time < self.last);
            self.last = time;
        }
    }

    /// Whether enough events came, and were not judged yet.
    pub fn are_many(&mut self) -> bool {
        let many = self.events == ENOUGH;
        self.events += u32::from(many);
        many
    }

    /// An error if the text is in reverse order.
    pub fn check_order(&self, line: u64) -> Result<(), TextError> {
        let events = self.events.min(ENOUGH);
        if events >= LEAST && self.back >= events - events / 8 {
            return Err(TextError::Reversed { line, back: self.back, events });
        }
        Ok(())
    }

    /// An error if the times cannot be times, or are in reverse order.
    pub fn check(&self, line: u64) -> Result<(), TextError> {
        self.check_order(line)?;
        if self.events >= LEAST && self.back >= self.events / 4 {
            return Err(TextError::Deltas { line, back: self.back, events: self.events.min(ENOUGH) });
        }
        Ok(())
    }
}
