//! Runs commands on a model host in a mount namespace.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use unstarve_model::SchedPolicy;

use super::files;
use super::host::{Model, ModelThread};

/// Why no namespace is available.
#[derive(Debug)]
pub struct NotHere(String);

impl std::fmt::Display for NotHere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no mount namespace to run commands in: {}", self.0)
    }
}

impl From<io::Error> for NotHere {
    fn from(error: io::Error) -> NotHere {
        NotHere(error.to_string())
    }
}

/// Everything that commands can change: path → text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State(BTreeMap<String, String>);

impl State {
    /// The differences, one a line.
    pub fn differences(&self, later: &State) -> Vec<String> {
        let paths: std::collections::BTreeSet<&String> = self.0.keys().chain(later.0.keys()).collect();
        let text = |state: &State, path: &String| {
            state.0.get(path).map_or("(none)".to_owned(), |text| format!("{:?}", text.trim_end()))
        };
        let differ = paths.into_iter().filter(|path| self.0.get(*path) != later.0.get(*path));
        differ.map(|path| format!("{path}: {} → {}", text(self, path), text(later, path))).collect()
    }
}

/// A model host in which commands run.
pub struct Running {
    directory: tempfile::TempDir,
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Directories whose files are compared.
const SEEN: [&str; 6] = ["root/proc", "root/sys", "root/run", "root/etc", "threads", "units"];

/// Names and texts of the stand-in programs, and of their starter.
const PROGRAMS: [(&str, &str); 9] = [
    ("lib.sh", include_str!("bin/lib.sh")),
    ("server.sh", include_str!("bin/server.sh")),
    ("chrt", include_str!("bin/chrt")),
    ("renice", include_str!("bin/renice")),
    ("taskset", include_str!("bin/taskset")),
    ("pgrep", include_str!("bin/pgrep")),
    ("settle", include_str!("bin/settle")),
    ("sysctl", include_str!("bin/sysctl")),
    ("systemctl", include_str!("bin/systemctl")),
];

impl Running {
    pub(super) fn start(model: Model) -> Result<Running, NotHere> {
        let directory = tempfile::Builder::new().prefix("unstarve-model.").tempdir()?;
        lay_out(directory.path(), &model)?;
        let mut unshare = Command::new("unshare");
        // Without root, a user namespace gives the right to mount.
        if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--mount", "--propagation", "private", "sh"]).arg(directory.path().join("bin/server.sh"));
        unshare.arg(directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let log = fs::File::create(directory.path().join("server.log"))?;
        let mut server = unshare.stderr(log).spawn()?;
        let (Some(input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(NotHere("no pipes".to_owned()));
        };
        let mut running = Running { directory, server, input, output: BufReader::new(output) };
        match running.answer()?.as_str() {
            "ready" => Ok(running),
            other => Err(NotHere(format!("{other}{}", running.text("server.log")))),
        }
    }

    fn answer(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Everything that commands can change, now.
    pub fn state(&self) -> State {
        let mut all = BTreeMap::new();
        for name in SEEN {
            collect(self.directory.path(), &self.directory.path().join(name), &mut all);
        }
        State(all)
    }

    /// Runs a script as `sh -eu` does.
    ///
    /// # Errors
    /// If it fails, or writes to a file what the kernel would refuse; with its output.
    pub fn sh(&mut self, script: &str) -> Result<(), String> {
        let before = self.state();
        let file = self.directory.path().join("script");
        let failed = |error: io::Error| format!("the model: {error}");
        fs::write(&file, script).map_err(failed)?;
        writeln!(self.input, "{}", file.display()).map_err(failed)?;
        let status = self.answer().map_err(failed)?;
        let refused = self.settle(&before);
        match (status.as_str(), refused.is_empty()) {
            ("0", true) => Ok(()),
            ("0", false) => Err(format!("{}\n{script}", refused.join("\n"))),
            (status, _) => Err(format!("exit status {status}\n{script}\n{}", self.text("script.out"))),
        }
    }

    /// Converts files to the form in which the kernel shows them.
    fn settle(&self, before: &State) -> Vec<String> {
        let now = self.state();
        let changed = now.0.iter().filter_map(|(path, text)| {
            let old = before.0.get(path).filter(|old| *old != text)?;
            let path = path.strip_prefix("root").filter(|path| path.starts_with("/sys/") || is_kernel_file(path))?;
            Some((path.to_owned(), old.clone(), text.clone()))
        });
        changed
            .filter_map(|(path, old, text)| match files::shown(&path, &old, &text) {
                Ok(shown) => {
                    fs::write(self.directory.path().join(format!("root{path}")), shown).err().map(|e| e.to_string())
                }
                Err(why) => Some(why),
            })
            .collect()
    }

    /// Runs `apply` and `undo`: both must succeed, the first must change something, and the second must restore
    /// everything bit for bit. On failure the model is restored, so that other commands can be tried.
    ///
    /// # Errors
    /// What went wrong, with the commands.
    pub fn there_and_back(&mut self, apply: &str, undo: &str) -> Result<(), String> {
        let before = self.state();
        let result = self.try_both(&before, apply, undo);
        if result.is_err() {
            self.put_back(&before);
        }
        result
    }

    fn try_both(&mut self, before: &State, apply: &str, undo: &str) -> Result<(), String> {
        self.sh(apply).map_err(|why| format!("apply: {why}"))?;
        let between = self.state();
        let changed = before.differences(&between);
        if !changed.iter().any(|line| !line.starts_with("root/run/")) {
            return Err(format!("apply changes nothing\n{apply}"));
        }
        self.sh(undo).map_err(|why| format!("undo: {why}\nof: {apply}"))?;
        let left = before.differences(&self.state());
        if left.is_empty() { Ok(()) } else { Err(format!("undo leaves:\n{}\n{apply}\n{undo}", left.join("\n"))) }
    }

    fn put_back(&self, state: &State) {
        for path in self.state().0.keys().filter(|path| !state.0.contains_key(*path)) {
            let _ = fs::remove_file(self.directory.path().join(path));
        }
        for (path, text) in &state.0 {
            let file = self.directory.path().join(path);
            let _ = file.parent().map(fs::create_dir_all);
            let _ = fs::write(file, text);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn is_kernel_file(path: &str) -> bool {
    ["/proc/sys/", "/proc/irq/", "/proc/fs/"].iter().any(|directory| path.starts_with(directory))
}

fn collect(base: &Path, directory: &Path, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // Links of /etc/alternatives belong to the machine.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(base, &path, all),
            Ok(kind) if kind.is_file() && entry.file_name() != "ld.so.cache" => {
                let name = path.strip_prefix(base).unwrap_or(&path).to_string_lossy().into_owned();
                all.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned());
            }
            _ => {}
        }
    }
}

fn lay_out(directory: &Path, model: &Model) -> io::Result<()> {
    for name in ["root/proc", "root/sys", "root/run", "threads", "units", "bin"] {
        fs::create_dir_all(directory.join(name))?;
    }
    for name in ["default", "sysctl.d", "tmpfiles.d", "systemd/system", "tuned", "unstarve/policies"] {
        fs::create_dir_all(directory.join("root/etc").join(name))?;
    }
    for (name, text) in PROGRAMS {
        let path = directory.join("bin").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    for unit in &model.units {
        fs::write(directory.join("units").join(unit), "active\n")?;
    }
    for path in &model.directories {
        fs::create_dir_all(directory.join(format!("root{path}")))?;
    }
    for (path, text) in &model.files {
        let file = directory.join(format!("root{path}"));
        file.parent().map(fs::create_dir_all).transpose()?;
        fs::write(file, text)?;
    }
    fs::write(directory.join("root/proc/mounts"), mounts(model))?;
    model.threads.iter().try_for_each(|(tid, thread)| lay_out_thread(directory, model, *tid, thread))
}

/// proc_pid_mounts(5): the hierarchy with the CPU controller, and for v1 systemd's, which has no controller.
fn mounts(model: &Model) -> String {
    let at = |usual: &str| model.mount.clone().unwrap_or_else(|| usual.to_owned());
    match model.is_v1 {
        true => format!(
            "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid 0 0\ncgroup {} cgroup rw,nosuid,cpu,cpuacct 0 0\n",
            at("/sys/fs/cgroup/cpu")
        ),
        false => format!("cgroup2 {} cgroup2 rw,nosuid 0 0\n", at("/sys/fs/cgroup")),
    }
}

fn lay_out_thread(directory: &Path, model: &Model, tid: u32, thread: &ModelThread) -> io::Result<()> {
    let proc = directory.join("root/proc");
    fs::create_dir_all(proc.join(format!("{}/task/{tid}", thread.tgid)))?;
    fs::create_dir_all(proc.join(format!("{tid}")))?;
    fs::write(proc.join(format!("{tid}/comm")), format!("{}\n", thread.comm))?;
    let controller = if model.is_v1 { "4:cpu,cpuacct:" } else { "0::" };
    fs::write(proc.join(format!("{tid}/cgroup")), format!("{controller}{}\n", thread.cgroup))?;
    fs::write(proc.join(format!("{tid}/stat")), stat(tid, thread))?;
    fs::write(proc.join(format!("{tid}/status")), status(tid, thread))?;
    let times = if thread.policy == SchedPolicy::Deadline { "4000000/50000000/100000000" } else { "0/0/0" };
    let state = format!(
        "tgid={} parent={} policy={} prio={} nice={} allowed={} fixed={} reset={} times={times} start={}\n",
        thread.tgid,
        thread.parent,
        word(thread.policy),
        thread.rt_priority,
        thread.nice,
        thread.allowed,
        u8::from(thread.affinity_fixed),
        u8::from(thread.reset_on_fork),
        thread.start,
    );
    fs::write(directory.join(format!("threads/{tid}")), state)
}

/// proc_pid_stat(5), as the stand-ins' `show_thread` writes it.
fn stat(tid: u32, thread: &ModelThread) -> String {
    let (number, priority) = match thread.policy {
        SchedPolicy::Fifo => (1, -1 - i64::from(thread.rt_priority)),
        SchedPolicy::Rr => (2, -1 - i64::from(thread.rt_priority)),
        SchedPolicy::Deadline => (6, -101),
        SchedPolicy::Batch => (3, 20 + i64::from(thread.nice)),
        SchedPolicy::Idle => (5, 20 + i64::from(thread.nice)),
        SchedPolicy::Ext => (7, 20 + i64::from(thread.nice)),
        SchedPolicy::Other | SchedPolicy::Unknown => (0, 20 + i64::from(thread.nice)),
    };
    format!(
        "{tid} ({}) S {} 0 0 0 -1 0 0 0 0 0 0 0 0 0 {priority} {} 1 0 {} {} {}17 0 {} {number} {}0\n",
        thread.comm,
        thread.parent,
        thread.nice,
        thread.start,
        // A kernel thread has no memory.
        if thread.parent == 2 { 0 } else { 4096 },
        "0 ".repeat(14),
        thread.rt_priority,
        "0 ".repeat(10),
    )
}

fn status(tid: u32, thread: &ModelThread) -> String {
    format!(
        "Name:\t{}\nTgid:\t{}\nPid:\t{tid}\nPPid:\t{}\nCpus_allowed_list:\t{}\n",
        thread.comm, thread.tgid, thread.parent, thread.allowed
    )
}

fn word(policy: SchedPolicy) -> &'static str {
    match policy {
        SchedPolicy::Fifo => "SCHED_FIFO",
        SchedPolicy::Rr => "SCHED_RR",
        SchedPolicy::Batch => "SCHED_BATCH",
        SchedPolicy::Idle => "SCHED_IDLE",
        SchedPolicy::Deadline => "SCHED_DEADLINE",
        SchedPolicy::Ext => "SCHED_EXT",
        SchedPolicy::Other | SchedPolicy::Unknown => "SCHED_OTHER",
    }
}
