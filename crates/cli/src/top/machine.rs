//! `top` on this machine: counted in the kernel, or by events while single tasks are shown.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use unstarve_model::{Comm, Nanos, Tid};
use unstarve_record::{BufferSize, Live, Notice};
use unstarve_timeline::Selection;
use unstarve_top::{App, RowsBy, View};
use unstarve_watch::{Engine, EngineName, Options};

use super::counted::CountedFeed;
use super::feed::Feed;
use super::live::LiveFeed;
use crate::output::hint_at_root;

/// This machine: counted in the kernel, or by events while single tasks are shown.
pub struct Machine {
    length: Nanos,
    /// Of the tasks.
    selection: Selection,
    counted: Option<CountedFeed>,
    live: Option<LiveFeed>,
    shown: RowsBy,
}

/// A message from a source that starts.
enum Remark {
    /// Of the recorder.
    Recorder(Notice),
    /// Of the engine.
    Engine(String),
}

impl Remark {
    /// Whether it still applies once the source runs.
    fn lasts(&self) -> bool {
        !matches!(self, Remark::Recorder(Notice::Waiting { .. }))
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::Recorder(notice) => notice.fmt(f),
            Remark::Engine(text) => f.write_str(text),
        }
    }
}

/// Used before the screen is drawn.
fn to_stderr(remark: Remark) {
    note!("unstarve: {remark}");
}

/// The kind of rows at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// Roles if the kernel can count, else tasks.
    Best,
    /// Tasks if events are available, else roles if the kernel can count.
    Tasks,
    /// These rows.
    With(RowsBy),
}

impl Machine {
    /// Starts a source; returns the kind of rows it has.
    pub fn start(length: Nanos, begin: StartMode, selection: Selection) -> Result<(Machine, RowsBy)> {
        if begin == StartMode::Tasks {
            return Machine::start(length, StartMode::With(RowsBy::Task), selection.clone()).or_else(|error| {
                let options = Options { engine: Some(EngineName::Ebpf), ..Options::default() };
                // If neither engine works, report why tracefs does not: that is easier to repair.
                let Ok(engine) = count(options, &mut to_stderr) else { return Err(error) };
                note!("unstarve: {error:#}; rows are of roles, counted in the kernel");
                let counted = Some(CountedFeed::new(engine, length));
                Ok((Machine { length, selection, counted, live: None, shown: RowsBy::Role }, RowsBy::Role))
            });
        }
        let counted = match begin {
            StartMode::With(RowsBy::Task) | StartMode::Tasks => None,
            StartMode::With(RowsBy::Role) => Some(count(Options::default(), &mut to_stderr)?),
            StartMode::Best => {
                let options = Options { engine: Some(EngineName::Ebpf), ..Options::default() };
                let why = |why: &anyhow::Error| {
                    note!("unstarve: {why}; every event is decoded, which costs some percent of a CPU");
                };
                count(options, &mut to_stderr).inspect_err(why).ok()
            }
        };
        let counted = counted.map(|engine| CountedFeed::new(engine, length));
        let shown = if counted.is_some() { RowsBy::Role } else { RowsBy::Task };
        let mut machine = Machine { length, selection, counted, live: None, shown };
        machine.show(shown, &mut to_stderr)?;
        Ok((machine, shown))
    }

    /// Messages of the recorder and the engine go to `say`: a screen may cover standard error.
    fn show(&mut self, by: RowsBy, say: &mut dyn FnMut(Remark)) -> Result<()> {
        self.shown = by;
        match by {
            RowsBy::Task if self.live.is_none() => {
                let live = Live::start(BufferSize::Auto, &mut |notice| say(Remark::Recorder(notice)))?;
                self.live = Some(LiveFeed::new(live, self.length, self.selection.clone()));
            }
            RowsBy::Task => {}
            RowsBy::Role if self.counted.is_none() => {
                self.counted = Some(CountedFeed::new(count(Options::default(), say)?, self.length));
            }
            // Events are decoded only while tasks are shown.
            RowsBy::Role => self.live = None,
        }
        Ok(())
    }

    fn can_show(&self, by: RowsBy) -> bool {
        match by {
            RowsBy::Task => self.live.is_some(),
            RowsBy::Role => self.counted.is_some(),
        }
    }

    fn feed(&mut self) -> Option<&mut dyn Feed> {
        match self.shown {
            RowsBy::Task => self.live.as_mut().map(|feed| feed as &mut dyn Feed),
            RowsBy::Role => self.counted.as_mut().map(|feed| feed as &mut dyn Feed),
        }
    }
}

/// Starts counting; warns where that is expensive.
fn count(options: Options, say: &mut dyn FnMut(Remark)) -> Result<Box<dyn Engine>> {
    let opened = unstarve_watch::open(options).map_err(|error| hint_at_root(error.into()))?;
    if opened.instead.is_some() {
        say(Remark::Engine(opened.words()));
    }
    Ok(opened.engine)
}

impl Feed for Machine {
    fn advance(&mut self, to: Duration) -> Result<bool> {
        if let Some(counted) = &mut self.counted {
            counted.advance(to)?;
        }
        if let Some(live) = &mut self.live {
            live.advance(to)?;
        }
        Ok(true)
    }

    fn is_live(&self) -> bool {
        true
    }

    fn has_reached(&self, to: Duration) -> bool {
        match (&self.live, &self.counted) {
            (Some(live), _) => live.has_reached(to),
            (None, Some(counted)) => counted.has_reached(to),
            (None, None) => true,
        }
    }

    fn view(&mut self, app: &App) -> View {
        match self.feed() {
            Some(feed) => feed.view(app),
            None => View::empty(),
        }
    }

    fn name(&self, tid: Tid) -> Option<Comm> {
        let live = self.live.as_ref().and_then(|live| live.name(tid));
        live.or_else(|| self.counted.as_ref()?.name(tid))
    }

    fn prepare(&mut self, app: &mut App) -> Result<()> {
        if app.by() == self.shown {
            return Ok(());
        }
        let before = self.shown;
        let mut said = Vec::new();
        match self.show(app.by(), &mut |remark| said.push(remark)) {
            Err(error) if self.can_show(before) => {
                // One source works: continue with it and say why the other does not.
                self.shown = before;
                app.stay(before, format!("{error:#}"));
                Ok(())
            }
            shown => {
                // The screen is drawn: nothing is written next to it.
                let lasting: Vec<String> = said.iter().filter(|remark| remark.lasts()).map(Remark::to_string).collect();
                if !lasting.is_empty() {
                    app.say(lasting.join("; "));
                }
                shown
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_once_events_come_is_not_said_beside_them() {
        let waiting = Remark::Recorder(Notice::Waiting { what: "the event buffers of CPU 1".to_owned() });
        let starved = Remark::Recorder(Notice::Starved {
            cpus: Vec::new(),
            waited: Duration::from_millis(25),
            kernel_waits: true,
        });
        assert!(!waiting.lasts() && starved.lasts() && Remark::Engine("tracefs".to_owned()).lasts());
        assert_eq!(waiting.to_string(), "waiting for the kernel: the event buffers of CPU 1");
    }
}
