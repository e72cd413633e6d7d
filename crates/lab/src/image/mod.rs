//! The guest's file system: this program as init, the scenario's tools and modules, and the request.
//!
//! It is an initial file system in two archives: the base, cached by the digest of its content, and a small one for
//! each run. Neither is compressed: the guest's CPU would decompress it at one instruction a nanosecond, which costs
//! more than reading 40 MB.

mod cpio;
mod files;
mod loadable;
mod needed;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use unstarve_files::{Program, ProgramError};

use crate::player::PLAYER;
use crate::scenario::Scenario;
use crate::store::{Cache, Kernel, PartialEntry, StoreError, digest};
use cpio::Archive;
pub(crate) use loadable::loadable;

/// The request's path in the guest; its presence also shows a process that it is in a guest.
pub const REQUEST: &str = "/unstarve-lab-request.json";

/// The path of a trial's changes.
pub(crate) const TRIAL: &str = "/unstarve-lab-trial.json";

/// Padded with blanks to a multiple of this: guests that differ only in their changes start alike.
const TRIAL_LENGTH: usize = 256 << 10;

/// The guest's modules: their files, and a list of their names in loading order.
pub(crate) const MODULES: &str = "/modules";
pub(crate) const MODULES_EARLY: &str = "/modules/early";
pub(crate) const MODULES_LATE: &str = "/modules/late";

/// Suffix of a module's name if only the kernel knows whether it is built in.
pub(crate) const ASK: char = '?';

/// The drivers of the result disk are loaded after the measurement: its interrupts come in host time.
const LATE_MODULES: [&str; 2] = ["virtio_mmio", "virtio_blk"];

/// Why no image could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Users other than root and this one could have written a tool.
    #[error("the scenario's tool `{tool}` is not copied into the guest: {source}")]
    NotTrusted {
        /// Its name.
        tool: String,
        /// Why.
        source: ProgramError,
    },
    /// Reading or writing a file failed.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel in the store is damaged, or lacks a module.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A tool or file of the scenario cannot be in a guest: which, and why.
    #[error("{0}")]
    Other(String),
}

impl ImageError {
    fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ImageError {
        let path = path.into();
        move |source| ImageError::File { path, source }
    }
}

/// The content of a path in the guest.
enum Content {
    /// A copy of a file of the host, with its permissions.
    Copy(PathBuf, u32),
    Text(String, u32),
    Link(&'static str),
}

/// The base image of a scenario on a kernel, from the cache or new. `program` becomes init.
pub(crate) fn base(cache: &Cache, kernel: &Kernel, scenario: &Scenario, program: &Path) -> Result<PathBuf, ImageError> {
    let entries = gather(kernel, scenario, program)?;
    let file = cache.images().join(format!("{}.cpio", digest_of(&entries)?));
    if file.exists() {
        let _ = fs::File::open(&file).and_then(|file| file.set_modified(SystemTime::now()));
        return Ok(file);
    }
    let part = PartialEntry::file(&file).map_err(ImageError::file(&file))?;
    write(&entries, part.path())?;
    prune(&cache.images());
    part.keep().map_err(ImageError::file(&file))
}

/// Writes the base image followed by the files of this run: the request, a trial's changes, and texts of the scenario, which
/// would make a base image of their own.
pub(crate) fn for_run(
    base: &Path,
    scenario: &Scenario,
    request: &str,
    trial: Option<&str>,
    into: &Path,
) -> Result<(), ImageError> {
    fs::copy(base, into).map_err(ImageError::file(into))?;
    let failed = ImageError::file(into);
    let append = || -> io::Result<()> {
        let mut archive = Archive::new(fs::File::options().append(true).open(into)?);
        let texts = files::texts(scenario);
        for directory in directories(texts.iter().map(|(path, ..)| *path)) {
            archive.directory(&directory)?;
        }
        for (path, text, permissions) in texts {
            archive.file(path, permissions, text.as_bytes())?;
        }
        archive.file(REQUEST, 0o644, request.as_bytes())?;
        if let Some(changes) = trial {
            let mut padded = changes.as_bytes().to_vec();
            padded.resize(changes.len().next_multiple_of(TRIAL_LENGTH), b' ');
            archive.file(TRIAL, 0o644, &padded)?;
        }
        archive.finish().map(|_| ())
    };
    append().map_err(failed)
}

fn gather(kernel: &Kernel, scenario: &Scenario, program: &Path) -> Result<BTreeMap<String, Content>, ImageError> {
    let mut entries = BTreeMap::new();
    let mut libraries = BTreeMap::new();
    entries.insert("/init".to_owned(), Content::Copy(program.to_owned(), 0o755));
    program::libraries(program, &mut libraries)?;
    for tool in &scenario.tools {
        let found = Program::find(tool).map_err(|error| match error.is_absent() {
            true => ImageError::Other(format!("the scenario needs `{tool}`, which is not installed on this host")),
            false => ImageError::NotTrusted { tool: tool.clone(), source: error },
        });
        let file = found?.path().to_owned();
        program::needs(&file, &scenario.tools, &mut libraries)?;
        entries.insert(format!("/usr/bin/{}", base_name(tool)), Content::Copy(file, 0o755));
    }
    entries.extend(shared(libraries));
    entries.insert("/usr/bin/load".to_owned(), Content::Link("/init"));
    entries.insert(format!("/usr/bin/{PLAYER}"), Content::Link("/init"));
    entries.insert("/usr/bin/unstarve".to_owned(), Content::Link("/init"));
    // Scripts name interpreters by this path.
    entries.insert("/bin".to_owned(), Content::Link("/usr/bin"));
    entries.insert("/etc/passwd".to_owned(), Content::Text("root:x:0:0:root:/:/init\n".to_owned(), 0o644));
    files::add(scenario, &mut entries)?;
    add_modules(kernel, scenario, &mut entries)?;
    Ok(entries)
}

/// Converts libraries to entries.
fn shared(libraries: BTreeMap<String, PathBuf>) -> impl Iterator<Item = (String, Content)> {
    libraries.into_iter().map(|(path, file)| (path, Content::Copy(file, 0o755)))
}

/// A tool's name without its directory.
fn base_name(tool: &str) -> &str {
    tool.rsplit('/').next().unwrap_or(tool)
}

/// Whether the lab uses this path in the guest.
pub(crate) fn is_reserved(path: &str) -> bool {
    let below =
        |directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let mounted = ["/proc", "/sys", "/dev", "/run", "/tmp", "/bin"];
    ["/init", REQUEST, TRIAL, "/usr/bin/load", "/usr/bin/play", "/usr/bin/unstarve", MODULES]
        .into_iter()
        .chain(mounted)
        .any(below)
}

fn add_modules(
    kernel: &Kernel,
    scenario: &Scenario,
    entries: &mut BTreeMap<String, Content>,
) -> Result<(), ImageError> {
    let modules = kernel.modules()?;
    let late: Vec<String> = LATE_MODULES.map(str::to_owned).to_vec();
    for (list, names) in [(MODULES_EARLY, &scenario.modules), (MODULES_LATE, &late)] {
        let order = modules.in_order(&kernel.info.release, names)?;
        let files: Vec<&str> = order.load.iter().map(|module| module.file.as_str()).collect();
        let asked = order.ask.iter().map(|name| format!("{name}{ASK}"));
        let lines: Vec<String> = files.iter().map(|file| (*file).to_owned()).chain(asked).collect();
        entries.insert(list.to_owned(), Content::Text(lines.join("\n"), 0o644));
        for file in files {
            entries.insert(format!("{MODULES}/{file}"), Content::Copy(kernel.module_file(file), 0o644));
        }
    }
    Ok(())
}

fn digest_of(entries: &BTreeMap<String, Content>) -> Result<String, ImageError> {
    let mut text = String::new();
    for (path, content) in entries {
        let of = match content {
            Content::Copy(file, permissions) => {
                format!("{permissions:o} {}", digest(&as_the_guest_gets(file)?))
            }
            Content::Text(text, permissions) => format!("text {permissions:o} {}", digest(text.as_bytes())),
            Content::Link(target) => format!("link {target}"),
        };
        text.push_str(&format!("{path} {of}\n"));
    }
    Ok(digest(text.as_bytes()))
}

fn as_the_guest_gets(file: &Path) -> Result<Vec<u8>, ImageError> {
    Ok(loadable(fs::read(file).map_err(ImageError::file(file))?))
}

fn write(entries: &BTreeMap<String, Content>, into: &Path) -> Result<(), ImageError> {
    let failed = |source| ImageError::File { path: into.to_owned(), source };
    let file = fs::File::create(into).map_err(failed)?;
    let mut archive = Archive::new(BufWriter::new(file));
    for directory in directories(entries.keys().map(String::as_str)) {
        archive.directory(&directory).map_err(failed)?;
    }
    for (path, content) in entries {
        match content {
            Content::Copy(file, permissions) => {
                archive.file(path, *permissions, &as_the_guest_gets(file)?).map_err(failed)?;
            }
            Content::Text(text, permissions) => archive.file(path, *permissions, text.as_bytes()).map_err(failed)?,
            Content::Link(target) => archive.link(path, target).map_err(failed)?,
        }
    }
    let mut output = archive.finish().map_err(failed)?;
    output.flush().map_err(failed)
}

/// All parent directories of the entries and of the guest's mount points, parents first.
fn directories<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut all: BTreeSet<String> =
        ["/proc", "/sys", "/dev", "/tmp", "/run", "/mnt"].into_iter().map(str::to_owned).collect();
    for path in paths {
        let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        all.extend(above.filter(|directory| *directory != "/" && !directory.is_empty()).map(str::to_owned));
    }
    all
}

/// Maximum base images in the cache.
const MAX_BASE_IMAGES: usize = 12;

/// Removes the least recently used images, and ignores failures.
fn prune(images: &Path) {
    let entries = fs::read_dir(images).into_iter().flatten().filter_map(Result::ok);
    let is_image = |path: &Path| path.extension().is_some_and(|extension| extension == "cpio");
    let mut used: Vec<(SystemTime, PathBuf)> = entries
        .filter(|entry| is_image(&entry.path()) && !entry.file_name().to_string_lossy().starts_with('.'))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    used.sort();
    used.reverse();
    for (_, path) in used.into_iter().skip(MAX_BASE_IMAGES - 1) {
        let _ = fs::remove_file(path);
    }
}
