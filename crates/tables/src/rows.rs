//! Rows and their writers.

use std::io::Write;

use crate::TableError;

/// One value of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// An integer of any width; for a moment ns since 1970.
    Number(i128),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Several numbers.
    Counts(&'a [u64]),
    /// Unknown, or does not apply.
    Empty,
}

impl<T: Into<i128>> From<T> for Cell<'_> {
    fn from(number: T) -> Self {
        Cell::Number(number.into())
    }
}

impl<'a> Cell<'a> {
    /// A number, if there is one.
    pub fn number(number: Option<impl Into<i128>>) -> Cell<'a> {
        number.map_or(Cell::Empty, |number| Cell::Number(number.into()))
    }

    /// A floating-point number, if there is one.
    pub fn real(number: Option<f64>) -> Cell<'a> {
        number.map_or(Cell::Empty, Cell::Real)
    }

    /// A text, if there is one.
    pub fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::Empty, Cell::Text)
    }
}

/// A writer of rows.
pub trait Rows {
    /// Writes a row, with a cell for each column.
    ///
    /// # Errors If it cannot be written.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), TableError>;

    /// Writes the rest.
    ///
    /// # Errors If it cannot be written.
    fn finish(self: Box<Self>) -> Result<(), TableError>;
}

/// An output that may be written to from another thread.
pub trait Out: Write + Send {}

impl<W: Write + Send> Out for W {}
