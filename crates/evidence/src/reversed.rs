//! Logs in reverse order, as `journalctl -r` prints them: the newest message first.

use std::io::{self, Cursor, Read};

use crate::line::Message as Columns;

/// What is read to find the order.
const ORDER_SAMPLE_BYTES: u64 = 32 << 10;

/// Lines of the beginning that are compared.
const MAX_COMPARED: usize = 200;

/// Steps back in time that no log in order has.
const MIN_STEPS: usize = 3;

/// A reversed log is turned in memory; of a longer one, its newest part.
const MAX_BYTES: u64 = 64 << 20;

pattern!(TIME_OF_DAY = r"^.{0,16}\b\d\d:\d\d:\d\d(?:[.,]\d+)?");

/// A text with its oldest line first.
pub enum Ordered<R> {
    /// As it came.
    Forward(io::Chain<Cursor<Vec<u8>>, R>),
    /// Turned: groups of lines, each with the number of its first line. The flag: more was to come.
    Turned(Vec<(u64, Vec<u8>)>, bool),
}

/// The order of a text, by its beginning.
///
/// # Errors
/// If it cannot be read.
pub fn ordered<R: Read>(mut text: R) -> io::Result<Ordered<R>> {
    let mut beginning = Vec::new();
    text.by_ref().take(ORDER_SAMPLE_BYTES).read_to_end(&mut beginning)?;
    if !is_reversed(&beginning) {
        return Ok(Ordered::Forward(Cursor::new(beginning).chain(text)));
    }
    text.by_ref().take(MAX_BYTES - ORDER_SAMPLE_BYTES).read_to_end(&mut beginning)?;
    let is_cut = text.read(&mut [0])? > 0;
    let mut groups = groups(&beginning);
    groups.reverse();
    Ok(Ordered::Turned(groups, is_cut))
}

fn is_reversed(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let lines = || text.lines().take(MAX_COMPARED);
    // A program can log any stamp.
    let kernel = |line: &str| Some(Columns::of(line)).filter(|columns| columns.program.is_none());
    let uptimes: Vec<u64> = lines().filter_map(|line| Some(kernel(line)?.uptime?.0)).collect();
    let times: Vec<&str> = lines().filter_map(|line| Some(TIME_OF_DAY.find(line)?.as_str())).collect();
    only_back(&uptimes) || uptimes.is_empty() && only_back(&times)
}

/// Steps back for one forward, which is the boot before in a log that goes back.
const MIN_BACK_PER_FORWARD: usize = 20;

/// Whether the steps are back, or none, but for another boot.
fn only_back<T: PartialOrd>(times: &[T]) -> bool {
    let back = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    let forward = times.windows(2).filter(|pair| pair[1] > pair[0]).count();
    back >= MIN_STEPS && forward * MIN_BACK_PER_FORWARD <= back
}

/// Lines with a logger's columns, each with those after it that have none.
fn groups(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut groups: Vec<(u64, Vec<u8>)> = Vec::new();
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let goes_on = !Columns::of(&String::from_utf8_lossy(line)).has_columns;
        match groups.last_mut().filter(|_| goes_on) {
            Some((_, group)) => group.extend_from_slice(line),
            None => groups.push((number as u64 + 1, line.to_vec())),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_log_that_goes_back_all_the_time_is_turned() {
        let table = [
            ("[  9.1] d\n[  8.1] c\n[  7.1] b\n[  6.1] a\n", true),
            ("[  6.1] a\n[  7.1] b\n[  8.1] c\n[  9.1] d\n", false),
            ("[  9.1] d\n[  8.1] c\n[  9.1] b\n[  6.1] a\n[  5.1] a\n", false),
            ("[  9.1] d\n[  8.1] c\n", false),
            (
                "Nov 22 18:39:44 h kernel: d\nNov 22 18:39:43 h kernel: c\nNov 22 18:39:42 h kernel: b\nNov 22 18:39:41 h kernel: a\n",
                true,
            ),
            ("Nov 22 18:39:41 h kernel: d\nNov 22 18:39:42 h kernel: c\n", false),
            ("words\n", false),
        ];
        for (text, is) in table {
            assert_eq!(is_reversed(text.as_bytes()), is, "{text}");
        }
    }

    #[test]
    fn a_boot_before_is_no_step_forward() {
        let boot = |seconds: std::ops::Range<u32>| {
            seconds.rev().map(|second| format!("[ {second}.1] x\n")).collect::<String>()
        };
        assert!(is_reversed((boot(10..40) + &boot(1000..1030)).as_bytes()));
        let forward =
            |seconds: std::ops::Range<u32>| seconds.map(|second| format!("[ {second}.1] x\n")).collect::<String>();
        assert!(!is_reversed((forward(1000..1030) + &forward(10..40)).as_bytes()));
    }
}
