//! Reader of the text that `babeltrace2` prints for an LTTng kernel trace (CTF).

mod fields;
mod line;

use std::io::Read;

use unstarve_model::{
    Batch, Context, Event, EventKind, EventSet, EventSource, EventType, Issuer, Loss, SourceError, Time, TraceInfo,
};

use self::fields::Fields;
use self::line::Line;
use crate::interner::Interner;
use crate::malformed::Malformed;
use crate::reorder::Reorder;
use crate::text::lines::Lines;
use crate::text::{TextError, is_text, never_seen, quoted};

const EXAMPLE_LINE: &str = "[14:03:07.205000000] (+0.000001234) host sched_waking: { cpu_id = 0 }, { comm = \"fio\", …";

/// babeltrace sorts. Only texts that were joined by hand are out of order.
const REORDER_WINDOW: usize = 2 * Batch::TARGET;

const DAY_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Reads babeltrace's text.
pub struct LttngText {
    lines: Lines<Box<dyn Read + Send>>,
    info: TraceInfo,
    names: Interner,
    reorder: Reorder,
    seen: EventSet,
    malformed: Malformed,
    any_line: bool,
    /// Time of day of the last line, and midnights passed since the first.
    last: u64,
    midnights: u64,
    at_end: bool,
}

/// Whether a file that begins with `prefix` is babeltrace's text.
pub fn recognises(prefix: &[u8]) -> bool {
    let is_event = |line| Line::parse(line).is_some_and(|line| Fields::parse(line.fields).number("cpu_id").is_some());
    is_text(prefix) && prefix.split(|&byte| byte == b'\n').take(64).any(is_event)
}

impl LttngText {
    /// A reader of `input` from its first line on.
    pub fn new(input: Box<dyn Read + Send>) -> LttngText {
        LttngText {
            lines: Lines::new(input),
            info: TraceInfo { format: "LTTng text (babeltrace)".into(), ..TraceInfo::default() },
            names: Interner::new(),
            reorder: Reorder::new(REORDER_WINDOW),
            seen: EventSet::default(),
            malformed: Malformed::default(),
            any_line: false,
            last: 0,
            midnights: 0,
            at_end: false,
        }
    }

    fn step(&mut self) -> Result<(), TextError> {
        let Some(text) = self.lines.next_of_trace(self.any_line)? else { return self.finish() };
        let Some(line) = Line::parse(text) else { return Ok(()) };
        self.any_line = true;
        let Some(event) = line.event() else { return Ok(()) };
        let fields = Fields::parse(line.fields);
        let decoded = line::cpu(&fields).zip(line::kind(event, &fields, &mut self.names));
        let (nanos, of_day) = (line.nanos, line.of_day);
        let Some((cpu, kind)) = decoded else {
            let text = text.to_vec();
            self.bad_line(event, &text);
            return Ok(());
        };
        self.seen.insert(event);
        let time = if of_day { self.since_midnight(nanos) } else { Time(nanos) };
        let current = match kind {
            EventKind::Switch { prev, .. } => Some(prev.tid()),
            _ => None,
        };
        self.reorder.push(Event { time, cpu, issuer: Issuer::new(current, Context::Unknown), kind });
        Ok(())
    }

    /// Time since the first midnight. Times of day restart at each midnight.
    fn since_midnight(&mut self, nanos: u64) -> Time {
        if nanos.saturating_add(DAY_NS / 2) < self.last {
            self.midnights += 1;
        }
        self.last = nanos;
        Time(self.midnights.saturating_mul(DAY_NS).saturating_add(nanos))
    }

    fn bad_line(&mut self, event: EventType, text: &[u8]) {
        if !self.lines.is_complete() {
            self.lines.note_cut();
        } else if !event.only_refines() {
            self.malformed.note(event, || quoted(self.lines.number(), text));
        }
    }

    fn finish(&mut self) -> Result<(), TextError> {
        self.at_end = true;
        self.reorder.release_all();
        if self.any_line {
            return Ok(());
        }
        Err(TextError::NoEvents { lines: self.lines.number(), example: EXAMPLE_LINE })
    }
}

impl EventSource for LttngText {
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
        let mut losses: Vec<Loss> = self.malformed.losses().collect();
        losses.extend(self.lines.cut());
        losses.extend(self.reorder.loss());
        losses.extend(never_seen(self.malformed.and(self.seen)));
        losses
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Names;

    use super::*;
    use crate::picture;

    const TEXT: &str = "\
[23:59:59.999999000] (+?.?????????) host sched_waking: { cpu_id = 1 }, { comm = \"fio\", tid = 12, prio = 20, target_cpu = 0 }
[00:00:00.000001000] (+0.000002000) host sched_switch: { cpu_id = 0 }, { prev_comm = \"swapper/0\", prev_tid = 0, \
prev_prio = 20, prev_state = ( \"TASK_RUNNING\" : container = 0 ), next_comm = \"fio\", next_tid = 12, next_prio = 20 }
[00:00:00.000003000] (+0.000002000) host irq_softirq_entry: { cpu_id = 0 }, { vec = 7 }
[00:00:00.000004000] (+0.000001000) host timer_start: { cpu_id = 0 }, { timer = 0xFF }
[00:00:00.000005000] (+0.000001000) host sched_switch: { cpu_id = 0 }, { procname = \"fio\", tid = 12 }, { prev_comm = \
\"fio\", prev_tid = 12, prev_prio = -51, prev_state = 2, next_comm = \"swapper/0\", next_tid = 0, next_prio = 20 }
[00:00:00.000005100] (+0.000000100) host block_rq_insert: { cpu_id = 0 }, { dev = 265289728, sector = 25526415, nr_sector = 8, \
bytes = 4096, tid = 12, rwbs = 12, comm = \"fio\" }
[00:00:00.000005200] (+0.000000100) host block_rq_issue: { cpu_id = 0 }, { dev = 265289728, sector = 25526415, nr_sector = 8, \
bytes = 4096, tid = 12, rwbs = 12, comm = \"fio\" }
[00:00:00.000005300] (+0.000000100) host block_rq_complete: { cpu_id = 1 }, { dev = 265289728, sector = 25526415, \
nr_sector = 8, error = 0, rwbs = 12 }
[00:00:00.000005400] (+0.000000100) host block_rq_complete: { cpu_id = 1 }, { dev = 265289728, sector = 18446744073709551615, \
nr_sector = 0, error = 0, rwbs = 12 }
[00:00:00.000006000] (+0.000001000) host sched_switch: { cpu_id = 0 }, { prev_comm = \"fio\" }
";

    #[test]
    fn what_babeltrace_prints() {
        assert!(recognises(TEXT.as_bytes()) && !recognises(b"[1] prose: { and braces }\n"));
        let mut source = LttngText::new(Box::new(TEXT.as_bytes()));
        let (mut batch, mut names, mut events) = (Batch::default(), Names::default(), Vec::new());
        while source.read(&mut batch).unwrap() {
            names.extend(batch.names.drain(..));
            events.append(&mut batch.events);
        }
        insta::assert_snapshot!(picture::events(&events, &names), @r"
        86399.999999000 [001] - ? waking fio:12(120) cpu 0
        86400.000001000 [000] 0 ? switch swapper/0:0(120) R -> fio:12(120)
        86400.000003000 [000] - ? softirq-entry 7
        86400.000005000 [000] 12 ? switch fio:12(49) D -> swapper/0:0(120)
        86400.000005100 [000] - ? block-insert fd00000 25526415 + 8
        86400.000005200 [000] - ? block-issue fd00000 25526415 + 8
        86400.000005300 [001] - ? block-complete fd00000 25526415 + 8
        86400.000005400 [001] - ? block-complete fd00000 18446744073709551615 + 0
        ");
        let first = source.losses()[0].to_string();
        assert!(first.starts_with("1 sched_switch events are malformed (the first is line 10: `"), "{first}");
    }
}
