//! bench/results/proofs.md is what the table of proofs says.

use std::collections::BTreeMap;
use std::fmt::Write;

use unstarve_diagnose::proofs::{Answer, Proof, shipped};

fn path(name: &str) -> String {
    format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))
}

/// `UNSTARVE_WRITE=1 cargo test -p unstarve-diagnose --test integration proofs` writes the page.
#[test]
fn the_page_of_proofs_is_what_the_table_says() {
    let expected = page(shipped());
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        std::fs::write(path("bench/results/proofs.md"), &expected).expect("bench/results/proofs.md");
    }
    let page = std::fs::read_to_string(path("bench/results/proofs.md")).expect("bench/results/proofs.md");
    assert!(page == expected, "bench/results/proofs.md is not what the table makes; see this test's comment");
}

const HEAD: &str = "\
# What remedies were proved to do

`unstarve lab prove SCENARIO --all` runs a scenario's fault in a guest with a real kernel, explains the recording, and tries each remedy
of the report: its changes are made in a second guest, by the code that makes them on a host, as soon as each target is there. Three
pairs of seeds unless said otherwise. *Helped*: the scenario's main metric got better by 3 % or more, with the 95 % interval on one
side of zero, and by more than twice what it differs between seeds. *No difference*: the whole interval lies within 3 %. *Not shown*: too much spread
for either. `explain` shows these lines beside a remedy (`proved`), puts what helped on the recorded kernel's series first, and does not
offer there what made no difference or did harm in each case tried ([decision 0117](../../docs/decisions/0117-proofs-are-data.md)). A line is about
one kind of victim, as `victim.kind` of the report: what does nothing for an I/O worker may help a ksoftirqd
([decision 0140](../../docs/decisions/0140-a-proof-is-about-a-kind-of-victim.md)).

A guest has no caches and no memory to wait for: who waits for whom carries over to a machine, rates do not ([lab.md](../../docs/lab.md)). A
remedy is proved in these cases and in no other.

Made from `crates/diagnose/data/proofs.tsv`, which `make proofs` makes anew: do not edit.
";

fn page(proofs: &[Proof]) -> String {
    let mut groups: BTreeMap<&str, Vec<&Proof>> = BTreeMap::new();
    for proof in proofs {
        groups.entry(&proof.scenario).or_default().push(proof);
    }
    let mut page = HEAD.to_owned();
    for (scenario, proofs) in groups {
        let _ = write!(
            page,
            "\n## `{scenario}`\n\n| kernel | finding | victim | remedy | answer | main metric | effect | 95 % interval | worse | note |\n\
             |---|---|---|---|---|---|---|---|---|---|\n"
        );
        for proof in proofs {
            let _ = writeln!(page, "{}", row(proof));
        }
    }
    page + &provenance(proofs)
}

fn row(proof: &Proof) -> String {
    let answer = match proof.answer {
        Answer::Helped => "**helped**",
        Answer::Harmed => "did harm",
        Answer::NoDifference => "no difference",
        Answer::NotShown => "not shown",
        Answer::NotMade => "not made",
    };
    let shown = |value: Option<f64>| value.map(|value| format!("{:+.1} %", value * 100.0)).unwrap_or_default();
    let interval = match (proof.low, proof.high) {
        (Some(_), Some(_)) => format!("{} to {}", shown(proof.low), shown(proof.high)),
        _ => String::new(),
    };
    let seeds = if proof.seeds == 3 { String::new() } else { format!("{} pairs", proof.seeds) };
    let note = [seeds, proof.note.clone()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
    format!(
        "| {} | `{}` | {} | `{}` | {answer} | {} | {} | {interval} | {} | {note} |",
        proof.kernel,
        proof.finding,
        proof.victim,
        proof.remedy,
        proof.metric,
        if proof.answer == Answer::NotMade { String::new() } else { shown(proof.effect) },
        proof.costs.join(", "),
    )
}

fn provenance(proofs: &[Proof]) -> String {
    let mut lines: Vec<String> = proofs
        .iter()
        .map(|proof| format!("| {} | {} | {} | {} |\n", proof.kernel, proof.package, proof.unstarve, proof.date))
        .collect();
    lines.sort();
    lines.dedup();
    format!("\n## Made with\n\n| kernel | package | unstarve | on |\n|---|---|---|---|\n{}", lines.concat())
}
