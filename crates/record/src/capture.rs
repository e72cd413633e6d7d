//! Collects everything in the file except the pages: what a reader needs to decode them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};

use unstarve_facts::Snapshot;
use unstarve_model::Tid;
use unstarve_readers::trace_dat_write::{Machine, Recording, SystemFormats};

use crate::RecordError;
use crate::instance::{EventName, Instance, KernelNames};
use crate::redact::Redactor;
use crate::set_up::SetUp;
use crate::stats::CpuStats;
use crate::tracefs::TraceFs;

/// Collects the tables of the file, ready to be written.
pub(crate) fn gather(
    tracefs: &TraceFs,
    instance: &Instance,
    recorded: &[u32],
    set_up: &SetUp,
    statistics: &[CpuStats],
    snapshot: &Snapshot,
    redactor: Option<&Redactor>,
) -> Result<Recording, RecordError> {
    let optional = |relative: &str| fs::read_to_string(tracefs.path(relative)).unwrap_or_default();
    // The kernel's table contains names that have no pseudonyms.
    let noted = match set_up.names {
        KernelNames::Noted if redactor.is_none() => optional("saved_cmdlines"),
        _ => String::new(),
    };
    let cpus = snapshot.cpus.possible.as_ref().or(snapshot.cpus.online.as_ref());
    let last = cpus.and_then(|cpus| cpus.iter().last()).map(|last| last.0);
    Ok(Recording {
        machine: Machine::HOST,
        page_size: rustix::param::page_size() as u32,
        header_page: header(tracefs, "events/header_page")?,
        header_event: header(tracefs, "events/header_event")?,
        ftrace_formats: ftrace_formats(tracefs),
        event_formats: event_formats(instance, &set_up.recorded)?,
        kallsyms: kallsyms(),
        printk_formats: optional("printk_formats").into_bytes(),
        saved_cmdlines: names(&noted, snapshot).into_bytes(),
        trace_clock: format!("[{}]", set_up.clock),
        uname: uname(redactor),
        cpu_statistics: statistics.iter().map(|cpu| format!("CPU: {}\n{}", cpu.cpu, cpu.text)).collect(),
        snapshot: Some(snapshot.to_json()),
        cpu_count: last.into_iter().chain(recorded.iter().copied()).max().map_or(0, |last| last + 1),
        pages: Vec::new(),
    })
}

fn event_formats(instance: &Instance, events: &[EventName]) -> Result<Vec<SystemFormats>, RecordError> {
    let mut systems: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    for (system, name) in events {
        let format = instance.text(&format!("events/{system}/{name}/format"))?;
        systems.entry(system).or_default().push(format.into_bytes());
    }
    let named = |(system, formats): (&str, _)| SystemFormats { system: system.to_owned(), formats };
    Ok(systems.into_iter().map(named).collect())
}

fn uname(redactor: Option<&Redactor>) -> String {
    let uname = rustix::system::uname();
    // The kernel's name for a machine that has none.
    let host = if redactor.is_some() { c"(none)" } else { uname.nodename() };
    let parts = [uname.sysname(), host, uname.release(), uname.machine()];
    parts.map(|part| part.to_string_lossy()).join(" ")
}

/// Reads one of the two files that return their text only on the first read (`show_header()` in trace_events.c),
/// whatever its size.
pub(crate) fn header(tracefs: &TraceFs, relative: &str) -> Result<Vec<u8>, RecordError> {
    let mut text = vec![0; 16 << 10];
    let length = File::open(tracefs.path(relative)).and_then(|mut file| file.read(&mut text));
    let length = length.map_err(|source| RecordError::Tracefs { path: relative.to_owned(), source })?;
    text.truncate(length);
    Ok(text)
}

fn ftrace_formats(tracefs: &TraceFs) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(tracefs.path("events/ftrace")) else { return Vec::new() };
    let mut formats: Vec<_> =
        entries.flatten().filter_map(|entry| fs::read(entry.path().join("format")).ok()).collect();
    formats.sort();
    formats
}

/// Only functions are ever looked up (mostly work functions); data symbols are two thirds of the table.
fn function_symbols(kallsyms: impl BufRead) -> Vec<u8> {
    let mut functions = Vec::new();
    for line in kallsyms.split(b'\n').map_while(Result::ok) {
        let mut fields = line.split(u8::is_ascii_whitespace);
        if fields.nth(1).is_some_and(|kind| matches!(kind, b"t" | b"T" | b"w" | b"W")) {
            functions.extend_from_slice(&line);
            functions.push(b'\n');
        }
    }
    functions
}

/// Filters line by line: the whole table has several MiB, and a recorder should use little memory.
fn kallsyms() -> Vec<u8> {
    let file = File::open("/proc/kallsyms");
    file.map(|file| function_symbols(BufReader::with_capacity(1 << 16, file))).unwrap_or_default()
}

/// Task names, one `tid comm` per line: those that the kernel saved while recording, and for other tasks those of the
/// snapshot.
fn names(saved_cmdlines: &str, snapshot: &Snapshot) -> String {
    let mut names: BTreeMap<Tid, &str> = BTreeMap::new();
    for task in &snapshot.tasks {
        names.insert(task.tid, traced_name(&task.comm));
    }
    for line in saved_cmdlines.lines() {
        if let Some((tid, comm)) = line.trim_start().split_once(' ')
            && let Ok(tid) = tid.parse()
            && comm != "<...>"
        {
            names.insert(Tid(tid), comm);
        }
    }
    let mut text = String::new();
    for (tid, comm) in names {
        // A name with a newline would become two lines.
        let _ = writeln!(text, "{tid} {}", comm.replace('\n', "?"));
    }
    text
}

/// The name as it appears in events. `/proc` appends a worker's current workqueue (`kworker/0:1-events`), and prints
/// longer names of kernel threads than `task->comm` holds.
pub(crate) fn traced_name(comm: &str) -> &str {
    let comm = match comm.strip_prefix("kworker/").and_then(|tail| tail.split_once(':')) {
        Some((_, id)) => {
            let suffix = id.find(['-', '+']).map_or(0, |start| id.len() - start);
            &comm[..comm.len() - suffix]
        }
        None => comm,
    };
    let end = (0..=comm.len().min(15)).rev().find(|&end| comm.is_char_boundary(end)).unwrap_or(0);
    &comm[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_events_show() {
        for (proc, traced) in [
            ("kworker/0:1-events", "kworker/0:1"),
            ("kworker/u8:3+writeback", "kworker/u8:3"),
            ("kworker/0:2H-kblockd", "kworker/0:2H"),
            ("kworker/R-xfs-conv/sda1", "kworker/R-xfs-c"),
            ("fio", "fio"),
            ("0123456789abcdéf", "0123456789abcd"),
        ] {
            assert_eq!(traced_name(proc), traced, "{proc}");
        }
    }

    #[test]
    fn the_kernel_s_names_win_over_the_snapshot_s() {
        let json = r#"{"schema":"unstarve.snapshot/1","kernel":{},"tasks":[
            {"tid":7,"comm":"sh","policy":"other","start_ticks":1},{"tid":9,"comm":"kworker/0:1-dio","policy":"other","start_ticks":1}]}"#;
        let snapshot = Snapshot::from_json(json).expect("a snapshot");
        assert_eq!(names("7 fio\n  8 <...>\nnonsense\n", &snapshot), "7 fio\n9 kworker/0:1\n");
    }

    #[test]
    fn data_symbols_are_left_out() {
        let kallsyms = "ffff1 T schedule\nffff2 d some_data\nffff3 t xfs_end_io\t[xfs]\nffff4 W weak\n";
        let functions = function_symbols(kallsyms.as_bytes());
        assert_eq!(String::from_utf8_lossy(&functions), "ffff1 T schedule\nffff3 t xfs_end_io\t[xfs]\nffff4 W weak\n");
    }
}
