//! One run: its request and its outcome.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use unstarve_change::Change;
use unstarve_diagnose::RemedyKind;
use unstarve_load::seed::mix;

use crate::metric::Metric;
use crate::scenario::{Action, Load, Scenario, Step, When, kernel_suits};
use crate::trial::Tried;

/// One guest to boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// What happens in the guest.
    pub scenario: Scenario,
    /// The kernel's name in the store (`6.1`, `6.12`, or a user's own).
    pub kernel: String,
    /// Whether the scenario's fault is present; without it the scenario is its own healthy twin.
    pub fault: bool,
    /// The scenario's remedy to apply, by id.
    pub remedy: Option<String>,
    /// Changes made by the executor during the run, each as soon as its target exists; `explain`'s remedies are such
    /// changes. An empty list changes nothing, but gives the same guest up to the moment of a change. Absent: the guest
    /// does not wait for that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Vec<Change>>,
    /// Knobs to set before the loads start: `sched_feature.WAKEUP_PREEMPTION=off`, `sysctl.kernel.sched_rr_timeslice_ms=10`,
    /// `debugfs.sched/base_slice_ns=1000000`, `cmdline.preempt=full`.
    pub knobs: Vec<(String, String)>,
    /// Shifts the phases of the loads against each other and seeds their random numbers. The same request gives the same
    /// bytes.
    pub seed: u64,
    /// Whether requests to block devices are recorded, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub io: bool,
    /// Whether all that settles guesses of a prediction is recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub predictable: bool,
}

impl Request {
    /// The scenario with its fault, without a remedy or further knobs.
    pub fn faulty(scenario: Scenario, kernel: impl Into<String>, seed: u64) -> Request {
        Request {
            scenario,
            kernel: kernel.into(),
            fault: true,
            remedy: None,
            trial: None,
            knobs: Vec::new(),
            seed,
            io: false,
            predictable: false,
        }
    }

    /// Whether something with this `when` applies. A `when` that cannot be parsed never applies; [`Scenario::parse`]
    /// rejects those.
    pub fn applies(&self, when: Option<&str>) -> bool {
        match When::read(when) {
            Ok(When::Always) => true,
            Ok(When::Fault) => self.fault,
            Ok(When::Healthy) => !self.fault,
            Ok(When::Remedy(id)) => self.remedy.as_deref() == Some(id.as_str()),
            Ok(When::UnlessRemedy(id)) => self.remedy.as_deref() != Some(id.as_str()),
            Err(_) => false,
        }
    }

    /// The setup's steps that apply on a kernel of this release, in order.
    pub fn setup(&self, kernel: &str) -> impl Iterator<Item = &Action> {
        let applies = move |step: &&Step| {
            self.applies(step.when.as_deref()) && kernel_suits(&step.kernels, kernel).unwrap_or(false)
        };
        self.scenario.setup.iter().filter(applies).map(|step| &step.action)
    }

    /// The loads that apply, in the file's order, each copy separately.
    pub fn loads(&self) -> impl Iterator<Item = Load> {
        self.scenario.load.iter().filter(|load| self.applies(load.when.as_deref())).flat_map(Load::copies)
    }

    /// The remedy, if it is one of `explain`'s.
    pub fn explained_remedy(&self) -> Option<&str> {
        self.remedy.as_deref().filter(|id| RemedyKind::of_id(id).is_some())
    }

    /// The remedy, if it is the scenario's own.
    pub fn own_remedy(&self) -> Option<String> {
        self.remedy.clone().filter(|id| RemedyKind::of_id(id).is_none())
    }

    /// The steps of the remedy; empty without one.
    pub fn remedy_steps(&self) -> &[Action] {
        let remedy = self.scenario.remedy.iter().find(|remedy| Some(&remedy.id) == self.remedy.as_ref());
        remedy.map_or(&[], |remedy| &remedy.steps)
    }

    /// All knobs for a kernel of this release (or store name): the scenario's that apply, then the request's, which
    /// override them.
    pub fn effective_knobs(&self, kernel: &str) -> Vec<(String, String)> {
        let own =
            self.scenario.knob.iter().filter(|knob| {
                self.applies(knob.when.as_deref()) && kernel_suits(&knob.kernels, kernel).unwrap_or(false)
            });
        let own = own.filter(|knob| !self.knobs.iter().any(|(name, _)| *name == knob.name));
        own.map(|knob| (knob.name.clone(), knob.value.clone())).chain(self.knobs.iter().cloned()).collect()
    }

    /// The load's program and arguments with `{seconds}` (`2`, `1.5`), `{milliseconds}` and `{seed}` substituted.
    pub fn argv(&self, load: &Load) -> Vec<String> {
        let seconds = self.scenario.seconds;
        let fill = |argument: &String| {
            argument
                .replace("{seconds}", &seconds.to_string())
                .replace("{milliseconds}", &(seconds * 1e3).round().to_string())
                .replace("{seed}", &self.seed.to_string())
        };
        load.argv.iter().map(fill).collect()
    }

    /// The load's start: `start_ms` plus up to `jitter_ms` by its name and the seed, in steps of a microsecond.
    pub fn start_of(&self, load: &Load) -> Start {
        let mut state = self.seed;
        for byte in load.name.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        let jitter_us = mix(state) % (load.jitter_ms.saturating_mul(1_000).saturating_add(1));
        let jitter = Duration::from_micros(jitter_us);
        match u64::try_from(load.start_ms) {
            Ok(after) => Start::After(Duration::from_millis(after).saturating_add(jitter)),
            Err(_) => Start::Before(Duration::from_millis(load.start_ms.unsigned_abs()).saturating_sub(jitter)),
        }
    }
}

/// When a load starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At least this long before the recording.
    Before(Duration),
    /// This long after the recording began.
    After(Duration),
}

/// The results of a guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The request.
    pub request: Request,
    /// The guest kernel's own release string.
    pub kernel_release: String,
    /// Its metrics.
    pub metrics: Vec<Metric>,
    /// The directory with `trace.dat`, `metrics.json`, `console.log`, the loads' own output and this as `outcome.json`.
    pub directory: PathBuf,
    /// The results of the changes in [`Request::trial`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<Tried>,
    /// SHA-256 of `trace.dat` in hex: equal for equal requests.
    pub trace_digest: String,
    /// SHA-256 of all that the guest was given: init, tools, libraries, modules.
    #[serde(default)]
    pub image_digest: String,
    /// QEMU's version.
    #[serde(default)]
    pub qemu: String,
    /// Host seconds it took.
    pub wall_seconds: f64,
}

/// Runs requests; the real runner boots QEMU, tests use a model.
pub trait Runner {
    /// Why a run failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Boots a guest, waits for it and collects its results.
    fn run(&mut self, request: &Request) -> Result<Outcome, Self::Error>;

    /// Whether the user asked to stop: start no further run.
    fn is_interrupted(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let text = r#"
name = "x"
title = "x"
source = "x"
cpus = 1
seconds = 1.0
[[load]]
name = "main"
argv = ["load"]
main = true
[[load]]
name = "hog"
argv = ["load"]
when = "fault"
[[load]]
name = "cured"
argv = ["load"]
when = "remedy:cure"
[[knob]]
name = "sysctl.kernel.sched_wakeup_granularity_ns"
value = "4000000"
kernels = ["<5.13"]
[[knob]]
name = "debugfs.sched/base_slice_ns"
value = "3000000"
kernels = [">=6.6"]
[[remedy]]
id = "cure"
own = true
title = "x"
[expect]
finding = []
metrics = ["main.max"]
"#;
        Request::faulty(Scenario::parse("x.toml", text).expect("a scenario"), "6.12", 1)
    }

    fn names(request: &Request) -> String {
        request.loads().map(|load| load.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn conditions_pick_the_loads() {
        let faulty = request();
        let healthy = Request { fault: false, ..request() };
        let cured = Request { remedy: Some("cure".into()), ..request() };
        assert_eq!([names(&faulty), names(&healthy), names(&cured)], ["main hog", "main", "main hog cured"]);
    }

    #[test]
    fn seeds_shift_a_load_within_its_jitter() {
        let mut request = request();
        request.scenario.load[1].start_ms = 200;
        request.scenario.load[1].jitter_ms = 10;
        let start = |seed, load: &Load| match (Request { seed, ..request.clone() }).start_of(load) {
            Start::After(after) => after.as_micros() as i128,
            Start::Before(before) => -(before.as_micros() as i128),
        };
        let starts: Vec<i128> = (1..=8).map(|seed| start(seed, &request.scenario.load[1])).collect();
        assert!(starts.iter().all(|us| (200_000..=210_000).contains(us)), "{starts:?}");
        assert!(starts.windows(2).all(|pair| pair[0] != pair[1]), "{starts:?}");
        assert_eq!(start(1, &request.scenario.load[0]), 0);
        let early = Load { start_ms: -300, ..request.scenario.load[1].clone() };
        assert!((-300_000..=-290_000).contains(&start(1, &early)), "{}", start(1, &early));
    }

    #[test]
    fn a_load_may_have_copies_of_which_one_is_the_main_one() {
        let mut request = request();
        request.scenario.load[0].count = 3;
        request.scenario.load[0].argv = vec!["fio".into(), "--name=job{copy}".into()];
        let loads: Vec<Load> = request.loads().collect();
        let shown: Vec<String> =
            loads[..3].iter().map(|load| format!("{} {} {}", load.name, load.argv[1], load.main)).collect();
        assert_eq!(shown[..3], ["main-1 --name=job1 true", "main-2 --name=job2 false", "main-3 --name=job3 false"]);
        assert_eq!(loads[3].name, "hog");
    }

    #[test]
    fn arguments_are_filled_in() {
        let mut request = request();
        request.scenario.seconds = 1.5;
        request.scenario.load[0].argv =
            ["fio", "{seconds}", "--runtime={milliseconds}ms", "seed={seed}"].map(String::from).into();
        assert_eq!(request.argv(&request.scenario.load[0]), ["fio", "1.5", "--runtime=1500ms", "seed=1"]);
    }

    #[test]
    fn knobs_follow_the_kernel_and_the_request_overrules_the_scenario() {
        let mut request = request();
        let slice = |ns: &str| vec![("debugfs.sched/base_slice_ns".to_owned(), ns.to_owned())];
        assert_eq!(request.effective_knobs("6.12.107-cloud"), slice("3000000"));
        request.knobs = slice("700000");
        assert_eq!(request.effective_knobs("6.12.107-cloud"), slice("700000"));
        assert_eq!(request.effective_knobs("6.1.0-32-amd64"), slice("700000"));
    }
}
