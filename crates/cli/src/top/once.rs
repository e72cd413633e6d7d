//! Without a terminal: a text or a line of JSON for each interval.

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

/// How often a live recording is read.
const POLL: Duration = Duration::from_millis(100);

/// Set by a signal that ends the program, so that the recording is taken down.
pub fn ended() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot handle signals")?;
    }
    Ok(flag)
}

/// How a view is printed.
#[derive(Clone, Copy)]
pub struct Printed {
    pub form: Form,
    /// So many rows at most.
    pub limit: Option<usize>,
}

pub fn run(mut feed: Box<dyn Feed>, app: &App, pace: Pace, printed: Printed) -> Result<()> {
    let ended = ended()?;
    let mut out = Out::new();
    let began = Instant::now();
    // A recording's own time needs no waiting for.
    let mut at = Duration::ZERO;
    let limit = if feed.is_live() || pace.interval != Duration::MAX { pace.end } else { None };
    loop {
        let next = at.saturating_add(pace.interval).min(limit.unwrap_or(Duration::MAX));
        let more = until(&mut *feed, next, began, &ended)?;
        print(feed.view(app), printed, &mut out)?;
        at = next;
        if !more || limit.is_some_and(|limit| at >= limit) || ended.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Whether more may come.
fn until(feed: &mut dyn Feed, to: Duration, began: Instant, ended: &AtomicBool) -> Result<bool> {
    loop {
        let more = feed.advance(to)?;
        let reached = if feed.is_live() { began.elapsed() >= to } else { feed.has_reached(to) };
        if !more || reached || ended.load(Ordering::Relaxed) {
            return Ok(more);
        }
        thread::sleep(if feed.is_live() {
            POLL.min(to.saturating_sub(began.elapsed()))
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

/// The table as on a wide terminal, as long as it takes.
fn text(view: &View) -> String {
    const WIDTH: u16 = 120;
    let height = u16::try_from(view.rows.len() + 4).unwrap_or(u16::MAX).clamp(6, 500);
    let mut terminal = match Terminal::new(TestBackend::new(WIDTH, height)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    };
    let app = App::without_cursor();
    match terminal.draw(|frame| draw(frame, view, &app)) {
        Ok(_) => {}
        Err(never) => match never {},
    }
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..WIDTH).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    // The last line is about keys.
    (0..height - 1).map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
