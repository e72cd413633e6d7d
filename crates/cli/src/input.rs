//! Recordings that commands read: a file, standard input, or the built-in example.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use unstarve_executor::authority::Author;
use unstarve_files::trust::{Distrust, TrustError, check_author};
use unstarve_model::EventSource;
use unstarve_readers::{Input, OpenError, open_input};

use crate::evidence;
use crate::grammar;
use crate::output;

/// How long to wait silently for a pipe: a writer started together with the program, as in `<(zcat trace.gz)`, writes
/// within this.
const WRITER_TIMEOUT: Duration = Duration::from_secs(1);

/// The recording to read: a file, or standard input for `-`.
pub struct Recording(PathBuf);

/// The example: a real-time task starves the kworker that completes direct I/O on ext4, in a guest of Linux 6.12
/// (docs/lab-scenarios.md, `oplog-ext4`).
const EXAMPLE_RECORDING: &[u8] = include_bytes!("../../../testdata/traces/linux-6.12-lab-oplog-ext4-faulty.dat.zst");

/// Opens the example.
pub fn example() -> Result<Box<dyn EventSource>> {
    Ok(open_input(Input::from_stream(Box::new(EXAMPLE_RECORDING), "the example".to_owned())?)?)
}

/// The default output of `unstarve record`.
const DEFAULT_RECORDING: &str = "unstarve.dat";

/// The error for a missing recording, with how to make one.
pub fn no_recording(command: &str) -> anyhow::Error {
    let call = format!("unstarve {command} {DEFAULT_RECORDING}");
    match Path::new(DEFAULT_RECORDING).is_file() {
        true => anyhow!("name a recording; there is one here: {call}"),
        false => anyhow!("name a recording. To make one of this machine: sudo unstarve record --for 10s && {call}"),
    }
}

impl Recording {
    pub fn new(path: PathBuf) -> Result<Recording> {
        if path.is_dir() {
            if let Some(looks) = unstarve_readers::foreign::directory(&path) {
                bail!("{}: is a directory; {looks}", path.display());
            }
            bail!("{}: is a directory; expected a recording, for example its trace.dat", path.display());
        }
        Ok(Recording(path))
    }

    pub fn open(&self) -> Result<Box<dyn EventSource>> {
        self.open_or_say_why().map_err(|error| self.no_recording(error))
    }

    /// Opens it; the error is that of the reader, whatever else could read the file.
    pub fn open_or_say_why(&self) -> Result<Box<dyn EventSource>, OpenError> {
        if self.0 == Path::new("-") {
            return unstarve_readers::open_stdin();
        }
        let open = || unstarve_readers::open(&self.0);
        if !self.0.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
            return open();
        }
        // Opening waits for a writer and its first bytes; without this message it looks like a hang.
        let remark = || output::remark(&format!("reading from the pipe {} until its writer closes it", self.name()));
        saying_if_it_lasts(WRITER_TIMEOUT, remark, open)
    }

    /// The error for a file that is no recording, with what reads it if something does.
    fn no_recording(&self, error: OpenError) -> anyhow::Error {
        if !unstarve_readers::has_no_events(&error) || self.file().and_then(evidence::of_file).is_none() {
            return error.into();
        }
        let name = unstarve_change::quoted_file(&self.name()).unwrap_or_else(|| "FILE".to_owned());
        anyhow!(
            "{name} is a log or a list of threads, and no recording: `unstarve explain {name}` reads it. To make a recording of this \
             machine: sudo unstarve record --for 10s"
        )
    }

    /// Standard input, where it is a stream that cannot be read again.
    pub fn stream(&self) -> Result<Option<Input>> {
        if self.0 != Path::new("-") {
            return Ok(None);
        }
        let input = Input::stdin().context("cannot read standard input")?;
        Ok(Some(input))
    }

    /// Opens it and returns who could have written it, because its claims about this host are theirs. Judged by the
    /// opened file, whatever its name refers to later; archive members have the archive's authors.
    pub fn open_with_author(&self) -> Result<(Box<dyn EventSource>, Authorship)> {
        let pipe = |why: &str| Authorship { author: Author::Anybody, why: Some(why.to_owned()) };
        if self.0 == Path::new("-") {
            return Ok((self.open()?, pipe("it came through standard input")));
        }
        if !self.0.metadata().is_ok_and(|found| found.is_file()) {
            return Ok((self.open()?, pipe("it is not a regular file")));
        }
        let name = self.0.display().to_string();
        let failed = |source| OpenError::Io { name: name.clone(), source };
        let file = File::open(&self.0).map_err(failed)?;
        let written = Authorship::of(&file, &named_by_descriptor(&self.0));
        let input = Input::from_file(file, name.clone()).map_err(failed)?;
        Ok((open_input(input)?, written))
    }

    /// Its name on a page: without directories, which reveal more about the machine than about the recording.
    pub fn short_name(&self) -> String {
        let file = self.0.file_name().filter(|name| *name != "-");
        file.map_or_else(|| self.name(), |name| name.to_string_lossy().into_owned())
    }

    /// The file; `None` for standard input, which cannot be read a second time.
    pub fn file(&self) -> Option<&Path> {
        (self.0 != Path::new("-")).then_some(self.0.as_path())
    }

    /// Its name for a command, quoted for a shell; `None` for what a command cannot read again or a shell not quote.
    pub fn command_name(&self) -> Option<String> {
        let name = self.file()?.to_str()?;
        // `fix undo` undoes.
        let name = if grammar::is_verb_of_fix(name) { format!("./{name}") } else { name.to_owned() };
        unstarve_change::quoted_file(&name)
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        if self.0 == Path::new("-") { "standard input".to_owned() } else { self.0.display().to_string() }
    }
}

/// The name of a file that this process got open (`unstarve mcp` hands recordings over as `/proc/self/fd/N`). A caller that
/// trusts the name must check that it leads to that file.
fn named_by_descriptor(path: &Path) -> Cow<'_, Path> {
    match path.parent() == Some(Path::new("/proc/self/fd")) {
        true => std::fs::read_link(path).map_or(Cow::Borrowed(path), Cow::Owned),
        false => Cow::Borrowed(path),
    }
}

/// Who could have written a recording.
pub struct Authorship {
    /// The users.
    pub author: Author,
    /// The reason; `None` if only root and this process's user could have written it.
    pub why: Option<String>,
}

impl Authorship {
    fn of(file: &File, path: &Path) -> Authorship {
        let Err(error) = check_author(file, path) else { return Authorship { author: Author::Trusted, why: None } };
        let owner = file.metadata().map_or(0, |found| found.uid());
        let (author, why) = match &error {
            TrustError::Untrusted { path, why: Distrust::Owner { owner: at_fault, .. } } => {
                // A user's file in another user's directory may be replaced by either.
                let author = if [0, *at_fault].contains(&owner) { Author::User(*at_fault) } else { Author::Anybody };
                (author, format!("{} belongs to uid {at_fault}", path.display()))
            }
            TrustError::Untrusted { path, why } => (Author::Anybody, format!("{}: {why}", path.display())),
            other => (Author::Anybody, other.to_string()),
        };
        Authorship { author, why: Some(why) }
    }
}

/// Runs `work`, and prints a message if it takes longer than `patience`.
fn saying_if_it_lasts<T>(patience: Duration, say: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let (working, until_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if until_done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                say();
            }
        });
        let result = work();
        drop(working);
        result
    })
}

/// Whether two names refer to the same regular file: a result must not replace its input.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let of = |path: &Path| path.metadata().ok().filter(|found| found.is_file()).map(|found| (found.dev(), found.ino()));
    a != Path::new("-") && of(a).is_some_and(|a| of(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_writer_that_keeps_one_waiting_is_worth_a_word() {
        let hour = Duration::from_secs(3600);
        let at_once = saying_if_it_lasts(hour, || panic!("nobody waits"), || "the first block");
        assert_eq!(at_once, "the first block");
        // The writer starts only after the message was printed.
        let (said, writer) = mpsc::channel();
        let say = || said.send("waiting").expect("somebody listens");
        assert_eq!(saying_if_it_lasts(Duration::ZERO, say, || writer.recv()), Ok("waiting"));
    }
}
