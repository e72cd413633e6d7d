//! `top` on a terminal, with keys.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use rustix::event::{PollFd, PollFlags};
use unstarve_model::Tid;
use unstarve_top::{Action, App, Key, Row, View, draw};

use super::Pace;
use super::feed::Feed;
use super::once::ended;

/// How often events and keys are read.
const INPUT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Shows the view and handles keys until the user quits. The terminal is restored on every exit: on return and on
/// errors here, in a panic by ratatui's hook; signals only set a flag.
pub fn run(feed: Box<dyn Feed>, app: App, pace: Pace) -> Result<()> {
    let ended = ended()?;
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let result = Session::new(feed, app, pace).run(&mut terminal, || ended.load(Ordering::Relaxed));
    ratatui::restore();
    result
}

struct Session {
    feed: Box<dyn Feed>,
    app: App,
    pace: Pace,
    view: View,
    began: Instant,
    /// The replay's position on its own clock.
    at: Duration,
    more: bool,
}

impl Session {
    fn new(mut feed: Box<dyn Feed>, app: App, pace: Pace) -> Session {
        let view = feed.view(&app);
        Session { feed, app, pace, view, began: Instant::now(), at: Duration::ZERO, more: true }
    }

    fn run(&mut self, terminal: &mut DefaultTerminal, ended: impl Fn() -> bool) -> Result<()> {
        let mut shown = None;
        let mut before = Instant::now();
        loop {
            let now = Instant::now();
            self.fetch(now - before)?;
            before = now;
            let is_due = shown.is_none_or(|at: Instant| at.elapsed() >= self.pace.interval.min(Duration::from_secs(1)));
            if is_due && !self.app.is_paused() {
                self.view = self.feed.view(&self.app);
                shown = None;
            }
            if shown.is_none() {
                terminal.draw(|frame| draw(frame, &self.view, &self.app)).context("cannot use the terminal")?;
                shown = Some(now);
            }
            if ended() || self.pace.end.is_some_and(|end| self.began.elapsed() >= end) {
                return Ok(());
            }
            match wait_for_keys(INPUT_POLL_INTERVAL)? {
                Keys::Gone => return Ok(()),
                // The terminal may have been resized.
                Keys::None | Keys::Some if !event::poll(Duration::ZERO).context("cannot use the terminal")? => continue,
                Keys::None | Keys::Some => {}
            }
            shown = None;
            if let Event::Key(key) = event::read().context("cannot use the terminal")?
                && key.kind != KeyEventKind::Release
                && let Some(key) = meaning(key.code, key.modifiers)
                && !self.act(key)?
            {
                return Ok(());
            }
        }
    }

    /// Takes new events. Live events are read even while the view is paused, or their buffers would overflow.
    fn fetch(&mut self, passed: Duration) -> Result<()> {
        if !self.feed.is_live() {
            if self.app.is_paused() {
                return Ok(());
            }
            self.at += passed.mul_f64(self.pace.speed.min(1e6));
        }
        if self.more {
            self.more = self.feed.advance(self.at)?;
        }
        Ok(())
    }

    /// Whether to continue.
    fn act(&mut self, key: Key) -> Result<bool> {
        let feed = &self.feed;
        let find = |row: &Row| row.tid.and_then(|tid| Some((Tid(tid), feed.name(Tid(tid))?)));
        let action = self.app.key(key, &self.view, find);
        self.feed.prepare(&mut self.app)?;
        match action {
            Action::Quit => return Ok(false),
            Action::Step if !self.feed.is_live() => {
                self.at += self.pace.interval;
                self.more = self.feed.advance(self.at)?;
            }
            Action::Step | Action::Draw => {}
        }
        if self.app.is_paused() && self.feed.is_live() && self.view.by == self.app.by() {
            // Only the screen is paused: details of a task show the present.
            self.view.detail = self.feed.view(&self.app).detail;
            self.view.arrange(&self.app);
        } else {
            self.view = self.feed.view(&self.app);
        }
        Ok(true)
    }
}

enum Keys {
    Some,
    None,
    /// The terminal was closed.
    Gone,
}

/// Waits for input. Checks for the terminal's end, because crossterm would read on for ever.
fn wait_for_keys(most: Duration) -> Result<Keys> {
    let stdin = rustix::stdio::stdin();
    // crossterm opens this if standard input is not a terminal.
    let opened;
    let terminal = match rustix::termios::isatty(stdin) {
        true => stdin,
        false => match File::open("/dev/tty") {
            Ok(file) => {
                opened = file;
                opened.as_fd()
            }
            Err(_) => return Ok(Keys::Gone),
        },
    };
    let mut fds = [PollFd::new(&terminal, PollFlags::IN)];
    let most = rustix::event::Timespec::try_from(most).context("a time")?;
    match rustix::event::poll(&mut fds, Some(&most)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Keys::None),
        Ok(_) => {}
        Err(error) => return Err(error).context("cannot use the terminal"),
    }
    let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(if fds[0].revents().intersects(ends) { Keys::Gone } else { Keys::Some })
}

fn meaning(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Right => Key::Right,
        _ => return None,
    })
}
