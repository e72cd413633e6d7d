//! What DuckDB reads before a statement: tables over files, functions, views, and that nothing else may be read.

use std::collections::BTreeSet;
use std::path::Path;

use unstarve_tables::{ALL, Column, Kind, Schema};

use super::place::{Found, TableFile};
use super::views::{VIEWS, WAIT_STEPS, functions, wait_steps};

/// A text of SQL.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Limits of a session.
pub struct Limits<'a> {
    /// Bytes for sorting, grouping and joining.
    pub memory: u64,
    /// Where what needs more goes.
    pub spill: &'a Path,
    /// What DuckDB itself writes rows to.
    pub writes: Option<&'a str>,
}

/// The names of all tables and views.
pub fn names() -> Vec<&'static str> {
    let hourly = ALL.iter().filter_map(|schema| Some(schema.hourly?.name));
    let tables = ALL.iter().map(|schema| schema.name).chain(hourly);
    tables.chain(VIEWS.iter().map(|view| view.name)).collect()
}

/// Everything that is defined.
pub fn whole(found: &Found, limits: &Limits<'_>) -> String {
    let every = |_: &str| true;
    text(found, limits, &every, None)
}

/// What a statement uses: to define a table, DuckDB opens its files.
pub fn of(found: &Found, limits: &Limits<'_>, statement: &str) -> String {
    text(found, limits, &uses(statement), Some(statement))
}

/// Whether a statement uses a table's files: as the table, or as its rows by the hour.
pub fn uses_files(statement: &str) -> impl Fn(&str) -> bool {
    let uses = uses(statement);
    move |table: &str| {
        let hourly = unstarve_tables::named(table).and_then(|schema| schema.hourly);
        uses(table) || hourly.is_some_and(|hourly| uses(hourly.name))
    }
}

/// Whether a statement uses a table or view.
fn uses(statement: &str) -> impl Fn(&str) -> bool {
    let used = used_by(statement);
    let asks_for_names = ["show", "describe", "information_schema", "duckdb_views", "duckdb_tables", "duckdb_columns"];
    let asks_for_names =
        asks_for_names.iter().any(|word| words(statement).any(|other| other.eq_ignore_ascii_case(word)));
    move |name: &str| asks_for_names || used.contains(name)
}

/// The words of a statement, and of the definitions of the views among them.
fn used_by(statement: &str) -> BTreeSet<String> {
    let lower = |text: &str| words(text).map(str::to_ascii_lowercase).collect::<Vec<_>>();
    let mut used = BTreeSet::from_iter(lower(statement));
    // Those that are made of others come after them.
    for view in VIEWS.iter().rev() {
        if used.contains(view.name) {
            used.extend(lower(view.query));
        }
    }
    if used.contains(WAIT_STEPS) {
        used.extend(lower(wait_steps()));
    }
    used
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn text(found: &Found, limits: &Limits<'_>, uses: &dyn Fn(&str) -> bool, statement: Option<&str>) -> String {
    let mut text = format!(
        "set timezone = 'UTC';\nset memory_limit = '{}B';\nset temp_directory = {};\n",
        limits.memory,
        quoted(&limits.spill.display().to_string())
    );
    text += &found.bucket.as_ref().map(|bucket| bucket.statements()).unwrap_or_default();
    for schema in ALL {
        let files: Vec<&TableFile> = found.of(schema.name).collect();
        if uses(schema.name) {
            text += &table(schema.name, schema, files.iter().map(|file| file.path.as_str()));
        }
        if let Some(hourly) = schema.hourly.filter(|hourly| uses(hourly.name)) {
            let by_the_hour = files.iter().map(|file| file.hourly.as_deref().unwrap_or(&file.path));
            text += &table(hourly.name, schema, by_the_hour);
        }
    }
    text += &others(found);
    text += functions();
    if uses(WAIT_STEPS) {
        text += wait_steps();
    }
    for view in VIEWS.iter().filter(|view| uses(view.name)) {
        text += &format!("create view {} as\n{};\n", name(view.name), view.query.trim().trim_end_matches(';'));
    }
    text += &statement.map(only_asks).unwrap_or_default();
    text + &closed(found, limits)
}

/// A table of ours: the columns that this version knows, empty where an older one did not write them. Others, of a newer version or of
/// anybody, would be in the way of the names that views give.
fn table<'a>(table: &str, schema: &Schema, files: impl Iterator<Item = &'a str>) -> String {
    let typed = |column: &Column| format!("cast(null as {}) as {}", word(column.kind), name(column.name));
    let none: Vec<String> = schema.columns.iter().map(typed).collect();
    let none = format!("select {} where false", none.join(", "));
    let files: Vec<String> = files.map(one_file).collect();
    if files.is_empty() {
        return format!("create view {} as {none};\n", name(table));
    }
    let cast = |column: &Column| {
        let called = name(column.name);
        format!("cast({called} as {}) as {called}", word(column.kind))
    };
    let columns: Vec<String> = schema.columns.iter().map(cast).collect();
    format!(
        "create view {} as select {} from ({none} union all by name select * from {});\n",
        name(table),
        columns.join(", "),
        read(&files)
    )
}

/// A file by its name, which DuckDB would take for a pattern: hosts choose names.
fn one_file(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '*' | '?' | '[' => escaped.extend(['[', c, ']']),
            c => escaped.push(c),
        }
    }
    quoted(&escaped)
}

fn read(files: &[String]) -> String {
    format!("read_parquet([{}], union_by_name = true, hive_partitioning = false)", files.join(", "))
}

/// Files that are of no table of ours are tables by their names.
fn others(found: &Found) -> String {
    let mut tables: Vec<&str> = found.tables().filter(|table| unstarve_tables::named(table).is_none()).collect();
    tables.sort_unstable();
    tables.dedup();
    let is_view = |table: &str| VIEWS.iter().any(|view| view.name == table);
    let define = |table: &&str| {
        let files: Vec<String> = found.of(table).map(|file| one_file(&file.path)).collect();
        format!("create view {} as select * from {};\n", name(table), read(&files))
    };
    tables.iter().filter(|table| !is_view(table)).map(define).collect()
}

/// Files are somebody's record: only what DuckDB can write down as a select is asked, so that whatever it does not take for one is
/// refused.
fn only_asks(statement: &str) -> String {
    let json = format!("json_serialize_sql({})", quoted(without_explain(statement)));
    format!(
        "create temp table asked as select case when {json}->>'error' = 'true' then error(case when {json}->>'error_type' = \
         'parser' then {json}->>'error_message' else 'files are only read: expected a select' end) end as checked;\n\
         drop table asked;\n"
    )
}

/// What is explained: DuckDB runs what it analyses, so that is judged, too. No comment is looked for and no other option: what is left must
/// be a select as it stands, by DuckDB's own reading.
fn without_explain(statement: &str) -> &str {
    let word = |text: &'_ str, word: &str| -> Option<usize> {
        let first = text.get(..word.len())?;
        let is_word = first.eq_ignore_ascii_case(word) && text[word.len()..].starts_with([' ', '\n', '\t']);
        is_word.then(|| text.len() - text[word.len()..].trim_start_matches([' ', '\n', '\t']).len())
    };
    let bare = statement.trim_start_matches([' ', '\n', '\t']);
    let Some(at) = word(bare, "explain") else { return statement };
    let rest = &bare[at..];
    word(rest, "analyze").map_or(rest, |at| &rest[at..])
}

/// Nothing but the places that were asked for is read, and no setting changes any more.
fn closed(found: &Found, limits: &Limits<'_>) -> String {
    let roots: Vec<String> = found.roots.iter().map(|root| quoted(root)).collect();
    let (directories, files): (Vec<String>, Vec<String>) = roots.into_iter().partition(|root| root.ends_with("/'"));
    let files: Vec<String> = files.into_iter().chain(limits.writes.map(quoted)).collect();
    format!(
        "set allowed_directories = [{}];\nset allowed_paths = [{}];\nset enable_external_access = false;\n\
         set lock_configuration = true;\n",
        directories.join(", "),
        files.join(", ")
    )
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::I64 => "bigint",
        Kind::F64 => "double",
        Kind::Text => "varchar",
        Kind::Moment => "timestamptz",
        Kind::Counts => "bigint[]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_explained_is_judged() {
        for (statement, judged) in [
            ("select 1", "select 1"),
            ("explain select 1", "select 1"),
            (" EXPLAIN  analyze\tcopy x to 'y'", "copy x to 'y'"),
            ("explain\nanalyze\n copy x to 'y'", "copy x to 'y'"),
            // What DuckDB does not take for a select as it stands is refused.
            ("explain (analyze) copy x to 'y'", "(analyze) copy x to 'y'"),
            ("explain/**/analyze copy x to 'y'", "explain/**/analyze copy x to 'y'"),
            ("-- a\nexplain copy x to 'y'", "-- a\nexplain copy x to 'y'"),
            ("explain explain copy x to 'y'", "explain copy x to 'y'"),
            ("explainer", "explainer"),
        ] {
            assert_eq!(without_explain(statement), judged, "{statement}");
        }
    }

    #[test]
    fn a_file_name_is_no_pattern() {
        assert_eq!(one_file("a/*-[b]?.parquet"), "'a/[*]-[[]b][?].parquet'");
        assert_eq!(one_file("it's.parquet"), "'it''s.parquet'");
    }

    #[test]
    fn a_view_brings_what_it_is_made_of() {
        let used = used_by("select * from worst_hosts");
        assert!(
            ["kernel_thread_waits", "watched", "blame_hourly", "wait_rollup"].iter().all(|name| used.contains(*name))
        );
        assert!(!used.contains("episodes"));
    }
}
