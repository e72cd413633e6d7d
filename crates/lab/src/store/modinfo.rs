//! Reads the `.modinfo` section of kernel modules.

use object::{Object, ObjectSection};

/// The `.modinfo` section of a kernel module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModInfo {
    /// Modules that it requires.
    pub(crate) depends: Vec<String>,
    /// Modules or aliases to load before it, if they exist (`softdep=pre: …`).
    pub(crate) soft: Vec<String>,
    /// Aliases without hardware patterns (`:` or `*`).
    pub(crate) aliases: Vec<String>,
}

impl ModInfo {
    /// Reads it from a module's ELF image; `None` for other files.
    pub(crate) fn parse(elf: &[u8]) -> Option<ModInfo> {
        let file = object::File::parse(elf).ok()?;
        let section = file.section_by_name(".modinfo")?.data().ok()?;
        let entries = section.split(|&byte| byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
        let mut info = ModInfo::default();
        for (key, value) in entries.filter_map(|entry| entry.split_once('=')) {
            match key {
                "depends" => info.depends.extend(value.split(',').filter(|name| !name.is_empty()).map(canonical)),
                "softdep" => info.soft.extend(before(value)),
                "alias" if !value.contains([':', '*']) => info.aliases.push(canonical(value)),
                _ => {}
            }
        }
        Some(info)
    }
}

/// The names after `pre:` in `pre: a b post: c`.
fn before(softdep: &str) -> Vec<String> {
    let words = softdep.split_whitespace().skip_while(|word| *word != "pre:").skip(1);
    words.take_while(|word| *word != "post:").map(canonical).collect()
}

/// The kernel treats `-` and `_` in names alike.
pub(crate) fn canonical(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_dependencies_are_those_before() {
        assert_eq!(before("pre: crc32c a-b post: c"), ["crc32c", "a_b"]);
        assert_eq!(before("post: c"), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_module_has_no_information() {
        assert_eq!(ModInfo::parse(b"\x7fELF junk"), None);
        assert_eq!(ModInfo::parse(b""), None);
    }
}
