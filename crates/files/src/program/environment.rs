//! The environment of programs that unstarve runs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// `PATH` for these programs: whatever they start by name is the system's.
pub const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables passed on, about language and terminal. Their values are checked ([`is_plain`]).
const KEPT_VARIABLES: [&str; 8] =
    ["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TERM", "NO_COLOR", "RUST_BACKTRACE"];

/// Proxy settings for programs that download. apt verifies signatures.
pub const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "ftp_proxy", "no_proxy"];

/// Gives a child a new environment: the system's `PATH`, and from ours the language and the terminal.
pub fn clean_environment(command: &mut Command) {
    command.env_clear().env("PATH", SYSTEM_PATH);
    for name in KEPT_VARIABLES {
        if let Some(value) = std::env::var_os(name).filter(|value| is_plain(value)) {
            command.env(name, value);
        }
    }
}

/// Passes further variables to a child, unchecked.
pub fn keep(command: &mut Command, names: &[&str]) {
    for name in names {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}

/// Whether it is a name of a locale or terminal and not a path: the C library and curses read files with these names
/// (sudo's `env_check`).
fn is_plain(value: &OsStr) -> bool {
    value.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.@:-+".contains(byte))
}

/// Keeps the environment for another program of unstarve's that the same user requested, except for variables that make
/// a loader, the C library or an interpreter load code.
pub fn without_loaders(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_loaders(name.as_bytes()) {
            command.env_remove(name);
        }
    }
}

fn is_loaders(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 11] = [
        b"GLIBC_TUNABLES",
        b"GCONV_PATH",
        b"LOCPATH",
        b"NLSPATH",
        b"HOSTALIASES",
        b"RES_OPTIONS",
        b"BASH_ENV",
        b"ENV",
        b"SHELLOPTS",
        b"IFS",
        b"MALLOC_TRACE",
    ];
    const BEGINNINGS: [&[u8]; 4] = [b"LD_", b"PERL5", b"PYTHON", b"BASH_FUNC_"];
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &Command) -> Vec<(String, Option<String>)> {
        let text = |value: &OsStr| value.to_string_lossy().into_owned();
        command.get_envs().map(|(name, value)| (text(name), value.map(text))).collect()
    }

    #[test]
    fn a_clean_environment_has_a_path_of_the_systems_and_nothing_that_is_not_listed() {
        let mut command = Command::new("/bin/true");
        command.env("LD_PRELOAD", "/tmp/x.so").env("ANYTHING", "1");
        clean_environment(&mut command);
        let have = of(&command);
        assert!(have.contains(&("PATH".to_owned(), Some(SYSTEM_PATH.to_owned()))), "{have:?}");
        let listed = |name: &str| name == "PATH" || KEPT_VARIABLES.contains(&name);
        assert!(have.iter().all(|(name, _)| listed(name)), "{have:?}");
        assert!(SYSTEM_PATH.split(':').all(|element| element.starts_with('/')));
    }

    #[test]
    fn values_that_name_files_are_not_kept() {
        for (value, expected) in [
            ("de_DE.UTF-8", true),
            ("ca_ES.UTF-8@valencia", true),
            ("de:en", true),
            ("xterm-256color", true),
            ("", true),
            ("../../tmp/evil", false),
            ("/tmp/evil", false),
            ("%n", false),
            ("a b", false),
        ] {
            assert_eq!(is_plain(OsStr::new(value)), expected, "{value}");
        }
    }

    #[test]
    fn what_makes_others_load_code_is_known_by_its_name() {
        for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "ENV"] {
            assert!(is_loaders(name.as_bytes()), "{name}");
        }
        for name in ["PERL5LIB", "PERL5OPT", "PYTHONPATH", "PYTHONSTARTUP", "BASH_FUNC_ls%%"] {
            assert!(is_loaders(name.as_bytes()), "{name}");
        }
        for name in ["HOME", "PATH", "AWS_ACCESS_KEY_ID", "XDG_STATE_HOME", "LANG", "TERM", "ENVIRONMENT"] {
            assert!(!is_loaders(name.as_bytes()), "{name}");
        }
    }
}
