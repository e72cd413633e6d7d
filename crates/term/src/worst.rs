//! The table of the longest waits.

use unstarve_diagnose::report::{Culprit, WorstWait};
use unstarve_model::Nanos;

use crate::ink::{FAINT, Ink, PLAIN, STRONG};
use crate::text::{columns, fit, fold, occupant, seconds, time_of_day};

/// Minimum columns for the occupants; with fewer they go to a line below.
const MIN_OCCUPANT_COLUMNS: usize = 30;
/// The width of `14:03:07.205`.
const UTC_COLUMNS: usize = 12;
const OCCUPANT_INDENT: &str = "      ";

/// The longest waits of the trace, one a line.
pub(crate) fn worst_waits(ink: &mut Ink, waits: &[WorstWait]) {
    if waits.is_empty() {
        return;
    }
    let charset = ink.look.charset();
    let tasks: Vec<String> =
        waits.iter().map(|wait| fold(&format!("{}[{}]", wait.comm, wait.tid), charset).into_owned()).collect();
    let times: Vec<String> = waits.iter().map(|wait| seconds(wait.start_ns)).collect();
    let time = times.iter().map(|text| text.len()).max().unwrap_or(0).max(8);
    let task = tasks.iter().map(|text| columns(text)).max().unwrap_or(0).clamp(4, 24);
    let cpu = waits.iter().map(|wait| wait.cpu.to_string().len()).max().unwrap_or(0).max(3);
    let title = match waits.len() {
        1 => "The longest wait".to_owned(),
        number => format!("The {number} longest waits"),
    };
    ink.line(&[(STRONG, &title)]);
    let utcs: Vec<Option<&str>> = waits.iter().map(|wait| wait.start_utc.as_deref().and_then(time_of_day)).collect();
    let day = if utcs.iter().any(Option::is_some) { UTC_COLUMNS + 2 } else { 0 };
    let left = ink.look.width().saturating_sub(2 + time + 2 + day + cpu + 2 + task + 2 + 7 + 2);
    let beside = left >= MIN_OCCUPANT_COLUMNS;
    let meanwhile = if beside { "who had the CPU meanwhile" } else { "" };
    let with_utc = beside && day > 0;
    let utc = if with_utc { format!("{:<UTC_COLUMNS$}  ", "UTC") } else { String::new() };
    let head = format!(
        "  {:>time$}  {utc}{:>cpu$}  {}  {:>7}  {meanwhile}",
        "from (s)",
        "CPU",
        fit("task", task, charset),
        "wait"
    );
    ink.line(&[(FAINT, &head)]);
    for (((wait, name), from), utc) in waits.iter().zip(&tasks).zip(&times).zip(utcs) {
        let utc_column = if with_utc { format!("{:<UTC_COLUMNS$}  ", utc.unwrap_or("")) } else { String::new() };
        let length = wait.length().to_string();
        let numbers =
            format!("  {from:>time$}  {utc_column}{:>cpu$}  {}  {length:>7}  ", wait.cpu, fit(name, task, charset));
        let occupants = fold(&occupants(&wait.blame), charset).into_owned();
        if beside {
            ink.line(&[(PLAIN, &numbers), (PLAIN, &fit(&occupants, left, charset))]);
        } else {
            ink.line(&[(PLAIN, &numbers)]);
            let below = ink.look.width() - OCCUPANT_INDENT.len();
            let utc = utc.map_or_else(String::new, |utc| format!("{utc} UTC  "));
            ink.line(&[(PLAIN, OCCUPANT_INDENT), (FAINT, &fit(&format!("{utc}{occupants}"), below, charset))]);
        }
    }
    ink.blank();
}

/// `wl[231] RT 10 class 94.1 ms, irq 33 virtio0 irq 12.0 µs`.
fn occupants(blame: &[Culprit]) -> String {
    let each: Vec<String> = blame
        .iter()
        .map(|piece| {
            let who = occupant(piece);
            let length = Nanos(piece.ns);
            // `idle idle`, `unknown unknown` and `irq 33 virtio0 irq` would repeat the word.
            if who.starts_with(piece.rule.word()) {
                format!("{who} {length}")
            } else {
                format!("{who} {} {length}", piece.rule)
            }
        })
        .collect();
    each.join(", ")
}
