//! Encodes the page's data: JSON and columns of numbers in one piece.

use std::marker::PhantomData;

use serde::{Serialize, Serializer, ser::SerializeMap};

/// The page's data: JSON for what is small and has a shape, columns of numbers for what is long.
///
/// Layout, little-endian: the JSON's length as a u32, the JSON, then the columns, each at a multiple of 8 bytes counted
/// from the end of the JSON rounded up to 8. In the JSON a column stands as `{"$":"f64","at":OFFSET,"n":COUNT}`, so the
/// page makes a typed array of it without copying.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    bytes: Vec<u8>,
}

/// The position of a column of `T`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<T> {
    kind: &'static str,
    at: usize,
    count: usize,
    of: PhantomData<T>,
}

impl<T> Serialize for Column<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("$", self.kind)?;
        map.serialize_entry("at", &self.at)?;
        map.serialize_entry("n", &self.count)?;
        map.end()
    }
}

impl Columns {
    fn add<T, const N: usize>(&mut self, kind: &'static str, values: impl Iterator<Item = [u8; N]>) -> Column<T> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len();
        values.for_each(|value| self.bytes.extend_from_slice(&value));
        Column { kind, at, count: (self.bytes.len() - at) / N, of: PhantomData }
    }

    /// Nanoseconds and sums of them: exact up to 2^53, which is 104 days.
    pub fn f64(&mut self, values: impl IntoIterator<Item = u64>) -> Column<f64> {
        self.add("f64", values.into_iter().map(|value| (value as f64).to_le_bytes()))
    }

    /// What is drawn and not read.
    pub fn f32(&mut self, values: impl IntoIterator<Item = f64>) -> Column<f32> {
        self.add("f32", values.into_iter().map(|value| (value as f32).to_le_bytes()))
    }

    pub fn u32(&mut self, values: impl IntoIterator<Item = u32>) -> Column<u32> {
        self.add("u32", values.into_iter().map(u32::to_le_bytes))
    }

    pub fn u16(&mut self, values: impl IntoIterator<Item = u16>) -> Column<u16> {
        self.add("u16", values.into_iter().map(u16::to_le_bytes))
    }

    pub fn u8(&mut self, values: impl IntoIterator<Item = u8>) -> Column<u8> {
        self.add("u8", values.into_iter().map(|value| [value]))
    }

    /// Finishes the blob.
    pub fn finish(self, json: &impl Serialize) -> serde_json::Result<Vec<u8>> {
        let json = serde_json::to_vec(json)?;
        let mut blob = (json.len() as u32).to_le_bytes().to_vec();
        blob.extend_from_slice(&json);
        blob.resize(blob.len().next_multiple_of(8), 0);
        blob.extend_from_slice(&self.bytes);
        Ok(blob)
    }
}
