//! Detects timestamps that are differences, or run backwards.

use unstarve_model::Time;

use super::TextError;

/// Enough events for a verdict.
const TIMES_TO_JUDGE: u32 = 256;
/// Too few events for a verdict below this.
const MIN_TIMES_TO_JUDGE: u32 = 16;

/// Counts how often the times of the first events go back. Recorders sort, or write one CPU's events after another's,
/// so in a normal text times hardly ever go back. Differences (`perf script --deltatime`) go down as often as up, and
/// in a text in reverse order times nearly always go back.
#[derive(Debug, Default)]
pub struct TimeOrderCheck {
    events: u32,
    back: u32,
    last: Time,
}

impl TimeOrderCheck {
    /// Notes the time of the next event.
    pub fn note(&mut self, time: Time) {
        if self.events < TIMES_TO_JUDGE {
            self.events += 1;
            self.back += u32::from(time < self.last);
            self.last = time;
        }
    }

    /// Returns `true` once, when enough events have come for a verdict.
    pub fn are_many(&mut self) -> bool {
        let many = self.events == TIMES_TO_JUDGE;
        self.events += u32::from(many);
        many
    }

    /// Fails if the text is in reverse order.
    pub fn check_order(&self, line: u64) -> Result<(), TextError> {
        let events = self.events.min(TIMES_TO_JUDGE);
        if events >= MIN_TIMES_TO_JUDGE && self.back >= events - events / 8 {
            return Err(TextError::Reversed { line, back: self.back, events });
        }
        Ok(())
    }

    /// Fails if the times are differences, or in reverse order.
    pub fn check(&self, line: u64) -> Result<(), TextError> {
        self.check_order(line)?;
        if self.events >= MIN_TIMES_TO_JUDGE && self.back >= self.events / 4 {
            return Err(TextError::Deltas { line, back: self.back, events: self.events.min(TIMES_TO_JUDGE) });
        }
        Ok(())
    }
}
