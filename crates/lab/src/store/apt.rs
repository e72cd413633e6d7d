//! Fetches Debian packages through apt with separate state.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use unstarve_files::program::{PROXY_VARIABLES, Program, keep};

use super::version::dpkg_order;
use super::{Cache, StoreError};

/// Signs all suites of Debian's archive.
const DEBIAN_KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The Debian archive that this machine's packages come from.
#[derive(Clone, Debug)]
pub(crate) struct Archive {
    uri: String,
    /// Its archive of security updates, if the machine uses one.
    security: Option<String>,
}

/// Suites that packages are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suites<'a> {
    /// Of the archive.
    pub(crate) main: &'a [&'a str],
    /// Of its archive of security updates, if there is one.
    pub(crate) security: &'a [&'a str],
    /// Whether the archive may lack some of them.
    pub(crate) some_may_lack: bool,
}

impl<'a> Suites<'a> {
    /// Suites of the archive that have to be there.
    pub(crate) fn of_archive(main: &'a [&'a str]) -> Suites<'a> {
        Suites { main, security: &[], some_may_lack: false }
    }
}

impl Archive {
    /// The archive in the machine's apt configuration.
    pub(crate) fn of_machine() -> Result<Archive, StoreError> {
        let keyring = Path::new(DEBIAN_KEYRING);
        if !keyring.exists() {
            let what = format!("{DEBIAN_KEYRING} is missing: install the package debian-archive-keyring");
            return Err(StoreError::Other(what));
        }
        let format = "$(REPO_URI)\t$(LABEL)\t$(RELEASE)\t$(COMPONENT)";
        let targets = run(fetcher("apt-get")?.args(["indextargets", "--format", format]))?;
        let absent = "no Debian archive among this machine's apt sources, so no kernel can be fetched; give a kernel file \
                      instead: `unstarve lab kernel add FILE --modules DIR`";
        let uri = find_archive(&targets).ok_or_else(|| StoreError::Other(absent.to_owned()))?;
        Ok(Archive { uri, security: find_security(&targets) })
    }
}

/// The first archive of security updates: labelled so, or with a suite of that name.
fn find_security(targets: &str) -> Option<String> {
    let rows = targets.lines().map(|line| line.split('\t').collect::<Vec<_>>()).filter(|row| row.len() == 4);
    let is_security = |row: &Vec<&str>| {
        row[3] == "main" && (row[1] == "Debian-Security" || row[1].is_empty() && row[2].ends_with("-security"))
    };
    rows.into_iter().find(is_security).map(|row| row[0].to_owned())
}

/// The first archive labelled Debian; the label is known only after apt has fetched the index, so without any label the
/// suites' names decide.
fn find_archive(targets: &str) -> Option<String> {
    let rows: Vec<Vec<&str>> = targets.lines().map(|line| line.split('\t').collect()).collect();
    let main = |row: &&Vec<&str>| row.len() == 4 && row[3] == "main";
    let labelled = rows.iter().filter(main).find(|row| row[1] == "Debian");
    let suites = ["bullseye", "bookworm", "trixie", "forky", "sid", "stable", "testing", "unstable"];
    let named = || rows.iter().filter(main).find(|row| row[1].is_empty() && suites.contains(&row[2]));
    labelled.or_else(named).map(|row| row[0].to_owned())
}

/// The installed packages that apt resolves dependencies against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Installed {
    /// None.
    Nothing,
    /// A copy of the host's.
    Host,
}

/// apt with separate state for some suites.
#[derive(Debug)]
pub(crate) struct Apt {
    directory: PathBuf,
}

impl Apt {
    /// Creates the state and fetches the package lists.
    pub(crate) fn open(
        cache: &Cache,
        archive: &Archive,
        name: &str,
        suites: Suites<'_>,
        installed: Installed,
    ) -> Result<Apt, StoreError> {
        let apt = Apt { directory: cache.apt(name) };
        apt.lay_out(archive, suites, installed).map_err(StoreError::file(&apt.directory))?;
        let updated = run(apt.command("apt-get")?.args(["-qq", "update"]));
        match updated {
            Err(error) if !(suites.some_may_lack && only_suites_lack(&error.to_string())) => return Err(error),
            _ => {}
        }
        if !has_lists(&apt.directory.join("state/lists")) {
            let (suites, archive) = (suites.main.join(", "), &archive.uri);
            return Err(StoreError::Other(format!(
                "no package list of {suites} came from {archive}: is the network there? Try `apt-get update` by hand"
            )));
        }
        Ok(apt)
    }

    fn lay_out(&self, archive: &Archive, suites: Suites<'_>, installed: Installed) -> io::Result<()> {
        for below in ["state/lists/partial", "cache/archives/partial", "etc"] {
            fs::create_dir_all(self.directory.join(below))?;
        }
        let stanza = |(uri, suites): (&str, &[&str])| {
            let suites = suites.join(" ");
            format!("Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {DEBIAN_KEYRING}\n\n")
        };
        let security = archive.security.as_deref().map(|uri| (uri, suites.security));
        let of_both = [Some((archive.uri.as_str(), suites.main)), security];
        let stanzas = of_both.into_iter().flatten().filter(|(_, suites)| !suites.is_empty());
        fs::write(self.directory.join("etc/lab.sources"), stanzas.map(stanza).collect::<String>())?;
        let status = self.directory.join("status");
        match installed {
            Installed::Nothing => fs::write(status, ""),
            Installed::Host => fs::copy("/var/lib/dpkg/status", status).map(|_| ()),
        }
    }

    /// The packages whose names match the extended regular expression, oldest first.
    pub(crate) fn packages(&self, pattern: &str) -> Result<Vec<Package>, StoreError> {
        let names = run(self.command("apt-cache")?.args(["search", "--names-only", pattern]))?;
        let names: Vec<&str> = names.lines().filter_map(|line| line.split(' ').next()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let shown = run(self.command("apt-cache")?.args(["show", "--no-all-versions"]).args(names))?;
        let mut packages: Vec<Package> = shown.split("\n\n").filter_map(Package::parse).collect();
        packages.sort_by(|a, b| dpkg_order(&a.version, &b.version).then_with(|| a.name.cmp(&b.name)));
        Ok(packages)
    }

    /// Fetches these packages into `into`.
    pub(crate) fn download(&self, names: &[&str], into: &Path) -> Result<Vec<PathBuf>, StoreError> {
        run(self.command("apt-get")?.args(["-qq", "download"]).args(names).current_dir(into))?;
        packages_in(into)
    }

    /// Fetches a package of `suite` with its dependencies that are not installed.
    pub(crate) fn download_with_dependencies(&self, name: &str, suite: &str) -> Result<Vec<PathBuf>, StoreError> {
        let archives = self.directory.join("cache/archives");
        for old in packages_in(&archives)? {
            fs::remove_file(&old).map_err(StoreError::file(old))?;
        }
        let arguments = ["-qq", "install", "--yes", "--download-only", "--no-install-recommends", "-t", suite, name];
        run(self.command("apt-get")?.args(arguments))?;
        packages_in(&archives)
    }

    /// Writes nothing of the host's package state: state, cache and sources are separate, and the host's lock is not
    /// taken.
    fn command(&self, program: &str) -> Result<Command, StoreError> {
        let mut command = fetcher(program)?;
        let at = |name: &str, below: &str| {
            let mut option = OsString::from(format!("{name}="));
            option.push(self.directory.join(below));
            option
        };
        let options = [
            at("Dir::State", "state"),
            at("Dir::State::status", "status"),
            at("Dir::Cache", "cache"),
            at("Dir::Etc::sourceparts", "etc"),
            "Dir::Etc::sourcelist=/dev/null".into(),
            "Dir::Etc::preferences=/dev/null".into(),
            "Dir::Etc::preferencesparts=/dev/null".into(),
            "APT::Get::List-Cleanup=0".into(),
            "APT::Update::Pre-Invoke=".into(),
            "APT::Update::Post-Invoke=".into(),
            "APT::Update::Post-Invoke-Success=".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=2".into(),
            "Acquire::http::Timeout=60".into(),
            "Debug::NoLocking=1".into(),
        ];
        for option in options {
            command.arg("-o").arg(option);
        }
        Ok(command)
    }
}

/// Whether apt failed only because the archive lacks a suite.
fn only_suites_lack(message: &str) -> bool {
    let errors: Vec<&str> = message.split("E: ").skip(1).collect();
    !errors.is_empty() && errors.iter().all(|error| error.contains("does not have a Release file"))
}

/// Whether any package list exists, of this fetch or an earlier one.
fn has_lists(directory: &Path) -> bool {
    let names = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    names.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

fn packages_in(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = fs::read_dir(directory).map_err(StoreError::file(directory))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect();
    found.sort();
    Ok(found)
}

/// One of the system's apt programs; of our environment it gets only the proxy settings.
fn fetcher(program: &str) -> Result<Command, StoreError> {
    let mut command = Program::of_system(program)?.command();
    keep(&mut command, &PROXY_VARIABLES);
    Ok(command)
}

/// Unpacks a package without installing it. Files belong to this user, nobody else can write them, and none is setuid,
/// whatever the package says. Writes nothing outside `into`, whatever its links say.
pub(crate) fn unpack(package: &Path, into: &Path) -> Result<(), StoreError> {
    let mut command = Program::of_system("dpkg-deb")?.command();
    command.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    end_with_us(&mut command);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|source| StoreError::Program { program: name.clone(), source })?;
    let mut archive =
        tar::Archive::new(child.stdout.take().ok_or_else(|| StoreError::Program {
            program: name.clone(),
            source: io::Error::other("it has no output"),
        })?);
    archive.set_mask(0o022);
    let unpacked = archive.unpack(into);
    // Read to its end, so that data after the last file does not make dpkg fail.
    let _ = io::copy(&mut archive.into_inner(), &mut io::sink());
    let output = child.wait_with_output().map_err(|source| StoreError::Program { program: name.clone(), source })?;
    if !output.status.success() {
        return Err(failed(&command, &output));
    }
    unpacked.map_err(StoreError::file(package))
}

/// A package of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) source: String,
    pub(crate) sha256: String,
}

impl Package {
    fn parse(stanza: &str) -> Option<Package> {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };
        let name = field("Package")?;
        let source = field("Source").unwrap_or_else(|| name.clone());
        Some(Package { version: field("Version")?, source, sha256: field("SHA256").unwrap_or_default(), name })
    }
}

/// Runs a command to its end and returns its output.
pub(crate) fn run(command: &mut Command) -> Result<String, StoreError> {
    let program = command.get_program().to_string_lossy().into_owned();
    end_with_us(command);
    let result = command.stdin(Stdio::null()).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").output();
    let output = result.map_err(|source| StoreError::Program { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(command, &output))
}

/// The child is killed when this process dies.
fn end_with_us(command: &mut Command) {
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            Ok(())
        });
    }
}

fn failed(command: &Command, output: &Output) -> StoreError {
    let said = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("E:") || !line.starts_with("W:")).collect();
    let message = if errors.is_empty() { output.status.to_string() } else { errors.join("; ") };
    let plain = command.get_args().filter_map(|argument| argument.to_str());
    let plain: Vec<&str> = plain.filter(|argument| !argument.contains("::") && *argument != "-o").collect();
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    StoreError::Other(format!("`{program} {}` failed: {message}", plain.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suite_that_is_not_there_is_told_from_an_archive_that_does_not_answer() {
        let lacks = "E: The repository 'http://a bullseye-backports Release' does not have a Release file.";
        assert!(only_suites_lack(&format!("`apt-get update` failed: {lacks}; {lacks}")));
        for other in
            ["E: Could not resolve 'a'", &format!("{lacks}; E: The repository is not signed."), "exit status: 100"]
        {
            assert!(!only_suites_lack(other), "{other}");
        }
    }

    #[test]
    fn lists_are_told_from_what_else_lies_there() {
        let directory = tempfile::tempdir().expect("a directory");
        for other in ["partial", "lock", "deb.example_debian_dists_sid_InRelease"] {
            fs::write(directory.path().join(other), "").expect("written");
        }
        assert!(!has_lists(directory.path()) && !has_lists(Path::new("/no/such/directory")));
        fs::write(directory.path().join("deb.example_dists_sid_main_binary-amd64_Packages.lz4"), "").expect("written");
        assert!(has_lists(directory.path()));
    }

    #[test]
    fn a_package_raises_nobody_and_stays_in_its_directory() {
        if unstarve_testing::tool("dpkg-deb").is_none() {
            return;
        }
        let place = tempfile::tempdir().expect("a directory");
        let (tree, into) = (place.path().join("tree"), place.path().join("into"));
        fs::create_dir_all(tree.join("DEBIAN")).expect("made");
        fs::create_dir_all(tree.join("usr/bin")).expect("made");
        fs::create_dir(&into).expect("made");
        let control = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: x\n";
        fs::write(tree.join("DEBIAN/control"), control).expect("written");
        fs::write(tree.join("usr/bin/raises"), "x").expect("written");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("a mode");
        };
        mode(&tree.join("usr/bin/raises"), 0o6777);
        std::os::unix::fs::symlink("raises", tree.join("usr/bin/link")).expect("linked");
        let package = place.path().join("x.deb");
        let mut build = Program::of_system("dpkg-deb").expect("it is there").command();
        run(build.args(["--root-owner-group", "-b"]).arg(&tree).arg(&package)).expect("built");
        unpack(&package, &into).expect("unpacked");
        let found = fs::metadata(into.join("usr/bin/link")).expect("there, by the link");
        let mode_found = std::os::unix::fs::MetadataExt::mode(&found) & 0o7777;
        assert_eq!(mode_found, 0o755);
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&found), rustix::process::geteuid().as_raw());
        // A link that leads out of it is not followed.
        fs::remove_dir_all(tree.join("usr/bin")).expect("removed");
        let outside = place.path().join("outside");
        fs::create_dir(&outside).expect("made");
        fs::remove_dir_all(into.join("usr/bin")).expect("removed");
        std::os::unix::fs::symlink(&outside, into.join("usr/bin")).expect("linked");
        fs::create_dir(tree.join("usr/bin")).expect("made");
        fs::write(tree.join("usr/bin/file"), "x").expect("written");
        let mut build = Program::of_system("dpkg-deb").expect("it is there").command();
        run(build.args(["--root-owner-group", "-b"]).arg(&tree).arg(&package)).expect("built");
        let _ = unpack(&package, &into);
        assert_eq!(fs::read_dir(&outside).expect("listed").count(), 0);
        fs::write(&package, "no package").expect("written");
        let error = unpack(&package, &into).expect_err("damaged").to_string();
        assert!(error.starts_with("`dpkg-deb --fsys-tarfile "), "{error}");
    }

    #[test]
    fn the_archive_is_the_one_that_is_labelled_debian() {
        let security = "http://a.example/debian-security/\tDebian-Security\tbookworm-security\tmain";
        let other = "https://b.example/node\tNode\tstable\tmain";
        let debian = "http://a.example/debian/\tDebian\tbookworm\tmain";
        let fresh = "http://c.example/debian/\t\ttrixie\tmain";
        let pick = |rows: &[&str]| find_archive(&rows.join("\n"));
        assert_eq!(pick(&[security, other, debian]).as_deref(), Some("http://a.example/debian/"));
        assert_eq!(pick(&[other, fresh]).as_deref(), Some("http://c.example/debian/"));
        assert_eq!(pick(&[other, security, ""]), None);
        let unlabelled = "http://d.example/security/\t\ttrixie-security\tmain";
        let pick = |rows: &[&str]| find_security(&rows.join("\n"));
        assert_eq!(pick(&[debian, security]).as_deref(), Some("http://a.example/debian-security/"));
        assert_eq!(pick(&[fresh, unlabelled]).as_deref(), Some("http://d.example/security/"));
        assert_eq!(pick(&[debian, other]), None);
    }
}
