use serde::{Deserialize, Serialize};
use unstarve_kernel::{Missing, Snapshot};
use unstarve_model::clean;

use crate::case::Case;
use crate::hit::{Hit, Severity};
use crate::rule::{RULES, Rule};

/// What an audit has to say about a host: JSON with the schema id [`Audit::SCHEMA`]. Later versions only add fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The schema id.
    pub schema: String,
    /// The host.
    pub host: Host,
    /// What was found, worst first.
    pub hits: Vec<Hit>,
    /// The ids of the rules that were tried.
    pub rules: Vec<String>,
    /// What the snapshot does not hold, so that rules may have missed something.
    pub missing: Vec<Missing>,
}

/// The host in a few words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -r`.
    pub kernel: Option<String>,
    /// How many CPUs are in use.
    pub cpus: Option<usize>,
    /// How many threads were seen.
    pub threads: usize,
    /// How many of them are real-time and no kernel threads.
    pub real_time: usize,
}

impl Audit {
    /// The id of the JSON form.
    pub const SCHEMA: &str = "unstarve.check/1";

    /// Whether anything is at least this bad.
    pub fn reaches(&self, severity: Severity) -> bool {
        self.hits.iter().any(|hit| hit.severity >= severity && hit.holds != Some(crate::When::Now))
    }
}

/// Tries all rules on a host.
pub fn audit(snapshot: &Snapshot) -> Audit {
    let case = Case::new(snapshot);
    let mut hits = hits(&case);
    sort(&mut hits);
    Audit {
        schema: Audit::SCHEMA.to_owned(),
        host: Host {
            kernel: snapshot.kernel.release.as_deref().map(|text| clean(text).into_owned()),
            cpus: snapshot.cpus.online.as_ref().map(unstarve_kernel::CpuSet::len),
            threads: snapshot.tasks.len(),
            real_time: case.real_time.iter().map(|group| group.tasks.len()).sum(),
        },
        hits,
        rules: RULES.iter().map(|rule| rule.id.to_owned()).collect(),
        missing: snapshot.missing.iter().map(cleaned).collect(),
    }
}

fn hits(case: &Case<'_>) -> Vec<Hit> {
    RULES.iter().flat_map(|rule: &Rule| (rule.check)(case)).collect()
}

/// Worst first, then in the order of the rules, which a stable sort keeps.
fn sort(hits: &mut [Hit]) {
    hits.sort_by_key(|hit| std::cmp::Reverse(hit.severity));
}

fn cleaned(missing: &Missing) -> Missing {
    Missing { what: clean(&missing.what).into_owned(), why: clean(&missing.why).into_owned() }
}
