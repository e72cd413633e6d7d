//! `unstarve watch` on days on which not all is as it should be.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{Done, Running};
use crate::stage::{Ended, Stage, Stop, need};
use crate::watch::Watch;

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the status is as wanted.
pub fn wait_for(watch: &Watch, what: &str, is: impl Fn(&Value) -> bool) -> Ended {
    let end = Instant::now() + TEST_TIMEOUT;
    loop {
        let status = watch.status().unwrap_or_default();
        if is(&status) {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(Stop::Fail(format!("{what}: {status}")));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn kworkers(status: &Value) -> &Value {
    &status["thresholds"]["role"]["kworker"]["wait"]
}

/// A new configuration holds at once; one with an error changes nothing, and is said where.
pub fn a_reload(stage: &Stage) -> Ended {
    let watch = Watch::start(stage, stage.unstarve())?;
    wait_for(&watch, "the default", |status| kworkers(status) == "50ms")?;
    let config = stage.path("watch.toml");
    let before = std::fs::read_to_string(&config).map_err(|error| error.to_string())?;
    let rewrite = |more: &str| {
        std::fs::write(&config, format!("{before}{more}")).map_err(|error| error.to_string())?;
        watch.signal(rustix::process::Signal::HUP);
        Ok::<(), Stop>(())
    };
    rewrite("[thresholds.role.kworker]\nwait = \"7s\"\n")?;
    wait_for(&watch, "the new threshold", |status| kworkers(status) == "7s")?;
    rewrite("[thresholds.role.kworkr]\nwait = \"9s\"\n")?;
    wait_for(&watch, "the old threshold, and why", |status| {
        kworkers(status) == "7s" && status["problems"].to_string().contains("`kworkr` is no role")
    })?;
    rewrite("[thresholds.role.kworker]\nwait = \"8s\"\n")?;
    wait_for(&watch, "the last threshold", |status| {
        kworkers(status) == "8s" && !status["problems"].to_string().contains("kworkr")
    })?;
    watch.signal(rustix::process::Signal::TERM);
    let done = watch.running.succeed(TEST_TIMEOUT)?;
    let wrong = format!("stays as it was: {}:", config.display());
    assert!(done.err.contains(&wrong) && done.err.contains("`kworkr` is no role"), "{}", done.err);
    assert!(done.err.contains("configuration reloaded"), "{}", done.err);
    Ok(())
}

/// Where a CPU is kept from the kernel's workers while the watch starts, its buffers cannot be enlarged: it records all the same, says so,
/// and has them as they should be once that is over.
pub fn small_buffers(stage: &Stage) -> Ended {
    let cpu = stage.cpu.to_string();
    let pinned = ["taskset", "-c", &cpu, "chrt", "--fifo", "10"];
    let mut hog = stage.load("small-buffers", &pinned, "hog --lasts 6000 --period 1000 --busy 1000")?;
    let hog = Running::start(&mut hog)?;
    thread::sleep(Duration::from_millis(200));
    let watch = Watch::start(stage, stage.unstarve())?;
    let says_so = |status: &Value| status["problems"].to_string().contains("small buffers, so traces may be short");
    wait_for(&watch, "small buffers", says_so)?;
    hog.succeed(TEST_TIMEOUT)?;
    watch.signal(rustix::process::Signal::HUP);
    wait_for(&watch, "buffers as they should be", |status| !says_so(status) && status["recorder"] == "recording")?;
    watch.signal(rustix::process::Signal::TERM);
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// Whether a process has programs or maps of BPF: the watch's engine is being loaded.
fn loads_programs(pid: u32) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|link| std::fs::read_link(link.path()).ok()).any(|to| to.to_string_lossy().contains("bpf-"))
}

/// Whether it catches SIGHUP.
fn catches_hangup(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 1 != 0)
}

/// SIGHUP while the engine is being loaded, long before the watch is ready: it is heard then.
pub fn a_reload_at_the_beginning(stage: &Stage) -> Ended {
    let (config, state) = (stage.path("early.toml"), stage.path("early"));
    let text = format!(
        "[store]\ndirectory = {:?}\n[listen]\naddress = \"off\"\n[sinks]\nlog = \"off\"\n[recorder]\nmode = \"off\"\n",
        stage.path("store")
    );
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    let mut command = stage.unstarve();
    command.args(["watch", "--for", "1s", "--config"]).arg(&config).arg("--state").arg(&state);
    let running = Running::start(&mut command)?;
    let (pid, end) = (running.id(), Instant::now() + TEST_TIMEOUT);
    while !loads_programs(pid) {
        if Instant::now() > end || catches_hangup(pid) && state.join("watch.sock").exists() {
            return Err(Stop::Skip("no programs of BPF were seen to be loaded here".to_owned()));
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(catches_hangup(pid), "SIGHUP would end it");
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::HUP);
    }
    let done = running.succeed(TEST_TIMEOUT)?;
    assert!(done.err.contains("configuration reloaded"), "{}", done.err);
    Ok(())
}

/// Other buffers while episodes are kept: what was recorded before is in their traces, and the recorder is exchanged in the end.
pub fn reloads_and_dumps(stage: &Stage) -> Ended {
    let watch = Watch::start(stage, stage.unstarve())?;
    let config = stage.path("watch.toml");
    let before = std::fs::read_to_string(&config).map_err(|error| error.to_string())?;
    for mib in [1, 2, 3] {
        std::fs::write(&config, format!("{before}[recorder]\nbuffer-mib = {mib}\n"))
            .map_err(|error| error.to_string())?;
        watch.signal(rustix::process::Signal::HUP);
        let mut dump = watch.ask(&["dump", "--json", "--state"]);
        let done = Running::start(dump.arg(&watch.state))?.succeed(TEST_TIMEOUT * 2)?;
        let episode: Value = serde_json::from_str(&done.out).map_err(|error| format!("{}: {error}", done.out))?;
        assert!(episode["trace_bytes"].as_u64().is_some_and(|bytes| bytes > 10_000), "{episode}");
    }
    std::fs::write(&config, format!("{before}[recorder]\nmode = \"off\"\n")).map_err(|error| error.to_string())?;
    watch.signal(rustix::process::Signal::HUP);
    wait_for(&watch, "no recorder", |status| status["recorder"] == "off")?;
    watch.signal(rustix::process::Signal::TERM);
    let pid = watch.running.id();
    watch.running.succeed(TEST_TIMEOUT)?;
    let instances = std::fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let of_it = instances.filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("unstarve-{pid}")));
    assert_eq!(of_it.count(), 0, "no instance stays");
    Ok(())
}

/// A disk that becomes read-only: no trace, and a watch that goes on and says so. Once it can be written again the log has what it lacks.
pub fn a_read_only_disk(stage: &Stage) -> Ended {
    need("mount")?;
    let disk = crate::results::Disk::mount(stage, "size=64m,mode=700")?;
    let watch = Watch::start_with(stage, stage.unstarve(), &disk.0.join("store"))?;
    // Nothing of the watch is open for writing while no episode is written.
    let mut command = Command::new("mount");
    Running::start(command.args(["-o", "remount,ro,size=64m"]).arg(&disk.0))?.succeed(TEST_TIMEOUT)?;
    let mut dump = watch.ask(&["dump", "--state"]);
    let done = Running::start(dump.arg(&watch.state))?.finish(TEST_TIMEOUT)?;
    assert_eq!(done.status.code(), Some(2), "{}{}", done.out, done.err);
    assert!(done.err.contains("no trace") && done.err.contains("ead-only file system"), "{}", done.err);
    wait_for(&watch, "it goes on and says why", |status| {
        status["recorder"] == "recording" && status["problems"].to_string().contains("ead-only file system")
    })?;
    let dumps =
        || Ok::<_, String>(watch.episodes()?.into_iter().filter(|episode| episode["trigger"].is_null()).count());
    assert_eq!(dumps()?, 0);
    let mut command = Command::new("mount");
    Running::start(command.args(["-o", "remount,rw,size=64m"]).arg(&disk.0))?.succeed(TEST_TIMEOUT)?;
    wait_for(&watch, "nothing is wrong any more", |status| {
        !status["problems"].to_string().contains("ead-only file system")
    })?;
    assert_eq!(dumps()?, 1);
    watch.signal(rustix::process::Signal::TERM);
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// Runs a watch for a moment, with a store and a state of this name.
fn moment(stage: &Stage, mut command: Command, name: &str, store: &Path) -> Result<Done, Stop> {
    let config = stage.path(&format!("{name}.toml"));
    let text = format!("[store]\ndirectory = {store:?}\n[listen]\naddress = \"off\"\n[sinks]\nlog = \"off\"\n");
    std::fs::write(&config, text).map_err(|error| error.to_string())?;
    command.args(["watch", "--for", "300ms", "--config"]).arg(&config).arg("--state").arg(stage.path(name));
    Ok(Running::start(&mut command)?.finish(TEST_TIMEOUT)?)
}

/// The second one is refused the first one's store, and says that it is not alone.
pub fn two_at_once(stage: &Stage) -> Ended {
    let watch = Watch::start(stage, stage.unstarve())?;
    let refused = moment(stage, stage.unstarve(), "second", &stage.path("store"))?;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.err);
    assert!(refused.err.contains("another watch keeps its episodes in"), "{}", refused.err);
    let beside = moment(stage, stage.unstarve(), "third", &stage.path("other"))?;
    assert!(beside.status.success(), "{}", beside.err);
    assert!(beside.err.contains("another watch runs on this machine"), "{}", beside.err);
    watch.signal(rustix::process::Signal::TERM);
    watch.running.succeed(TEST_TIMEOUT)?;
    Ok(())
}

/// Without BTF the programs cannot be fitted to the kernel; it counts by tracefs and says why.
pub fn without_btf(stage: &Stage) -> Ended {
    if !cfg!(feature = "bpf") {
        return Err(Stop::Skip("built without eBPF".to_owned()));
    }
    need("unshare")?;
    let hide = "mount --bind /dev/null /sys/kernel/btf/vmlinux && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hide]).arg(stage.unstarve().get_program());
    let done = moment(stage, command, "blind", &stage.path("store"))?;
    if done.err.contains("unshare:") || done.err.contains("mount:") {
        return Err(Stop::Skip(format!("BTF cannot be hidden here: {}", done.err)));
    }
    assert!(done.status.success(), "{}", done.err);
    assert!(done.err.contains("counting by tracefs") && done.err.contains("eBPF cannot be used here"), "{}", done.err);
    Ok(())
}

/// What the watch says if it lacks a capability of its unit.
fn without(right: &str) -> &'static [&'static str] {
    match right {
        "bpf" | "perfmon" => &["counting by tracefs", "eBPF cannot be used here"],
        "syslog" => &["CAP_SYSLOG is missing"],
        "sys_nice" => &["CAP_SYS_NICE is missing"],
        _ => &["a capability that no test knows a use of"],
    }
}

/// Each capability of the unit is needed: without it the watch says what does not work. With all of them it has nothing to say.
pub fn each_right_is_needed(stage: &Stage) -> Ended {
    if !cfg!(feature = "bpf") {
        return Err(Stop::Skip("built without eBPF".to_owned()));
    }
    let rights = crate::service::rights_of("unstarve-watch.service")?;
    let run = |rights: &[String]| {
        let mut command = crate::service::with_rights(rights)?;
        command.arg(stage.unstarve().get_program());
        moment(stage, command, "rights", &stage.path("store"))
    };
    let all = run(&rights)?;
    if all.err.contains("cannot be used here") {
        return Err(Stop::Skip(format!("this machine takes no BPF programs: {}", all.err)));
    }
    assert!(all.status.success() && !all.err.contains("is missing"), "{}", all.err);
    for right in &rights {
        let others: Vec<String> = rights.iter().filter(|other| *other != right).cloned().collect();
        let done = run(&others)?;
        assert!(done.status.success(), "without {right}: {}", done.err);
        for words in without(right) {
            assert!(done.err.contains(words), "without {right} it does not say {words:?}: {}", done.err);
        }
    }
    Ok(())
}

/// Where the kernel is locked down the engine's message says so: what root is refused then is not for lack of a right.
pub fn locked_down(stage: &Stage) -> Ended {
    if !cfg!(feature = "bpf") {
        return Err(Stop::Skip("built without eBPF".to_owned()));
    }
    need("unshare")?;
    // BTF is hidden so that the programs are refused, as a lockdown would refuse them.
    let hide = "mount --bind /dev/null /sys/kernel/btf/vmlinux && mount -t tmpfs none /sys/kernel/security && \
                echo 'none integrity [confidentiality]' >/sys/kernel/security/lockdown && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hide]).arg(stage.unstarve().get_program());
    let done = moment(stage, command, "locked", &stage.path("store"))?;
    if done.err.contains("unshare:") || done.err.contains("mount:") {
        return Err(Stop::Skip(format!("a lockdown cannot be played here: {}", done.err)));
    }
    assert!(done.err.contains("locked down (confidentiality)"), "{}", done.err);
    Ok(())
}
