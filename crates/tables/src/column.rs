//! Columns of tables.

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An integer: signed, 64 bits, which every engine has (docs/decisions/0615).
    I64,
    /// A floating-point number, 64 bits.
    F64,
    /// UTF-8.
    Text,
    /// A moment: µs since 1970, UTC. In CSV a number of ns.
    Moment,
    /// A list of integers. Separated by spaces in CSV.
    Counts,
}

/// All types.
pub const COLUMN_KINDS: [Kind; 5] = [Kind::I64, Kind::F64, Kind::Text, Kind::Moment, Kind::Counts];

impl Kind {
    /// As in the documentation.
    pub fn word(self) -> &'static str {
        match self {
            Kind::I64 => "i64",
            Kind::F64 => "f64",
            Kind::Text => "text",
            Kind::Moment => "timestamp",
            Kind::Counts => "list of i64",
        }
    }
}

/// Whether a cell may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Never.
    Always,
    /// If it is unknown or does not apply.
    Optional,
}

/// Whether a number may be less than zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Never: it counts or measures something.
    NotNegative,
    /// It may.
    Any,
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Whether a cell may be empty.
    pub presence: Presence,
    /// Whether a number in it may be less than zero.
    pub sign: Sign,
    /// `ns`, or empty.
    pub unit: &'static str,
    /// Its meaning, for people.
    pub meaning: &'static str,
}

pub(crate) const fn column(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Always, sign: Sign::NotNegative, unit, meaning }
}

pub(crate) const fn optional(name: &'static str, kind: Kind, unit: &'static str, meaning: &'static str) -> Column {
    Column { name, kind, presence: Presence::Optional, sign: Sign::NotNegative, unit, meaning }
}

impl Column {
    /// The same, with numbers that may be less than zero.
    pub(crate) const fn signed(self) -> Column {
        Column { sign: Sign::Any, ..self }
    }
}
