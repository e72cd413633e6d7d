use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use unstarve_files::target::{Place, TargetError};
use unstarve_files::{Hidden, target};

use unstarve_model::CpuId;
use unstarve_readers::trace_dat_write::{CpuPages, Head};

use crate::RecordError;

const HEAD: &str = "head";
const HEAD_PART: &str = "head.part";
const FILE: &str = "trace.dat";

/// When a file is delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It has its name. Who is waited for syncs it later.
    Named,
    /// It is on the disk, and its name is, too.
    OnDisk,
}

/// Where the output is put together: a hidden directory beside it, removed on drop with all that is in it. The output
/// gets its name only when it is complete.
///
/// The directory around it may belong to somebody else, so everything goes by descriptor (see [`Hidden`]).
pub(crate) struct Workshop {
    hidden: Hidden,
    place: Place,
}

impl Workshop {
    /// Makes the directory early, so that an output that cannot be written is known before anything is recorded.
    pub(crate) fn beside(output: &Path) -> Result<Workshop, RecordError> {
        let place = place(output)?;
        let hidden = Hidden::make(&place).map_err(RecordError::output(output))?;
        Ok(Workshop { hidden, place })
    }

    /// The place of the output.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The directory, on the filesystem that the user chose.
    pub(crate) fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// Keeps what is needed to make a file of the pages, for the case that this process is killed.
    pub(crate) fn keep(&self, head: &Head) -> io::Result<()> {
        head.keep(&mut self.hidden.create(HEAD_PART)?)?;
        self.hidden.rename(HEAD_PART, HEAD)
    }

    /// Puts the file together and gives it its name; returns its size in bytes.
    pub(crate) fn deliver(
        self,
        head: &Head,
        pages: &[CpuPages],
        delivery: Delivery,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<u64, RecordError> {
        let Workshop { hidden, place } = &self;
        let failed = || RecordError::output(place.path());
        let mut file = hidden.create(FILE).map_err(failed())?;
        let written = head.write_into(pages, &mut file, place.path(), progress);
        let size = written.map_err(RecordError::written(place.path()))?;
        // Symbols and process names are nobody else's business, as with perf.data. Under sudo the file belongs to the
        // user, who would otherwise need root again to read it.
        fchmod(&file, Mode::RUSR | Mode::WUSR).map_err(|errno| failed()(errno.into()))?;
        place.give_to_caller(&file);
        // Before the name: behind it a machine that stops would leave a part, and some file systems say only here that they are full.
        if delivery == Delivery::OnDisk {
            file.sync_all().map_err(failed())?;
        }
        hidden.deliver(FILE, place).map_err(failed())?;
        if delivery == Delivery::OnDisk {
            // The file is there and whole; a directory that may not be read cannot be synced.
            let _ = place.sync();
        }
        Ok(size)
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next recording.
        self.hidden.remove(is_ours);
    }
}

/// Where a recording can go: its tables say where the data is, so it cannot be written to anything but a regular file.
fn place(output: &Path) -> Result<Place, RecordError> {
    Place::find(output).map_err(|error| match error {
        TargetError::NoFile { what, .. } => RecordError::NotAFile { path: output.to_owned(), what },
        TargetError::Io { source, .. } => RecordError::Output { path: output.to_owned(), source },
        other => RecordError::Target(other),
    })
}

/// The name of the file that holds a CPU's pages.
pub(crate) fn pages_of(cpu: u32) -> String {
    format!("cpu{cpu}.pages")
}

fn cpu_of(name: &OsStr) -> Option<CpuId> {
    let number = name.to_str()?.strip_prefix("cpu")?.strip_suffix(".pages")?;
    number.parse().ok().filter(|cpu| name == pages_of(*cpu).as_str()).map(CpuId)
}

/// Whether a recorder gives a file this name.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    [HEAD, HEAD_PART, FILE].iter().any(|ours| name == *ours) || cpu_of(name).is_some()
}

/// What a recorder left that was killed.
pub(crate) struct Leftover {
    pub(crate) hidden: Hidden,
    /// Bytes of pages.
    pub(crate) bytes: u64,
    has_head: bool,
}

impl Leftover {
    pub(crate) fn of(hidden: Hidden) -> Leftover {
        let names = hidden.names();
        let length = |name: &OsStr| Some(hidden.read(name.to_str()?).ok()?.metadata().ok()?.len());
        let bytes = names.iter().filter(|name| cpu_of(name).is_some()).filter_map(|name| length(name)).sum();
        Leftover { bytes, has_head: names.iter().any(|name| name == HEAD), hidden }
    }

    /// All of them in a directory.
    pub(crate) fn all(place: &Place) -> Vec<Leftover> {
        Hidden::leftovers(place).into_iter().map(Leftover::of).collect()
    }

    /// Whether a file can be made of it.
    pub(crate) fn is_of_use(&self) -> bool {
        self.has_head && self.bytes > 0
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.hidden.path().to_owned()
    }

    pub(crate) fn remove(self) {
        self.hidden.remove(is_ours);
    }

    /// What it holds; `None` if that is not whole.
    pub(crate) fn contents(&self) -> io::Result<Option<(Head, Vec<CpuPages>)>> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut self.hidden.read(HEAD)?, &mut bytes)?;
        let Some(head) = Head::from_bytes(bytes) else { return Ok(None) };
        let page = u64::from(head.page_size());
        let mut pages = Vec::new();
        for cpu in self.hidden.names().iter().filter_map(|name| cpu_of(name)) {
            let file: File = self.hidden.read(&pages_of(cpu.0))?;
            // A page that was being written when the recorder was killed is no page.
            let length = file.metadata()?.len() / page * page;
            pages.push(CpuPages { cpu, file, length });
        }
        pages.sort_by_key(|pages| pages.cpu);
        Ok(Some((head, pages)))
    }

    /// A file that was being put together when the recorder was killed is in the way of a new one.
    pub(crate) fn remove_unfinished(&self) {
        let _ = rustix::fs::unlinkat(&self.hidden, FILE, rustix::fs::AtFlags::empty());
    }
}

/// The leftover that `path` names, or all in the directory that it names.
pub(crate) fn leftovers_at(path: &Path) -> Result<Vec<Leftover>, RecordError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| RecordError::Leftover { path, source }
    };
    let is_one = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(target::PREFIX.as_bytes()));
    if !is_one {
        // Whoever may not look into it must not hear that nothing is there.
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
    let hidden = Hidden::open(&place, path.file_name().unwrap_or_default()).map_err(io(path))?;
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
            let error = Workshop::beside(Path::new(output)).err().expect("no place for a recording");
            assert!(matches!(error, RecordError::NotAFile { what, .. } if what == found), "{output}: {error}");
        }
        let nowhere = Workshop::beside(Path::new("/nonexistent/t.dat"));
        assert!(matches!(nowhere, Err(RecordError::Target(TargetError::NoDirectory { .. }))));
    }

    #[test]
    fn nothing_is_left_of_what_is_given_up() {
        let around = tempfile::tempdir().expect("a temporary directory");
        let output = around.path().join("t.dat");
        fs::write(&output, "old").expect("an older recording");
        let workshop = Workshop::beside(&output).expect("a workshop");
        workshop.hidden().create(&pages_of(3)).expect("a file of pages");
        assert_eq!(Leftover::all(workshop.place()).len(), 0, "it is at work");
        drop(workshop);
        assert_eq!(fs::read_dir(around.path()).expect("listed").count(), 1);
        assert_eq!(fs::read_to_string(&output).expect("still there"), "old");
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
