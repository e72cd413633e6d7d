//! The child process of [`crate::SandboxedDecode`]: decodes untrusted files and returns their rows.

use std::io::{self, BufReader, Read, Write};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use unstarve_tables::Schema;

use super::parquet::{DecodeLimits, Examined, examine};
use super::wire::{self, Answer, Question, Wants};

/// Temporary memory of a decoder beside files and rows.
const DECODER_BYTES: u64 = 64 << 20;
/// Address space of the program itself, if /proc does not show it.
const PROGRAM_BYTES: u64 = 512 << 20;
/// Rows are collected up to this size, then returned together.
const MAX_HELD_BYTES: usize = 4 << 20;
/// No question is larger.
const MAX_QUESTION_BYTES: usize = 2 << 30;

/// Answers questions until the end of input.
///
/// # Errors
/// If a question is malformed, or the answer cannot be written.
pub fn serve(from: impl Read, to: impl Write) -> io::Result<()> {
    set_limit(Resource::Core, 0)?;
    let program = address_bytes().unwrap_or(PROGRAM_BYTES);
    answer_all(from, to, |bytes, memory, seconds| {
        set_limit(Resource::As, program + DECODER_BYTES + bytes * 2 + memory * 2)?;
        set_limit(Resource::Cpu, processor_seconds().saturating_add(seconds))
    })
}

/// Without limits, for tests in this process.
#[cfg(test)]
pub(crate) fn answer_without_limits(from: impl Read, to: impl Write) -> io::Result<()> {
    answer_all(from, to, |_, _, _| Ok(()))
}

fn answer_all(from: impl Read, to: impl Write, limits: impl Fn(u64, u64, u64) -> io::Result<()>) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(from), to);
    while let Some(question) = wire::read_line::<Question>(&mut from)? {
        let (bytes, memory) = (question.bytes(), question.memory as u64);
        if bytes > MAX_QUESTION_BYTES {
            return Err(io::Error::other("more bytes than are ever asked for"));
        }
        limits(bytes as u64, memory, question.seconds)?;
        // Read everything before the first answer: the parent does not read while it writes.
        let mut all = vec![0; bytes];
        from.read_exact(&mut all)?;
        answer(&question, Bytes::from(all), &mut to)?;
        to.flush()?;
    }
    Ok(())
}

fn answer(question: &Question, mut all: Bytes, to: &mut impl Write) -> io::Result<()> {
    let table = unstarve_tables::named(&question.table);
    let table = table.ok_or_else(|| io::Error::other("no table of this version"))?;
    let Question { memory, rows, needed, seconds, .. } = *question;
    let most = DecodeLimits { memory, rows, needed, seconds };
    let mut reply = Reply { to, wants: question.answer, most, held: Vec::new(), bytes: 0, found: Vec::new() };
    for bytes in &question.files {
        let file = all.split_to(*bytes);
        if let Err(why) = reply.file(file, table) {
            reply.flush()?;
            return wire::write_line(reply.to, &Answer::Refused(why.chars().take(1000).collect()));
        }
    }
    reply.flush()
}

/// Rows of valid files that were not returned yet.
struct Reply<'a, W> {
    to: &'a mut W,
    wants: Wants,
    /// Limits of a file, and of the rows that are returned together.
    most: DecodeLimits,
    held: Vec<RecordBatch>,
    bytes: usize,
    found: Vec<Examined>,
}

impl<W: Write> Reply<'_, W> {
    /// Decodes a file. If its rows are many, they are returned before the end of the file is reached, after the rows that were held.
    fn file(&mut self, file: Bytes, table: &'static Schema) -> Result<(), String> {
        let (mut rows, mut bytes, mut given) = (Vec::new(), 0, false);
        let examined = examine(file, table, self.most, |batch| {
            if self.wants == Wants::Sums {
                return Ok(());
            }
            bytes += batch.get_array_memory_size();
            rows.push(batch);
            if bytes < MAX_HELD_BYTES {
                return Ok(());
            }
            (bytes, given) = (0, true);
            self.flush().and_then(|()| self.rows(&std::mem::take(&mut rows))).map_err(|error| error.to_string())
        })?;
        let schema = |batches: &[RecordBatch]| batches.first().map(RecordBatch::schema);
        let is_other = matches!((schema(&self.held), schema(&rows)), (Some(one), Some(other)) if one != other);
        if is_other || self.rows_of_found().saturating_add(examined.rows) > self.most.rows {
            self.flush().map_err(|error| error.to_string())?;
        }
        self.held.append(&mut rows);
        self.bytes += bytes;
        self.found.push(examined);
        // Rows that were returned early must be this file's alone: the next file may have other columns.
        if self.bytes < MAX_HELD_BYTES && !given { Ok(()) } else { self.flush().map_err(|error| error.to_string()) }
    }

    /// Number of rows held: the parent needs memory for each, even for an empty one.
    fn rows_of_found(&self) -> u64 {
        self.found.iter().fold(0, |rows, file| rows.saturating_add(file.rows))
    }

    /// Returns the rows held.
    fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.bytes = 0;
        self.rows(&held)?;
        let found = std::mem::take(&mut self.found);
        if found.is_empty() { Ok(()) } else { wire::write_line(self.to, &Answer::Found(found)) }
    }

    /// Returns rows with the same columns: in pieces if they are many, so that they are not copied all at once.
    fn rows(&mut self, batches: &[RecordBatch]) -> io::Result<()> {
        let Some(schema) = batches.first().map(RecordBatch::schema) else { return Ok(()) };
        let memory = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        if memory <= 2 * MAX_HELD_BYTES {
            return self.write_piece(&concat_batches(&schema, batches).map_err(io::Error::other)?);
        }
        for batch in batches {
            let pieces = batch.get_array_memory_size().div_ceil(MAX_HELD_BYTES).max(1);
            let rows = batch.num_rows().div_ceil(pieces).max(1);
            for first in (0..batch.num_rows()).step_by(rows) {
                self.write_piece(&batch.slice(first, rows.min(batch.num_rows() - first)))?;
            }
        }
        Ok(())
    }

    fn write_piece(&mut self, rows: &RecordBatch) -> io::Result<()> {
        let bytes = wire::encode(&rows.schema(), std::slice::from_ref(rows))?;
        wire::write_line(self.to, &Answer::Rows(bytes.len()))?;
        self.to.write_all(&bytes)
    }
}

/// Address space of this process (the first number of proc_pid_statm(5), in pages).
fn address_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().next()?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// Sets a soft limit, at most the hard one.
fn set_limit(resource: Resource, most: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = maximum.map_or(most, |maximum| most.min(maximum));
    Ok(setrlimit(resource, Rlimit { current: Some(current), maximum })?)
}

fn processor_seconds() -> u64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    u64::try_from(used.tv_sec).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Core files are what no other test minds.
    #[test]
    fn a_limit_is_raised_again_for_a_larger_file() {
        let now = |most: u64| {
            set_limit(Resource::Core, most).expect("within the parent's");
            getrlimit(Resource::Core).current
        };
        let within = |most: u64| getrlimit(Resource::Core).maximum.map_or(most, |maximum| most.min(maximum));
        assert_eq!((now(5), now(1 << 20), now(7)), (Some(within(5)), Some(within(1 << 20)), Some(within(7))));
    }
}
