//! Process 1 of the guest: from the first mount to the reboot.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::system::{RebootCommand, reboot, uname};
use unstarve_host::Root;
use unstarve_record::{BufferSize, CommandEnd, Events, Names, Notice, Options, Until};

use super::early::Early;
use super::guard::Guard;
use super::keeper::ThreadStepKeeper;
use super::trial::Trial;
use super::{
    GuestError, LOADS_FAILURE, LOADS_ROLE, RECORD_ROLE, RESULTS_DIR, collect, knobs, mark, modules, mounts,
    read_request,
};
use super::{say, setup};
use crate::console::{Message, Stage};
use crate::image::{MODULES_EARLY, MODULES_LATE};

/// Runs the guest to its end; does not return except by a reboot, which ends QEMU.
pub(super) fn run() -> u8 {
    mark::set_thread_name(mark::OURS);
    let mut stage = Stage::Boot;
    // Without this a panic would show only as the kernel's message on the death of init.
    std::panic::set_hook(Box::new(|panic| {
        let failed = Some(format!("the guest's init failed: {panic}"));
        say(&Message { failed, ..Message::stage(Stage::Boot) });
    }));
    match in_stages(&mut stage) {
        Ok(()) => say(&Message::stage(Stage::Done)),
        Err(error) => say(&Message { failed: Some(error.to_string()), ..Message::stage(stage) }),
    }
    rustix::fs::sync();
    let _ = reboot(RebootCommand::Restart);
    // Reached only if the kernel refuses to reboot; the death of init then ends the guest as well.
    1
}

fn in_stages(stage: &mut Stage) -> Result<(), GuestError> {
    let mut begin = |next: Stage| {
        *stage = next;
        say(&Message::stage(next));
    };
    mounts::mount_all()?;
    let release = uname().release().to_string_lossy().into_owned();
    say(&Message { release: Some(release.clone()), ..Message::stage(Stage::Boot) });
    let request = read_request()?;

    begin(Stage::Modules);
    modules::load_all(MODULES_EARLY)?;

    begin(Stage::Setup);
    mounts::loopback_up()?;
    fs::create_dir_all(RESULTS_DIR).map_err(GuestError::doing(RESULTS_DIR))?;
    for action in request.setup(&release) {
        setup::perform(action)?;
    }
    for (name, value) in request.effective_knobs(&release) {
        knobs::set(&name, &value)?;
    }
    for action in request.remedy_steps() {
        setup::perform(action)?;
    }
    let keeper = ThreadStepKeeper::start(request.setup(&release).chain(request.remedy_steps()))?;
    write_snapshot()?;

    let guard = Guard::start(request.setup(&release).chain(request.remedy_steps()))?;

    let trial = request.trial.as_ref().map(|_| Trial::start()).transpose()?;

    let early = Early::start(&request)?;

    begin(Stage::Record);
    measure()?;
    early.end()?;
    drop(keeper);
    trial.map_or(Ok(()), Trial::end)?;
    guard.map_or(Ok(()), Guard::end)?;

    begin(Stage::Collect);
    modules::load_all(MODULES_LATE)?;
    collect::write_out(Path::new(RESULTS_DIR))
}

fn write_snapshot() -> Result<(), GuestError> {
    let path = Path::new(RESULTS_DIR).join("snapshot.json");
    fs::write(&path, unstarve_host::take(&Root::host()).to_json()).map_err(GuestError::doing(path.display()))
}

/// Records in a separate process: the recorder handles signals and starts threads, which init should not.
fn measure() -> Result<(), GuestError> {
    let status = Command::new("/init")
        .arg(RECORD_ROLE)
        .env("PATH", "/usr/bin")
        .env("HOME", "/")
        .stdin(Stdio::null())
        .status()
        .map_err(GuestError::doing("cannot start the recorder"))?;
    if status.success() {
        return Ok(());
    }
    Err(GuestError(fs::read_to_string(LOADS_FAILURE).unwrap_or_else(|_| format!("the recorder ended with {status}"))))
}

/// The recorder's process.
pub(super) fn record() -> Result<(), GuestError> {
    mark::set_thread_name(mark::RECORDER);
    let request = read_request()?;
    let scenario = &request.scenario;
    // An eighth of the memory holds some seconds of events, so that none are lost while the recorder itself starves.
    let kib = (u64::from(scenario.memory_mib) * 1024 / 8 / u64::from(scenario.cpus.max(1))).min(65_536) as u32;
    let options = Options {
        output: PathBuf::from(RESULTS_DIR).join("trace.dat"),
        until: Until::CommandEnds(["/init", LOADS_ROLE].map(OsString::from).to_vec()),
        events: match (request.predictable, request.io) {
            (true, _) => Events::Predictable,
            (false, true) => Events::WithBlock,
            (false, false) => Events::Usual,
        },
        buffer: BufferSize::KiB(kib),
        max_size: None,
        names: Names::Real,
    };
    let notices = &mut |notice: Notice| super::remark(format_args!("record: {notice}"));
    let recording = unstarve_record::record(&options, notices, None).map_err(|error| GuestError(error.to_string()))?;
    match recording.command {
        Some(CommandEnd::Exited(0)) => Ok(()),
        Some(CommandEnd::Killed(signal)) => Err(GuestError(format!("the loads were ended by signal {signal}"))),
        _ => Err(GuestError("the loads failed".into())),
    }
}
