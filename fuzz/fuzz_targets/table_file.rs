//! A Parquet file of a host, as a compactor reads it: refused, or rows of the table within the limits. What the library that decodes does (it may panic; a child
//! is for that, docs/decisions/0254) is not what this looks for: only a panic of our own ends it.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_fleet::{DecodeLimits, Needed, decode};
use unstarve_tables::{ALL, Presence, Schema};

/// Rows of a fuzzed file take little, so that limits are met.
const MEMORY: usize = 1 << 20;
const ROWS: u64 = 1 << 16;
/// As merged rows are read, and as those of hosts.
const MERGED: DecodeLimits = DecodeLimits { memory: MEMORY, rows: ROWS, needed: Needed::Nothing, seconds: 120 };
const OF_HOST: DecodeLimits = DecodeLimits { needed: Needed::Placed, ..MERGED };

fuzz_target!(
    init: {
        std::panic::set_hook(Box::new(|panic| {
            let is_ours = panic.location().is_none_or(|at| !at.file().contains("/registry/") && !at.file().contains("/rustc/"));
            if is_ours {
                eprintln!("{panic}");
                std::process::abort();
            }
        }));
    },
    |bytes: &[u8]| -> Corpus {
        // The first byte says of which table.
        let Some((first, bytes)) = bytes.split_first() else { return Corpus::Reject };
        let table = ALL[usize::from(*first) % ALL.len()];
        let _ = catch_unwind(AssertUnwindSafe(|| check(bytes, table)));
        Corpus::Keep
    }
);

fn check(bytes: &[u8], table: &Schema) {
    let Ok(decoded) = decode(bytes.to_vec(), table, MERGED) else { return };
    assert_eq!(decoded.rows, decoded.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    assert!(decoded.memory <= MEMORY && decoded.rows <= ROWS);
    for batch in &decoded.batches {
        assert!(batch.num_columns() <= table.columns.len() + 16);
        for column in table.columns {
            let Some(found) = batch.schema_ref().field_with_name(column.name).ok() else { continue };
            assert_eq!(found.data_type(), &unstarve_tables::arrow_type(column.kind), "{}", column.name);
        }
    }
    // The same rows have the same sum, whoever reads them.
    let again = decode(bytes.to_vec(), table, MERGED).expect("it was read");
    assert_eq!((again.rows, again.sum, again.memory), (decoded.rows, decoded.sum, decoded.memory));
    // A host's file that is merged has a value wherever the table says that there is one.
    let Ok(placed) = decode(bytes.to_vec(), table, OF_HOST) else { return };
    assert_eq!((placed.rows, placed.sum, placed.memory), (decoded.rows, decoded.sum, decoded.memory));
    for column in table.columns.iter().filter(|column| column.presence == Presence::Always) {
        let cells = placed.batches.iter().map(|batch| batch.column_by_name(column.name).expect("it is needed"));
        assert_eq!(cells.map(|cells| cells.null_count()).sum::<usize>(), 0, "{}", column.name);
    }
}
