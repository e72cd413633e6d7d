//! `top` without a terminal: a text or a line of JSON for each interval.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use unstarve_top::{App, View, draw};

use super::feed::Feed;
use super::{Form, Pace};
use crate::output::Out;

/// How often live events are read.
const LIVE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Set by a signal that ends the program, so that the tracing instance is removed.
pub fn ended() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// The output format.
#[derive(Clone, Copy)]
pub struct Printed {
    pub form: Form,
    /// With at most this many rows.
    pub limit: Option<usize>,
}

pub fn run(mut feed: Box<dyn Feed>, app: &App, pace: Pace, printed: Printed) -> Result<()> {
    let ended = ended()?;
    let mut out = Out::new();
    let began = Instant::now();
    // A replay does not wait for real time.
    let mut at = Duration::ZERO;
    let limit = if feed.is_live() || pace.interval != Duration::MAX { pace.end } else { None };
    loop {
        let next = at.saturating_add(pace.interval).min(limit.unwrap_or(Duration::MAX));
        let more = until(&mut *feed, next, began, &ended)?;
        if !more {
            feed.check_selection()?;
        }
        print(feed.view(app), printed, &mut out)?;
        at = after_silence(next, pace.interval, feed.next_event().filter(|_| !feed.is_live()));
        if !more || limit.is_some_and(|limit| at >= limit) || ended.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Maximum intervals without an event that are printed; the rest of a gap is skipped, because a few lines of text may
/// span years.
const SILENT_INTERVALS: u32 = 60;

/// The next interval to show: before the next event if that is far away.
fn after_silence(at: Duration, interval: Duration, next_event: Option<Duration>) -> Duration {
    let gap = next_event.map_or(Duration::ZERO, |event| event.saturating_sub(at));
    if interval.is_zero() || gap <= interval.saturating_mul(SILENT_INTERVALS) {
        return at;
    }
    let intervals = gap.as_nanos() / interval.as_nanos();
    let passed = u64::try_from(intervals.saturating_mul(interval.as_nanos())).unwrap_or(u64::MAX);
    at.saturating_add(Duration::from_nanos(passed))
}

/// Whether more may follow.
fn until(feed: &mut dyn Feed, to: Duration, began: Instant, ended: &AtomicBool) -> Result<bool> {
    loop {
        let more = feed.advance(to)?;
        let reached = if feed.is_live() { began.elapsed() >= to } else { feed.has_reached(to) };
        if !more || reached || ended.load(Ordering::Relaxed) {
            return Ok(more);
        }
        thread::sleep(if feed.is_live() {
            LIVE_POLL_INTERVAL.min(to.saturating_sub(began.elapsed()))
        } else {
            Duration::from_millis(1)
        });
    }
}

fn print(mut view: View, printed: Printed, out: &mut Out) -> Result<()> {
    let all = view.rows.len();
    view.rows.truncate(printed.limit.unwrap_or(usize::MAX));
    let text = match printed.form {
        Form::Json => serde_json::to_string(&view)?,
        _ if view.rows.len() < all => format!("{}\n… and {} more", text(&view), all - view.rows.len()),
        _ => text(&view),
    };
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output")
}

/// The table as on a wide terminal, with as many lines as it needs.
fn text(view: &View) -> String {
    const TEXT_WIDTH: u16 = 120;
    let height = u16::try_from(view.rows.len() + 5).unwrap_or(u16::MAX).clamp(7, 500);
    let mut terminal = match Terminal::new(TestBackend::new(TEXT_WIDTH, height)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    };
    let app = App::without_cursor();
    match terminal.draw(|frame| draw(frame, view, &app)) {
        Ok(_) => {}
        Err(never) => match never {},
    }
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..TEXT_WIDTH).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    // The last line shows keys.
    (0..height - 1).map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_years_is_passed_over_and_a_minute_is_not() {
        let of = |at, event| after_silence(Duration::from_secs(at), Duration::from_secs(1), event).as_secs();
        assert_eq!(of(10, None), 10);
        assert_eq!(of(10, Some(Duration::from_secs(70))), 10);
        assert_eq!(of(10, Some(Duration::from_millis(900_000_000_500))), 900_000_000);
        assert_eq!(of(10, Some(Duration::from_secs(5))), 10, "an event that is over");
    }
}
