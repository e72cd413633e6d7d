//! Bundles: directories and archives of files that nobody trusts.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use unstarve_evidence::{Gathered, Limits, explain, gather, gather_input};
use unstarve_readers::Input;

/// A lockup of CPU 3's workers, with the backtrace of what runs there.
pub const LOCKUP: &str = "\
[ 1000.100001] BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 44s!
[ 1000.100002] Showing busy workqueues and worker pools:
[ 1000.100003] workqueue events: flags=0x0
[ 1000.100004]   pwq 14: cpus=3 node=0 flags=0x0 nice=0 active=1/256 refcnt=2
[ 1000.100005]     pending: vmstat_shepherd
[ 1000.200001] NMI backtrace for cpu 3
[ 1000.200002] CPU: 3 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1
[ 1000.200003] RIP: 0033:0x55d0c0de0001
";

const PS: &str = "\
    PID     TID CLS RTPRIO  NI PSR STAT %CPU COMMAND
    900     900  FF     50   -   3 RLl  99.9 poller
     52      52  TS      -   0   3 R     0.0 kworker/3:1-events
";

fn syslog(host: &str, log: &str) -> String {
    log.lines().map(|line| format!("Sep 17 10:11:12 {host} kernel: {line}\n")).collect()
}

fn small() -> Limits {
    Limits { files: 1000, archives: 4, bytes: 64 << 20, time: Duration::from_secs(60) }
}

fn gathered(path: &Path) -> Gathered {
    gather(&[path.to_owned()], small()).unwrap()
}

/// Each host with its verdict.
fn verdicts(found: &Gathered) -> Vec<(Option<&str>, String)> {
    found.hosts.iter().map(|host| (host.name.as_deref(), explain(&host.facts, &host.sources).verdict.text)).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    fn new() -> Tar {
        Tar(tar::Builder::new(Vec::new()))
    }

    /// A member whose name may be anything.
    fn with(mut self, name: &str, kind: u8, link: &str, content: &[u8]) -> Tar {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_entry_type(tar::EntryType::new(kind));
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &[u8]) -> Tar {
        self.with(name, b'0', "", content)
    }

    fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn written(directory: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

const STARVED: &str = "kworkers of CPU 3 are starved by poller[900] FIFO 50 on CPU 3: at least 44.0 s";

#[test]
fn files_of_a_host_are_one_answer_wherever_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let sos = "sosreport-db7-2026-09-17-kqwbxnm";
    let log = written(directory.path(), &format!("{sos}/sos_commands/kernel/dmesg"), LOCKUP.as_bytes());
    let ps = written(directory.path(), &format!("{sos}/sos_commands/process/ps"), PS.as_bytes());
    written(directory.path(), &format!("{sos}/etc/passwd"), b"root:x:0:0::/root:/bin/bash\n");
    let packed = Tar::new()
        .file(&format!("{sos}/sos_commands/kernel/dmesg.gz"), &gzip(LOCKUP.as_bytes()))
        .file(&format!("{sos}/ps"), PS.as_bytes())
        .bytes();
    let plain = written(directory.path(), "../plain.tar", &packed);
    let tar = written(directory.path(), "../x.tar.gz", &gzip(&packed));
    let outer = written(directory.path(), "../y.tar", &Tar::new().file("inner.tar.gz", &gzip(&packed)).bytes());
    for path in [directory.path(), &plain, &tar, &outer] {
        let found = gathered(path);
        let all = verdicts(&found);
        assert_eq!(all.len(), 1, "{all:?} {:?}", found.losses);
        assert_eq!(all[0].0, Some("db7"), "{}", path.display());
        assert!(all[0].1.starts_with(STARVED), "{} {}", path.display(), all[0].1);
        assert_eq!(found.losses, [""; 0]);
    }
    let both = gather(&[log, ps], small()).unwrap();
    assert!(verdicts(&both)[0].1.starts_with(STARVED), "{:?}", verdicts(&both));
    for path in [plain, tar, outer] {
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn copies_of_a_log_count_once_and_hosts_do_not_mix() {
    let directory = tempfile::tempdir().unwrap();
    written(directory.path(), "a/dmesg", LOCKUP.as_bytes());
    let once = gathered(directory.path());
    written(directory.path(), "a/messages", syslog("db7", LOCKUP).as_bytes());
    let twice = gathered(directory.path());
    let findings = |found: &Gathered| {
        let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
        report.findings.iter().map(|finding| (finding.sentence.clone(), finding.confidence)).collect::<Vec<_>>()
    };
    assert_eq!(findings(&once), findings(&twice));
    assert_eq!(twice.hosts.len(), 1);
    assert_eq!(twice.hosts[0].name.as_deref(), Some("db7"));
    // Another host's list of threads says nothing about this one's.
    written(directory.path(), "sosreport-web1-2026-09-17-kqwbxnm/ps", PS.as_bytes());
    let mixed = gathered(directory.path());
    let all = verdicts(&mixed);
    let db = all.iter().find(|(name, _)| *name == Some("db7")).unwrap();
    assert!(!db.1.contains("FIFO"), "{all:?}");
}

#[test]
fn a_log_server_s_file_has_several_hosts() {
    let directory = tempfile::tempdir().unwrap();
    let one = syslog("db7", LOCKUP);
    let two = syslog("web1", &LOCKUP.replace("cpus=3", "cpus=5").replace("cpu 3", "cpu 5").replace("CPU: 3", "CPU: 5"));
    let lines = one.lines().zip(two.lines()).flat_map(|(one, two)| [one, two]);
    let text = lines.collect::<Vec<_>>().join("\n");
    let file = written(directory.path(), "all.log", text.as_bytes());
    let found = gathered(&file);
    let all = verdicts(&found);
    let said: Vec<_> = all.iter().map(|(name, text)| (name.unwrap_or("?"), text.split(':').next().unwrap())).collect();
    assert_eq!(
        said,
        [
            ("db7", "kworkers of CPU 3 are starved by poller[900] on CPU 3"),
            ("web1", "kworkers of CPU 5 are starved by poller[900] on CPU 5")
        ]
    );
}

#[test]
fn recordings_and_snapshots_are_reported_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let trace = "  x-1  [000]  1.000000: softirq_entry: vec=1 [action=TIMER]\n";
    let inner = Tar::new().file("trace.txt", trace.as_bytes()).bytes();
    written(directory.path(), "b/inner.tar.gz", &gzip(&inner));
    written(directory.path(), "c/journal", b"LPKSHHRH\0\0\0\0");
    let found = gathered(directory.path());
    let [recording] = found.recordings.as_slice() else { panic!("{:?}", found.recordings) };
    assert!(recording.name.ends_with("b/inner.tar.gz/trace.txt"), "{}", recording.name);
    assert!(recording.format.starts_with("ftrace text"), "{}", recording.format);
    assert!(found.losses.iter().any(|loss| loss.contains("journalctl")), "{:?}", found.losses);
    assert!(found.hosts.is_empty());
}

#[test]
fn a_hostile_archive_is_read_and_nothing_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let secret = written(directory.path(), "secret", LOCKUP.as_bytes());
    let link = secret.display().to_string();
    let tar = Tar::new()
        .file("/etc/../../dmesg\x1b[2J", LOCKUP.as_bytes())
        .with("soft", b'2', &link, b"")
        .with("hard", b'1', &link, b"")
        .with("block", b'4', "", b"")
        .with("character", b'3', "", b"")
        .with("fifo", b'6', "", b"")
        .bytes();
    let bundle = written(directory.path(), "bundle/x.tar", &tar);
    std::os::unix::fs::symlink(&secret, directory.path().join("bundle/link")).unwrap();
    std::os::unix::fs::symlink("/", directory.path().join("bundle/root")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("bundle/fifo"), rustix::fs::Mode::RUSR).unwrap();
    let found = gathered(bundle.parent().unwrap());
    assert_eq!(found.losses, ["8 special files not followed: links, devices or FIFOs"]);
    let sources: Vec<&str> = found.hosts[0].sources.iter().map(|source| source.name.as_str()).collect();
    let [source] = sources.as_slice() else { panic!("{sources:?}") };
    assert!(source.ends_with("bundle/x.tar/etc/dmesg\\u{1b}[2J"), "{source}");
}

#[test]
fn work_on_a_bundle_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let text = gzip(&b"no message\n".repeat(8 << 20));
    let bomb = written(directory.path(), "bomb.gz", &gzip(&text));
    let bombs = Tar::new().file("one.gz", &text).file("two.gz", &text).bytes();
    let bombs = written(directory.path(), "bombs.tar", &bombs);
    for path in [&bomb, &bombs] {
        let limits = Limits { bytes: 8 << 20, ..small() };
        let found = gather(std::slice::from_ref(path), limits).unwrap();
        assert!(found.losses.iter().any(|loss| loss.contains("limit of bytes")), "{:?}", found.losses);
    }
    let mut many = Tar::new();
    for number in 0..100_000 {
        many = many.file(&format!("{number}"), b"");
    }
    let many = written(directory.path(), "many.tar.gz", &gzip(&many.bytes()));
    let limits = Limits { bytes: 1 << 30, ..small() };
    let found = gather(std::slice::from_ref(&many), limits).unwrap();
    assert_eq!(found.files, 1000);
    assert!(found.losses.iter().any(|loss| loss.starts_with("not everything")), "{:?}", found.losses);
    let mut nested = LOCKUP.as_bytes().to_vec();
    for _ in 0..9 {
        nested = Tar::new().file("x", &nested).bytes();
    }
    let found = gathered(&written(directory.path(), "nested.tar", &nested));
    assert!(found.losses[0].ends_with("too many archives in archives"), "{:?}", found.losses);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn no_torn_and_no_flipped_bundle_does_harm() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = gzip(&Tar::new().file("a/dmesg", LOCKUP.as_bytes()).file("ps", PS.as_bytes()).bytes());
    let path = directory.path().join("x");
    let survives = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        gathered(&path);
    };
    for length in (0..bytes.len()).step_by(7) {
        survives(&bytes[..length]);
    }
    for bit in (0..bytes.len() * 8).step_by(31) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        survives(&flipped);
    }
}

#[test]
fn what_the_fuzzer_begins_with_is_read_whole_and_damaged() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/evidence");
    let begun = Instant::now();
    let mut random = 1u64;
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let explained = |bytes: Vec<u8>| {
            let input = Input::from_stream(Box::new(Cursor::new(bytes)), "x".to_owned()).unwrap();
            let found = gather_input(input, small());
            found.hosts.iter().map(|host| explain(&host.facts, &host.sources).findings.len()).sum::<usize>()
        };
        let is_list = path.ends_with("ps");
        assert!(is_list || explained(bytes.clone()) > 0, "{}", path.display());
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            for _ in 0..4 {
                // An LCG's upper bits (Knuth, MMIX).
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (random >> 33) as usize % damaged.len();
                damaged[at] = b"0 9:-[]()|\n\xff#".as_slice()[(random >> 20) as usize % 13];
            }
            explained(damaged);
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn what_is_missing_is_an_error_and_what_is_unreadable_a_loss() {
    let missing = gather(&[PathBuf::from("/nonexistent/x")], small());
    assert!(missing.is_err_and(|error| error.to_string().starts_with("cannot read /nonexistent/x: No such file")));
}

#[test]
fn a_log_in_another_encoding_says_the_same() {
    let quoted = LOCKUP.replace('=', "=3D").replace("Showing busy", "Showing =\nbusy");
    let wide: Vec<u8> = format!("\u{feff}{LOCKUP}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let texts = [
        ("lf", LOCKUP.as_bytes().to_vec()),
        ("crlf", LOCKUP.replace('\n', "\r\n").into_bytes()),
        ("cr", LOCKUP.replace('\n', "\r").into_bytes()),
        ("quoted-printable", format!("Content-Transfer-Encoding: quoted-printable\n\n{quoted}").into_bytes()),
        ("utf-16", wide),
    ];
    let directory = tempfile::tempdir().unwrap();
    let mut answers = texts.map(|(name, text)| {
        let file = directory.path().join(name);
        fs::write(&file, text).unwrap();
        verdicts(&gathered(&file)).into_iter().map(|(_, verdict)| verdict).collect::<Vec<_>>()
    });
    assert_eq!(answers[0].len(), 1);
    let first = answers[0].clone();
    answers.iter_mut().for_each(|answer| assert_eq!(*answer, first));
}

/// A log that was rotated in the middle of a trouble: each half says something of it.
fn rotated(directory: &Path, day_of_the_second: u32) {
    let line =
        |day: u32, clock: &str, uptime: &str, text: &str| format!("Sep {day} {clock} db7 kernel: [{uptime}] {text}\n");
    let lockup =
        |seconds: u32| format!("BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for {seconds}s!");
    let first = line(17, "10:11:12", "1000.100000", &lockup(40));
    let backtrace = "CPU: 3 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1";
    let second = line(day_of_the_second, "10:11:42", "1030.100000", &lockup(70))
        + &line(day_of_the_second, "10:11:42", "1030.200000", "NMI backtrace for cpu 3")
        + &line(day_of_the_second, "10:11:42", "1030.200001", backtrace);
    fs::write(directory.join("kern.log.1.gz"), gzip(first.as_bytes())).unwrap();
    fs::write(directory.join("kern.log"), second).unwrap();
}

#[test]
fn one_boot_in_two_rotated_files_is_one_trouble() {
    let directory = tempfile::tempdir().unwrap();
    rotated(directory.path(), 17);
    let found = gathered(directory.path());
    let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].waits.count, 2);
    assert!(report.findings[0].sentence.contains("starved by poller[900]"), "{}", report.findings[0].sentence);
    assert!(report.findings[0].evidence[0].contains("kern.log.1.gz:1:"), "{:?}", report.findings[0].evidence);
}

#[test]
fn the_same_uptime_on_another_day_is_another_boot() {
    let directory = tempfile::tempdir().unwrap();
    rotated(directory.path(), 18);
    let found = gathered(directory.path());
    let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
    assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
}

/// A boot's line in a rotated log: the logger's clock runs with the uptime from `start`, in seconds of the day.
fn at(start: u32, uptime: u32, text: &str) -> String {
    let second = start + uptime;
    let clock = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    format!("Sep 17 {clock} db7 kernel: [{uptime:5}.{start:06}] {text}\n")
}

#[test]
fn boots_of_a_crash_loop_are_apart_in_rotated_files() {
    let begin = |start: u32| at(start, 0, "Linux version 6.1.0-18-amd64 (gcc-12) #1 SMP");
    let lockup =
        |start: u32| at(start, 22, "BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 20s!");
    let look = |start: u32, uptime: u32| {
        at(start, uptime, "NMI backtrace for cpu 3")
            + &at(start, uptime, "CPU: 3 PID: 900 Comm: poller Not tainted 6.1.0-18-amd64 #1")
    };
    // The older file, the newer one, findings, and whether the look belongs to one of them. Boots begin 40 s apart.
    let table = [
        ("each begins in its file", begin(0) + &lockup(0), begin(40) + &look(40, 21), 1, false),
        (
            "the last one goes on",
            begin(0) + &at(0, 10, "usb 1-1: new device") + &begin(40) + &lockup(40),
            look(40, 23),
            1,
            true,
        ),
        ("the first one does not go on", begin(0) + &lockup(0) + &begin(40), look(40, 21), 1, false),
        ("one boot", begin(0) + &lockup(0), look(0, 23), 1, true),
        ("two lockups", begin(0) + &lockup(0), begin(40) + &lockup(40), 2, false),
    ];
    for (what, older, newer, findings, is_named) in table {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("kern.log.1"), older).unwrap();
        fs::write(directory.path().join("kern.log"), newer).unwrap();
        let found = gathered(directory.path());
        let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
        let sentences: Vec<_> = report.findings.iter().map(|finding| finding.sentence.as_str()).collect();
        assert_eq!(sentences.len(), findings, "{what}: {sentences:?}");
        assert_eq!(sentences[0].contains("poller"), is_named, "{what}: {sentences:?}");
    }
}

#[test]
fn a_boot_goes_on_over_new_year_in_rotated_files() {
    let directory = tempfile::tempdir().unwrap();
    let lockup =
        |seconds: u32| format!("BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for {seconds}s!");
    let older = format!("Dec 31 23:59:50 db7 kernel: [900000.100000] {}\n", lockup(40));
    let newer = format!("Jan  1 00:00:20 db7 kernel: [900030.100000] {}\n", lockup(70));
    fs::write(directory.path().join("kern.log.1"), older).unwrap();
    fs::write(directory.path().join("kern.log"), newer).unwrap();
    let found = gathered(directory.path());
    let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].waits.count, 2);
}

#[test]
fn a_container_s_settings_are_not_the_host_s() {
    let directory = tempfile::tempdir().unwrap();
    let sos = "sosreport-db7-2026-09-17-kqwbxnm";
    let path = "proc/sys/kernel/sched_rt_runtime_us";
    written(directory.path(), &format!("{sos}/proc/version"), b"Linux version 6.1.0-18-amd64 (gcc-12) #1 SMP\n");
    written(directory.path(), &format!("{sos}/containers/a/{path}"), b"-1\n");
    written(directory.path(), &format!("{sos}/{path}"), b"950000\n");
    written(directory.path(), &format!("{sos}/zz/b/{path}"), b"-1\n");
    let found = gathered(directory.path());
    let settings = unstarve_evidence::snapshot(&found.hosts[0].facts).expect("a kernel is named");
    assert_eq!(settings.setting("sched_rt_runtime_us").map(|(_, value)| value), Some("950000"));
}

#[test]
fn a_pool_of_a_cpu_that_no_machine_has_names_none() {
    let directory = tempfile::tempdir().unwrap();
    for cpus in ["4294967295", "0-4294967295", "99999999999"] {
        let log =
            format!("[ 1000.1] BUG: workqueue lockup - pool cpus={cpus} node=0 flags=0x0 nice=0 stuck for 44s!\n");
        let file = written(directory.path(), "dmesg", log.as_bytes());
        let found = gathered(&file);
        let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
        assert_eq!(report.findings[0].id.as_str(), "reported-hang", "{cpus}");
        assert!(!report.findings[0].sentence.contains(cpus), "{}", report.findings[0].sentence);
        assert!(report.findings[0].cpus.is_empty());
    }
}

#[test]
fn a_name_that_controls_a_terminal_is_in_no_command() {
    let stat = "/sys/fs/cgroup/x\x1b[2J/cpu.stat\nnr_periods 100\nnr_throttled 50\nthrottled_usec 2500000\n";
    let list = "  PID   TID CLS RTPRIO  NI PSR STAT %CPU COMMAND\n 2211  2219  FF     50   - 3 RLl 99.9 x\x1b[2J\n";
    for text in [stat.to_owned(), format!("{LOCKUP}{list}"), format!("{}{list}", LOCKUP.replace("poller", "p\x1b[2Jr"))]
    {
        let input = Input::from_stream(Box::new(Cursor::new(text.into_bytes())), "x".to_owned()).unwrap();
        let found = gather_input(input, small());
        let report = explain(&found.hosts[0].facts, &found.hosts[0].sources);
        let evidence = report.evidence.expect("texts");
        let remedies = report.findings.iter().flat_map(|finding| &finding.remedies);
        let commands = evidence.next.into_iter().map(|step| step.command);
        for command in commands.chain(remedies.map(|remedy| remedy.apply.clone())) {
            assert!(!command.contains('\x1b'), "{command:?}");
        }
    }
}
