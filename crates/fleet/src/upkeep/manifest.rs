//! Writes `manifest.parquet`: the list of merged files, for programs that do not read commits. It is made from the commits, and
//! may be older than they are.

use unstarve_tables::{Cell, MANIFEST, parquet_file};

use crate::error::FleetError;
use crate::store::{Depth, MANIFEST_NAME, State, Store};

pub(crate) fn write(store: &Store) -> Result<(), FleetError> {
    let mut problems = Vec::new();
    let mut listed = Vec::new();
    for partition in store.hours(&mut problems)? {
        let state = store.hour(&partition).and_then(|hour| State::of(&hour, Depth::Needed, &mut problems));
        // Problems of this hour were reported when it was compacted.
        let Ok(state) = state else { continue };
        listed.extend(state.files.outputs.into_iter().map(|output| (partition.clone(), output)));
    }
    let bytes = parquet_file(&MANIFEST, |rows| {
        listed.iter().try_for_each(|(partition, output)| {
            let file = partition.path().join(&output.name).display().to_string();
            rows.row(&[
                Cell::Text(&file),
                Cell::Text(&partition.table),
                Cell::number(output.min_ts),
                Cell::number(output.max_ts),
                output.hosts.into(),
                output.rows.into(),
                output.bytes.into(),
            ])
        })
    });
    let bytes =
        bytes.map_err(|error| FleetError::Rows { path: store.path().join(MANIFEST_NAME), why: error.to_string() })?;
    store.put(MANIFEST_NAME, &bytes)
}
