//! Builds small perf.data files in memory, for tests.

use crate::endian::Endian;

/// IP, TID, TIME, CPU, PERIOD, RAW, IDENTIFIER: what `perf sched record` asks for.
pub const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 16;

const COMMON_FIELDS: &str = "format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

/// `sched_waking`, `softirq_entry`, and one that unstarve does not read: system, name, id, fields.
const EVENT_FORMATS: [(&str, &str, u16, &str); 3] = [
    (
        "sched",
        "sched_waking",
        WAKING_ID,
        "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;
",
    ),
    ("irq", "softirq_entry", SOFTIRQ_ID, "\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n"),
    ("sched", "sched_stat_runtime", RUNTIME_ID, "\tfield:u64 runtime;\toffset:8;\tsize:8;\tsigned:0;\n"),
];
pub const WAKING_ID: u16 = 310;
pub const SOFTIRQ_ID: u16 = 120;
pub const RUNTIME_ID: u16 = 311;

/// Builds parts of files in one byte order.
#[derive(Clone, Copy)]
pub struct Maker {
    pub endian: Endian,
    pub sample_type: u64,
    pub flags: u64,
}

impl Maker {
    pub fn new(endian: Endian) -> Maker {
        Maker { endian, sample_type: SAMPLE_TYPE, flags: 1 << 18 }
    }

    pub fn word(&self, value: u32) -> [u8; 4] {
        self.endian.bytes32(value)
    }

    pub fn long(&self, value: u64) -> [u8; 8] {
        self.endian.bytes64(value)
    }

    pub fn longs(&self, values: &[u64]) -> Vec<u8> {
        values.iter().flat_map(|&value| self.long(value)).collect()
    }

    pub fn record(&self, kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut record = self.word(kind).to_vec();
        record.extend(self.endian.bytes16(0));
        record.extend(self.endian.bytes16((8 + payload.len()) as u16));
        record.extend(payload);
        record
    }

    /// A sample of the event `id` whose raw record has these fields.
    pub fn sample(&self, id: u16, time: u64, cpu: u32, fields: &[u8]) -> Vec<u8> {
        // identifier, ip, pid and tid, time, cpu, period.
        let mut payload = self.longs(&[u64::from(id), 0, 0, time]);
        payload.extend(self.word(cpu));
        payload.extend([0; 4]);
        payload.extend(self.long(1));
        let mut raw = self.endian.bytes16(id).to_vec();
        raw.extend([0, 0]);
        raw.extend(self.word(7));
        raw.extend(fields);
        payload.extend(self.word(raw.len() as u32));
        payload.extend(raw);
        payload.resize(payload.len().next_multiple_of(8), 0);
        self.record(9, &payload)
    }

    pub fn waking(&self, time: u64, cpu: u32, comm: &str) -> Vec<u8> {
        let mut fields = [0; 28];
        fields[..comm.len()].copy_from_slice(comm.as_bytes());
        fields[16..20].copy_from_slice(&self.word(42));
        fields[20..24].copy_from_slice(&self.word(120));
        fields[24..28].copy_from_slice(&self.word(cpu));
        self.sample(WAKING_ID, time, cpu, &fields)
    }

    pub fn softirq(&self, time: u64, cpu: u32, vec: u32) -> Vec<u8> {
        self.sample(SOFTIRQ_ID, time, cpu, &self.word(vec))
    }

    pub fn round(&self) -> Vec<u8> {
        self.record(68, &[])
    }

    /// A record other than a sample: `payload`, then the ids and times of `sample_id_all`.
    pub fn record_at(&self, kind: u32, payload: &[u8], time: u64, cpu: u32) -> Vec<u8> {
        let mut payload = payload.to_vec();
        payload.extend(self.longs(&[0, time]));
        payload.extend(self.word(cpu));
        payload.extend([0; 4]);
        payload.extend(self.long(u64::from(WAKING_ID)));
        self.record(kind, &payload)
    }

    /// A `--switch-events` record of a task that leaves a CPU: the task, whether it stays runnable, and the next task.
    pub fn leaves(&self, (time, cpu): (u64, u32), prev: u32, runnable: bool, next: u32) -> Vec<u8> {
        let mut payload = [self.word(next), self.word(next), self.word(prev), self.word(prev)].concat();
        payload.extend(self.long(time));
        payload.extend(self.word(cpu));
        payload.extend([0; 4]);
        payload.extend(self.long(u64::from(WAKING_ID)));
        let mut record = self.record(15, &payload);
        record[4..6].copy_from_slice(&self.endian.bytes16(1 << 13 | u16::from(runnable) << 14));
        record
    }

    /// The same files, recorded with switch events.
    pub fn with_switches(self) -> Maker {
        Maker { flags: self.flags | 1 << 26, ..self }
    }

    pub fn attr(&self, id: u16) -> Vec<u8> {
        let flags = if self.endian == Endian::Little { self.flags } else { self.flags.reverse_bits() };
        let mut attr = self.word(2).to_vec();
        attr.extend(self.word(128));
        attr.extend(self.longs(&[u64::from(id), 1, self.sample_type, 0, flags]));
        attr.resize(128, 0);
        attr
    }

    pub fn tracing_data(&self) -> Vec<u8> {
        let mut data = b"\x17\x08\x44tracing0.6\0".to_vec();
        data.push(u8::from(self.endian == Endian::Big));
        data.push(8);
        data.extend(self.word(4096));
        data.extend(b"header_page\0");
        data.extend(self.long(3));
        data.extend(b"abcheader_event\0");
        data.extend(self.long(0));
        data.extend(self.word(0));
        data.extend(self.word(EVENT_FORMATS.len() as u32));
        for (system, name, id, fields) in EVENT_FORMATS {
            let text = format!("name: {name}\nID: {id}\n{COMMON_FIELDS}\n{fields}\nprint fmt: \"\"\n");
            data.extend(system.as_bytes());
            data.push(0);
            data.extend(self.word(1));
            data.extend(self.long(text.len() as u64));
            data.extend(text.as_bytes());
        }
        // kallsyms, printk formats, saved names.
        data.extend([0; 16]);
        data
    }

    fn magic(&self) -> &'static [u8; 8] {
        if self.endian == Endian::Little { b"PERFILE2" } else { b"2ELIFREP" }
    }

    /// A string in the format of feature sections.
    fn string(&self, text: &str) -> Vec<u8> {
        let mut content = self.word(64).to_vec();
        content.extend(text.as_bytes());
        content.resize(68, 0);
        content
    }

    fn cpus(&self) -> Vec<u8> {
        [self.word(8), self.word(4)].concat()
    }

    /// A file with this data section.
    pub fn file(&self, data: &[u8]) -> Vec<u8> {
        let ids = [WAKING_ID, SOFTIRQ_ID, RUNTIME_ID];
        let ids_at = 104 + 144 * ids.len() as u64;
        let data_at = ids_at + 8 * ids.len() as u64;
        let mut file = self.magic().to_vec();
        file.extend(self.longs(&[104, 144, 104, 144 * ids.len() as u64]));
        file.extend(self.longs(&[data_at, data.len() as u64, 0, 0, 1 << 1 | 1 << 4 | 1 << 7, 0, 0, 0]));
        for (index, &id) in ids.iter().enumerate() {
            file.extend(self.attr(id));
            file.extend(self.longs(&[ids_at + 8 * index as u64, 8]));
        }
        file.extend(self.longs(&ids.map(u64::from)));
        file.extend(data);
        let features = [self.tracing_data(), self.string("6.1.0-test"), self.cpus()];
        let mut at = file.len() as u64 + 16 * features.len() as u64;
        for feature in &features {
            file.extend(self.longs(&[at, feature.len() as u64]));
            at += feature.len() as u64;
        }
        file.extend(features.concat());
        file
    }

    /// The same recording as a pipe delivers it.
    pub fn pipe(&self, data: &[u8]) -> Vec<u8> {
        let mut pipe = self.magic().to_vec();
        pipe.extend(self.long(16));
        for id in [WAKING_ID, SOFTIRQ_ID, RUNTIME_ID] {
            pipe.extend(self.record(64, &[self.attr(id), self.long(u64::from(id)).to_vec()].concat()));
        }
        pipe.extend(self.record(80, &[self.long(4).to_vec(), self.string("6.1.0-test")].concat()));
        pipe.extend(self.record(80, &[self.long(7).to_vec(), self.cpus()].concat()));
        let formats = self.tracing_data();
        pipe.extend(self.record(66, &self.word(formats.len() as u32)));
        pipe.extend(formats);
        pipe.extend(data);
        pipe
    }
}
