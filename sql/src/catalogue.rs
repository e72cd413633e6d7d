//! Which file is of which table, and a session that knows all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::TableReference;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use unstarve_tables::{ALL, Column, Kind};

use crate::bucket::Reach;
use crate::hours::{self, Ask};
use crate::place::{Part, Wanted, find};
use crate::program::{About, note, note_the_rest};
use crate::scan::Files;
use crate::views::{self, VIEWS};
use crate::{functions, layout, plain};

/// A session with the tables at these places, and with our functions and views.
///
/// # Errors
/// If a place cannot be read, or has no tables.
pub async fn open(places: &[String], reach: Reach, memory: usize, ask: Ask) -> Result<SessionContext> {
    if places.is_empty() {
        anyhow::bail!("no tables to ask; expected a PATH or URL, for example /var/lib/unstarve/tables");
    }
    let mut wanted = Wanted { reach, ..Wanted::default() };
    for place in places {
        find(place, &mut wanted).await?;
    }
    let stores = std::mem::take(&mut wanted.stores);
    let parts = hours::count(wanted, ask).await?;
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).build_arc()?;
    let session = SessionContext::new_with_config_rt(config(), runtime);
    session.register_object_store(ObjectStoreUrl::local_filesystem().as_ref(), plain::files());
    for (url, store) in stores {
        session.register_object_store(&url, store);
    }
    register(&session, parts).await?;
    note_the_rest();
    functions::register(&session);
    views::register(&session).await?;
    Ok(session)
}

fn config() -> SessionConfig {
    SessionConfig::new()
        .with_information_schema(true)
        .set_str("datafusion.execution.time_zone", "UTC")
        // A view's own order is that of its rows, also where a question takes the first of them.
        .set_bool("datafusion.sql_parser.enable_subquery_sort_elimination", false)
}

async fn register(session: &SessionContext, parts: Vec<Part>) -> Result<()> {
    let mut tables: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for part in parts {
        tables.entry(table_of(&part)).or_default().push(part);
    }
    // A table without files is an empty one: a question about it has an answer, too.
    for schema in ALL {
        tables.entry(schema.name.to_owned()).or_default();
    }
    for (schema, hourly) in ALL.iter().filter_map(|schema| Some((schema, schema.hourly?))) {
        let parts = tables[schema.name].iter().map(Part::by_the_hour).collect();
        // In the place of another one's of this name.
        tables.remove(hourly.name);
        let files = Files::new(arrow_schema(schema), parts);
        session.register_table(TableReference::bare(hourly.name), Arc::new(files))?;
    }
    for (name, parts) in tables {
        let schema = match unstarve_tables::named(&name) {
            Some(known) => arrow_schema(known),
            None => match of_others(session, &name, &parts).await {
                Ok(schema) => schema,
                // Whoever may write a file here could take all tables away otherwise.
                Err(why) => {
                    note(About::Table, &format!("table {name:?} left out: {why:#}"));
                    continue;
                }
            },
        };
        // As it is: `"Hosts"` and `"a.b"` are names, too, of one table and not of a table in a schema.
        session.register_table(TableReference::bare(name), Arc::new(Files::new(schema, parts)))?;
    }
    Ok(())
}

/// The columns of a table that is none of ours, as its files have them.
async fn of_others(session: &SessionContext, name: &str, parts: &[Part]) -> Result<SchemaRef> {
    if VIEWS.iter().any(|view| view.name == name) {
        anyhow::bail!("a view has this name");
    }
    read_schema(session, parts).await
}

/// By `table=NAME` of its path; else by the file's name: `waits.parquet`, or `waits-monday.parquet` for a table that unstarve
/// writes.
fn table_of(part: &Part) -> String {
    layout::value(&part.meta.location, "table").unwrap_or_else(|| {
        let name = part.meta.location.filename().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or(name);
        let first = stem.split(['-', ' ']).next().unwrap_or(stem);
        let plain = |stem: &str| stem.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect::<String>();
        if unstarve_tables::named(first).is_some() { first.to_owned() } else { plain(stem).to_lowercase() }
    })
}

/// The columns that this version knows. All may be empty: an older version did not write each of them.
fn arrow_schema(table: &unstarve_tables::Schema) -> SchemaRef {
    let field = |column: &Column| {
        let described = [("unit", column.unit), ("meaning", column.meaning)];
        let described = described.into_iter().filter(|(_, text)| !text.is_empty());
        Field::new(column.name, data_type(column.kind), true)
            .with_metadata(described.map(|(key, text)| (key.to_owned(), text.to_owned())).collect())
    };
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::U64 => DataType::UInt64,
        Kind::U32 => DataType::UInt32,
        Kind::I32 => DataType::Int32,
        Kind::F64 => DataType::Float64,
        Kind::Text => DataType::Utf8View,
        Kind::Moment => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        Kind::Counts => DataType::List(Arc::new(Field::new("item", DataType::UInt64, true))),
    }
}

async fn read_schema(session: &SessionContext, parts: &[Part]) -> Result<SchemaRef> {
    let first = parts.first().context("there is no file")?;
    let store = session.runtime_env().object_store(&first.store)?;
    let same: Vec<_> = parts.iter().filter(|part| part.store == first.store).map(|part| part.meta.clone()).collect();
    Ok(ParquetFormat::default().infer_schema(&session.state(), &store, &same).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_by_its_path_of_which_table_it_is() {
        let table = |path: &str| table_of(&Part::local(path));
        assert_eq!(table("a/table=wait_rollup/date=2026-01-01/hour=00/waits.parquet"), "wait_rollup");
        assert_eq!(table("a/waits.parquet"), "waits");
        assert_eq!(table("a/waits-web1.parquet"), "waits");
        assert_eq!(table("a/My Data-1.parquet"), "my_data_1");
    }
}
