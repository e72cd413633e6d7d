//! The protocol between a compactor and its child: lines of JSON, some followed by as many bytes as they announce.

use std::io::{self, BufRead, Read, Write};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::parquet::{Examined, Needed};

/// A question; the files follow it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    pub table: String,
    /// The length of each file.
    pub files: Vec<usize>,
    /// Memory limit of one file's rows.
    pub memory: usize,
    pub rows: u64,
    pub needed: Needed,
    /// Processor time for the whole question.
    pub seconds: u64,
    pub answer: Wants,
}

/// What to answer for each file.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Wants {
    /// Its content: number of rows and sum.
    Sums,
    /// Its rows as well.
    Rows,
}

/// An answer; answers come in the order of the files.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// This many bytes of rows follow; the next `Found` has their files.
    Rows(usize),
    /// The next files are valid. All rows since the last `Found` are theirs.
    Found(Vec<Examined>),
    /// The next file is refused, and the files after it were not read.
    Refused(String),
}

/// Maximum length of a line.
const MAX_LINE_BYTES: u64 = 64 << 10;

impl Question {
    /// Bytes of all files.
    pub fn bytes(&self) -> usize {
        self.files.iter().fold(0, |all, bytes| all.saturating_add(*bytes))
    }
}

pub(crate) fn write_line(to: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    to.write_all(&text)
}

/// Reads a line; `None` at the end.
pub(crate) fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
}

/// Encodes rows with the same columns as an Arrow stream.
pub(crate) fn encode(schema: &SchemaRef, batches: &[RecordBatch]) -> io::Result<Vec<u8>> {
    let mut out = StreamWriter::try_new(Vec::new(), schema).map_err(io::Error::other)?;
    batches.iter().try_for_each(|batch| out.write(batch)).map_err(io::Error::other)?;
    out.into_inner().map_err(io::Error::other)
}

/// Decodes rows without copying them. Offsets and UTF-8 are validated.
pub(crate) fn decode(bytes: Vec<u8>) -> io::Result<Vec<RecordBatch>> {
    let (mut decoder, mut batches, mut rest) = (StreamDecoder::new(), Vec::new(), bytes.into());
    while let Some(batch) = decoder.decode(&mut rest).map_err(io::Error::other)? {
        batches.push(batch);
    }
    // The end of the stream follows the last batch.
    decoder.finish().map_err(io::Error::other)?;
    Ok(batches)
}
