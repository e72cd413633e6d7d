//! Recognises files that unstarve cannot read, and says what they are and what to do. Most often the user named the
//! wrong file.

use std::path::Path;

use crate::perf_script;

/// A short description of content in no known format.
pub fn looks_like(prefix: &[u8]) -> &'static str {
    match prefix {
        [0xff, 0xd8, 0xff, ..] => "it looks like a JPEG image",
        [0x89, b'P', b'N', b'G', ..] => "it looks like a PNG image",
        [0x7f, b'E', b'L', b'F', ..] => "it looks like an ELF program",
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => "it looks like a 7z archive: unpack it first",
        [0x04, 0x22, 0x4d, 0x18, ..] => "it looks like an lz4 file: unpack it with `lz4 -d` first",
        _ if is_ctf(prefix) => CTF_ADVICE,
        _ if prefix.iter().all(|&b| b == 0) => "its beginning is all zeros",
        // The prefix may end in the middle of a character.
        _ if std::str::from_utf8(prefix).map_or_else(|error| error.error_len().is_none(), |_| true) => text(prefix),
        _ => "its content is of no known format",
    }
}

/// A description of a directory that is another program's trace.
pub fn directory(path: &Path) -> Option<&'static str> {
    if ["metadata", "kernel/metadata"].iter().any(|file| path.join(file).is_file()) {
        return Some(CTF_ADVICE);
    }
    match (path.join("data").is_file(), path.join("data.0").is_file()) {
        (true, true) => Some(PERF_THREADS),
        (true, false) => Some("it looks like a directory of perf: give the file `data` in it"),
        _ => None,
    }
}

/// `perf record --threads` writes one file per recording thread.
const PERF_THREADS: &str = "it looks like a recording of `perf record --threads`, which is in several files: print it with `perf script -i \
                            DIRECTORY -F +cpu` and give that text";

const CTF_ADVICE: &str = "it looks like an LTTng trace (CTF): print it with `babeltrace2 DIRECTORY` and give that text";

/// The magic numbers of a CTF stream and of packed metadata in both byte orders, and the first words of text metadata.
fn is_ctf(prefix: &[u8]) -> bool {
    let magic = prefix.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
    let known = [0xc1fc_1fc1_u32, 0x75d1_1d57];
    magic.is_some_and(|magic| known.contains(&magic) || known.contains(&magic.swap_bytes()))
        || prefix.starts_with(b"/* CTF")
        || prefix.starts_with(b"\x1e{")
}

fn text(prefix: &[u8]) -> &'static str {
    let has = |words: &[&str]| words.iter().all(|word| memchr::memmem::find(prefix, word.as_bytes()).is_some());
    if prefix.split(|&byte| byte == b'\n').filter(|line| perf_script::is_latency(line)).count() > 1 {
        return "it is text of `perf script -L`, which cuts names: print it with `perf script -F +cpu`, without -L; if it was printed \
                without -L, the CPU column is missing";
    }
    if prefix.split(|&byte| byte == b'\n').any(perf_script::lacks_cpu) {
        return "it is text of `perf script` without the CPU column: print it with `perf script -F +cpu`";
    }
    if prefix.split(|&byte| byte == b'\n').any(perf_script::lacks_time) {
        return "it is text of `perf script` without the time column: print it with `perf script -F +time`";
    }
    if prefix.split(|&byte| byte == b'\n').any(perf_script::lacks_cpu_and_time) {
        return "it is text of `perf script` without the columns of CPU and time: print it with `perf script -F +cpu,+time`";
    }
    if has(&["wait time", "sch delay", "run time"]) {
        return "it is text of `perf sched timehist`, which leaves out who woke whom and how tasks left their CPU: give \
                the perf.data, or print it with `perf script -F +cpu`";
    }
    if has(&["Task", "Runtime ms", "Switches"]) || has(&["*A0", " secs "]) {
        return "it is text of `perf sched`, which has sums instead of events: give the perf.data, or print it with \
                `perf script -F +cpu`";
    }
    if has(&["\"linux-perf-json-version\""]) {
        return "it is JSON of `perf data convert`, which leaves out the events' fields: give the perf.data";
    }
    if has(&["\"unstarve.snapshot/"]) {
        return "it is the snapshot of a host's settings, which has no events: use `unstarve check --snapshot FILE`";
    }
    if prefix.trim_ascii_start().starts_with(b"{") || prefix.trim_ascii_start().starts_with(b"[{") {
        return "it is JSON, perhaps a trace of a browser: give the kernel's events as trace.dat, perf.data, Perfetto or \
                systrace HTML";
    }
    if prefix.starts_with(b"Attaching ") {
        return "it is text of bpftrace: record with `unstarve record`, `perf sched record` or trace-cmd";
    }
    "it is text, but no line looks like a scheduler event, a message of the kernel or a list of threads"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_with_traces_of_other_programs() {
        let table = [
            (&b"            perf 24496 25175.794929: sched:sched_stat_runtime: comm=perf pid=24496\n"[..], "-F +cpu"),
            (b"    bash 24500/24500 [000]   sched:sched_waking: comm=x pid=15 prio=120 target_cpu=001\n", "-F +time"),
            (b"    bash 24500/24500 sched:sched_waking: comm=x pid=15 prio=120 target_cpu=001\n", "-F +cpu,+time"),
            (b"           time    cpu  task name                       wait time  sch delay   run time\n", "timehist"),
            (b"  Task                  |   Runtime ms  | Switches | Avg delay ms    |\n", "has sums"),
            (b"/* CTF 1.8 */\n", "babeltrace2"),
            (b"\xc1\x1f\xfc\xc1....", "babeltrace2"),
            (b"{\"traceEvents\": []}", "JSON"),
            (b"{\n \"schema\":\"unstarve.snapshot/1\",\n", "unstarve check --snapshot"),
            (b"{\n\t\"linux-perf-json-version\": 1,\n", "`perf data convert`"),
            (
                b"migratio 18 0 59.508774: sched:sched_waking: comm=perf\nperf 7 1 59.608774: sched:sched_waking: comm=perf\n",
                "without -L",
            ),
            (b"Dear list,\n", "no line looks like"),
        ];
        for (content, word) in table {
            assert!(looks_like(content).contains(word), "{}", looks_like(content));
        }
    }
}
