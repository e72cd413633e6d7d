use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use unstarve_diagnose::report::{Finding, Report, Severity, VictimKind};

use crate::cgroup::Cgroup;
use crate::process::Running;
use crate::stage::{Ended, Stage, Stop, need};

const RECORDED: Duration = Duration::from_millis(3000);
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A filesystem in a file, on a loop device; everything is gone on drop.
pub struct LoopFs {
    point: PathBuf,
    device: String,
}

impl LoopFs {
    pub fn new(stage: &Stage) -> Result<LoopFs, Stop> {
        for command in ["mkfs.ext4", "losetup", "mount", "umount", "fio"] {
            need(command)?;
        }
        let image = stage.path("image");
        let run = |command: &mut Command| Running::start(command).and_then(|running| running.succeed(TEST_TIMEOUT));
        run(Command::new("truncate").args(["-s", "256M"]).arg(&image))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let attached = run(Command::new("losetup").args(["--find", "--show"]).arg(&image))
            .map_err(|error| Stop::Skip(format!("there is no loop device: {error}")))?;
        // From here on the drop undoes what has been done.
        let fs = LoopFs { point: stage.path("fs"), device: attached.out.trim().to_owned() };
        std::fs::create_dir(&fs.point).map_err(|error| error.to_string())?;
        run(Command::new("mount").arg(&fs.device).arg(&fs.point))?;
        Ok(fs)
    }

    /// Direct writes on the stage's CPU into a new file, whose completions are work for a kernel worker there.
    pub fn fio(&self, stage: &Stage, seconds: u32) -> Result<Running, Stop> {
        self.fio_on(&stage.cpu.to_string(), seconds)
    }

    /// The same on a list of CPUs.
    pub fn fio_on(&self, cpus: &str, seconds: u32) -> Result<Running, Stop> {
        let mut command = Command::new("taskset");
        command.args(["-c", cpus, "fio", "--name=live", "--size=64M", "--rw=randwrite", "--bs=4k"]);
        command.args(["--direct=1", "--ioengine=libaio", "--iodepth=32", "--thread", "--time_based"]);
        command.arg(format!("--runtime={seconds}")).arg(format!("--directory={}", self.point.display()));
        Ok(Running::start(&mut command)?)
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        for command in
            [Command::new("umount").arg("-l").arg(&self.point), Command::new("losetup").arg("-d").arg(&self.device)]
        {
            // Nothing can be done about a failure here.
            let _ = Running::start(command).and_then(|running| running.finish(TEST_TIMEOUT));
        }
    }
}

pub fn real_time_hog(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio(stage, 8)?;
    let mut hog = stage.load("hog", &["chrt", "--fifo", "50"], "hog --lasts 5000 --period 100 --busy 80")?;
    let _hog = Running::start(&mut hog)?;
    let report = recorded(stage)?;
    let starved = findings(&report, "rt-starvation", Severity::Warning);
    expect(&report, "rt-starvation at least as a warning", !starved.is_empty())?;
    expect(
        &report,
        "hog as the first culprit, by class",
        starved.iter().all(|finding| {
            finding.culprits.first().is_some_and(|culprit| culprit.comm == "hog" && culprit.rule.word() == "class")
        }),
    )?;
    let worker =
        |finding: &Finding| finding.victim.kind == VictimKind::Kworker || finding.victim.comm.starts_with("kworker/");
    expect(
        &report,
        "fio or a kernel worker among the victims",
        starved.iter().any(|finding| finding.victim.comm == "fio" || worker(finding)),
    )
}

pub fn direct_io_alone(stage: &Stage) -> Ended {
    let fs = LoopFs::new(stage)?;
    let _fio = fs.fio(stage, 8)?;
    let report = recorded(stage)?;
    expect(&report, "nothing under rt-starvation", findings(&report, "rt-starvation", Severity::Info).is_empty())?;
    quiet(&report)
}

/// Two spinners on one CPU, in cgroups of these weights in tenths of the default.
fn two_groups(stage: &Stage, heavy: u32, light: u32) -> Result<Report, Stop> {
    let (heavy, light) = (Cgroup::new("heavy", heavy)?, Cgroup::new("light", light)?);
    let first = Running::start(&mut stage.load("heavy", &[], "spin --lasts 6000 --threads 2")?)?;
    heavy.add(first.id())?;
    let second = Running::start(&mut stage.load("light", &[], "spin --lasts 6000")?)?;
    light.add(second.id())?;
    let report = recorded(stage);
    // The processes before the groups: a cgroup with a process in it cannot be removed.
    drop((first, second));
    report
}

pub fn heavy_cgroup(stage: &Stage) -> Ended {
    let report = two_groups(stage, 100, 10)?;
    let starved = findings(&report, "weight-starvation", Severity::Info);
    expect(
        &report,
        "weight-starvation of light by heavy",
        starved.iter().any(|finding| {
            finding.victim.comm == "light"
                && finding.culprits.iter().any(|culprit| culprit.comm == "heavy" && culprit.rule.word() == "weight")
        }),
    )
}

pub fn equal_cgroups(stage: &Stage) -> Ended {
    let report = two_groups(stage, 10, 10)?;
    let starved = findings(&report, "weight-starvation", Severity::Warning);
    let ours = |comm: &str| comm == "light" || comm == "heavy";
    expect(&report, "no weight-starvation among equals", !starved.iter().any(|finding| ours(&finding.victim.comm)))?;
    quiet(&report)
}

pub fn pool_storm(stage: &Stage) -> Ended {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let mut pool = stage.load("dispatch", &[], "pool --lasts 6000 --threads 128 --burst 128 --every-us 20000")?;
    let _pool = Running::start(&mut pool)?;
    let report = recorded(stage)?;
    let storms = findings(&report, "wake-storm", Severity::Info);
    // Where others have most of the CPU the pool waits for them, and that is no storm.
    if storms.is_empty() && load > 2.0 * f64::from(report.trace.cpus) {
        return Err(Stop::Skip(format!("the machine is busy with other work: load {load}")));
    }
    expect(&report, "a wake-storm of the pool", storms.iter().any(|finding| finding.victim.comm == "pool"))
}

pub fn small_pool(stage: &Stage) -> Ended {
    let mut pool = stage.load("dispatch", &[], "pool --lasts 6000 --threads 2 --burst 1 --every-us 8000")?;
    let _pool = Running::start(&mut pool)?;
    let report = recorded(stage)?;
    expect(&report, "no wake-storm", findings(&report, "wake-storm", Severity::Info).is_empty())?;
    quiet(&report)
}

pub fn same_moment_in_every_format(stage: &Stage) -> Ended {
    for command in ["perf", "trace-cmd"] {
        need(command)?;
    }
    let files = [stage.path("own.dat"), stage.path("perf.data"), stage.path("ftrace.txt"), stage.path("perf.txt")];
    let [own, perf, ftrace_text, perf_text] = &files;
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-a", "-m", "16M", "-o"]).arg(perf);
    for event in ["switch", "waking", "wakeup", "wakeup_new", "migrate_task", "process_fork", "process_exit"] {
        command.args(["-e", &format!("sched:sched_{event}")]);
    }
    command.args(["--", "sleep", "5"]);
    let by_perf = Running::start(&mut command)?;
    let recording = stage.record(own, Duration::from_millis(4500))?;
    // All of it in both recordings, which begin and end at slightly different moments.
    let mut hog = stage.load("hog", &["chrt", "--fifo", "50"], "hog --lasts 3000 --period 100 --busy 80")?;
    let hog = Running::start(&mut hog)?;
    let spin = Running::start(&mut stage.load("victim", &[], "spin --lasts 3000")?)?;
    hog.succeed(TEST_TIMEOUT)?;
    spin.succeed(TEST_TIMEOUT)?;
    recording.succeed(TEST_TIMEOUT)?;
    by_perf.succeed(TEST_TIMEOUT)?;
    for (file, command) in [
        (ftrace_text, Command::new("trace-cmd").arg("report").arg(own)),
        (perf_text, Command::new("perf").args(["script", "-i"]).arg(perf)),
    ] {
        let done = Running::start(command)?.succeed(TEST_TIMEOUT)?;
        std::fs::write(file, done.out).map_err(|error| error.to_string())?;
    }
    let mut told = Vec::new();
    for file in &files {
        let report = stage.explain(file)?;
        let by_hog = report.findings.iter().filter(|finding| finding.culprits.iter().any(|c| c.comm == "hog"));
        let mut found: Vec<(String, String)> = by_hog
            .filter(|finding| finding.severity >= Severity::Warning)
            .map(|finding| (finding.id.to_string(), finding.victim.comm.clone()))
            .collect();
        found.sort();
        told.push((report.trace.format, found));
    }
    let ids = |index: usize| told[index].1.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>();
    // Different recorders begin and end at different moments, and on a busy machine that may change which of several
    // victims comes first; the two forms of perf's recording have the same events and the same knowledge.
    let right = (0..4).all(|index| ids(index) == ["rt-starvation"]) && told[1].1 == told[3].1;
    if right { Ok(()) } else { Err(Stop::Fail(format!("the formats do not agree: {told:#?}"))) }
}

/// Records for a while and explains it.
fn recorded(stage: &Stage) -> Result<Report, Stop> {
    let file = stage.path("trace.dat");
    stage.record(&file, RECORDED)?.succeed(RECORDED + TEST_TIMEOUT)?;
    stage.explain(&file)
}

fn findings<'a>(report: &'a Report, id: &str, least: Severity) -> Vec<&'a Finding> {
    report.findings.iter().filter(|finding| finding.id.as_str() == id && finding.severity >= least).collect()
}

/// A healthy machine: nothing is critical.
fn quiet(report: &Report) -> Ended {
    expect(report, "nothing critical", report.findings.iter().all(|finding| finding.severity < Severity::Critical))
}

fn expect(report: &Report, what: &str, holds: bool) -> Ended {
    if holds {
        return Ok(());
    }
    let found: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            let culprits: Vec<String> =
                finding.culprits.iter().map(|culprit| format!("{} by {}", culprit.comm, culprit.rule)).collect();
            format!("{} {} of {}: {}", finding.severity.word(), finding.id, finding.victim.comm, culprits.join(", "))
        })
        .collect();
    Err(Stop::Fail(format!("expected {what}; found {found:#?}; losses {:?}", report.losses)))
}
