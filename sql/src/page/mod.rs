//! An overview of a fleet as one HTML file, which needs no program to be read: hosts by roles, before and after a moment, the worst episodes, and settings that
//! differ from others'.

mod markup;
mod sections;

use std::path::Path;

use anyhow::{Context, Result};
use datafusion::arrow::array::Array;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

/// What the page is to say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct About {
    /// The moment that parts before from after, in SQL's words; the middle of the data if none is given.
    pub split: Option<String>,
    /// Where the report pages of episodes are: `PREFIX/HOST/ID/report.html`.
    pub reports: Option<String>,
}

/// Writes the page; the file gets its name only when it is whole.
///
/// # Errors
/// If a question cannot be answered, or the file not be written.
pub async fn write(session: &SessionContext, about: &About, path: &Path) -> Result<()> {
    let text = sections::page(session, about).await?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(directory)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Rows as texts; an empty cell is none.
type Rows = Vec<Vec<Option<String>>>;

async fn rows(session: &SessionContext, question: &str) -> Result<Rows> {
    let batches = session.sql(question).await?.collect().await?;
    let options = FormatOptions::default();
    let mut rows = Rows::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cell = |(at, column): (usize, &ArrayFormatter<'_>)| {
                (!batch.column(at).is_null(row)).then(|| column.value(row).to_string())
            };
            rows.push(columns.iter().enumerate().map(cell).collect());
        }
    }
    Ok(rows)
}

/// A moment that a user wrote, as a literal of SQL; nothing else can be in it.
///
/// # Errors
/// If it is none.
fn moment(text: &str) -> Result<String> {
    let parsed = datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos(text);
    parsed.with_context(|| format!("{text}: expected a moment such as 2026-11-23 or 2026-11-23T07:00:00Z"))?;
    Ok(format!("timestamp '{}'", text.replace('\'', "")))
}
