//! Values that a shell completes, although others are taken, too: ids of findings and remedies, topics, forms.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use unstarve_diagnose::{FINDINGS, REMEDIES};
use unstarve_term::Topic;

/// Takes any text; completion offers these.
#[derive(Clone)]
pub struct Suggested(fn() -> Vec<&'static str>);

/// Ids of findings.
pub const FINDING_IDS: Suggested = Suggested(|| FINDINGS.iter().map(|kind| kind.id).collect());
/// Ids of remedies.
pub const REMEDY_IDS: Suggested = Suggested(|| REMEDIES.iter().map(|kind| kind.id).collect());
/// What `unstarve help` knows beside commands.
pub const TOPICS: Suggested = Suggested(|| {
    let mut ids: Vec<&str> = Topic::all().map(Topic::id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
});

impl TypedValueParser for Suggested {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}
