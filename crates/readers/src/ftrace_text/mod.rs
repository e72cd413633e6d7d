//! Reader of ftrace text: tracefs `trace` and `trace_pipe`, the output of `trace-cmd report` (also with `-l` and `-R`),
//! and the dump that a crashing kernel prints into its log (`ftrace_dump_on_oops`).

mod entries;
mod kernel_log;
mod latency;
mod line;
mod sections;
mod wrapped;

use std::collections::BTreeMap;
use std::io::Read;

use unstarve_model::{
    Batch, ClockPair, CpuId, Event, EventKind, EventSet, EventSource, EventType, Issuer, Loss, LossKind, SourceError,
    TraceInfo, WallTime,
};

use self::entries::Entries;
use self::line::{EventLine, LostLine};
use self::sections::Sections;
use self::wrapped::Wrapped;
use crate::interner::Interner;
use crate::malformed::Malformed;
use crate::perf_script::unquoted;
use crate::reorder::{Arrivals, Reorder};
use crate::sign::Sign;
use crate::task_names::TaskNames;
use crate::text::lines::Lines;
use crate::text::number::{Stamp, leading};
use crate::text::times::TimeOrderCheck;
use crate::text::{BadLines, TextError, body, is_text, never_seen, quoted, unescaped};

const EXAMPLE_LINE: &str = "fio-126 [000] 10.166060: sched_switch: …";

/// Events held back to restore time order. `trace_pipe` prints the CPUs' buffers in turn; a reader that switches
/// between them lags behind by no more than this.
const REORDER_WINDOW: usize = 4 * Batch::TARGET;

/// The same if the CPUs may follow one another: no event may be given out before the last CPU has begun. Enough for
/// about a hundred CPUs with buffers of the default size, 1.4 MB. Takes up to 300 MB.
const WINDOW_BY_CPU: usize = 1 << 22;

/// Reads ftrace's text.
pub struct FtraceText {
    lines: Lines<Box<dyn Read + Send>>,
    info: TraceInfo,
    names: Interner,
    reorder: Reorder,
    tasks: TaskNames,
    seen: EventSet,
    any_line: bool,
    times: TimeOrderCheck,
    sections: Sections,
    entries: Entries,
    /// The current line; kept to save allocations.
    line: Vec<u8>,
    /// An event line that a mail program has wrapped.
    wrapped: Wrapped,
    /// Whether the text is quoted in a mail: then prose between its lines is not damage.
    is_mail: bool,
    /// Whether the CPUs may follow one another.
    by_cpu: bool,
    /// State before the last header: events received, and the number of CPUs.
    before_head: (Arrivals, Option<u32>),
    malformed: Malformed,
    bad: BadLines,
    /// Lost events, to be reported before the next event of their CPU.
    pending: BTreeMap<CpuId, Option<u64>>,
    lost: BTreeMap<CpuId, u64>,
    gaps: u64,
    /// The line where a second recording begins, which was not read.
    other_recording: Option<u64>,
    at_end: bool,
}

/// Whether a file that begins with `prefix` is ftrace text.
pub fn recognises(prefix: &[u8]) -> bool {
    prefix.starts_with(b"# tracer:")
        || prefix.strip_prefix(b"cpus=").is_some_and(|rest| leading(rest).is_some())
        || is_text(prefix) && kernel_log::begins_so(prefix)
        || is_text(prefix) && prefix.split(|&byte| byte == b'\n').any(|line| EventLine::parse(line).is_some())
}

/// Whether a line is the first of an ftrace text, or an event line.
pub fn is_line(line: &[u8]) -> bool {
    line.starts_with(b"# tracer:") || EventLine::parse(line).is_some()
}

impl FtraceText {
    /// A reader of `input` from its first line on.
    pub fn new(input: Box<dyn Read + Send>) -> FtraceText {
        FtraceText::of_format(input, "ftrace text")
    }

    /// A reader of ftrace text that was embedded in another format.
    pub fn of_format(input: Box<dyn Read + Send>, format: &str) -> FtraceText {
        FtraceText {
            lines: Lines::new(input),
            info: TraceInfo { format: format.to_owned(), ..TraceInfo::default() },
            names: Interner::new(),
            reorder: Reorder::new(REORDER_WINDOW),
            tasks: TaskNames::default(),
            seen: EventSet::default(),
            any_line: false,
            times: TimeOrderCheck::default(),
            sections: Sections::default(),
            entries: Entries::default(),
            line: Vec::new(),
            wrapped: Wrapped::default(),
            is_mail: false,
            by_cpu: false,
            before_head: Default::default(),
            malformed: Malformed::default(),
            bad: BadLines::default(),
            pending: BTreeMap::new(),
            lost: BTreeMap::new(),
            gaps: 0,
            other_recording: None,
            at_end: false,
        }
    }

    fn step(&mut self) -> Result<(), TextError> {
        if self.times.are_many() {
            self.times.check_order(self.lines.number())?;
        }
        self.lines.skip_blank();
        let number = self.lines.number() + 1;
        let Some(text) = self.lines.next_of_trace(self.any_line)? else { return self.finish() };
        // A line may have to be joined from several, so it is copied out of the line reader's buffer.
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        line.extend_from_slice(text);
        let read = self.read_line(number, &line);
        self.line = line;
        read
    }

    fn read_line(&mut self, number: u64, line: &[u8]) -> Result<(), TextError> {
        let text = unquoted(line);
        let (found, before) = (self.event(number, text)?, self.entries.all());
        match found {
            LineKind::Event => self.give_up_wrapped(),
            _ => self.repair_line(number, text, found)?,
        }
        if line.len() > text.len() && (found == LineKind::Event || self.entries.all() > before) {
            self.note_mail();
        }
        Ok(())
    }

    /// Handles a line that is not an event as it stands. It may be escaped for HTML, or wrapped by a mail program.
    #[cold]
    fn repair_line(&mut self, number: u64, text: &[u8], found: LineKind) -> Result<(), TextError> {
        if let Some(plain) = unescaped(text)
            && self.event(number, &plain)? == LineKind::Event
        {
            self.give_up_wrapped();
            return Ok(());
        }
        let goes_on = found == LineKind::Nothing && is_continuation(text);
        if goes_on && let Some(joined) = self.wrapped.join(number, text) {
            let plain = unescaped(&joined);
            if self.event(number, plain.as_deref().unwrap_or(&joined))? == LineKind::Event {
                self.wrapped.take();
            }
            return Ok(());
        }
        self.give_up_wrapped();
        match found {
            LineKind::Nothing if !EventLine::is_cut(text) => self.other_line(number, text),
            _ => self.wrapped.begin(number, text),
        }
        Ok(())
    }

    /// The pending lines turned out not to be an event: count each as bad.
    fn give_up_wrapped(&mut self) {
        for (index, (number, text)) in self.wrapped.take().into_iter().enumerate() {
            let broken = EventLine::parse(&text).and_then(|event| event_type(event.event));
            match broken {
                Some(event) if index == 0 => self.malformed_line(number, event, &text),
                _ => self.other_line(number, &text),
            }
        }
    }

    /// Notes that the text is quoted in a mail, with prose between its lines.
    fn note_mail(&mut self) {
        if !self.is_mail {
            (self.is_mail, self.bad) = (true, BadLines::default());
        }
    }

    /// Reads an event line.
    fn event(&mut self, number: u64, text: &[u8]) -> Result<LineKind, TextError> {
        let Some(parsed) = EventLine::parse(text) else { return Ok(LineKind::Nothing) };
        if parsed.event.is_empty() && parsed.body.trim_ascii().is_empty() {
            return Ok(LineKind::Nothing);
        }
        self.any_line = true;
        let time = match parsed.stamp {
            Stamp::Seconds(time) => time,
            Stamp::Ticks(ticks) => return Err(TextError::Ticks { line: number, ticks }),
        };
        if self.at_end {
            return Ok(LineKind::Event);
        }
        if !self.sections.take(parsed.cpu) {
            self.meet_other_recording(number)?;
            return Ok(LineKind::Event);
        }
        let by_cpu = self.sections.are_of_one_cpu() && self.info.cpus.is_some_and(|cpus| cpus > 1);
        if by_cpu != self.by_cpu {
            self.by_cpu = by_cpu;
            self.reorder.set_limit(if by_cpu { WINDOW_BY_CPU } else { REORDER_WINDOW });
        }
        let is_sign = self.note_sign(&parsed, time);
        let Some(event_type) = event_type(parsed.event) else {
            self.times.note(time);
            self.tasks.note(parsed.tid, parsed.comm);
            self.entries.count(parsed.cpu);
            if !is_sign {
                self.info.coverage.note_presence(parsed.cpu, time, Some(parsed.tid));
            }
            if let Some(wall) = wall_of_marker(parsed.body) {
                self.info.note_clocks(ClockPair { trace: time, wall });
            }
            if parsed.event.is_empty() && !self.lines.is_complete() {
                self.lines.note_cut();
            }
            return Ok(LineKind::Event);
        };
        let Some(kind) = body::decode(event_type, parsed.body, &mut self.names) else { return Ok(LineKind::Broken) };
        self.times.note(time);
        self.tasks.note(parsed.tid, parsed.comm);
        self.entries.count(parsed.cpu);
        self.seen.insert(event_type);
        let event = Event { time, cpu: parsed.cpu, issuer: Issuer::new(Some(parsed.tid), parsed.context), kind };
        if let Some(count) = self.pending.remove(&parsed.cpu) {
            self.reorder.push(Event {
                issuer: Issuer::new(None, parsed.context),
                kind: EventKind::Lost { count },
                ..event
            });
        }
        self.reorder.push(event);
        Ok(LineKind::Event)
    }

    /// If the line is a sign (a timer tick, say), adds that as an event of its own before the line's event. Returns whether
    /// it is.
    fn note_sign(&mut self, line: &EventLine<'_>, time: unstarve_model::Time) -> bool {
        let Some(sign) = Sign::of_line(line.event, line.body, &mut self.names) else { return false };
        let issuer = Issuer::new(Some(line.tid), line.context);
        for kind in sign.events(&mut self.info.coverage, line.cpu, time, Some(line.tid)).into_iter().flatten() {
            self.reorder.push(Event { time, cpu: line.cpu, issuer, kind });
        }
        true
    }

    /// Reads a line that is not an event.
    fn other_line(&mut self, number: u64, line: &[u8]) {
        let logged = kernel_log::message(line);
        let text = logged.unwrap_or(line);
        if let Some(lost) = LostLine::parse(text) {
            self.note_loss(lost);
        } else if let Some(comment) = text.strip_prefix(b"#") {
            if comment.starts_with(b" tracer:") {
                self.sections.begin();
                self.before_head = (self.reorder.arrivals(), self.info.cpus);
            }
            // `# entries-in-buffer/entries-written: 205/205   #P:2`
            if let Some(at) = memchr::memmem::find(comment, b"#P:") {
                self.set_cpus(&comment[at + 3..]);
            }
            self.entries.read_head(comment);
            self.info.nothing_overwritten = self.entries.has_everything();
        } else if let Some(count) = text.strip_prefix(b"cpus=") {
            self.set_cpus(count);
        } else if !is_decoration(text) && logged.is_none() {
            self.bad_line(number, text);
        }
    }

    /// This line shows that everything since the last header belongs to another recording: drop it and stop.
    fn meet_other_recording(&mut self, line: u64) -> Result<(), TextError> {
        self.other_recording = Some(line);
        let (arrivals, cpus) = self.before_head;
        self.reorder.drop_since(arrivals);
        self.info.cpus = cpus;
        self.info.coverage.void();
        self.finish()
    }

    fn set_cpus(&mut self, text: &[u8]) {
        let count = leading(text).and_then(|(count, _)| u32::try_from(count).ok());
        self.info.cpus = count.filter(|count| (1..=CpuId::LIMIT).contains(count)).or(self.info.cpus);
    }

    fn note_loss(&mut self, loss: LostLine) {
        let pending = self.pending.entry(loss.cpu).or_insert(Some(0));
        match loss.count {
            Some(count) => {
                let lost = self.lost.entry(loss.cpu).or_default();
                *lost = lost.saturating_add(count);
                *pending = pending.map(|so_far| so_far.saturating_add(count));
            }
            None => {
                self.gaps += 1;
                *pending = None;
            }
        }
    }

    /// Whether this line, one of the last read, ended with a newline.
    fn is_complete(&self, number: u64) -> bool {
        number < self.lines.number() || self.lines.is_complete()
    }

    fn bad_line(&mut self, number: u64, text: &[u8]) {
        if !self.is_complete(number) {
            self.lines.note_cut();
        } else if !self.is_mail {
            self.bad.note(number, text);
        }
    }

    fn malformed_line(&mut self, number: u64, event: EventType, text: &[u8]) {
        if self.is_complete(number) {
            self.malformed.note(event, || quoted(number, text));
        } else {
            self.lines.note_cut();
        }
    }

    fn finish(&mut self) -> Result<(), TextError> {
        self.give_up_wrapped();
        self.entries.prove(&mut self.info.coverage);
        self.times.check_order(self.lines.number())?;
        self.at_end = true;
        self.reorder.release_all();
        self.info.tasks = self.tasks.saved();
        if self.any_line {
            return Ok(());
        }
        Err(TextError::NoEvents { lines: self.lines.number(), example: EXAMPLE_LINE })
    }
}

/// What a line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineKind {
    /// An event, which has been handled.
    Event,
    /// A malformed event of a type that unstarve reads.
    Broken,
    /// Not an event.
    Nothing,
}

fn event_type(name: &[u8]) -> Option<EventType> {
    std::str::from_utf8(name).ok().and_then(EventType::from_name)
}

/// Whether a line may continue the one before it.
fn is_continuation(text: &[u8]) -> bool {
    !text.starts_with(b"#") && LostLine::parse(text).is_none() && !is_decoration(text) && !EventLine::is_cut(text)
}

/// The wall-clock time, in milliseconds, that atrace and similar tools write into the buffer: `trace_event_clock_sync:
/// realtime_ts=…`.
fn wall_of_marker(body: &[u8]) -> Option<WallTime> {
    const MARKER: &[u8] = b"trace_event_clock_sync: realtime_ts=";
    let at = memchr::memmem::find(body, MARKER)?;
    let (millis, rest) = leading(&body[at + MARKER.len()..])?;
    rest.trim_ascii().is_empty().then(|| millis.checked_mul(1_000_000).map(WallTime))?
}

/// Blank lines, stack traces (`=> function`), and file information of `trace-cmd report`.
fn is_decoration(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let begins = |words: &[u8]| text.starts_with(words);
    text.is_empty()
        || begins(b"=>")
        || begins(b"version = ")
        || begins(b"trace-cmd: ")
        || begins(b"CPU ") && text.ends_with(b" is empty")
}

impl EventSource for FtraceText {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        while !self.reorder.fill(&mut batch.events) && !self.at_end {
            self.step()?;
        }
        self.names.take_new(&mut batch.names);
        Ok(!batch.events.is_empty())
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses: Vec<Loss> = self.lost.iter().map(|(&cpu, &count)| Loss::lost_events(cpu, count)).collect();
        if self.gaps > 0 {
            losses.push(Loss::new(LossKind::UncountedGap, self.gaps));
        }
        losses.extend(self.lines.cut());
        losses.extend(self.malformed.losses());
        losses.extend(self.bad.loss());
        if self.lines.too_long() > 0 {
            let loss = Loss::new(LossKind::Undecodable, self.lines.too_long());
            losses.push(loss.with_detail("lines of more than 16 KiB"));
        }
        losses.extend(self.reorder.loss());
        if let Some(line) = self.other_recording {
            let detail = format!("it begins before line {line}: give it in a file of its own");
            losses.push(Loss::new(LossKind::OtherRecordings, 1).with_detail(detail));
        }
        losses.extend(never_seen(self.malformed.and(self.seen)));
        losses
    }
}

#[cfg(test)]
mod tests;
