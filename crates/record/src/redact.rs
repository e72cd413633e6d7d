//! Removes names from events before they are written.
//!
//! A task name stays only if it belongs to a kernel thread: the thread's id and name together, checked in `/proc`
//! (PF_KTHREAD), never the name alone, which any program can take. Everything else fails closed: unknown events lose
//! their whole content, and so do pages that cannot be parsed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use unstarve_facts::{Pseudonyms, Snapshot, TaskFacts, kernel_thread};
use unstarve_host::Root;
use unstarve_model::Tid;
use unstarve_readers::Endian;
use unstarve_readers::format::{EventFormat, Field, FieldKind};
use unstarve_readers::kbuffer::PageFormat;

use crate::RecordError;
use crate::capture::traced_name;
use crate::instance::{EventName, Instance};
use crate::ring_buffer::page_format;
use crate::tracefs::TraceFs;

/// Size of a task name in events, with its NUL.
const COMM_BYTES: usize = 16;

/// Text fields that contain names of the kernel itself, of devices or of workqueues.
const KEPT_FIELDS: [(&str, &str); 6] = [
    ("irq_handler_entry", "name"),
    ("workqueue_queue_work", "workqueue"),
    ("block_rq_insert", "rwbs"),
    ("block_rq_issue", "rwbs"),
    ("block_rq_complete", "rwbs"),
    ("block_rq_complete", "error"),
];

/// Names that kernel threads have briefly, at birth and when a worker exits. Idle tasks are recognised by their id.
const TRANSIENT_KERNEL_NAMES: [&[u8]; 2] = [b"kthreadd", b"kworker/dying"];

/// Maximum number of cached names.
const MAX_CACHED_NAMES: usize = 1 << 16;

/// Removes names from pages and snapshots, with the same pseudonyms for both.
pub(crate) struct Redactor {
    page: PageFormat,
    /// Size of the fields common to all events.
    common: usize,
    events: Arc<HashMap<u16, Vec<Text>>>,
    known: Arc<Mutex<KernelThread>>,
    /// Cache of decisions, so that an event costs one look-up.
    decided: HashMap<(u32, [u8; COMM_BYTES]), [u8; COMM_BYTES]>,
}

#[derive(Default)]
struct KernelThread {
    pseudonyms: Pseudonyms,
    kernel_threads: HashSet<(u32, Vec<u8>)>,
}

/// A text field that must be redacted.
struct Text {
    place: TextPlace,
    /// Offset of the id of the task it names; `None` for any other text.
    tid: Option<usize>,
}

enum TextPlace {
    Fixed {
        at: usize,
        size: usize,
    },
    /// A locator: offset and length.
    Located {
        at: usize,
        base: usize,
    },
}

impl Redactor {
    pub(crate) fn new(tracefs: &TraceFs, instance: &Instance, events: &[EventName]) -> Result<Redactor, RecordError> {
        const ACTION: &str = "cannot take names out of this kernel's events";
        let page = page_format(tracefs, ACTION)?;
        let mut formats = Vec::new();
        for (system, name) in events {
            let text = instance.text(&format!("events/{system}/{name}/format"))?;
            let format = EventFormat::parse(&text).map_err(std::io::Error::other);
            formats.push(format.map_err(RecordError::system(ACTION))?);
        }
        Ok(Redactor::of(page, &formats))
    }

    fn of(page: PageFormat, formats: &[EventFormat]) -> Redactor {
        let end = |field: &Field| field.offset + field.size;
        let common = |format: &EventFormat| {
            format.fields.iter().filter(|field| field.name.starts_with("common_")).map(end).max().unwrap_or(0)
        };
        Redactor {
            page,
            common: formats.iter().map(common).max().unwrap_or(0),
            events: Arc::new(formats.iter().map(|format| (format.id, texts(format))).collect()),
            known: Arc::default(),
            decided: HashMap::new(),
        }
    }

    /// A copy with the same pseudonyms, for another thread.
    pub(crate) fn again(&self) -> Redactor {
        Redactor {
            page: self.page,
            common: self.common,
            events: Arc::clone(&self.events),
            known: Arc::clone(&self.known),
            decided: HashMap::new(),
        }
    }

    /// The snapshot without names other than those of kernel threads.
    pub(crate) fn snapshot(&self, snapshot: Snapshot) -> Snapshot {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for task in snapshot.tasks.iter().filter(|task| task.kernel_thread) {
            known.note(task);
        }
        snapshot.redacted_by(&mut known.pseudonyms)
    }

    /// Removes the names from a page.
    pub(crate) fn redact(&mut self, page: &mut [u8]) {
        if self.page.clear_unused(page).is_err() || self.redact_events(page).is_none() {
            page.fill(0);
        }
    }

    fn redact_events(&mut self, page: &mut [u8]) -> Option<()> {
        let mut cursor = self.page.begin(page).ok()?;
        let events = Arc::clone(&self.events);
        while let Some(record) = self.page.next(page, &mut cursor) {
            let record = page.get_mut(record.ok()?.1)?;
            let id = Endian::HOST.u16_at(record, 0)?;
            match events.get(&id) {
                None => record.get_mut(self.common..).map_or((), |rest| rest.fill(0)),
                Some(texts) => {
                    for text in texts {
                        self.redact_text(record, text)?;
                    }
                }
            }
        }
        Some(())
    }

    fn redact_text(&mut self, record: &mut [u8], text: &Text) -> Option<()> {
        let (at, size) = match text.place {
            TextPlace::Fixed { at, size } => (at, size),
            TextPlace::Located { at, base } => {
                let locator = Endian::HOST.u32_at(record, at)?;
                ((locator & 0xffff) as usize + base, (locator >> 16) as usize)
            }
        };
        let tid = text.tid.map(|at| Endian::HOST.u32_at(record, at));
        let field = record.get_mut(at..at + size)?;
        let replaced = match tid {
            Some(tid) => self.name(tid?, field),
            None => [0; COMM_BYTES],
        };
        field.fill(0);
        // Always followed by a NUL.
        let length = COMM_BYTES.min(size.saturating_sub(1));
        field[..length].copy_from_slice(&replaced[..length]);
        Some(())
    }

    fn name(&mut self, tid: u32, field: &[u8]) -> [u8; COMM_BYTES] {
        let comm = field.split(|byte| *byte == 0).next().unwrap_or_default();
        let comm = &comm[..comm.len().min(COMM_BYTES - 1)];
        let key = (tid, padded(comm));
        if let Some(decided) = self.decided.get(&key) {
            return *decided;
        }
        let decided = self.known.lock().unwrap_or_else(PoisonError::into_inner).decide(tid, comm);
        if self.decided.len() >= MAX_CACHED_NAMES {
            self.decided.clear();
        }
        self.decided.insert(key, decided);
        decided
    }
}

impl KernelThread {
    fn note(&mut self, task: &TaskFacts) {
        if self.kernel_threads.len() < MAX_CACHED_NAMES {
            self.kernel_threads.insert((task.tid.0, traced_name(&task.comm).as_bytes().to_vec()));
        }
    }

    fn decide(&mut self, tid: u32, comm: &[u8]) -> [u8; COMM_BYTES] {
        let known =
            tid == 0 || TRANSIENT_KERNEL_NAMES.contains(&comm) || self.kernel_threads.contains(&(tid, comm.to_vec()));
        if known || self.is_kernel_thread_now(tid, comm) {
            // Names are bytes; one that is not UTF-8 is not a kernel thread's.
            return padded(std::str::from_utf8(comm).map_or(comm, |comm| kernel_thread(comm).as_bytes()));
        }
        padded(self.pseudonyms.program(&String::from_utf8_lossy(comm)).as_bytes())
    }

    /// Whether this is a kernel thread that was created after the host was read.
    fn is_kernel_thread_now(&mut self, tid: u32, comm: &[u8]) -> bool {
        let Some(task) = unstarve_host::task(&Root::host(), Tid(tid)).filter(|task| task.kernel_thread) else {
            return false;
        };
        self.note(&task);
        traced_name(&task.comm).as_bytes() == comm
    }
}

fn padded(name: &[u8]) -> [u8; COMM_BYTES] {
    let mut padded = [0; COMM_BYTES];
    let length = name.len().min(COMM_BYTES - 1);
    padded[..length].copy_from_slice(&name[..length]);
    padded
}

/// All text fields of an event that must be redacted.
fn texts(format: &EventFormat) -> Vec<Text> {
    let kept = |field: &Field| KEPT_FIELDS.contains(&(format.name.as_str(), field.name.as_str()));
    let mut texts = Vec::new();
    for field in format.fields.iter().filter(|field| !kept(field)) {
        let place = match field.kind {
            FieldKind::Integer => continue,
            FieldKind::Text | FieldKind::Array => TextPlace::Fixed { at: field.offset, size: field.size },
            FieldKind::DataLoc => TextPlace::Located { at: field.offset, base: 0 },
            FieldKind::RelDataLoc => TextPlace::Located { at: field.offset, base: field.offset + field.size },
        };
        texts.push(Text { place, tid: tid_of(format, &field.name) });
    }
    texts
}

/// Offset of the id of the task that field `name` names: `next_comm` goes with `next_pid`. `block_rq_issue` has only
/// the common one, of the task that issues the request.
fn tid_of(format: &EventFormat, name: &str) -> Option<usize> {
    let stem = name.strip_suffix("comm")?;
    // sched_process_fork calls the parent `comm` or `parent_comm`, and its id `pid` or `parent_pid`.
    let candidates = [format!("{stem}pid"), format!("parent_{stem}pid")];
    let field = candidates.iter().find_map(|name| format.field(name));
    let common = || format.field("common_pid").filter(|_| stem.is_empty());
    field.or_else(common).filter(|field| field.size == 4).map(|field| field.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:28;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:44;\tsize:4;\tsigned:1;\n";

    const EXEC: &str = "name: sched_process_exec\nID: 301\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] comm;\toffset:12;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n";

    fn redactor() -> Redactor {
        let formats = [SWITCH, EXEC].map(|text| EventFormat::parse(text).expect("a format"));
        Redactor::of(PageFormat::usual(Endian::HOST, 8), &formats)
    }

    fn word(value: u32) -> [u8; 4] {
        value.to_ne_bytes()
    }

    fn switch(prev: (&[u8; 16], u32), next: (&[u8; 16], u32)) -> Vec<u8> {
        let common = [&300_u16.to_ne_bytes()[..], &[0, 0], &word(7)].concat();
        [&common[..], prev.0, &word(prev.1), next.0, &word(next.1)].concat()
    }

    /// A page with these records.
    fn page(records: &[Vec<u8>]) -> Vec<u8> {
        let mut events = Vec::new();
        for record in records {
            assert!(record.len().is_multiple_of(4) && record.len() <= 112);
            events.extend(word(record.len() as u32 / 4));
            events.extend(record);
        }
        let mut page = [&1_u64.to_ne_bytes()[..], &(events.len() as u64).to_ne_bytes(), &events].concat();
        page.resize(512, b'?');
        page
    }

    fn has(page: &[u8], text: &str) -> bool {
        page.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }

    #[test]
    fn names_of_processes_go_and_those_of_kernel_threads_stay() {
        if cfg!(target_endian = "big") {
            return; // The page below has the other byte order.
        }
        let mut redactor = redactor();
        redactor.known.lock().expect("a lock").kernel_threads.insert((4_000_001, b"nfsd".to_vec()));
        let mut page = page(&[
            switch((b"secret\0\0stale-na", 4_000_000), (b"nfsd\0\0\0\0\0\0\0\0\0\0\0\0", 4_000_001)),
            // A program with a kernel thread's name, and another program with the name of the one before.
            switch((b"nfsd\0\0\0\0\0\0\0\0\0\0\0\0", 4_000_002), (b"secret\0\0\0\0\0\0\0\0\0\0", 4_000_003)),
            switch((b"swapper/0\0\0\0\0\0\0\0", 0), (b"swapper/0\0\0\0\0\0\0\0", 4_000_002)),
        ]);
        redactor.redact(&mut page);
        assert!(!has(&page, "secret") && !has(&page, "stale") && !has(&page, "?"));
        let record = |index: usize| &page[16 + index * 52 + 4..16 + (index + 1) * 52];
        let names = |index| {
            [&record(index)[8..24], &record(index)[28..44]]
                .map(|name| String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
        };
        assert_eq!(names(0), ["program-1", "nfsd"]);
        assert_eq!(names(1), ["program-2", "program-1"]);
        assert_eq!(names(2), ["swapper/0", "program-3.0"]);
    }

    #[test]
    fn texts_of_any_length_go_and_what_is_not_known_goes_altogether() {
        let mut redactor = redactor();
        let exec = |filename: &[u8], comm: &[u8]| {
            let at = 20_u32;
            let (first, second) = (filename.len() as u32, comm.len() as u32);
            let locators = [word(first << 16 | at), word(second << 16 | (at + first))].concat();
            let mut record =
                [&301_u16.to_ne_bytes()[..], &[0, 0], &word(7), &locators, &word(4_000_000), filename, comm].concat();
            record.resize(record.len().next_multiple_of(4), 0);
            record
        };
        let marker = [&5_u16.to_ne_bytes()[..], &[0, 0], &word(7), b"a secret marker."].concat();
        let mut page = page(&[exec(b"/home/secret/run\0", b"run\0"), exec(b"/x\0", b"secretive\0"), marker]);
        redactor.redact(&mut page);
        assert!(!has(&page, "secret") && !has(&page, "/x") && !has(&page, "run") && !has(&page, "marker"));
        assert!(has(&page, "program-2\0") || has(&page, "program-\0"), "as much as there is room for");
    }

    #[test]
    fn a_page_that_cannot_be_read_is_not_written() {
        let mut redactor = redactor();
        let mut page = page(&[switch((&[b'a'; 16], 9), (&[b'b'; 16], 9))]);
        page[9] = 0xff;
        redactor.redact(&mut page);
        assert_eq!(page, [0; 512]);
    }
}
