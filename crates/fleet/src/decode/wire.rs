//! What a compactor and its child say to each other: lines of JSON, and bytes whose number the line before them says.

use std::io::{self, BufRead, Read, Write};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::parquet::{Examined, Needed};

/// What is asked of files that follow, one after another.
#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    pub table: String,
    /// How long each of them is.
    pub files: Vec<usize>,
    /// What the rows of one may take.
    pub memory: usize,
    pub rows: u64,
    pub needed: Needed,
    pub answer: Wants,
}

/// What is to be answered of a file.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wants {
    /// What is in it.
    Sums,
    /// And its rows.
    Rows,
}

/// Of the files in their order.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// So many bytes with rows follow; of which files they are, the next `Found` says.
    Rows(usize),
    /// The next files are whole. All rows since the last of this kind are theirs.
    Found(Vec<Examined>),
    /// The next file is refused, and those after it are not looked at.
    Refused(String),
}

/// No line is longer.
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

/// A line; `None` at the end.
pub(crate) fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
}

/// Rows with the same columns, as Arrow's stream has them.
pub(crate) fn encode(schema: &SchemaRef, batches: &[RecordBatch]) -> io::Result<Vec<u8>> {
    let mut out = StreamWriter::try_new(Vec::new(), schema).map_err(io::Error::other)?;
    batches.iter().try_for_each(|batch| out.write(batch)).map_err(io::Error::other)?;
    out.into_inner().map_err(io::Error::other)
}

/// The rows again, where the bytes are: they are not copied. What a text or a list needs to be one is checked.
pub(crate) fn decode(bytes: Vec<u8>) -> io::Result<Vec<RecordBatch>> {
    let (mut decoder, mut batches, mut rest) = (StreamDecoder::new(), Vec::new(), bytes.into());
    while let Some(batch) = decoder.decode(&mut rest).map_err(io::Error::other)? {
        batches.push(batch);
    }
    // What is behind the last batch is the end of the stream.
    decoder.finish().map_err(io::Error::other)?;
    Ok(batches)
}
