//! Texts as they arrive: wrapped, quoted, escaped, reversed.

use std::fs;
use std::path::{Path, PathBuf};

use unstarve_evidence::{Facts, explain, scan};

use crate::bundles::LOCKUP;

/// What a text proves, without the lines' numbers.
fn proved(text: &str) -> Vec<String> {
    let mut facts = Facts::default();
    let source = scan(text.as_bytes(), "log", 0, &mut facts).unwrap();
    let report = explain(&facts, &[source]);
    report.findings.into_iter().map(|finding| format!("{} {}", finding.id, finding.sentence)).collect()
}

/// Breaks lines at words, as mailers do.
fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut rest = line;
        while rest.len() > width {
            let indent = rest.len() - rest.trim_start().len();
            let is_end = |at: &usize| *at > indent && rest.is_char_boundary(*at) && rest.as_bytes()[*at] == b' ';
            let Some(end) = (0..=width).rev().find(is_end) else { break };
            out += &rest[..end];
            out += "\n";
            rest = &rest[end + 1..];
        }
        out += rest;
        out += "\n";
    }
    out
}

fn quoted(text: &str, mark: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Logs of guests, and one of our own. Not those with a dump of the scheduler: lines of a wrapped table are none.
fn logs() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/logs");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "log"));
    files.retain(|file| !file.to_string_lossy().contains("/sysrq-t."));
    files.sort();
    let read = |file: &PathBuf| (file.display().to_string(), fs::read_to_string(file).unwrap());
    let mut logs: Vec<(String, String)> = files.iter().map(read).collect();
    logs.push(("a lockup".to_owned(), LOCKUP.to_owned()));
    let syslog = LOCKUP.lines().map(|line| format!("Sep 17 10:11:12 db7 kernel: {line}\n")).collect();
    logs.push(("a lockup in syslog".to_owned(), syslog));
    logs
}

#[test]
fn a_wrapped_quoted_or_escaped_log_proves_the_same() {
    for (name, log) in logs() {
        let plain = proved(&log);
        assert_eq!(proved(&quoted(&log, "> ")), plain, "{name} quoted");
        assert_eq!(proved(&quoted(&log, "> > | ")), plain, "{name} quoted thrice");
        assert_eq!(proved(&escaped(&log)), plain, "{name} escaped");
        assert_eq!(proved(&log.replace('\n', "\r\n")), plain, "{name} with carriage returns");
        for width in 60..=80 {
            let text = wrapped(&log, width);
            assert_eq!(proved(&text), plain, "{name} at {width}");
            assert_eq!(proved(&escaped(&quoted(&text, "> "))), plain, "{name} at {width}, quoted and escaped");
        }
    }
}

#[test]
fn a_reversed_log_proves_the_same() {
    // Of a log of few seconds, with times of seconds, nothing shows the order.
    for (name, log) in logs().into_iter().filter(|(name, _)| !name.contains("ctime")) {
        let mut lines: Vec<&str> = log.lines().collect();
        lines.reverse();
        assert_eq!(proved(&lines.join("\n")), proved(&log), "{name}");
    }
}

#[test]
fn words_around_a_log_do_no_harm() {
    let letter =
        "Hello,\n\nsince the update our node hangs, see the log. The PID of the poller is 900, its CPU is 3.\n\n";
    let end = "\n\nAny idea? I tried RT throttling and a timeout of 5 seconds.\n-- \nregards\n";
    let plain = proved(LOCKUP);
    assert_eq!(proved(&format!("{letter}{LOCKUP}{end}")), plain);
    assert_eq!(proved(&format!("{letter}{}{end}", quoted(LOCKUP, "> "))), plain);
}

#[test]
fn boots_do_not_mix() {
    let first: String = LOCKUP.lines().take(5).map(|line| format!("{line}\n")).collect();
    let second: String = LOCKUP.lines().skip(5).map(|line| format!("{line}\n")).collect();
    let together = proved(&format!("{first}{second}"));
    assert!(together[0].contains("poller[900]"), "{together:?}");
    for between in
        ["-- Boot 0123456789abcdef0123456789abcdef --\n", "-- Reboot --\n", "[    0.000000] Linux version 6.1.0 (x)\n"]
    {
        let apart = proved(&format!("{first}{between}{second}"));
        assert!(!apart[0].contains("poller"), "{between} {apart:?}");
    }
}
