//! A host's Parquet file, as `fleet compact` reads it. What the library of Parquet panics over ends only a child of ours (docs/decisions/0254), and is
//! passed over here; what our own code panics over is not.
#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;
use unstarve_fleet::{Most, decode};
use unstarve_tables::{BLAME_ROLLUP, HOSTS, WAIT_ROLLUP};

static HOOK: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|what| {
            let is_ours = what.location().is_some_and(|place| place.file().contains("crates/"));
            if is_ours {
                eprintln!("{what}");
                std::process::abort();
            }
        }));
    });
    let most = Most { memory: 16 << 20 };
    for table in [&WAIT_ROLLUP, &BLAME_ROLLUP, &HOSTS] {
        let bytes = bytes.to_vec();
        if let Ok(Ok(found)) = std::panic::catch_unwind(|| decode(bytes, table, most)) {
            assert!(found.memory <= most.memory);
            assert_eq!(found.rows, found.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
        }
    }
});
