//! Kernels in the store.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::modules::Modules;
use super::{Cache, StoreError, cache};

/// The description of a kernel (`kernel.toml`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its name in the store: `6.1`, or a user's own.
    pub name: String,
    /// Its own release string: `6.1.0-50-cloud-amd64`.
    pub release: String,
    /// The package's version; `None` for a user's own kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The source package, or the file it was copied from.
    pub source: String,
    /// The packages with the archive's digests.
    #[serde(default)]
    pub packages: Vec<String>,
    /// SHA-256 of the kernel image, in hex.
    pub digest: String,
}

impl KernelInfo {
    /// The source package with the package's version, or the file.
    pub fn package(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.source),
            None => self.source.clone(),
        }
    }
}

/// A kernel in the store.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its description.
    pub info: KernelInfo,
    directory: PathBuf,
}

impl Kernel {
    /// The kernel with this name.
    pub fn open(cache: &Cache, name: &str) -> Result<Kernel, StoreError> {
        let directory = cache.kernels().join(checked_name(name)?);
        if !directory.is_dir() {
            let names: Vec<String> = list(cache)?.into_iter().map(|info| info.name).collect();
            let have = if names.is_empty() { "is none".to_owned() } else { format!("are: {}", names.join(", ")) };
            return Err(StoreError::Other(format!(
                "no kernel `{name}` in the store (there {have}); add it with `unstarve lab kernel add {name}`"
            )));
        }
        Ok(Kernel { info: read_info(&directory)?, directory })
    }

    /// The kernel image.
    pub fn image(&self) -> PathBuf {
        self.directory.join(IMAGE)
    }

    pub(crate) fn module_file(&self, file: &str) -> PathBuf {
        self.directory.join(MODULES).join(file)
    }

    pub(crate) fn modules(&self) -> Result<Modules, StoreError> {
        let path = self.directory.join(MODULE_INDEX_FILE);
        let text = fs::read_to_string(&path).map_err(StoreError::file(&path))?;
        serde_json::from_str(&text).map_err(|error| StoreError::malformed(&path, error))
    }
}

/// Files of a kernel's directory.
pub(super) const IMAGE: &str = "vmlinuz";
pub(super) const MODULES: &str = "modules";
const MODULE_INDEX_FILE: &str = "modules.json";
const KERNEL_INFO_FILE: &str = "kernel.toml";

/// Writes a kernel's description and module index into its directory.
pub(super) fn describe(directory: &Path, info: &KernelInfo, modules: &Modules) -> Result<(), StoreError> {
    let text = toml::to_string(info).map_err(|error| StoreError::malformed(directory, error))?;
    fs::write(directory.join(KERNEL_INFO_FILE), text).map_err(StoreError::file(directory.join(KERNEL_INFO_FILE)))?;
    let index = serde_json::to_string(modules).map_err(|error| StoreError::malformed(directory, error))?;
    fs::write(directory.join(MODULE_INDEX_FILE), index).map_err(StoreError::file(directory.join(MODULE_INDEX_FILE)))
}

fn read_info(directory: &Path) -> Result<KernelInfo, StoreError> {
    let path = directory.join(KERNEL_INFO_FILE);
    let text = fs::read_to_string(&path).map_err(StoreError::file(&path))?;
    toml::from_str(&text).map_err(|error| StoreError::malformed(&path, error.message()))
}

/// All kernels in the store, by name.
pub fn list(cache: &Cache) -> Result<Vec<KernelInfo>, StoreError> {
    let directory = cache.kernels();
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::file(directory)(error)),
    };
    let mut infos = Vec::new();
    for entry in entries {
        let path = entry.map_err(StoreError::file(&directory))?.path();
        if path.join(KERNEL_INFO_FILE).exists()
            && !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
        {
            infos.push(read_info(&path)?);
        }
    }
    infos.sort_by(|a, b| super::version::dpkg_order(&a.name, &b.name));
    Ok(infos)
}

/// Removes a kernel from the store.
pub fn remove(cache: &Cache, name: &str) -> Result<(), StoreError> {
    let kernel = Kernel::open(cache, name)?;
    cache::remove(&kernel.directory).map_err(StoreError::file(kernel.directory))
}

/// Checks a name, because names become directories.
pub(super) fn checked_name(name: &str) -> Result<&str, StoreError> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let ok = !name.is_empty() && name.len() <= 100 && name.chars().all(good) && !name.starts_with(['.', '-']);
    let refused =
        || StoreError::Other(format!("`{name}` cannot name a kernel: letters, digits, `.`, `_`, `+` and `-` can"));
    if ok { Ok(name) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside_the_store() {
        let bad = ["", "../x", "a/b", ".hidden", "-x"];
        assert!(bad.iter().all(|name| checked_name(name).is_err()));
        assert!(["6.1", "my-kernel_7.0+x"].iter().all(|name| checked_name(name).is_ok()));
    }

    #[test]
    fn a_missing_kernel_is_named_with_those_that_there_are() {
        let scratch = tempfile::tempdir().expect("a directory");
        let cache = Cache::at(scratch.path().to_owned());
        let message = Kernel::open(&cache, "6.1").expect_err("there is none").to_string();
        assert_eq!(message, "no kernel `6.1` in the store (there is none); add it with `unstarve lab kernel add 6.1`");
    }
}
