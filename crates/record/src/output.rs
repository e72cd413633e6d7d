//! Assembles the output file in a hidden directory next to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use unstarve_files::target::{Place, TargetError};
use unstarve_files::{StagingDirectory, target};

use unstarve_model::CpuId;
use unstarve_readers::trace_dat_write::{CpuPages, Head};

use crate::RecordError;

const HEAD_FILE: &str = "head";
const HEAD_PART_FILE: &str = "head.part";
const OUTPUT_FILE: &str = "trace.dat";

/// When a file counts as delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// When it has its name. The caller syncs it later.
    Named,
    /// When the file and its name are synced to disk.
    OnDisk,
}

/// A hidden directory next to the output, in which it is assembled; removed on drop with all its content. The output
/// gets its name only when it is complete.
///
/// The parent directory may belong to another user, so everything goes by file descriptor (see [`StagingDirectory`]).
pub(crate) struct OutputDirectory {
    hidden: StagingDirectory,
    place: Place,
}

impl OutputDirectory {
    /// Creates the directory early, so that an unwritable output fails before anything is recorded.
    pub(crate) fn beside(output: &Path) -> Result<OutputDirectory, RecordError> {
        let place = place(output)?;
        place.can_keep_previous().map_err(RecordError::output(output))?;
        let hidden = StagingDirectory::make(&place).map_err(RecordError::output(output))?;
        Ok(OutputDirectory { hidden, place })
    }

    /// The output's directory and name.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The hidden directory, on the output's file system.
    pub(crate) fn hidden(&self) -> &StagingDirectory {
        &self.hidden
    }

    /// Stores what is needed to make a file of the pages, in case this process is killed.
    pub(crate) fn keep(&self, head: &Head) -> io::Result<()> {
        head.keep(&mut self.hidden.create(HEAD_PART_FILE)?)?;
        self.hidden.rename(HEAD_PART_FILE, HEAD_FILE)
    }

    /// Assembles the file and gives it its name; returns its size in bytes.
    pub(crate) fn deliver(
        self,
        head: &Head,
        pages: &[CpuPages],
        delivery: Delivery,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, RecordError> {
        let OutputDirectory { hidden, place } = &self;
        let failed = || RecordError::output(place.path());
        let mut file = hidden.create(OUTPUT_FILE).map_err(failed())?;
        let written = head.write_into(pages, &mut file, place.path(), progress);
        let size = written.map_err(RecordError::written(place.path()))?;
        // Symbols and process names are private, as with perf.data. Under sudo the file belongs to the invoking user,
        // who otherwise would need root to read it.
        fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(|errno| failed()(errno.into()))?;
        place.give_to_caller(&file);
        // Synced before it gets its name: otherwise a crash could leave an incomplete file. Some file systems report
        // only here that they are full.
        if delivery == Delivery::OnDisk {
            file.sync_all().map_err(failed())?;
        }
        // It could be kept when the recording began. If it cannot by now, the new recording is worth more.
        let _ = place.keep_previous();
        hidden.deliver(OUTPUT_FILE, place).map_err(failed())?;
        if delivery == Delivery::OnDisk {
            // The file is complete; a directory that may not be read cannot be synced.
            let _ = place.sync();
        }
        Ok(size)
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next recording.
        self.hidden.remove(is_ours);
    }
}

/// Checks the output path. The tables say where the data is, so only a regular file can be written.
fn place(output: &Path) -> Result<Place, RecordError> {
    Place::find(output).map_err(|error| match error {
        TargetError::NoFile { what, .. } => RecordError::NotAFile { path: output.to_owned(), what },
        TargetError::Io { source, .. } => RecordError::Output { path: output.to_owned(), source },
        other => RecordError::Target(other),
    })
}

/// The name of the file with a CPU's pages.
pub(crate) fn pages_of(cpu: u32) -> String {
    format!("cpu{cpu}.pages")
}

fn cpu_of(name: &OsStr) -> Option<CpuId> {
    let number = name.to_str()?.strip_prefix("cpu")?.strip_suffix(".pages")?;
    number.parse().ok().filter(|cpu| name == pages_of(*cpu).as_str()).map(CpuId)
}

/// Whether a recorder uses this file name.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    [HEAD_FILE, HEAD_PART_FILE, OUTPUT_FILE].iter().any(|ours| name == *ours) || cpu_of(name).is_some()
}

/// The leftovers of a killed recorder.
pub(crate) struct Leftover {
    pub(crate) hidden: StagingDirectory,
    /// Size of its pages in bytes.
    pub(crate) bytes: u64,
    has_head: bool,
}

impl Leftover {
    pub(crate) fn of(hidden: StagingDirectory) -> Leftover {
        let names = hidden.names();
        let length = |name: &OsStr| Some(hidden.read(name.to_str()?).ok()?.metadata().ok()?.len());
        let bytes = names.iter().filter(|name| cpu_of(name).is_some()).filter_map(|name| length(name)).sum();
        Leftover { bytes, has_head: names.iter().any(|name| name == HEAD_FILE), hidden }
    }

    /// All leftovers in a directory.
    pub(crate) fn all(place: &Place) -> Vec<Leftover> {
        StagingDirectory::leftovers(place).into_iter().map(Leftover::of).collect()
    }

    /// Whether a recording can be made from it.
    pub(crate) fn is_of_use(&self) -> bool {
        self.has_head && self.bytes > 0
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.hidden.path().to_owned()
    }

    pub(crate) fn remove(self) {
        self.hidden.remove(is_ours);
    }

    /// Its content; `None` if it is incomplete.
    pub(crate) fn contents(&self) -> io::Result<Option<(Head, Vec<CpuPages>)>> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut self.hidden.read(HEAD_FILE)?, &mut bytes)?;
        let Some(head) = Head::from_bytes(bytes) else { return Ok(None) };
        let page = u64::from(head.page_size());
        let mut pages = Vec::new();
        for cpu in self.hidden.names().iter().filter_map(|name| cpu_of(name)) {
            let file: File = self.hidden.read(&pages_of(cpu.0))?;
            // Ignore a page that was being written when the recorder was killed.
            let length = file.metadata()?.len() / page * page;
            pages.push(CpuPages { cpu, file, length });
        }
        pages.sort_by_key(|pages| pages.cpu);
        Ok(Some((head, pages)))
    }

    /// Removes a file that was being assembled when the recorder was killed; it would prevent a new one.
    pub(crate) fn remove_unfinished(&self) {
        let _ = rustix::fs::unlinkat(&self.hidden, OUTPUT_FILE, rustix::fs::AtFlags::empty());
    }
}

/// The leftover at `path`, or all leftovers in the directory `path`.
pub(crate) fn leftovers_at(path: &Path) -> Result<Vec<Leftover>, RecordError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| RecordError::Leftover { path, source }
    };
    let is_one =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(target::UNFINISHED_PREFIX.as_bytes()));
    if !is_one {
        // Report missing permissions instead of an empty directory.
        match std::fs::read_dir(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(RecordError::NoDirectory(path.to_owned()));
            }
            looked => drop(looked.map_err(io(path))?),
        }
        return Ok(Leftover::all(&Place::within(path).map_err(RecordError::Target)?));
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = Place::within(above).map_err(RecordError::Target)?;
    let hidden = StagingDirectory::open(&place, path.file_name().unwrap_or_default()).map_err(io(path))?;
    Ok(hidden.into_iter().map(Leftover::of).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn devices_and_directories_are_not_replaced() {
        for (output, found) in [
            ("/dev/null", "character device"),
            ("/dev/stdout", "descriptor of a process"),
            ("/proc/self/fd/1", "descriptor of a process"),
            ("/tmp", "directory"),
        ] {
            let error = OutputDirectory::beside(Path::new(output)).err().expect("no place for a recording");
            assert!(matches!(error, RecordError::NotAFile { what, .. } if what == found), "{output}: {error}");
        }
        let nowhere = OutputDirectory::beside(Path::new("/nonexistent/t.dat"));
        assert!(matches!(nowhere, Err(RecordError::Target(TargetError::NoDirectory { .. }))));
    }

    #[test]
    fn nothing_is_left_of_what_is_given_up() {
        let around = tempfile::tempdir().expect("a temporary directory");
        let output = around.path().join("t.dat");
        fs::write(&output, "old").expect("an older recording");
        let output_dir = OutputDirectory::beside(&output).expect("a output_dir");
        output_dir.hidden().create(&pages_of(3)).expect("a file of pages");
        assert_eq!(Leftover::all(output_dir.place()).len(), 0, "it is at work");
        drop(output_dir);
        assert_eq!(fs::read_dir(around.path()).expect("listed").count(), 1);
        assert_eq!(fs::read_to_string(&output).expect("still there"), "old");
    }

    #[test]
    fn an_earlier_recording_is_kept() {
        let around = tempfile::tempdir().expect("a temporary directory");
        let output = around.path().join("t.dat");
        let place = OutputDirectory::beside(&output).expect("a place");
        place.place().keep_previous().expect("nothing to keep");
        for content in ["first", "second"] {
            fs::write(&output, content).expect("a recording");
            place.place().keep_previous().expect("kept");
            assert_eq!(fs::read_to_string(around.path().join("t.dat.old")).expect("kept"), content);
            assert!(!output.exists());
        }
        fs::write(&output, "third").expect("a recording");
        fs::remove_file(around.path().join("t.dat.old")).expect("removed");
        fs::create_dir(around.path().join("t.dat.old")).expect("a directory");
        let error = OutputDirectory::beside(&output).err().expect("known before anything is recorded");
        assert!(error.to_string().contains("t.dat"), "{error}");
    }

    #[test]
    fn files_of_a_recorder_are_known_by_name() {
        for name in ["head", "head.part", "trace.dat", "cpu0.pages", "cpu511.pages"] {
            assert!(is_ours(OsStr::new(name)), "{name}");
        }
        for name in ["cpu.pages", "cpu07.pages", "cpu+7.pages", "cpu1.pages.old", "id_rsa", "..", ""] {
            assert!(!is_ours(OsStr::new(name)), "{name}");
        }
    }
}
