//! Programs from recordings, and what is predicted from them.

mod extraction;
mod prediction;

use std::path::Path;

use unstarve_diagnose::report::Report;
use unstarve_diagnose::{Driven, Options, Proofs, explain_beside};
use unstarve_sim::{Extracted, Extractor, NoProgram};

/// A recording of `testdata/truth` with its report and its program.
struct Recorded {
    report: Report,
    driven: Driven,
    extracted: Extracted,
}

fn recorded(name: &str) -> Recorded {
    recorded_by(Extractor::default(), name).expect("a program")
}

fn recorded_by(mut extractor: Extractor, name: &str) -> Result<Recorded, NoProgram> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/truth").join(format!("{name}.dat.zst"));
    let source = unstarve_readers::open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
    let options = Options { proofs: Proofs::PutAside, ..Options::default() };
    let explained = explain_beside(source, &options, &mut extractor, |_| {}).expect("a recording");
    let (world, snapshot) = (explained.driven.timeline.world(), explained.driven.snapshot.as_deref());
    let extracted = extractor.finish(world, snapshot)?;
    Ok(Recorded { report: explained.report, driven: explained.driven, extracted })
}
