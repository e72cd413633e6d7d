//! What a terminal is shown: names and texts are hosts' own word, and none drives it, or looks like another row.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Result;
use datafusion::arrow::array::{Array, ArrayRef, LargeStringArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use unstarve_model::{clean, is_harmful};

/// Whether somebody looks at what is written, or a program reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Screen {
    /// A terminal.
    Terminal,
    /// A file or a pipe: it gets what was found, as it is.
    Other,
}

impl Screen {
    /// Of where something goes.
    pub fn of(out: &impl io::IsTerminal) -> Screen {
        if out.is_terminal() { Screen::Terminal } else { Screen::Other }
    }
}

/// All cells as text, none of which has a character that controls a terminal.
///
/// # Errors
/// If a cell cannot be text.
pub fn cells(batch: &RecordBatch) -> Result<RecordBatch> {
    let options = FormatOptions::default().with_display_error(true);
    let is_plan = is_plan(&batch.schema());
    let shown = |text: String| if is_plan { lines(&text) } else { clean(&text).into_owned() };
    with(batch, |column| {
        let format = ArrayFormatter::try_new(column, &options)?;
        let texts = (0..column.len()).map(|row| Some(shown(format.value(row).to_string())));
        Ok(Arc::new(texts.collect::<LargeStringArray>()))
    })
}

/// What `explain` gives: its cells have lines.
fn is_plan(schema: &Schema) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

fn lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// The same where only texts can have such characters; other cells stay what they are.
///
/// # Errors
/// If a text is none.
pub fn texts(batch: &RecordBatch) -> Result<RecordBatch> {
    with(batch, |column| {
        if !is_text(column.data_type()) {
            return Ok(Arc::clone(column));
        }
        let column = cast(column, &DataType::LargeUtf8)?;
        let texts = column.as_any().downcast_ref::<LargeStringArray>();
        Ok(Arc::new(texts.into_iter().flatten().map(|text| text.map(clean)).collect::<LargeStringArray>()))
    })
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => is_text(value),
        _ => false,
    }
}

fn with(batch: &RecordBatch, change: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(change).collect::<Result<Vec<_>>>()?;
    let schema = batch.schema();
    let named = schema.fields().iter().zip(&columns);
    let fields = named.map(|(field, column)| Field::new(clean(field.name()), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// JSON on its way to a terminal: such characters become `\u009b`, which is the same JSON.
pub struct Json<W> {
    out: W,
    /// The begin of a character.
    rest: Vec<u8>,
}

impl<W: Write> Json<W> {
    /// To there.
    pub fn to(out: W) -> Json<W> {
        Json { out, rest: Vec::new() }
    }
}

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        self.rest.drain(..whole);
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if c != '\n' && is_harmful(c) {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
            } else {
                escaped.push(c);
            }
        }
        self.out.write_all(escaped.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn batch() -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a\x1b[2J"), Some("b\nc"), None]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        RecordBatch::try_from_iter([("te\x1bxt", texts), ("n", numbers)]).expect("of one length")
    }

    #[test]
    fn no_cell_and_no_name_controls_a_terminal() {
        for shown in [cells(&batch()).expect("text"), texts(&batch()).expect("text")] {
            assert_eq!(shown.schema().field(0).name(), "te\\u{1b}xt");
            let texts = shown.column(0).as_any().downcast_ref::<LargeStringArray>().expect("text");
            assert_eq!((texts.value(0), texts.value(1)), ("a\\u{1b}[2J", "b\\nc"));
        }
        assert_eq!(texts(&batch()).expect("text").column(1).data_type(), &DataType::Int64);
        assert!(texts(&batch()).expect("text").column(0).is_null(2));
    }

    #[test]
    fn json_stays_what_it_is() {
        let (mut out, json) = (Vec::new(), "[{\"a\":\"\u{9b}2J\u{7f}é😀\u{e0041}\"}]\n");
        let mut through = Json::to(&mut out);
        for byte in json.as_bytes() {
            through.write_all(&[*byte]).expect("memory");
        }
        let text = String::from_utf8(out).expect("UTF-8");
        assert_eq!(text, "[{\"a\":\"\\u009b2J\\u007fé😀\\udb40\\udc41\"}]\n");
    }
}
