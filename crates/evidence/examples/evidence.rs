//! Prints what texts prove, a line a finding: `cargo run --example evidence FILE…`, each file for itself.

use std::fs::File;

use unstarve_evidence::{Facts, explain, scan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for name in std::env::args().skip(1) {
        let mut facts = Facts::default();
        let source = scan(File::open(&name)?, &name, 0, &mut facts)?;
        let report = explain(&facts, &[source]);
        let mut out = format!("== {name}\n   {}\n", report.trace.format);
        if report.findings.is_empty() {
            out += &format!("   {}\n", report.verdict.text);
        }
        for finding in &report.findings {
            out +=
                &format!("   {:?} {:.2} {} {}\n", finding.severity, finding.confidence, finding.id, finding.sentence);
        }
        std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes())?;
    }
    Ok(())
}
