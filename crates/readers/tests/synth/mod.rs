//! A synthetic kernel: event formats, ring buffer pages, and files of them, for every byte order, size of `long`,
//! compression and number of buffers. Only what the readers' tests need.
#![allow(dead_code, reason = "each test program uses its part")]

use std::io::Write as _;

use unstarve_model::{Comm, CpuId, Event, EventKind, Names, PrevState, TaskRef};
use unstarve_readers::Endian;
use unstarve_readers::trace_dat_write::{CpuPages, Machine, Recording, SystemFormats};

pub const MACHINES: [Machine; 4] = [
    Machine { endian: Endian::Little, long: 8 },
    Machine { endian: Endian::Little, long: 4 },
    Machine { endian: Endian::Big, long: 8 },
    Machine { endian: Endian::Big, long: 4 },
];

pub const PAGE: usize = 4096;

pub const KALLSYMS: &str = "0000000080001000 T start_kernel\n0000000080002000 t flush_work_fn\n";

const STATES: &str = r#""%s%s%s", (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, "|", { 0x1, "S" }, { 0x2, "D" }, { 0x80, "I" }) : "R", REC->prev_state & ((0x7f + 1) << 1) ? "+" : "", "none""#;

/// (system, name, id, fields with their sizes; 0 is the size of a long).
type Description = (&'static str, &'static str, u16, &'static [(&'static str, usize)]);

const TASK: [(&str, usize); 4] = [("char comm[16]", 16), ("pid_t pid", 4), ("int prio", 4), ("int target_cpu", 4)];

const EVENTS: [Description; 6] = [
    (
        "sched",
        "sched_switch",
        300,
        &[
            ("char prev_comm[16]", 16),
            ("pid_t prev_pid", 4),
            ("int prev_prio", 4),
            ("long prev_state", 0),
            ("char next_comm[16]", 16),
            ("pid_t next_pid", 4),
            ("int next_prio", 4),
        ],
    ),
    ("sched", "sched_waking", 301, &TASK),
    ("sched", "sched_wakeup", 302, &TASK),
    ("irq", "irq_handler_entry", 20, &[("int irq", 4), ("__data_loc char[] name", 4)]),
    ("irq", "softirq_entry", 21, &[("unsigned int vec", 4)]),
    (
        "workqueue",
        "workqueue_queue_work",
        40,
        &[("void * work", 0), ("void * function", 0), ("__data_loc char[] workqueue", 4)],
    ),
];

fn size(machine: Machine, size: usize) -> usize {
    if size == 0 { usize::from(machine.long) } else { size }
}

/// `events/<system>/<name>/format` of one event.
fn format(machine: Machine, (_, name, id, fields): Description) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let mut at = 0;
    let common = [
        ("unsigned short common_type", 2),
        ("unsigned char common_flags", 1),
        ("unsigned char common_preempt_count", 1),
        ("int common_pid", 4),
    ];
    for (index, &(declaration, field)) in common.iter().chain(fields).enumerate() {
        let field = size(machine, field);
        if !declaration.starts_with("char") {
            at = usize::next_multiple_of(at, field);
        }
        let signed = u8::from(!declaration.contains("unsigned") && !declaration.contains('*'));
        // trace-cmd takes the fields before the empty line as the common ones.
        let gap = if index == common.len() { "\n" } else { "" };
        text += &format!("{gap}\tfield:{declaration};\toffset:{at};\tsize:{field};\tsigned:{signed};\n");
        at += field;
    }
    text + "\nprint fmt: " + if name == "sched_switch" { STATES } else { "\"pid=%d\", REC->common_pid" } + "\n"
}

pub fn formats(machine: Machine) -> Vec<SystemFormats> {
    ["sched", "irq", "workqueue"]
        .into_iter()
        .map(|system| SystemFormats {
            system: system.to_owned(),
            formats: EVENTS.iter().filter(|d| d.0 == system).map(|&d| format(machine, d).into_bytes()).collect(),
        })
        .collect()
}

pub fn header_page(machine: Machine) -> String {
    let long = machine.long;
    format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
         \tfield: char data;\toffset:{};\tsize:{};\tsigned:1;\n",
        8 + long,
        PAGE - 8 - usize::from(long)
    )
}

pub const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\t\
                                array       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\t\
                                time_stamp : type == 31\n\tdata max type_len  == 28\n";

/// A record being built according to its format.
struct Record {
    machine: Machine,
    bytes: Vec<u8>,
}

impl Record {
    fn number(&mut self, field: usize, value: u64) {
        let field = size(self.machine, field);
        self.bytes.resize(self.bytes.len().next_multiple_of(field), 0);
        match field {
            4 => self.bytes.extend(self.machine.endian.bytes32(value as u32)),
            _ => self.bytes.extend(self.machine.endian.bytes64(value)),
        }
    }

    fn comm(&mut self, comm: Comm) {
        let mut bytes = comm.as_bytes().to_vec();
        bytes.resize(16, 0);
        self.bytes.extend(bytes);
    }

    fn task(&mut self, task: &TaskRef) {
        self.comm(*task.comm());
        self.number(4, task.tid().0.into());
        self.number(4, task.prio().unwrap().0 as u64);
    }

    /// A locator, and its text at the end of the record.
    fn located(&mut self, text: &str) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let at = self.bytes.len() + 4;
        self.number(4, ((text.len() + 1) << 16 | at) as u64);
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
    }
}

/// The raw record of an event; only of kinds in [`EVENTS`].
pub fn record(machine: Machine, event: &Event, names: &Names) -> Vec<u8> {
    let name = event.kind.event_type().unwrap().name();
    let id = EVENTS.iter().find(|d| d.1 == name).unwrap().2;
    let flags = match event.issuer.context() {
        unstarve_model::Context::Hardirq => 0x08,
        unstarve_model::Context::Softirq => 0x10,
        unstarve_model::Context::Nmi => 0x40,
        _ => 0,
    };
    let mut bytes = machine.endian.bytes16(id).to_vec();
    bytes.extend([flags, 0]);
    let mut record = Record { machine, bytes };
    record.number(4, event.issuer.current().unwrap().0.into());
    match event.kind {
        EventKind::Switch { prev, prev_state, next } => {
            record.task(&prev);
            record.number(
                0,
                match prev_state {
                    PrevState::Runnable => 0,
                    PrevState::Sleeping => 1,
                    PrevState::Uninterruptible => 2,
                    PrevState::Idle => 0x80,
                    PrevState::Preempted => 0x100,
                    other => panic!("{other:?}"),
                },
            );
            record.task(&next);
        }
        EventKind::Waking { task, target_cpu } | EventKind::Wakeup { task, target_cpu } => {
            record.task(&task);
            record.number(4, target_cpu.0.into());
        }
        EventKind::IrqEntry { irq, name } => {
            record.number(4, irq.into());
            record.located(names.get(name.unwrap()));
        }
        EventKind::SoftirqEntry { vec } => record.number(4, vec.into()),
        EventKind::WorkQueued { work, workqueue, .. } => {
            record.number(0, work);
            record.number(0, 0x8000_2000);
            record.located(names.get(workqueue.unwrap()));
        }
        other => panic!("{other:?}"),
    }
    record.bytes
}

/// Builds pages of a ring buffer.
pub struct Ring {
    machine: Machine,
    pages: Vec<u8>,
    /// Events of the current page, and its time.
    data: Vec<u8>,
    page_time: u64,
    time: u64,
    missed: Option<u64>,
}

impl Ring {
    pub fn new(machine: Machine) -> Ring {
        Ring { machine, pages: Vec::new(), data: Vec::new(), page_time: 0, time: 0, missed: None }
    }

    fn entry(&self, type_len: u32, delta: u64) -> [u8; 4] {
        let delta = u32::try_from(delta).unwrap();
        assert!(delta < 1 << 27);
        self.machine.endian.bytes32(match self.machine.endian {
            Endian::Little => type_len | delta << 5,
            Endian::Big => type_len << 27 | delta,
        })
    }

    /// Adds a record. Deltas that do not fit are extended; a page's first event uses the page's time.
    pub fn push(&mut self, time: u64, record: &[u8]) {
        let room = PAGE - 8 - usize::from(self.machine.long) - 8; // the last eight for a count of missed events
        if self.data.len() + record.len() + 24 > room {
            self.flush();
        }
        if self.data.is_empty() {
            self.page_time = time;
            self.time = time;
        }
        let mut delta = time - self.time;
        if delta >= 1 << 27 {
            let header = self.entry(30, delta & ((1 << 27) - 1));
            self.data.extend(header);
            self.data.extend(self.machine.endian.bytes32((delta >> 27) as u32));
            delta = 0;
        }
        let padded = record.len().next_multiple_of(4);
        if padded <= 28 * 4 {
            let header = self.entry((padded / 4) as u32, delta);
            self.data.extend(header);
        } else {
            let header = self.entry(0, delta);
            self.data.extend(header);
            self.data.extend(self.machine.endian.bytes32(record.len() as u32 + 4));
        }
        self.data.extend(record);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self.time = time;
    }

    /// Events are lost at this point.
    pub fn lose(&mut self, count: u64) {
        self.flush();
        self.missed = Some(count);
    }

    fn flush(&mut self) {
        if self.data.is_empty() {
            return;
        }
        let long = |value: u64| match self.machine.long {
            4 => self.machine.endian.bytes32(value as u32).to_vec(),
            _ => self.machine.endian.bytes64(value).to_vec(),
        };
        let end = self.pages.len() + PAGE;
        let flags = if self.missed.is_some() { 3 << 30 } else { 0 };
        self.pages.extend(self.machine.endian.bytes64(self.page_time));
        self.pages.extend(long(self.data.len() as u64 | flags));
        self.pages.append(&mut self.data);
        if let Some(count) = self.missed.take() {
            self.pages.extend(long(count));
        }
        self.pages.resize(end, 0);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.pages
    }
}

/// The pages of each CPU with these events; `lost` events make gaps.
pub fn pages(machine: Machine, events: &[Event], names: &Names) -> Vec<(CpuId, Vec<u8>)> {
    let mut cpus: Vec<CpuId> = events.iter().map(|event| event.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus.into_iter()
        .map(|cpu| {
            let mut ring = Ring::new(machine);
            for event in events.iter().filter(|event| event.cpu == cpu) {
                match event.kind {
                    EventKind::Lost { count } => ring.lose(count.unwrap()),
                    _ => ring.push(event.time.0, &record(machine, event, names)),
                }
            }
            (cpu, ring.finish())
        })
        .collect()
}

/// A recording as a recorder passes it to the writer.
pub fn recording(machine: Machine, pages: &[(CpuId, Vec<u8>)]) -> Recording {
    let pages = pages
        .iter()
        .map(|(cpu, bytes)| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            CpuPages { cpu: *cpu, file, length: bytes.len() as u64 }
        })
        .collect();
    Recording {
        machine,
        page_size: PAGE as u32,
        header_page: header_page(machine).into_bytes(),
        header_event: HEADER_EVENT.into(),
        ftrace_formats: Vec::new(),
        event_formats: formats(machine),
        kallsyms: KALLSYMS.into(),
        printk_formats: Vec::new(),
        saved_cmdlines: b"7 fio\n9 kworker/0:1\n".to_vec(),
        trace_clock: "local global counter [mono]".to_owned(),
        uname: "Linux box 6.6.6-test x86_64".to_owned(),
        cpu_statistics: vec!["CPU: 0\nentries: 3\ndropped events: 0\n".to_owned()],
        snapshot: Some(r#"{"schema":"test"}"#.to_owned()),
        cpu_count: 4,
        pages,
    }
}

/// A ring buffer: its name, its clock, its pages by CPU.
pub type Buffer<'a> = (&'a str, &'a str, Vec<(CpuId, Vec<u8>)>);

/// A version 7 file.
pub struct V7<'a> {
    pub machine: Machine,
    pub compression: &'a str,
    pub buffers: &'a [Buffer<'a>],
    /// Options other than those that every file has.
    pub options: &'a [(u16, Vec<u8>)],
}

struct V7Writer<'a> {
    v7: &'a V7<'a>,
    out: Vec<u8>,
}

impl V7<'_> {
    pub fn bytes(&self) -> Vec<u8> {
        let endian = self.machine.endian;
        let mut w = V7Writer { v7: self, out: b"\x17\x08\x44tracing7\0".to_vec() };
        w.out.push(u8::from(endian == Endian::Big));
        w.out.push(self.machine.long);
        w.out.extend(endian.bytes32(PAGE as u32));
        w.out.extend(self.compression.as_bytes());
        w.out.extend(b"\x001.0\0");
        let options_at = w.out.len();
        w.out.extend([0; 8]);

        let headers = w.section(16, &w.headers());
        let formats = w.section(18, &w.formats());
        let kallsyms = w.section(19, &[&endian.bytes32(KALLSYMS.len() as u32)[..], KALLSYMS.as_bytes()].concat());
        let cmdlines = w.section(21, &[&endian.bytes64(6)[..], b"7 fio\n"].concat());
        let mut first: Vec<(u16, Vec<u8>)> = [(16, headers), (18, formats), (19, kallsyms), (21, cmdlines)]
            .into_iter()
            .map(|(id, at)| (id, endian.bytes64(at).to_vec()))
            .collect();
        first.extend(self.options.iter().cloned());
        let (at, next) = w.options(&first);
        w.out[options_at..options_at + 8].copy_from_slice(&endian.bytes64(at));
        let described: Vec<(u16, Vec<u8>)> = self.buffers.iter().map(|buffer| (3, w.buffer(buffer))).collect();
        let (at, _) = w.options(&described);
        w.out[next..next + 8].copy_from_slice(&endian.bytes64(at));
        w.out
    }
}

impl V7Writer<'_> {
    fn endian(&self) -> Endian {
        self.v7.machine.endian
    }

    fn headers(&self) -> Vec<u8> {
        let page = header_page(self.v7.machine);
        [
            &b"header_page\0"[..],
            &self.endian().bytes64(page.len() as u64),
            page.as_bytes(),
            b"header_event\0",
            &self.endian().bytes64(HEADER_EVENT.len() as u64),
            HEADER_EVENT.as_bytes(),
        ]
        .concat()
    }

    fn formats(&self) -> Vec<u8> {
        let systems = formats(self.v7.machine);
        let mut bytes = self.endian().bytes32(systems.len() as u32).to_vec();
        for system in systems {
            bytes.extend(system.system.as_bytes());
            bytes.push(0);
            bytes.extend(self.endian().bytes32(system.formats.len() as u32));
            for format in system.formats {
                bytes.extend(self.endian().bytes64(format.len() as u64));
                bytes.extend(format);
            }
        }
        bytes
    }

    fn pack(&self, bytes: &[u8]) -> Vec<u8> {
        let packed = match self.v7.compression {
            "zstd" => zstd::encode_all(bytes, 1).unwrap(),
            _ => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
        };
        let [packed_size, size] = [packed.len(), bytes.len()].map(|length| self.endian().bytes32(length as u32));
        [&packed_size[..], &size, &packed].concat()
    }

    fn is_packed(&self) -> bool {
        self.v7.compression != "none"
    }

    fn header(&mut self, id: u16, packed: bool, size: usize) -> u64 {
        let at = self.out.len() as u64;
        let endian = self.endian();
        self.out.extend(endian.bytes16(id));
        self.out.extend(endian.bytes16(packed.into()));
        self.out.extend(endian.bytes32(0));
        self.out.extend(endian.bytes64(size as u64));
        at
    }

    fn section(&mut self, id: u16, content: &[u8]) -> u64 {
        let content = if self.is_packed() { self.pack(content) } else { content.to_vec() };
        let at = self.header(id, self.is_packed(), content.len());
        self.out.extend(content);
        at
    }

    /// Writes options. Returns their offset, and where the offset of the next options goes.
    fn options(&mut self, options: &[(u16, Vec<u8>)]) -> (u64, usize) {
        let endian = self.endian();
        let mut content = Vec::new();
        for (id, data) in options.iter().chain([&(0, vec![0; 8])]) {
            content.extend(endian.bytes16(*id));
            content.extend(endian.bytes32(data.len() as u32));
            content.extend(data);
        }
        let at = self.header(0, false, content.len());
        self.out.extend(content);
        (at, self.out.len() - 8)
    }

    /// Writes a buffer's pages and returns the option that describes them.
    fn buffer(&mut self, (name, clock, cpus): &Buffer<'_>) -> Vec<u8> {
        let endian = self.endian();
        let at = self.header(3, self.is_packed(), 0);
        let mut option = endian.bytes64(at).to_vec();
        option.extend([name.as_bytes(), b"\0", clock.as_bytes(), b"\0"].concat());
        option.extend(endian.bytes32(PAGE as u32));
        option.extend(endian.bytes32(cpus.len() as u32));
        for (cpu, pages) in cpus {
            self.out.resize(self.out.len().next_multiple_of(PAGE), 0);
            let offset = self.out.len();
            let size = if self.is_packed() {
                // Three pages per chunk. As in trace-cmd, the length does not include chunk headers.
                let chunks: Vec<Vec<u8>> = pages.chunks(3 * PAGE).map(|chunk| self.pack(chunk)).collect();
                self.out.extend(endian.bytes32(chunks.len() as u32));
                self.out.extend(chunks.concat());
                chunks.iter().map(|chunk| chunk.len() - 8).sum()
            } else {
                self.out.extend(pages);
                pages.len()
            };
            option.extend(endian.bytes32(cpu.0));
            option.extend(endian.bytes64(offset as u64));
            option.extend(endian.bytes64(size as u64));
        }
        option
    }
}
