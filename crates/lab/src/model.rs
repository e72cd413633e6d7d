//! A runner without a guest, for tests: metrics are a function of the request.

use std::collections::BTreeMap;
use std::path::PathBuf;

use unstarve_change::{Change, Target};
use unstarve_load::seed::mix;

use crate::metric::{Better, Metric};
use crate::run::{Outcome, Request, Runner};
use crate::scenario::Scenario;
use crate::trial::{ChangeMethod, Tried, TriedChange};

/// Why a model run fails.
#[derive(Debug, thiserror::Error)]
#[error("the model's guest panicked")]
pub(crate) struct ModelError;

/// Answers requests by a function from the request to `main.iops`.
pub(crate) struct Model<F> {
    pub(crate) answer: F,
    pub(crate) runs: usize,
}

impl<F: FnMut(&Request) -> Option<f64>> Model<F> {
    pub(crate) fn new(answer: F) -> Model<F> {
        Model { answer, runs: 0 }
    }
}

impl<F: FnMut(&Request) -> Option<f64>> Runner for Model<F> {
    type Error = ModelError;

    fn run(&mut self, request: &Request) -> Result<Outcome, ModelError> {
        self.runs += 1;
        let iops = (self.answer)(request).ok_or(ModelError)?;
        let metric =
            |name: &str, value, better| Metric { name: name.to_owned(), value, unit: "1/s".to_owned(), better };
        Ok(Outcome {
            kernel_release: request.kernel.clone(),
            metrics: vec![
                metric("main.iops", iops, Better::Higher),
                metric(
                    "main.cost",
                    100.0 + if request.remedy.is_some() { 50.0 } else { 0.0 } + iops / 1e6,
                    Better::Lower,
                ),
            ],
            directory: PathBuf::from("nowhere"),
            tried: request.trial.as_ref().map(|changes| tried(changes)),
            trace_digest: format!("{iops}"),
            image_digest: "5678".to_owned(),
            qemu: "10.0.0".to_owned(),
            wall_seconds: 0.0,
            request: request.clone(),
        })
    }
}

/// All changes succeed except those to `/absent`.
fn tried(changes: &[Change]) -> Tried {
    let how = |change: &Change| match &change.target {
        Target::File { path } if path == "/absent" => ChangeMethod::Refused("/absent is not here".to_owned()),
        _ => ChangeMethod::AsNamed,
    };
    let tried = |change: &Change| TriedChange { change: change.clone(), how: how(change), after_ms: Some(0) };
    Tried { changes: changes.iter().map(tried).collect(), not_taken_back: Vec::new() }
}

/// A number from −0.5 to 0.5 that depends on everything in the request.
pub(crate) fn noise(request: &Request) -> f64 {
    let text = format!("{}{}{:?}{:?}{}", request.kernel, request.fault, request.remedy, request.knobs, request.seed);
    let hash = text.bytes().fold(0, |state, byte| mix(state ^ u64::from(byte)));
    (hash >> 11) as f64 / (1u64 << 53) as f64 - 0.5
}

/// Whether the request sets this knob to this value.
pub(crate) fn sets(request: &Request, name: &str, value: &str) -> bool {
    let knobs: BTreeMap<&str, &str> = request.knobs.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    knobs.get(name) == Some(&value)
}

/// A scenario with one remedy, `cure`.
pub(crate) fn scenario() -> Scenario {
    let text = r#"
name = "model"
title = "x"
source = "x"
cpus = 1
seconds = 1.0
kernels = [">=5.10"]
[[load]]
name = "main"
argv = ["load"]
main = true
[[remedy]]
id = "cure"
own = true
title = "x"
[expect]
finding = ["rt-starvation", "weight-starvation"]
victim = { kind = "kworker", work = "dio_complete" }
culprit = "hog"
metrics = ["main.iops"]
"#;
    Scenario::parse("model.toml", text).expect("a scenario")
}
