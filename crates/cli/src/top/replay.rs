//! `top FILE`: a recording at its own speed.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use unstarve_diagnose::{Recent, timeline};
use unstarve_model::{Batch, Comm, EventKind, Nanos, SourceError, Tid, Time, TraceInfo};
use unstarve_timeline::{Both, Selection, Timeline};
use unstarve_top::{App, FixableRecording, View, ViewContext, Window};

use super::feed::Feed;
use crate::input::Recording;
use crate::selection::UnmetSelection;

/// Maximum batches read in advance.
const MAX_BATCHES_AHEAD: usize = 4;

/// A message of the reading thread. Reading is separate so that a silent pipe does not block keys.
enum Message {
    Begin(Box<TraceInfo>),
    Batch(Batch),
    Failed(SourceError),
}

/// A recording, or a pipe that a recorder writes to.
pub struct Replay {
    name: String,
    messages: Receiver<Message>,
    timeline: Timeline,
    window: Window,
    recent: Recent,
    selection: Selection,
    unmet: UnmetSelection,
    /// What `unstarve fix` can read.
    fixable: FixableRecording,
    batch: Batch,
    /// The index of the next event in the batch.
    next: usize,
    events: u64,
    lost: u64,
}

impl Replay {
    /// Reads until the first events arrive. Replays the selected time only.
    pub fn new(recording: &Recording, length: Nanos, selection: Selection) -> Result<Replay> {
        let (mut source, name) = (recording.open()?, recording.name());
        let (sender, messages) = sync_channel(MAX_BATCHES_AHEAD);
        // Ends with the source, when the receiver is gone, or with the process.
        thread::Builder::new().name("unstarve-read".into()).spawn(move || {
            let mut begun = false;
            loop {
                let mut batch = Batch::with_room();
                let message = match source.read(&mut batch) {
                    Ok(true) => Message::Batch(batch),
                    Ok(false) => return,
                    Err(error) => Message::Failed(error),
                };
                let is_last = matches!(message, Message::Failed(_));
                if !std::mem::replace(&mut begun, true)
                    && sender.send(Message::Begin(Box::new(source.info().clone()))).is_err()
                {
                    return;
                }
                if sender.send(message).is_err() || is_last {
                    return;
                }
            }
        })?;
        let begin = messages.recv().ok().and_then(|message| match message {
            Message::Begin(info) => Some((timeline(&info), Recent::new(&info, length).selecting(selection.clone()))),
            _ => None,
        });
        let (timeline, recent) = begin.with_context(|| format!("{name}: no scheduler events in it"))?;
        let file = recording.command_name();
        Ok(Replay {
            name,
            messages,
            timeline,
            window: Window::new(length).selecting(selection.clone()),
            fixable: file.map_or_else(FixableRecording::default, |file| FixableRecording::File(file, recent.boot())),
            recent,
            unmet: UnmetSelection::of(&selection),
            selection,
            batch: Batch::default(),
            next: 0,
            events: 0,
            lost: 0,
        })
    }

    /// Where the replay begins.
    fn zero(&self) -> Time {
        let start = self.timeline.world().start;
        self.selection.from.map_or(start, |from| from.on(start).max(start))
    }

    fn is_over(&self, at: Time) -> bool {
        self.selection.to.is_some_and(|to| at > to.on(self.timeline.world().start))
    }

    /// Whether another event is available now; `false` for good at the end.
    fn fill(&mut self) -> Result<Option<bool>> {
        while self.next >= self.batch.events.len() {
            match self.messages.try_recv() {
                Ok(Message::Batch(batch)) => {
                    self.batch = batch;
                    self.next = 0;
                    self.timeline.names(self.batch.names.drain(..));
                }
                Ok(Message::Begin(_)) => {}
                Ok(Message::Failed(error)) => return Err(anyhow::anyhow!(error).context(self.name.clone())),
                Err(TryRecvError::Empty) => return Ok(Some(false)),
                Err(TryRecvError::Disconnected) => return Ok(None),
            }
        }
        Ok(Some(true))
    }
}

impl Feed for Replay {
    fn advance(&mut self, to: Duration) -> Result<bool> {
        let to = Nanos(u64::try_from(to.as_nanos()).unwrap_or(u64::MAX));
        loop {
            match self.fill()? {
                None => return Ok(false),
                Some(false) => return Ok(true),
                Some(true) => {}
            }
            let event = &self.batch.events[self.next];
            if self.events > 0 && self.is_over(event.time) {
                return Ok(false);
            }
            if self.events > 0 && event.time.since(self.zero()) > to {
                return Ok(true);
            }
            if let EventKind::Lost { count } = event.kind {
                self.lost += count.unwrap_or(1);
            }
            let mut sums = Both(&mut self.window, &mut self.recent);
            self.timeline.push(event, &mut Both(&mut sums, &mut self.unmet));
            self.events += 1;
            self.next += 1;
        }
    }

    fn is_live(&self) -> bool {
        false
    }

    fn has_reached(&self, to: Duration) -> bool {
        let next = self.batch.events.get(self.next);
        next.is_some_and(|event| u128::from(event.time.since(self.zero()).0) > to.as_nanos())
    }

    fn next_event(&self) -> Option<Duration> {
        let next = self.batch.events.get(self.next)?;
        Some(Duration::from_nanos(next.time.since(self.zero()).0))
    }

    fn view(&mut self, app: &App) -> View {
        let nothing = ViewContext::nothing();
        let findings = self.recent.findings(&self.timeline, nothing.is_runnable);
        let beside = ViewContext { findings, recording: self.fixable.clone(), ..nothing };
        let view = View::of(&mut self.window, &self.timeline, app, &self.name, beside);
        View { events: self.events, lost: self.lost, ..view }
    }

    fn name(&self, tid: Tid) -> Option<Comm> {
        let tasks = &self.timeline.world().tasks;
        tasks.find(tid).map(|key| tasks.get(key).comm)
    }
    fn check_selection(&self) -> Result<()> {
        self.unmet.report_unmet(&self.selection, &self.name)
    }
}
