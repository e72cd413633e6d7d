//! Runs requests in QEMU and stores their results.

mod error;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use unstarve_change::Change;
use unstarve_diagnose::report::RemedyId;
use unstarve_files::{Limit, ThisProgram, read_text};

use crate::console::{ConsoleFollower, Stage};
use crate::counters::{self, Counters};
use crate::image;
use crate::metric::{self, Metric};
use crate::qemu::{self, Clock, Ended, Limits, Machine, Qemu};
use crate::run::{Outcome, Request, Runner};
use crate::store::{Cache, Kernel, PartialEntry, digest, digest_of_file, runs};
use crate::trial::{self, Tried, explain_trace, offers};

pub use error::RunError;

/// Boots guests one after the other.
pub struct QemuRunner {
    /// The store of kernels, and of results unless [`QemuRunner::out`] is given.
    pub cache: Cache,
    /// The `unstarve` that runs as the guest's init.
    pub program: PathBuf,
    /// This program, which supervises QEMU ([`qemu::SUPERVISE_ROLE`]).
    pub supervisor: ThisProgram,
    /// The directory for the result; its content is replaced.
    pub out: Option<PathBuf>,
    /// The clock of guests.
    pub clock: Clock,
    /// The limits of each guest.
    pub limits: Limits,
    /// Whether an earlier result of the same request may be used.
    pub reuse: Reuse,
    /// Set by a signal handler when the user asks to stop.
    pub interrupted: Arc<AtomicBool>,
    /// Called for every stage.
    pub progress: Box<dyn FnMut(Stage)>,
}

/// Whether an earlier result may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// Always boot a guest.
    Never,
    /// Use a cached result of the same request with the same kernel, image and QEMU: in virtual time the guest would
    /// give the same again.
    Same,
}

/// Files of a result's directory.
const TRACE_FILE: &str = "trace.dat";
const OUTCOME_FILE: &str = "outcome.json";

/// How long a guest with the host's clock may be silent, in addition to the scenario's length.
const KVM_SILENCE: Duration = Duration::from_secs(30);

/// The size of the result disk. The file is sparse: it takes only what is written.
const DISK_BYTES: u64 = 2 << 30;

/// The size limit of loads' output, counters and outcomes.
const OUTPUT_LIMIT: Limit = Limit { bytes: 64 << 20, expected: "what `unstarve lab run` keeps; run it with --fresh" };

impl QemuRunner {
    /// SHA-256 of the guests' init as they get it.
    ///
    /// # Errors
    /// If the program cannot be read.
    pub fn program_digest(&self) -> io::Result<String> {
        Ok(digest(&image::loadable(fs::read(&self.program)?)))
    }
}

impl Runner for QemuRunner {
    type Error = RunError;

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn run(&mut self, request: &Request) -> Result<Outcome, RunError> {
        let began = Instant::now();
        check(request)?;
        if let (Some(id), None) = (request.explained_remedy(), &request.trial) {
            let trial = self.offered(request, id)?;
            return self.run(&Request { trial: Some(trial), ..request.clone() });
        }
        let kernel = Kernel::open(&self.cache, &request.kernel)?;
        check_kernel(request, &kernel)?;
        let qemu = Qemu::find(&self.cache, request.scenario.cpus, self.clock)?;
        let base = image::base(&self.cache, &kernel, &request.scenario, &self.program)?;
        let target = self.target(request, &kernel, &qemu, &base);
        if self.reuse == Reuse::Same
            && self.clock == Clock::Virtual
            && let Ok(outcome) = read_json::<Outcome>(target.join(OUTCOME_FILE))
        {
            runs::touch(&target);
            return Ok(outcome);
        }
        let part = PartialEntry::directory(&target).map_err(RunError::file(&target))?;
        let watch = self.boot(request, &kernel, &qemu, &base, part.path()).map_err(|error| self.blame_kvm(error))?;
        let release = watch.release.ok_or(RunError::Incomplete("kernel release"))?;
        let trace = part.path().join(TRACE_FILE);
        if !trace.exists() {
            return Err(RunError::Incomplete(TRACE_FILE));
        }
        let metrics = read_metrics(request, part.path())?;
        let outcome = Outcome {
            request: request.clone(),
            kernel_release: release,
            metrics,
            tried: request.trial.as_ref().map(|_| read_json::<Tried>(part.path().join(trial::FILE))).transpose()?,
            directory: target.clone(),
            trace_digest: digest_of_file(&trace).map_err(RunError::file(trace))?,
            image_digest: base.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            qemu: qemu.version().to_owned(),
            wall_seconds: began.elapsed().as_secs_f64(),
        };
        write_json(&part.path().join("metrics.json"), &outcome.metrics)?;
        write_json(&part.path().join(OUTCOME_FILE), &outcome)?;
        part.keep().map_err(RunError::file(&target))?;
        // Ignores results that cannot be removed; this one is stored.
        let _ = runs::limit_runs(&self.cache);
        Ok(outcome)
    }
}

impl QemuRunner {
    /// The changes of the worst finding that offers this remedy, in a run without changes.
    fn offered(&mut self, request: &Request, id: &str) -> Result<Vec<Change>, RunError> {
        let out = self.out.take();
        let without = self.run(&Request { remedy: None, trial: Some(Vec::new()), ..request.clone() });
        self.out = out;
        let trace = without?.directory.join(TRACE_FILE);
        let report = explain_trace(&trace).map_err(|source| RunError::Unexplained { path: trace, source })?;
        let (all, wanted) = (offers(&report), RemedyId::from(id));
        let offer = all.iter().find(|offer| offer.remedy == wanted);
        let not_offered = |why: String| RunError::Refused(format!("remedy `{id}`: {why}"));
        match offer.map(|offer| (offer, offer.obstacle())) {
            Some((offer, None)) => Ok(offer.changes.clone()),
            Some((_, Some(why))) => Err(not_offered(format!("no guest can show what it does ({why})"))),
            None => {
                let have: Vec<&str> = all.iter().map(|offer| offer.remedy.as_str()).collect();
                let have = if have.is_empty() { "nothing".to_owned() } else { have.join(", ") };
                Err(not_offered(format!("explain does not offer it for this guest; it offers {have}")))
            }
        }
    }

    /// The result's directory; its name contains a digest of everything that determines the bytes.
    fn target(&self, request: &Request, kernel: &Kernel, qemu: &Qemu, base: &Path) -> PathBuf {
        if let Some(out) = &self.out {
            return out.clone();
        }
        let request_text = serde_json::to_string(request).unwrap_or_default();
        let base = base.file_stem().unwrap_or_default().to_string_lossy();
        let machine = self.machine(request, kernel, qemu, [Path::new(""); 2]);
        let machine = format!("{:?}", machine.arguments());
        let all = [request_text.as_str(), &kernel.info.digest, qemu.version(), &base, &machine];
        let name = &digest(all.join("\n").as_bytes())[..16];
        self.cache.runs().join(&request.scenario.name).join(&request.kernel).join(name)
    }

    fn machine(&self, request: &Request, kernel: &Kernel, qemu: &Qemu, [initrd, disk]: [&Path; 2]) -> Machine {
        let knobs = request.effective_knobs(&kernel.info.release);
        let parameters = knobs.iter().filter_map(|(name, value)| Some((name.strip_prefix("cmdline.")?, value)));
        Machine {
            kernel: kernel.image(),
            initrd: initrd.to_owned(),
            disk: disk.to_owned(),
            parameters: parameters.map(|(name, value)| format!("{name}={value}")).collect(),
            cpus: request.scenario.cpus,
            memory_mib: request.scenario.memory_mib,
            clock: self.clock,
            instruction_ns: request.scenario.instruction_ns,
            firmware: qemu.small_firmware(),
        }
    }

    /// Blames KVM if a guest with the host's clock fails before its first message.
    fn blame_kvm(&self, error: RunError) -> RunError {
        let silent = matches!(
            error,
            RunError::Exited { stage: Stage::Boot, .. }
                | RunError::Stalled { stage: Stage::Boot, .. }
                | RunError::TooLong { stage: Stage::Boot, .. }
        );
        if silent && self.clock == Clock::Host { RunError::NotWithKvm(Box::new(error)) } else { error }
    }

    /// With the host's clock no load is silent for longer than it runs, and a guest that does not boot prints nothing.
    fn limits(&self, request: &Request) -> Limits {
        let stall = match self.clock {
            Clock::Virtual => self.limits.stall,
            Clock::Host => self.limits.stall.min(KVM_SILENCE + Duration::from_secs_f64(request.scenario.seconds)),
        };
        Limits { stall, ..self.limits }
    }

    fn boot(
        &mut self,
        request: &Request,
        kernel: &Kernel,
        qemu: &Qemu,
        base: &Path,
        directory: &Path,
    ) -> Result<ConsoleFollower, RunError> {
        let (initrd, disk) = (directory.join("initrd.cpio"), directory.join("results.img"));
        let (text, trial) = texts(request).map_err(|source| RunError::Json { path: initrd.clone(), source })?;
        image::for_run(base, &request.scenario, &text, trial.as_deref(), &initrd)?;
        let file = File::create(&disk).map_err(RunError::file(&disk))?;
        file.set_len(DISK_BYTES).map_err(RunError::file(&disk))?;
        let machine = self.machine(request, kernel, qemu, [&initrd, &disk]);
        let log = directory.join("console.log");
        let limits = self.limits(request);
        let (supervisor, progress) = (&self.supervisor, &mut *self.progress);
        let (ended, watch) = qemu::boot(qemu, &machine, supervisor, limits, &self.interrupted, &log, progress)?;
        let watch = judge(ended, watch, limits)?;
        fs::remove_file(&initrd).map_err(RunError::file(initrd))?;
        unpack(&disk, directory)?;
        fs::remove_file(&disk).map_err(RunError::file(disk))?;
        Ok(watch)
    }
}

/// Checks the request before anything is created.
fn check(request: &Request) -> Result<(), RunError> {
    let Some(wanted) = &request.remedy else { return Ok(()) };
    let name = &request.scenario.name;
    let refused = |have| RunError::Refused(format!("scenario {name} has no remedy `{wanted}`; it has {have}"));
    request.scenario.check_remedy(wanted).map_err(refused)
}

fn check_kernel(request: &Request, kernel: &Kernel) -> Result<(), RunError> {
    let (scenario, release) = (&request.scenario, &kernel.info.release);
    if scenario.suits(release) != Some(false) {
        return Ok(());
    }
    let (name, bounds) = (&scenario.name, scenario.kernels.join(" "));
    Err(RunError::Refused(format!("scenario {name} is for kernels {bounds}, not for {release}")))
}

/// The request as the guest reads it, and the trial's changes as a separate text: apart from those, guests with
/// different changes are the same.
fn texts(request: &Request) -> serde_json::Result<(String, Option<String>)> {
    let trial = request.trial.as_ref().map(serde_json::to_string).transpose()?;
    let plain =
        Request { trial: request.trial.as_ref().map(|_| Vec::new()), remedy: request.own_remedy(), ..request.clone() };
    Ok((serde_json::to_string(&plain)?, trial))
}

/// Whether the guest ended properly.
fn judge(ended: Ended, watch: ConsoleFollower, limits: Limits) -> Result<ConsoleFollower, RunError> {
    let (stage, console) = (watch.stage, watch.last_lines());
    match (ended, watch.trouble.clone()) {
        (Ended::Interrupted, _) => Err(RunError::Interrupted),
        (_, Some(trouble)) if stage != Stage::Done => Err(RunError::Guest { stage, trouble, console }),
        (Ended::Told, _) => Ok(watch),
        (Ended::Exited(said), _) => Err(RunError::Exited { stage, said, console }),
        (Ended::Stalled, _) => Err(RunError::Stalled { stage, seconds: limits.stall, console }),
        (Ended::TooLong, _) => Err(RunError::TooLong { stage, seconds: limits.wall, console }),
    }
}

/// Extracts the files from the disk. The guest is not trusted: only regular files with plain names are accepted.
fn unpack(disk: &Path, into: &Path) -> Result<(), RunError> {
    let failed = |source| RunError::File { path: disk.to_owned(), source };
    let mut archive = tar::Archive::new(File::open(disk).map_err(failed)?);
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let Some(name) = path.file_name().filter(|_| entry.header().entry_type().is_file()) else { continue };
        let target = into.join(name);
        let mut file = File::create(&target).map_err(RunError::file(&target))?;
        // A sparse entry may claim to exceed the disk.
        io::copy(&mut entry.by_ref().take(DISK_BYTES), &mut file).map_err(RunError::file(target))?;
    }
    Ok(())
}

fn read_metrics(request: &Request, directory: &Path) -> Result<Vec<Metric>, RunError> {
    let mut metrics = Vec::new();
    for load in request.loads() {
        let Some(kind) = &load.metrics else { continue };
        let path = directory.join(format!("{}.out", load.name));
        // Written by the guest, which is not trusted.
        let output = read_text(&path, OUTPUT_LIMIT)?;
        metrics.extend(metric::parse(kind, &output, &load.name)?);
    }
    metrics.extend(read_json::<Counters>(directory.join(counters::FILE))?.metrics());
    let main = request.loads().find(|load| load.main).map(|load| load.name).unwrap_or_default();
    metrics.extend(metric::per_operation(&metrics, &format!("{main}.iops")));
    Ok(metrics)
}

fn read_json<T: serde::de::DeserializeOwned>(path: PathBuf) -> Result<T, RunError> {
    let text = read_text(&path, OUTPUT_LIMIT)?;
    serde_json::from_str(&text).map_err(|source| RunError::Json { path, source })
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), RunError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|source| RunError::Json { path: path.to_owned(), source })?;
    fs::write(path, text).map_err(RunError::file(path))
}
