//! An event's format text and, after a NUL, a record of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unstarve_model::{CpuId, EventType, Time};
use unstarve_readers::format::{EventFormat, event_name};
use unstarve_readers::symbols::Symbols;
use unstarve_readers::{Decoder, Endian, Interner};

fuzz_target!(|bytes: &[u8]| {
    let (text, record) = match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    let text = String::from_utf8_lossy(text);
    for endian in [Endian::Little, Endian::Big] {
        let mut decoder = Decoder::new(endian);
        let system = event_name(&text).and_then(EventType::from_name).map(EventType::system);
        let _ = decoder.add_format(system.unwrap_or("sched"), &text);
        let mut names = Interner::new();
        // The record serves as a damaged kallsyms too.
        names.set_symbols(Symbols::from_text(record.to_vec()));
        let _ = decoder.decode(Time(0), CpuId(0), record, &mut names, drop);
        // The right id with the fuzzer's bytes after it.
        if let Ok(format) = EventFormat::parse(&text) {
            let mut whole = endian.bytes16(format.id).to_vec();
            whole.extend_from_slice(record);
            let _ = decoder.decode(Time(0), CpuId(0), &whole, &mut names, drop);
        }
    }
});
