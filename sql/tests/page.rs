//! The overview of a fleet: what was planted is on it, and a real browser shows it without a program and without asking for anything.

use std::path::Path;
use std::process::{Command, Output, Stdio};

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet");

fn sql(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve-sql"));
    command.args(arguments).stdin(Stdio::null()).output().expect("it can be started")
}

fn page(arguments: &[&str]) -> (tempfile::TempDir, String) {
    let place = tempfile::tempdir().expect("a place for files");
    let file = place.path().join("fleet.html");
    let output = sql(&[&["--page", file.to_str().expect("UTF-8")], arguments].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let text = std::fs::read_to_string(&file).expect("it was written");
    (place, text)
}

/// The text of an element of the page, from its id to its end.
fn table<'a>(text: &'a str, id: &str) -> &'a str {
    let (_, rest) = text.split_once(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("{id}"));
    rest.split_once("</table>").expect("its end").0
}

#[test]
fn what_was_planted_is_on_the_page() {
    let (_place, text) = page(&["--reports", "https://files.example/r", FLEET]);
    assert!(text.contains("<h1>Kernel threads wait longest on host-00"), "{}", &text[..300]);
    let heat = table(&text, "heat");
    assert!(heat.contains("direct-io") && heat.contains("kworker") && heat.contains(">host-0013<"));
    assert!(table(&text, "episodes").contains("href=\"https://files.example/r/host-0013/"));
    let outliers = table(&text, "outliers");
    assert!(outliers.contains("host-0006") && outliers.contains(">-1<") && outliers.contains(">950000<"));
    assert!(table(&text, "kernel-changes").contains("6.12.9-changed"));
    let (_place, text) = page(&["--split", "2026-11-22T01:00:00Z", FLEET]);
    assert!(table(&text, "before-after").contains(">host-0001<"));
}

#[test]
fn what_cannot_be_a_page_is_an_error() {
    for (arguments, word) in [
        (&["--page", "/nowhere/at/all.html", FLEET][..], "/nowhere"),
        (&["--page", "x.html", "--split", "soon", FLEET], "soon"),
        (&["--page", "x.html", "select 1 from hosts", FLEET], "no statement"),
        (&["--split", "2026-11-22", FLEET], "--page"),
    ] {
        let output = sql(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(word), "{arguments:?}: {output:?}");
        assert!(!Path::new("x.html").exists());
    }
}

/// Chromium makes the same of it: tables with their rows, colours, and no complaint.
#[test]
fn a_browser_shows_it() {
    if unstarve_testing::tool("chromium").is_none() {
        return;
    }
    let (place, _) = page(&[FLEET]);
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        "--v=0",
    ]);
    command.arg(format!("--user-data-dir={}", place.path().join("profile").display())).arg("--dump-dom");
    let output = command.arg(place.path().join("fleet.html")).stdin(Stdio::null()).output().expect("it can be started");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && table(&shown, "heat").matches("<tr>").count() > 5, "{output:?}");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(!complaints.contains("CONSOLE") && !complaints.contains("Refused to"), "{complaints}");
}
