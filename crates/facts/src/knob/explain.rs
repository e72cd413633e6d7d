//! Explains a setting, feature, kernel thread, workqueue or bug from the tables.

use super::feature::{self, FeatureState, feature_at};
use super::names::{called, queue_of_worker};
use super::{Form, Knob};
use crate::{BUGS, FEATURES, KTHREADS, REGRESSIONS, Row, TUNABLES, Version, WORKQUEUES};
use unstarve_sched::KernelThread;

/// An explanation: a title, a sentence, and sections of lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The subject: `sched_rt_runtime_us, a setting`.
    pub title: String,
    /// What it is or does.
    pub meaning: String,
    /// Heading and lines.
    pub sections: Vec<(&'static str, Vec<String>)>,
}

/// Everything the tables say about a setting, a feature, a kind of kernel thread, a workqueue, a bug or a reported
/// regression. Rows known only from memory are omitted.
pub fn explain(name: &str) -> Option<Explanation> {
    let name = name.trim();
    let knob = || Knob::named(name).map(about_knob);
    let bare = name.strip_prefix("NO_").unwrap_or(name);
    let feature =
        || feature::rows().find(|row| names(*row).any(|known| known.eq_ignore_ascii_case(bare))).map(about_feature);
    let thread = || about_a_thread(name);
    let queue = || called(WORKQUEUES, name).map(about_workqueue);
    let bug = || stated(BUGS.row(name)).map(about_bug);
    let regression = || stated(REGRESSIONS.row(&name.to_ascii_uppercase())).map(about_regression);
    feature().or_else(knob).or_else(thread).or_else(queue).or_else(bug).or_else(regression)
}

fn stated(row: Option<Row>) -> Option<Row> {
    row.filter(|row| row.is_stated())
}

/// A kernel thread named as in the tables or in /proc; for a worker with its current or last workqueue.
fn about_a_thread(name: &str) -> Option<Explanation> {
    let row = stated(thread_class(name).and_then(|class| KTHREADS.row(class))).or_else(|| called(KTHREADS, name))?;
    let mut explanation = about_thread(row);
    if let Some(queue) = queue_of_worker(name) {
        explanation.sections.push(("Works for", vec![queue.to_owned()]));
    }
    if let Some(queue) = called(WORKQUEUES, queue_of_worker(name).unwrap_or(name)) {
        let about = about_workqueue(queue);
        explanation.sections.push(("That workqueue", vec![about.title, about.meaning]));
        explanation.sections.extend(about.sections);
    }
    Some(explanation)
}

/// All names in a feature's row.
fn names(row: Row) -> impl Iterator<Item = &'static str> {
    row.name()
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

fn thread_class(comm: &str) -> Option<&'static str> {
    Some(match KernelThread::of(&comm.into())? {
        KernelThread::BoundWorker { high: true, .. } => "highpri-worker",
        KernelThread::BoundWorker { .. } => "worker",
        KernelThread::UnboundWorker => "unbound-worker",
        KernelThread::Rescuer => "rescuer",
        KernelThread::Ksoftirqd { .. } => "ksoftirqd",
        KernelThread::Migration => "migration",
        KernelThread::Rcu => "rcu",
        KernelThread::Nfsd => "nfsd",
        KernelThread::IrqThread => "irq-thread",
        KernelThread::Ktimers => "ktimers",
        KernelThread::Storage => return None,
    })
}

/// A section with a line for each column that is not empty; a dash in a table means unknown.
fn columns(row: Row, wanted: &[(&'static str, &str)]) -> Vec<(&'static str, Vec<String>)> {
    let text = |column: &str| row.get(column).filter(|text| *text != "-");
    wanted.iter().filter_map(|(heading, column)| Some((*heading, vec![text(column)?.to_owned()]))).collect()
}

fn about_knob(knob: Knob) -> Explanation {
    let all: Vec<Form> = knob.rows().collect();
    let meaning = all.last().map(|form| form.meaning()).unwrap_or_default();
    let mut sections = vec![("Where, by kernel", all.iter().map(|form| place(*form)).collect())];
    let earlier: Vec<String> = all
        .iter()
        .filter(|form| form.meaning() != meaning)
        .map(|form| format!("{}: {}", form.versions(), form.meaning()))
        .collect();
    if !earlier.is_empty() {
        sections.push(("What it meant elsewhere", earlier));
    }
    if let Some(next) = all.iter().find_map(|form| form.successor()) {
        sections.push(("Nearest thing where it is gone", vec![next.name().to_owned()]));
    }
    let notes: Vec<Row> = TUNABLES.rows().filter(|row| row.is_stated() && is_about(*row, knob)).collect();
    let said =
        |column: &str| -> Vec<String> { notes.iter().filter_map(|row| row.get(column)).map(str::to_owned).collect() };
    sections.push(("Who sets it", said("set_by_distro_or_tool")));
    sections.push(("Before an upgrade", said("note_for_upgrade_diff")));
    sections.push(("Reported regressions", regressions_about(knob.name())));
    let mut sources: Vec<String> = all.iter().map(|form| form.source().to_owned()).collect();
    sources.dedup();
    sections.push(("Source", sources));
    sections.retain(|(_, lines)| !lines.is_empty());
    Explanation { title: format!("{}, a setting", knob.name()), meaning: meaning.to_owned(), sections }
}

fn place(form: Form) -> String {
    let vendor = if form.vendor().is_empty() { String::new() } else { format!(" ({})", form.vendor()) };
    let default = match (form.base_default(), form.is_scaled()) {
        (None, _) => String::new(),
        (Some(base), false) => format!(", {base} {} by default", form.unit()),
        (Some(base), true) => format!(
            ", {base} {} × (1 + log2 of CPUs, at most 8) by default: {} with 8",
            form.unit(),
            form.default_with(8).unwrap_or_default()
        ),
    };
    let levels: Vec<String> = form.stable_from().map(|level| level.to_string()).collect();
    let levels = if levels.is_empty() { levels.concat() } else { format!(", and from {} on", levels.join(" and ")) };
    let option = form.config().map(|option| format!(", CONFIG_{option}")).unwrap_or_default();
    format!("{}{levels}{vendor}: {}{}{option}", form.versions(), form.path(), default.replace("  ", " "))
}

fn is_about(row: Row, knob: Knob) -> bool {
    let words = row.name().split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'));
    words.into_iter().any(|word| word == knob.name())
        || row.name().strip_suffix(" features file").is_some_and(|_| knob.name() == "sched_features")
        || row.name().starts_with("fair_server") && knob.name().starts_with("fair_server")
        || row.name().starts_with("preempt model (run time)") && knob.name() == "preempt"
}

fn regressions_about(name: &str) -> Vec<String> {
    let bare = name.strip_prefix("sched_").unwrap_or(name);
    let about = |row: &Row| {
        let cells = ["change (commit)", "symptom", "fix_or_knob (version)", "how_a_tool_can_see_it"];
        cells.iter().filter_map(|column| row.get(column)).any(|text| has_word(text, bare) || has_word(text, name))
    };
    REGRESSIONS
        .rows()
        .filter(|row| row.is_stated() && about(row))
        .map(|row| format!("{}: {}", row.name(), row.get("symptom").unwrap_or_default()))
        .collect()
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|part| part.strip_prefix("NO_").unwrap_or(part) == word)
}

fn about_feature(row: Row) -> Explanation {
    let states = ["5.10", "6.1", "6.12", "7.2"].map(|series| {
        let state = match series.parse::<Version>().map(|version| feature_at(row, version)) {
            Ok(FeatureState::Unknown(_)) => "by its stable level",
            Ok(state) => state.word(),
            Err(_) => "",
        };
        format!("{series} {state}")
    });
    let mut sections = vec![("By default", vec![states.join(", ")]), ("From which kernel on", feature::history(row))];
    sections.extend(columns(row, &[("What changed", "changes")]));
    sections.push(("Reported regressions", regressions_about(feature::name(row))));
    sections.extend(columns(row, &[("Source", "source")]));
    sections.retain(|(_, lines)| !lines.is_empty());
    Explanation {
        title: format!("{}, a feature bit of the scheduler", row.name()),
        meaning: row.get("what_it_does").unwrap_or_default().to_owned(),
        sections,
    }
}

fn about_thread(row: Row) -> Explanation {
    let wanted = [
        ("Names", "names"),
        ("Policy", "policy"),
        ("Bound to", "bound"),
        ("Affinity is fixed", "affinity_fixed"),
        ("Since", "since"),
        ("Source", "source"),
    ];
    Explanation {
        title: format!("{}, a kind of kernel thread", row.name()),
        meaning: row.get("note").unwrap_or_default().to_owned(),
        sections: columns(row, &wanted),
    }
}

fn about_workqueue(row: Row) -> Explanation {
    let wanted = [
        ("Names", "names"),
        ("Workers are bound to", "bound"),
        ("Their nice", "nice"),
        ("File systems", "file_systems"),
        ("When", "when"),
        ("Source", "source"),
    ];
    Explanation {
        title: format!("{}, a workqueue", row.name()),
        meaning: row.get("user").unwrap_or_default().to_owned(),
        sections: columns(row, &wanted),
    }
}

fn about_bug(row: Row) -> Explanation {
    let wanted = [
        ("What people see", "symptom"),
        ("Cause", "cause"),
        ("First series", "since"),
        ("Last series", "until"),
        ("Also in stable series from", "also_from"),
        ("Fixed in", "fixed_in"),
        ("Not established for (from the level named on)", "unclear_in"),
        ("What helps", "fix"),
        ("Source", "source"),
    ];
    Explanation {
        title: format!("{}, a bug", row.name()),
        meaning: row.get("says").unwrap_or_default().to_owned(),
        sections: columns(row, &wanted),
    }
}

fn about_regression(row: Row) -> Explanation {
    let wanted = [
        ("Reported as good", "good_version"),
        ("Reported as bad", "bad_version"),
        ("Change", "change (commit)"),
        ("Load", "workload"),
        ("Effect", "effect_size"),
        ("What helps", "fix_or_knob (version)"),
        ("How to see it", "how_a_tool_can_see_it"),
        ("Source", "source"),
    ];
    Explanation {
        title: format!("{}, a reported regression ({})", row.name(), row.get("class").unwrap_or_default()),
        meaning: row.get("symptom").unwrap_or_default().to_owned(),
        sections: row.kernels().map(|text| ("Kernels", vec![text])).into_iter().chain(columns(row, &wanted)).collect(),
    }
}

/// The names that [`explain`] knows, for suggestions.
pub fn explainable() -> Vec<&'static str> {
    let knobs = Knob::all().into_iter().map(Knob::name);
    let rows = [FEATURES, KTHREADS, WORKQUEUES, BUGS, REGRESSIONS].into_iter().flat_map(|table| table.rows());
    knobs.chain(rows.filter(|row| row.is_stated()).map(Row::name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stated_row_is_found_by_its_name_and_has_a_source() {
        for name in explainable() {
            let first = name.split([' ', '(']).next().unwrap_or(name);
            let explanation = explain(first).unwrap_or_else(|| panic!("{name}"));
            assert!(!explanation.meaning.is_empty(), "{name}");
            assert!(
                explanation.sections.iter().any(|(heading, lines)| *heading == "Source" && !lines.is_empty()),
                "{name}"
            );
        }
        assert_eq!(explain("OWNER_SPIN"), None, "known from memory alone");
        assert_eq!(explain("no such thing"), None);
    }

    #[test]
    fn stable_levels_that_took_a_default_over_are_named() {
        let explanation = explain("base_slice_ns").expect("a setting");
        let (_, lines) =
            explanation.sections.iter().find(|(heading, _)| *heading == "Where, by kernel").expect("there");
        assert!(
            lines[1].starts_with("6.15 and later, and from 6.12.31 and 6.14.9 on: ") && lines[1].contains("700000"),
            "{lines:?}"
        );
        assert!(lines[0].starts_with("6.6 to 6.14: "), "{lines:?}");
    }

    #[test]
    fn a_worker_is_known_with_its_workqueue() {
        let sections = |name: &str| explain(name).map(|explanation| explanation.sections).unwrap_or_default();
        let works_for = |name: &str| {
            let found = sections(name).into_iter().find(|(heading, _)| *heading == "That workqueue");
            found.map(|(_, lines)| lines[0].clone()).unwrap_or_default()
        };
        assert_eq!(works_for("kworker/0:1-dio/nvme0n1"), "dio, a workqueue");
        assert_eq!(works_for("kworker/3:0H+kblockd"), "kblockd, a workqueue");
        assert_eq!(works_for("kworker/R-xfs-conv/sda1"), "xfs-conv, a workqueue");
        assert_eq!(works_for("loop0"), "loop, a workqueue");
        assert_eq!(works_for("kworker/1:2-events"), "");
        assert!(sections("kworker/1:2-events").contains(&("Works for", vec!["events".to_owned()])));
    }

    #[test]
    fn a_thread_a_feature_and_a_setting_are_known_by_what_people_see() {
        let title = |name: &str| explain(name).map(|explanation| explanation.title).unwrap_or_default();
        assert_eq!(title("kworker/3:1H"), "highpri-worker, a kind of kernel thread");
        assert_eq!(title("ksoftirqd/0"), "ksoftirqd, a kind of kernel thread");
        assert_eq!(title("dio/nvme0n1"), "dio, a workqueue");
        assert_eq!(title("NO_RUN_TO_PARITY"), "RUN_TO_PARITY, a feature bit of the scheduler");
        assert_eq!(title("/proc/sys/kernel/sched_latency_ns"), "sched_latency_ns, a setting");
        assert_eq!(title("r01"), "R01, a reported regression (knob lost by upgrade)");
        assert_eq!(title("reweight-lag"), "reweight-lag, a bug");
        assert_eq!(title("kswapd0"), "kswapd, a kind of kernel thread");
        assert_eq!(title("jbd2/nvme0n1p2-8"), "jbd2, a kind of kernel thread");
        assert_eq!(title("irq/24-nvme0q1"), "irq-thread, a kind of kernel thread");
        assert_eq!(title("rcuog/3"), "rcu, a kind of kernel thread");
        assert_eq!(title("napi/eth0-8193"), "napi-thread, a kind of kernel thread");
        assert_eq!(title("kcryptd_io/253:0"), "kcryptd_io, a workqueue");
        assert_eq!(title("kcryptd-253:0-1"), "kcryptd, a workqueue");
        assert_eq!(title("btrfs-endio-meta"), "btrfs-endio, a workqueue");
        assert_eq!(title("wg-crypt-wg0"), "wg-crypt, a workqueue");
        assert_eq!(title("xprtiod"), "rpciod, a workqueue");
        assert_eq!(title("loop7"), "loop-thread, a kind of kernel thread");
    }
}
