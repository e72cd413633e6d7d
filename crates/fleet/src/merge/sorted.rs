//! Writes sorted rows as a Parquet file. The columns of a row group are sorted and encoded on several threads.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::interleave::interleave;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::commit::Sum;
use crate::decode::{add_cells, seed_of, sum_of_rows};

/// Rows of a row group, the unit that readers can skip.
const GROUP_ROWS: usize = 1 << 17;
/// Rows that are gathered at once.
const SLICE_ROWS: usize = 1 << 15;
/// More threads would hold more rows in memory at once.
const MAX_THREADS: usize = 4;

/// A row: the index of its batch, and its index there.
pub(crate) type RowAt = (usize, usize);

/// Writes rows in this order and returns their sum. All batches have all columns.
pub(crate) fn write(file: &mut File, schema: &SchemaRef, batches: &[RecordBatch], order: &[RowAt]) -> io::Result<Sum> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("unstarve ", env!("CARGO_PKG_VERSION")).to_owned());
    let out = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties.build())).map_err(io::Error::other)?;
    let (mut out, factory) = out.into_serialized_writer().map_err(io::Error::other)?;
    let mut sum = Sum::default();
    for (at, rows) in order.chunks(GROUP_ROWS).enumerate() {
        let writers = factory.create_column_writers(at).map_err(io::Error::other)?;
        let group = Group { schema, batches, order: rows };
        let mut written = out.next_row_group().map_err(io::Error::other)?;
        let (columns, sums) = group.encode(writers)?;
        for column in columns {
            column.append_to_row_group(&mut written).map_err(io::Error::other)?;
        }
        written.close().map_err(io::Error::other)?;
        sum = sum.plus(sum_of_rows(&sums));
    }
    out.close().map_err(io::Error::other)?;
    Ok(sum)
}

/// Rows that are written together.
struct Group<'a> {
    schema: &'a SchemaRef,
    batches: &'a [RecordBatch],
    order: &'a [RowAt],
}

/// An encoded column, and what its cells add to the sum of each row.
type Encoded = (ArrowColumnChunk, Vec<u64>);

impl Group<'_> {
    /// All columns, and the sums of the rows' cells.
    fn encode(&self, writers: Vec<ArrowColumnWriter>) -> io::Result<(Vec<ArrowColumnChunk>, Vec<u64>)> {
        // Our columns have one leaf each, lists too.
        if writers.len() != self.schema.fields().len() {
            return Err(io::Error::other("a column has not one leaf"));
        }
        let writers: Vec<Mutex<Option<ArrowColumnWriter>>> =
            writers.into_iter().map(|it| Mutex::new(Some(it))).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(writer) = writers.get(at) else { return done };
                let writer = writer.lock().unwrap_or_else(PoisonError::into_inner).take();
                done.push((
                    at,
                    writer.map_or_else(|| Err(io::Error::other("a column twice")), |it| self.column(at, it)),
                ));
            }
        };
        let count = thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_THREADS);
        let mut done = thread::scope(|scope| {
            let others: Vec<_> = (1..count).map(|_| scope.spawn(work)).collect();
            let mut done = work();
            for other in others {
                done.extend(other.join().map_err(|_| io::Error::other("a thread that encodes ended"))?);
            }
            Ok::<_, io::Error>(done)
        })?;
        done.sort_by_key(|(at, _)| *at);
        let (mut columns, mut sums) = (Vec::new(), vec![0_u64; self.order.len()]);
        for (_, encoded) in done {
            let (column, cells) = encoded?;
            columns.push(column);
            sums.iter_mut().zip(cells).for_each(|(sum, cell)| *sum = sum.wrapping_add(cell));
        }
        Ok((columns, sums))
    }

    fn column(&self, at: usize, mut writer: ArrowColumnWriter) -> io::Result<Encoded> {
        let field = self.schema.field(at);
        let (seed, mut cells) = (seed_of(field.name()), vec![0_u64; self.order.len()]);
        let arrays: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(at).as_ref()).collect();
        for (rows, cells) in self.order.chunks(SLICE_ROWS).zip(cells.chunks_mut(SLICE_ROWS)) {
            let column = interleave(&arrays, rows).map_err(io::Error::other)?;
            let no_sum = || io::Error::other(format!("column `{}`: no sum of {}", field.name(), field.data_type()));
            add_cells(&column, seed, cells).ok_or_else(no_sum)?;
            for leaf in compute_leaves(field, &column).map_err(io::Error::other)? {
                writer.write(&leaf).map_err(io::Error::other)?;
            }
        }
        Ok((writer.close().map_err(io::Error::other)?, cells))
    }
}
