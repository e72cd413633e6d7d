//! Adds a kernel to the store: from Debian's archive or from a file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::apt::{Apt, Archive, Installed, Package, Suites, unpack};
use super::kernel::{IMAGE, KernelInfo, MODULES, checked_name, describe};
use super::modules::Modules;
use super::version::dpkg_order;
use super::{Cache, PartialEntry, StoreError, digest_of_file};

/// A kernel to bring into the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The newest kernel of a Debian suite.
    Suite {
        /// Its name in the store: `6.1`.
        name: &'static str,
        /// `bookworm`.
        suite: &'static str,
    },
    /// A point release that the archive serves in some suite.
    Release {
        /// Its name in the store: `6.12.43`, `7.2.12-rt`.
        name: String,
    },
    /// The user's own kernel.
    File {
        /// Its name in the store; by default the release in the file.
        name: Option<String>,
        /// A bzImage.
        image: PathBuf,
        /// A directory like `/lib/modules/VERSION`; `None`: no modules.
        modules: Option<PathBuf>,
    },
}

/// The kernels of Debian 11, 12, 13 and unstable; with `-rt` the flavour with PREEMPT_RT.
const DEBIAN_SUITES: [(&str, &str); 8] = [
    ("5.10", "bullseye"),
    ("6.1", "bookworm"),
    ("6.12", "trixie"),
    ("7", "sid"),
    ("5.10-rt", "bullseye"),
    ("6.1-rt", "bookworm"),
    ("6.12-rt", "trixie"),
    ("7-rt", "sid"),
];

impl Wanted {
    /// Debian's kernels that can be added, by their short names, with their suites: `6.1` of `bookworm`.
    pub const fn suites() -> &'static [(&'static str, &'static str)] {
        &DEBIAN_SUITES
    }

    /// Interprets a user's name for a kernel: the short name of a Debian kernel, a point release, else a file.
    pub fn named(text: &str, name: Option<String>, modules: Option<PathBuf>) -> Wanted {
        match DEBIAN_SUITES.iter().find(|(short, _)| *short == text) {
            Some(&(name, suite)) => Wanted::Suite { name, suite },
            None if is_point_release(text) => Wanted::Release { name: text.to_owned() },
            None => Wanted::File { name, image: PathBuf::from(text), modules },
        }
    }
}

/// Whether it names a point release: `6.12.43`, `7.2.12-rt`.
pub fn is_point_release(name: &str) -> bool {
    let version = name.strip_suffix(RT).unwrap_or(name);
    let parts: Vec<&str> = version.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What the names of kernels with PREEMPT_RT end with.
const RT: &str = "-rt";

/// Where point releases are looked for: Debian 11 and later, with what was backported to each.
const ALL_SUITES: Suites<'_> = Suites {
    main: &[
        "bullseye",
        "bullseye-backports",
        "bookworm",
        "bookworm-backports",
        "trixie",
        "trixie-backports",
        "forky",
        "sid",
        "experimental",
    ],
    security: &["bullseye-security", "bookworm-security", "trixie-security"],
    some_may_lack: true,
};

/// The point releases that the archive serves, oldest first, each with and without PREEMPT_RT.
///
/// # Errors
/// If the archive's lists cannot be had.
pub fn available(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Vec<String>, StoreError> {
    let apt = all_suites(cache, progress)?;
    let mut names = Vec::new();
    for flavour in ["", RT] {
        let packages = bootable(apt.packages(package_pattern(flavour))?);
        let names_of = packages.iter().map(|package| format!("{}{flavour}", upstream(&package.version)));
        names.extend(names_of.filter(|name| is_point_release(name)));
    }
    names.sort_by(|a, b| dpkg_order(a, b));
    names.dedup();
    Ok(names)
}

fn all_suites(cache: &Cache, progress: &mut dyn FnMut(&str)) -> Result<Apt, StoreError> {
    let archive = Archive::of_machine()?;
    progress("fetching the package lists of all suites");
    Apt::open(cache, &archive, "all", ALL_SUITES, Installed::Nothing)
}

/// `6.12.43` of `6.12.43-1~bpo12+1`.
fn upstream(version: &str) -> &str {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(upstream, _)| upstream)
}

/// The packages of a kernel by its short name. The cloud flavour has all required drivers and few modules; PREEMPT_RT
/// has a flavour of its own, with all of Debian's modules. From 7.0 on a package is split into binary and modules.
fn package_pattern(name: &str) -> &'static str {
    if name.ends_with(RT) {
        "^linux-(image|binary|modules)-[0-9].*[0-9]-rt-amd64$"
    } else {
        "^linux-(image|binary|modules)-[0-9].*cloud-amd64$"
    }
}

/// Adds a kernel to the store. Calls `progress` with each step.
pub fn add(cache: &Cache, wanted: &Wanted, progress: &mut dyn FnMut(&str)) -> Result<KernelInfo, StoreError> {
    match wanted {
        Wanted::Suite { name, suite } => {
            let archive = Archive::of_machine()?;
            progress(&format!("fetching the package list of {suite}"));
            let apt = Apt::open(cache, &archive, suite, Suites::of_archive(&[suite]), Installed::Nothing)?;
            let pattern = package_pattern(name);
            let packages = newest(apt.packages(pattern)?);
            add_from_archive(cache, name, &apt, packages, progress)?
                .ok_or_else(|| StoreError::no_package(pattern, suite))
        }
        Wanted::Release { name } => {
            let apt = all_suites(cache, progress)?;
            let mut packages = bootable(apt.packages(package_pattern(name))?);
            let version = name.strip_suffix(RT).unwrap_or(name);
            packages.retain(|package| upstream(&package.version) == version);
            add_from_archive(cache, name, &apt, newest(packages), progress)?.ok_or_else(|| {
                let what =
                    "the archive serves no such kernel: `unstarve lab kernel available` lists those that it does";
                StoreError::Other(format!("{name}: {what}"))
            })
        }
        Wanted::File { name, image, modules } => add_file(cache, name.as_deref(), image, modules.as_deref(), progress),
    }
}

/// `None` if there is no package.
fn add_from_archive(
    cache: &Cache,
    name: &str,
    apt: &Apt,
    packages: Vec<Package>,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<KernelInfo>, StoreError> {
    let Some(first) = packages.first().cloned() else { return Ok(None) };
    let part = PartialEntry::directory(&cache.kernels().join(name)).map_err(StoreError::file(cache.kernels()))?;
    let scratch = part.path().join("unpacked");
    fs::create_dir(&scratch).map_err(StoreError::file(&scratch))?;
    let names: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    progress(&format!("fetching {} {}", names.join(" and "), first.version));
    for file in apt.download(&names, part.path())? {
        unpack(&file, &scratch)?;
        fs::remove_file(&file).map_err(StoreError::file(&file))?;
    }
    progress("taking the modules out");
    let image = find(&scratch, &["boot", "usr/lib/modules"], "vmlinuz")?;
    let modules = modules_directory(&scratch)?;
    let about = About {
        name: name.to_owned(),
        version: Some(first.version),
        source: first.source,
        packages: packages.iter().map(|package| format!("{} sha256:{}", package.name, package.sha256)).collect(),
    };
    let info = fill(part.path(), &image, Some(&modules), about)?;
    fs::remove_dir_all(&scratch).map_err(StoreError::file(&scratch))?;
    part.keep().map_err(StoreError::file(cache.kernels()))?;
    Ok(Some(info))
}

fn add_file(
    cache: &Cache,
    name: Option<&str>,
    image: &Path,
    modules: Option<&Path>,
    progress: &mut dyn FnMut(&str),
) -> Result<KernelInfo, StoreError> {
    let release = release_of(image)?;
    let name = checked_name(name.unwrap_or(&release))?.to_owned();
    progress(&format!("copying {release}"));
    let part = PartialEntry::directory(&cache.kernels().join(&name)).map_err(StoreError::file(cache.kernels()))?;
    let source = image.display().to_string();
    let info = fill(part.path(), image, modules, About { name, version: None, source, packages: Vec::new() })?;
    part.keep().map_err(StoreError::file(cache.kernels()))?;
    Ok(info)
}

struct About {
    name: String,
    version: Option<String>,
    source: String,
    packages: Vec<String>,
}

/// Fills a kernel's directory.
fn fill(into: &Path, image: &Path, modules: Option<&Path>, about: About) -> Result<KernelInfo, StoreError> {
    let target = into.join(IMAGE);
    fs::copy(image, &target).map_err(StoreError::file(image))?;
    let directory = into.join(MODULES);
    fs::create_dir(&directory).map_err(StoreError::file(&directory))?;
    let modules = match modules {
        Some(from) => Modules::import(from, &directory)?,
        None => Modules::default(),
    };
    let About { name, version, source, packages } = about;
    let digest = digest_of_file(&target).map_err(StoreError::file(&target))?;
    let info = KernelInfo { name, release: release_of(&target)?, version, source, packages, digest };
    describe(into, &info, &modules)?;
    Ok(info)
}

/// The packages of versions that can be booted: the archive keeps the binary of a split package for longer than its modules.
fn bootable(packages: Vec<Package>) -> Vec<Package> {
    let has = |part: &str, version: &str| {
        packages.iter().any(|package| package.version == version && package.name.starts_with(part))
    };
    let is_whole =
        |package: &&Package| !has("linux-binary-", &package.version) || has("linux-modules-", &package.version);
    packages.iter().filter(is_whole).cloned().collect()
}

/// The packages of the newest version; if image and binary are split, the binary.
fn newest(mut packages: Vec<Package>) -> Vec<Package> {
    let Some(last) = packages.last().map(|package| package.version.clone()) else { return packages };
    packages.retain(|package| package.version == last);
    let split: Vec<Package> =
        packages.iter().filter(|package| !package.name.starts_with("linux-image-")).cloned().collect();
    if split.is_empty() { packages } else { split }
}

fn modules_directory(unpacked: &Path) -> Result<PathBuf, StoreError> {
    let bases = ["usr/lib/modules", "lib/modules"].map(|below| unpacked.join(below));
    let found = bases.iter().filter_map(|base| fs::read_dir(base).ok()).flatten().filter_map(Result::ok);
    found
        .map(|entry| entry.path())
        .find(|path| path.join("kernel").is_dir())
        .ok_or_else(|| StoreError::malformed(unpacked, "the package holds no modules"))
}

/// The first file in one of `places`, or one level deeper, whose name has this prefix.
fn find(unpacked: &Path, places: &[&str], prefix: &str) -> Result<PathBuf, StoreError> {
    let mut directories: Vec<PathBuf> = places.iter().map(|place| unpacked.join(place)).collect();
    let mut next = 0;
    while let Some(directory) = directories.get(next).cloned() {
        next += 1;
        for path in fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_file() && name.starts_with(prefix) {
                return Ok(path);
            }
            if path.is_dir() && next <= places.len() {
                directories.push(path);
            }
        }
    }
    Err(StoreError::malformed(unpacked, format_args!("the package holds no {prefix}")))
}

/// The release string in a bzImage's header (Documentation/arch/x86/boot.rst: magic `HdrS` at 0x202; 0x20e has the
/// string's offset minus 0x200).
fn release_of(image: &Path) -> Result<String, StoreError> {
    // Read only as far as the offset can reach; a file that a user named may be endless.
    let mut bytes = Vec::new();
    let file = fs::File::open(image).map_err(StoreError::file(image))?;
    file.take(0x2_0000).read_to_end(&mut bytes).map_err(StoreError::file(image))?;
    let malformed = || StoreError::malformed(image, "not a bzImage of a Linux kernel");
    if bytes.get(0x202..0x206) != Some(b"HdrS".as_slice()) {
        return Err(malformed());
    }
    let at = bytes.get(0x20e..0x210).map(|field| usize::from(u16::from_le_bytes([field[0], field[1]])) + 0x200);
    let text = at.and_then(|at| bytes.get(at..)).ok_or_else(malformed)?;
    let end = text.iter().take(200).position(|&byte| byte == b' ' || byte == 0).ok_or_else(malformed)?;
    std::str::from_utf8(&text[..end]).map(str::to_owned).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn package(name: &str, version: &str) -> Package {
        Package { name: name.into(), version: version.into(), source: "linux".into(), sha256: String::new() }
    }

    #[test]
    fn the_newest_packages_are_those_with_content() {
        let whole = vec![package("linux-image-6.1.0-47", "6.1.3-1"), package("linux-image-6.1.0-50", "6.1.4-1")];
        assert_eq!(newest(whole), [package("linux-image-6.1.0-50", "6.1.4-1")]);
        let split = ["binary", "image", "modules"].map(|kind| package(&format!("linux-{kind}-7.2"), "7.2-1"));
        assert_eq!(newest(split.to_vec()), [split[0].clone(), split[2].clone()]);
        assert_eq!(newest(Vec::new()), []);
        let older = ["binary", "image"].map(|kind| package(&format!("linux-{kind}-7.0.4"), "7.0.4-1"));
        let mixed = [older.as_slice(), &split, &[package("linux-image-6.1.0-50", "6.1.4-1")]].concat();
        let versions = bootable(mixed).into_iter().map(|package| package.version).collect::<BTreeSet<_>>();
        assert_eq!(Vec::from_iter(versions), ["6.1.4-1", "7.2-1"]);
    }

    #[test]
    fn a_short_name_picks_suite_and_flavour() {
        let wanted = |name: &'static str, suite| Wanted::Suite { name, suite };
        assert_eq!(Wanted::named("6.12-rt", None, None), wanted("6.12-rt", "trixie"));
        assert_eq!(Wanted::named("6.12", None, None), wanted("6.12", "trixie"));
        assert!(package_pattern("6.12-rt").ends_with("-rt-amd64$"));
        assert!(package_pattern("6.12").ends_with("cloud-amd64$"));
    }

    #[test]
    fn a_point_release_is_told_from_a_file() {
        for name in ["6.12.43", "7.2.12-rt", "5.10.218"] {
            assert_eq!(Wanted::named(name, None, None), Wanted::Release { name: name.to_owned() });
        }
        for file in ["6.12.43-1", "./6.12.43", "6.12.", "6.12.x", "6.6", "6.12.43-rt-rt"] {
            assert!(matches!(Wanted::named(file, None, None), Wanted::File { .. }), "{file}");
        }
        let versions = ["6.12.43-1~bpo12+1", "6.1.192-3", "1:7.3~rc7-1~exp1", "6.12.90"];
        assert_eq!(versions.map(upstream), ["6.12.43", "6.1.192", "7.3~rc7", "6.12.90"]);
    }

    #[test]
    fn a_users_kernel_is_copied_and_named_by_its_release() {
        let scratch = tempfile::tempdir().expect("a directory");
        let image = scratch.path().join("bzImage");
        let mut bytes = vec![0; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x30c].copy_from_slice(b"6.9.1-own (x");
        fs::write(&image, &bytes).expect("written");
        let cache = Cache::at(scratch.path().join("cache"));
        let wanted = Wanted::named(image.to_str().expect("text"), None, None);
        let info = add(&cache, &wanted, &mut |_| {}).expect("added");
        assert_eq!((info.name.as_str(), info.release.as_str()), ("6.9.1-own", "6.9.1-own"));
        assert_eq!(super::super::list(&cache).expect("a list"), [info]);
        super::super::remove(&cache, "6.9.1-own").expect("removed");
        assert_eq!(super::super::list(&cache).expect("a list"), []);
        fs::write(&image, &bytes[..0x204]).expect("written");
        let refused = add(&cache, &wanted, &mut |_| {}).expect_err("torn").to_string();
        assert!(refused.ends_with("not a bzImage of a Linux kernel"), "{refused}");
    }
}
