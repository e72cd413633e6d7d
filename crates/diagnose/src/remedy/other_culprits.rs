use rustc_hash::FxHashSet;
use unstarve_change::{Selector, Target};
use unstarve_model::Tid;

use crate::case::Case;
use crate::report::{Finding, Remedy};

/// Takes back what one finding advises for a thread that another finding names as culprit: raised for the sake of the one, it
/// would do more of what the other complains of. What a finding advises against its own culprits stays.
pub(crate) fn spare_no_other_culprit(case: &Case<'_>, findings: &mut [Finding]) {
    let own: Vec<FxHashSet<u32>> = findings.iter().map(culprits).collect();
    let accused: FxHashSet<u32> = own.iter().flatten().copied().collect();
    for (finding, own) in findings.iter_mut().zip(&own) {
        finding.remedies.retain(|remedy| !touches_another(case, remedy, &accused, own));
    }
}

fn culprits(finding: &Finding) -> FxHashSet<u32> {
    finding.culprits.iter().flat_map(|culprit| culprit.tids.iter().copied()).collect()
}

fn touches_another(case: &Case<'_>, remedy: &Remedy, accused: &FxHashSet<u32>, own: &FxHashSet<u32>) -> bool {
    remedy.changes.iter().any(|change| match &change.target {
        Target::Thread(thread) => accused.contains(&thread.tid.0) && !own.contains(&thread.tid.0),
        Target::Threads(Selector::Process(process)) => {
            accused.iter().any(|tid| !own.contains(tid) && case.process_of(Tid(*tid)) == Some(process.tid))
        }
        _ => false,
    })
}
