//! Which files of an hour count. Pure: from names and the newest commit, for directories and object stores alike.

use std::collections::BTreeSet;

use super::name::Name;
use super::text::{Commit, Head, Output};

/// The files of an hour that hold its rows, each row once.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Files {
    /// The commit's merged files. They exist, even if an older listing does not show them.
    pub outputs: Vec<Output>,
    /// Hosts' files that are not yet in the commit.
    pub loose: Vec<String>,
}

/// Which files count. `inputs` reads the rest of the commit; it is called only if there are hosts' files: most hours have none.
///
/// # Errors
/// Those of `inputs`.
pub fn counting<E>(
    names: &[String],
    newest: Option<&Head>,
    inputs: impl FnOnce() -> Result<Commit, E>,
) -> Result<Files, E> {
    let parts = || names.iter().filter(|name| Name::of(name) == Name::Part).cloned();
    let Some(head) = newest else { return Ok(Files { outputs: Vec::new(), loose: parts().collect() }) };
    if head.dropped {
        return Ok(Files::default());
    }
    let outputs = head.outputs.clone();
    if parts().next().is_none() {
        return Ok(Files { outputs, loose: Vec::new() });
    }
    let commit = inputs()?;
    let known: BTreeSet<&String> = commit.inputs.iter().map(|input| &input.name).collect();
    Ok(Files { outputs, loose: parts().filter(|name| !known.contains(name)).collect() })
}
