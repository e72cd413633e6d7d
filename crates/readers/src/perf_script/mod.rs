//! Reader of `perf script` text, with and without stacks. Handles text pasted into mails: quoted, with wrapped lines,
//! removed frames and prose between.

mod header;
mod header_ids;
mod line;
mod record;
mod stack;

use std::collections::BTreeMap;
use std::io::Read;

use unstarve_model::{
    Batch, Comm, Context, CpuId, Event, EventKind, EventSet, EventSource, EventType, Issuer, Loss, LossKind,
    SourceError, Tid, Time, TraceInfo,
};

use self::header_ids::HeaderIds;
use self::line::{Frame, Head, is_elision};
pub use self::line::{is_latency, lacks_cpu, lacks_cpu_and_time, lacks_time, unquoted};
use self::record::Record;
use self::stack::Stack;
use crate::interner::Interner;
use crate::malformed::Malformed;
use crate::reorder::Reorder;
use crate::sign::Sign;
use crate::switch_records::{SwitchRecords, task};
use crate::task_names::TaskNames;
use crate::text::lines::Lines;
use crate::text::number::Stamp;
use crate::text::times::TimeOrderCheck;
use crate::text::{BadLines, TextError, body, is_text, never_seen, quoted, unescaped};

const EXAMPLE_LINE: &str = "fio 28143 [011] 2038.648954: sched:sched_waking: …";

/// `perf script` sorts. Only texts that were joined by hand are out of order.
const REORDER_WINDOW: usize = 2 * Batch::TARGET;

/// A mail program wraps the longest event, 200 bytes, into no more lines than this.
const MAX_PARTS: u32 = 8;

/// Reads `perf script` text.
pub struct PerfScript {
    lines: Lines<Box<dyn Read + Send>>,
    info: TraceInfo,
    names: Interner,
    reorder: Reorder,
    tasks: TaskNames,
    seen: EventSet,
    any_head: bool,
    malformed: Malformed,
    bad: BadLines,
    times: TimeOrderCheck,
    lost: BTreeMap<CpuId, u64>,
    switches: SwitchRecords,
    ids: HeaderIds,
    /// Whether `sched_switch` was recorded, which says more than perf's own switch records.
    sched_switch: bool,
    /// The event whose lines are being read.
    entry: Entry,
    /// What it shows besides: an interrupt of the CPU's timer is also a tick.
    before_entry: Option<EventKind>,
    /// The number of its first line, and its text so far with wrapped lines joined.
    first_line: u64,
    text: Vec<u8>,
    parts: u32,
    stack: Stack,
    /// The line where another recording begins.
    other_recording: Option<u64>,
    at_end: bool,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// None, or one that is not needed.
    None,
    /// Incomplete: a mail program has wrapped it.
    Partial,
    /// Complete; stack frames may follow.
    Whole(Event),
}

/// Whether a file that begins with `prefix` is `perf script` text.
pub fn recognises(prefix: &[u8]) -> bool {
    let is_head = |line| match Head::parse(line) {
        Some(head) => head.event().is_some() || head.record().is_some() || head.rest.is_empty(),
        None => Head::is_cut(line),
    };
    is_text(prefix) && prefix.split(|&byte| byte == b'\n').map(unquoted).any(is_head)
}

impl PerfScript {
    /// A reader of `input` from its first line on.
    pub fn new(input: Box<dyn Read + Send>) -> PerfScript {
        PerfScript {
            lines: Lines::new(input),
            info: TraceInfo { format: "perf script text".into(), ..TraceInfo::default() },
            names: Interner::new(),
            reorder: Reorder::new(REORDER_WINDOW),
            tasks: TaskNames::default(),
            seen: EventSet::default(),
            any_head: false,
            malformed: Malformed::default(),
            bad: BadLines::default(),
            times: TimeOrderCheck::default(),
            lost: BTreeMap::new(),
            switches: SwitchRecords::default(),
            ids: HeaderIds::default(),
            sched_switch: false,
            entry: Entry::None,
            before_entry: None,
            first_line: 0,
            text: Vec::new(),
            parts: 0,
            stack: Stack::default(),
            other_recording: None,
            at_end: false,
        }
    }

    fn step(&mut self) -> Result<(), TextError> {
        if self.times.are_many() {
            self.times.check(self.lines.number())?;
        }
        let number = self.lines.number() + 1;
        let Some(line) = self.lines.next_of_trace(self.any_head)? else { return self.finish() };
        let line = unquoted(line);
        if let Some(head) = Head::parse(line) {
            let (comm, tid) = (head.comm, head.tid);
            // `line` borrows the line reader's buffer, and the entry before has to be closed first.
            let line = line.to_vec();
            self.any_head = true;
            self.close_entry();
            let named = tid.filter(|tid| !is_stand_in(comm, *tid) && !self.ids.are_foreign());
            named.into_iter().for_each(|tid| self.tasks.note(tid, comm));
            self.open_entry(&line);
        } else if line.trim_ascii().is_empty() {
            self.close_entry();
            self.lines.skip_blank();
        } else if let Some(frame) = Frame::parse(line) {
            self.stack.frame(frame);
        } else if is_elision(line) {
            self.stack.elision();
        } else if Head::is_cut(line) {
            let line = line.to_vec();
            self.close_entry();
            self.open_entry(&line);
        } else if matches!(self.entry, Entry::Partial) {
            self.text.push(b' ');
            self.text.extend_from_slice(line.trim_ascii());
            self.parts += 1;
            self.try_entry();
        } else if self.any_head && line.starts_with(header::FIRST_HEADER_LINE) {
            self.other_recording = Some(number);
            return self.finish();
        } else if let Some(comment) = line.strip_prefix(b"#") {
            header::note(comment, &mut self.info);
        } else if self.any_head && !self.lines.is_complete() {
            self.lines.note_cut();
        }
        Ok(())
    }

    fn open_entry(&mut self, line: &[u8]) {
        self.first_line = self.lines.number();
        self.text.clear();
        self.text.extend_from_slice(line.trim_ascii_end());
        self.parts = 1;
        self.try_entry();
    }

    /// Tries to parse the text so far as an event.
    fn try_entry(&mut self) {
        self.entry = if self.parts > MAX_PARTS { Entry::None } else { Entry::Partial };
        let Some(head) = Head::parse(&self.text) else { return };
        // Not ticks: perf's clock is in nanoseconds and printed as seconds.
        let Stamp::Seconds(time) = head.stamp else { return };
        if let Some(record) = head.record() {
            let kind = match record::parse(record) {
                Some(Record::Lost(count)) => Some(EventKind::Lost { count: Some(count) }),
                Some(Record::Leaves { prev_state, next }) if !self.sched_switch => {
                    let prev = head.tid.map(|tid| task(tid, self.tasks.get(tid)));
                    self.switches.leave(head.cpu, prev, prev_state, task(next, self.tasks.get(next)))
                }
                _ => None,
            };
            self.entry = kind.map_or(Entry::None, |kind| Entry::Whole(event(&head, time, kind)));
            return;
        }
        let Some((name, text)) = head.event() else { return };
        let sign = Sign::of_line(name, text, &mut self.names);
        let signs = sign.map(|sign| sign.events(&mut self.info.coverage, head.cpu, time, head.tid));
        let Some(event_type) = std::str::from_utf8(name).ok().and_then(EventType::from_name) else {
            if sign.is_none() {
                self.info.coverage.note_presence(head.cpu, time, head.tid);
            }
            let [first, second] = signs.unwrap_or_default();
            self.before_entry = second.and(first);
            self.entry = second.or(first).map_or(Entry::None, |kind| Entry::Whole(event(&head, time, kind)));
            return;
        };
        self.sched_switch |= event_type == EventType::Switch;
        let decoded = body::decode(event_type, text, &mut self.names)
            .or_else(|| body::decode(event_type, &unescaped(text)?, &mut self.names));
        match decoded {
            Some(kind) => self.entry = Entry::Whole(event(&head, time, kind)),
            None if self.parts > MAX_PARTS => self.bad_entry(),
            None => {}
        }
    }

    /// The entry turned out not to be an event.
    fn bad_entry(&mut self) {
        let event = Head::parse(&self.text).and_then(|head| head.event());
        match event.and_then(|(name, _)| std::str::from_utf8(name).ok()).and_then(EventType::from_name) {
            Some(event) => self.malformed.note(event, || quoted(self.first_line, &self.text)),
            None => self.bad.note(self.first_line, &self.text),
        }
    }

    /// Emits the event of the entry, whose lines have ended.
    fn close_entry(&mut self) {
        let stack = std::mem::take(&mut self.stack);
        match std::mem::replace(&mut self.entry, Entry::None) {
            Entry::None => {}
            Entry::Partial => self.bad_entry(),
            Entry::Whole(mut event) => {
                self.times.note(event.time);
                if let Some(kind) = self.before_entry.take() {
                    self.reorder.push(Event { kind, ..event });
                }
                // A switch on return from an interrupt still belongs to the task.
                let is_switch = matches!(event.kind, EventKind::Switch { .. });
                let context = match stack.context() {
                    Context::Hardirq | Context::Softirq if is_switch => Context::Task,
                    context => context,
                };
                event.issuer = Issuer::new(event.issuer.current(), context);
                let ran = match event.kind {
                    EventKind::Switch { prev, .. } => {
                        self.ids.note(event.issuer.current(), prev.tid());
                        Some(prev.tid())
                    }
                    _ => event.issuer.current().filter(|_| !self.ids.are_foreign()),
                };
                if let (Some(function), Some(tid)) = (stack.work_function(), ran) {
                    let function = self.names.intern(function);
                    self.reorder.push(Event { kind: EventKind::WorkOnStack { tid, function }, ..event });
                }
                match event.kind {
                    EventKind::Lost { count } => {
                        let lost = self.lost.entry(event.cpu).or_default();
                        *lost = lost.saturating_add(count.into_iter().sum());
                    }
                    kind => kind.event_type().into_iter().for_each(|event_type| self.seen.insert(event_type)),
                }
                self.reorder.push(event);
            }
        }
    }

    fn finish(&mut self) -> Result<(), TextError> {
        if matches!(self.entry, Entry::Partial) && !self.lines.is_complete() {
            self.lines.note_cut();
            self.entry = Entry::None;
        }
        self.close_entry();
        self.times.check(self.lines.number())?;
        self.at_end = true;
        self.reorder.release_all();
        if self.ids.are_foreign() {
            self.info.coverage.forget_tasks();
        }
        self.info.tasks = if self.ids.are_foreign() { Vec::new() } else { self.tasks.saved() };
        if self.any_head {
            return Ok(());
        }
        Err(TextError::NoEvents { lines: self.lines.number(), example: EXAMPLE_LINE })
    }
}

/// perf prints `:TID` if it does not know the name.
fn is_stand_in(comm: Comm, tid: Tid) -> bool {
    comm.as_bytes().strip_prefix(b":") == Some(tid.to_string().as_bytes())
}

fn event(head: &Head<'_>, time: Time, kind: EventKind) -> Event {
    let current = match kind {
        EventKind::Switch { prev, .. } => head.tid.or(Some(prev.tid())),
        _ => head.tid,
    };
    Event { time, cpu: head.cpu, issuer: Issuer::new(current, Context::Unknown), kind }
}

impl EventSource for PerfScript {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while !self.reorder.fill(&mut batch.events) && !self.at_end {
            self.step()?;
        }
        // Events wait long enough in the window that enough switches have been seen by now.
        self.ids.correct(&mut batch.events);
        self.names.take_new(&mut batch.names);
        Ok(!batch.events.is_empty())
    }

    fn losses(&self) -> Vec<Loss> {
        let lost = self.lost.iter().filter(|(_, count)| **count > 0);
        let mut losses: Vec<Loss> = lost.map(|(&cpu, &count)| Loss::lost_events(cpu, count)).collect();
        losses.extend(self.lines.cut());
        if let Some(line) = self.other_recording {
            let detail = format!("it begins with line {line}: give it in a file of its own");
            losses.push(Loss::new(LossKind::OtherRecordings, 1).with_detail(detail));
        }
        losses.extend(self.malformed.losses());
        losses.extend(self.bad.loss());
        losses.extend(self.reorder.loss());
        losses.extend(self.switches.loss());
        losses.extend(self.ids.loss());
        losses.extend(never_seen(self.malformed.and(self.seen)));
        losses
    }
}

#[cfg(test)]
mod tests;
