//! Writes tables as CSV.

use std::borrow::Cow;

use crate::{Cell, Out, Rows, Schema, TableError};

/// Writes CSV (RFC 4180) with a header line.
pub struct CsvRows<W: Out> {
    out: csv::Writer<W>,
}

impl<W: Out> CsvRows<W> {
    /// Writes the header line.
    ///
    /// # Errors If it cannot be written.
    pub fn new(out: W, schema: &Schema) -> Result<CsvRows<W>, TableError> {
        let mut out = csv::Writer::from_writer(out);
        out.write_record(schema.columns.iter().map(|column| column.name))?;
        Ok(CsvRows { out })
    }
}

impl<W: Out> Rows for CsvRows<W> {
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError> {
        for cell in cells {
            match cell {
                Cell::Number(number) => self.out.write_field(number.to_string())?,
                Cell::Real(number) => self.out.write_field(number.to_string())?,
                Cell::Counts(counts) => self.out.write_field(joined(counts))?,
                Cell::Text(text) => self.out.write_field(&*no_formula(text))?,
                Cell::Empty => self.out.write_field("")?,
            }
        }
        self.out.write_record(None::<&[u8]>)?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TableError> {
        self.out.flush()?;
        Ok(())
    }
}

fn joined(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Escapes the first character of a name that a spreadsheet would treat as a formula, like other harmful characters;
/// `-bash` is left as it is.
fn no_formula(text: &str) -> Cow<'_, str> {
    let is_formula = match text.as_bytes() {
        [b'=' | b'@', ..] => true,
        [b'+' | b'-', rest @ ..] => rest.iter().any(|byte| b"(|!=+*/\"".contains(byte)),
        _ => false,
    };
    match text.as_bytes() {
        [first, ..] if is_formula => Cow::Owned(format!("\\x{first:02x}{}", &text[1..])),
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_a_formula() {
        for (name, shown) in [
            ("=cmd|'/c calc'!A", "\\x3dcmd|'/c calc'!A"),
            ("@SUM(A1)", "\\x40SUM(A1)"),
            ("-2+cmd|x", "\\x2d2+cmd|x"),
            ("-bash", "-bash"),
            ("fio", "fio"),
            ("", ""),
        ] {
            assert_eq!(no_formula(name), shown);
        }
    }
}
