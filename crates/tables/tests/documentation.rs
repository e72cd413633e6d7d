//! docs/tables.md is generated from the schemas.

use std::collections::BTreeSet;

use unstarve_tables::{ALL, Column, Presence, Schema, named};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md");

const HEAD: &str = "\
# Tables

Every table that unstarve writes, with its columns. Made from the program's own schemas (`crates/tables/src/schema/`): do not edit.
Parquet and Arrow files carry `unit` and `meaning` of each column in the metadata of its field, and the table's name as
`unstarve.table`. How to ask questions of them: [sql.md](sql.md).

A type with `?` may be empty: not known, or does not apply. Columns are only ever added, at the end. Integers (`i64`) are signed and have
64 bits; a larger number is kept at the largest, 2⁶³ − 1. A `timestamp` has microseconds and is UTC; in CSV it is ns since 1970, and a list
has its numbers apart by blanks. Why these types: [0615](decisions/0615-types-that-every-engine-reads.md).

Tables of many hosts and hours lie in files below `v1/table=NAME/date=YYYY-MM-DD/hour=HH/` (UTC), as Hive lays them out; a file is whole as
soon as it has its name. Engines that read directories read them; DuckDB, for example, so:

    duckdb -c \"select host, victim_role, sum(ns)/1e9 as seconds from '/var/lib/unstarve/tables/v1/table=blame_rollup/**/*.parquet'
               where rule = 'class' group by all order by seconds desc\"
";

fn line(column: &Column) -> String {
    let mark = if column.presence == Presence::Optional { "?" } else { "" };
    format!("| `{}` | {}{mark} | {} | {} |\n", column.name, column.kind.word(), column.unit, column.meaning)
}

fn section(schema: &Schema) -> String {
    let columns: String = schema.columns.iter().map(line).collect();
    format!(
        "\n## `{}`\n\n{}. Written by {}.\n\n| column | type | unit | meaning |\n|---|---|---|---|\n{columns}",
        schema.name,
        capitalised(schema.meaning),
        schema.writer
    )
}

fn capitalised(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_uppercase() + rest
}

/// `UNSTARVE_WRITE=1 cargo test -p unstarve-tables --test integration documentation` writes the page.
#[test]
fn the_page_of_tables_is_what_the_schemas_say() {
    let expected = ALL.iter().fold(HEAD.to_owned(), |page, schema| page + &section(schema));
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        std::fs::write(PAGE, &expected).expect("docs/tables.md");
    }
    let page = std::fs::read_to_string(PAGE).expect("docs/tables.md");
    assert!(page == expected, "docs/tables.md is not what the schemas make; see this test's comment");
}

#[test]
fn names_are_plain_and_their_own() {
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    for schema in ALL {
        assert!(plain(schema.name) && named(schema.name) == Some(schema));
        let names: BTreeSet<&str> = schema.columns.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), schema.columns.len(), "{}", schema.name);
        assert!(names.iter().all(|name| plain(name)), "{names:?}");
        let without_unit: Vec<&str> = schema
            .columns
            .iter()
            .filter(|column| column.name.ends_with("_ns") && column.unit != "ns")
            .map(|c| c.name)
            .collect();
        assert!(without_unit.is_empty(), "{}: {without_unit:?}", schema.name);
    }
}
