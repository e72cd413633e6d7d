//! Kernel modules in the store, and their loading order.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::modinfo::{ModInfo, canonical};

/// The modules of one kernel with their dependencies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Modules {
    /// Name → module.
    pub(crate) files: BTreeMap<String, Module>,
    /// Names of built-in modules.
    pub(crate) builtin: BTreeSet<String>,
}

/// One module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// Its file, uncompressed, below the store's `modules`.
    pub(crate) file: String,
    pub(crate) depends: Vec<String>,
    pub(crate) soft: Vec<String>,
    pub(crate) aliases: Vec<String>,
}

/// Larger than any distribution's module; a compressed file that claims more is damaged.
const MAX_MODULE_BYTES: u64 = 256 << 20;

impl Modules {
    /// Copies all modules below `from` (a `/lib/modules/VERSION`) into `into`, uncompressed, because not every kernel
    /// can load compressed ones.
    pub(crate) fn import(from: &Path, into: &Path) -> Result<Modules, StoreError> {
        let mut modules = Modules { builtin: read_builtin(from), ..Modules::default() };
        let mut pending = vec![from.to_owned()];
        while let Some(directory) = pending.pop() {
            let at = |source| StoreError::File { path: directory.clone(), source };
            for entry in fs::read_dir(&directory).map_err(at)? {
                let path = entry.map_err(at)?.path();
                // `build` and `source` are links out of the tree.
                if path.is_dir() && !path.is_symlink() {
                    pending.push(path);
                } else if let Some(name) = module_name(&path) {
                    modules.add(name, &path, into)?;
                }
            }
        }
        Ok(modules)
    }

    fn add(&mut self, name: String, path: &Path, into: &Path) -> Result<(), StoreError> {
        let failed = |source| StoreError::File { path: path.to_owned(), source };
        let image = read_image(path).map_err(failed)?;
        let other = || StoreError::Other(format!("{} is not a kernel module", path.display()));
        let info = ModInfo::parse(&image).ok_or_else(other)?;
        let file = format!("{name}.ko");
        fs::write(into.join(&file), image).map_err(failed)?;
        self.files.insert(name, Module { file, depends: info.depends, soft: info.soft, aliases: info.aliases });
        Ok(())
    }

    /// The modules to load for `wanted`, each after its dependencies. Built-in ones need no loading.
    pub(crate) fn in_order<'a>(&'a self, kernel: &'a str, wanted: &[String]) -> Result<Needed<'a>, StoreError> {
        let mut order = Order { modules: self, kernel, seen: BTreeSet::new(), list: Vec::new(), ask: BTreeSet::new() };
        for name in wanted {
            order.visit(&canonical(name), None)?;
        }
        Ok(Needed { load: order.list, ask: order.ask })
    }

    /// The module with this name or alias. If several have the alias, the generic one: the others require particular
    /// processors.
    fn resolve(&self, name: &str) -> Option<&str> {
        if let Some((name, _)) = self.files.get_key_value(name) {
            return Some(name);
        }
        let by_alias = || self.files.iter().filter(|(_, module)| module.aliases.iter().any(|alias| alias == name));
        let generic = by_alias().find(|(file, _)| file.ends_with("_generic"));
        generic.or_else(|| by_alias().next()).map(|(name, _)| name.as_str())
    }
}

/// The modules that a guest needs.
pub(crate) struct Needed<'a> {
    /// The modules to load, in this order.
    pub(crate) load: Vec<&'a Module>,
    /// Modules without a file and without a list of built-in modules: the guest's kernel decides.
    pub(crate) ask: BTreeSet<String>,
}

struct Order<'a> {
    modules: &'a Modules,
    kernel: &'a str,
    seen: BTreeSet<String>,
    list: Vec<&'a Module>,
    ask: BTreeSet<String>,
}

impl Order<'_> {
    fn visit(&mut self, name: &str, wanted_by: Option<&str>) -> Result<(), StoreError> {
        let Some(resolved) = self.modules.resolve(name) else {
            if self.modules.builtin.contains(name) {
                return Ok(());
            }
            if self.modules.builtin.is_empty() {
                // Only the kernel knows its built-in modules.
                self.ask.insert(name.to_owned());
                return Ok(());
            }
            let wanted_by = wanted_by.map(|other| format!(", which {other} needs")).unwrap_or_default();
            return Err(StoreError::Other(format!(
                "kernel {} has no module `{name}`{wanted_by}: there is neither a file of it, nor is it in the list of what \
                 is built in",
                self.kernel
            )));
        };
        if !self.seen.insert(resolved.to_owned()) {
            return Ok(());
        }
        let module = &self.modules.files[resolved];
        for soft in &module.soft {
            // Soft dependencies may be absent: a built-in module may replace them.
            if self.modules.resolve(soft).is_some() {
                self.visit(soft, Some(resolved))?;
            }
        }
        for needed in &module.depends {
            self.visit(needed, Some(resolved))?;
        }
        self.list.push(module);
        Ok(())
    }
}

/// `xfs` for `…/xfs.ko`, `…/xfs.ko.xz`, `…/xfs.ko.zst`; `None` for other files.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let stem = [".ko", ".ko.xz", ".ko.zst"].iter().find_map(|end| file.strip_suffix(end))?;
    Some(canonical(stem))
}

fn read_image(path: &Path) -> io::Result<Vec<u8>> {
    let file = fs::File::open(path)?;
    let mut image = Vec::new();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => liblzma::read::XzDecoder::new(file).take(MAX_MODULE_BYTES).read_to_end(&mut image)?,
        Some("zst") => zstd::stream::read::Decoder::new(file)?.take(MAX_MODULE_BYTES).read_to_end(&mut image)?,
        _ => file.take(MAX_MODULE_BYTES).read_to_end(&mut image)?,
    };
    Ok(image)
}

/// `modules.builtin`: one path a line. Without it no module counts as built in.
fn read_builtin(directory: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(directory.join("modules.builtin")).unwrap_or_default();
    text.lines().filter_map(|line| module_name(Path::new(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, depends: &[&str], soft: &[&str], aliases: &[&str]) -> (String, Module) {
        let all = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let file = format!("{name}.ko");
        (name.to_owned(), Module { file, depends: all(depends), soft: all(soft), aliases: all(aliases) })
    }

    fn order(modules: &Modules, wanted: &[&str]) -> Result<Vec<String>, String> {
        let wanted: Vec<String> = wanted.iter().map(|name| name.to_string()).collect();
        let order = modules.in_order("6.1.0-x", &wanted).map_err(|error| error.to_string())?;
        let asked = order.ask.iter().map(|name| format!("{name}?"));
        Ok(order.load.iter().map(|module| module.file.clone()).chain(asked).collect())
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let modules = Modules {
            files: BTreeMap::from([
                module("xfs", &["libcrc32c"], &["crc32c"], &["fs_xfs"]),
                module("libcrc32c", &[], &["crc32c"], &[]),
                module("crc32c_intel", &[], &[], &["crc32c"]),
                module("crc32c_generic", &[], &[], &["crc32c"]),
                module("broken", &["absent"], &["not_there"], &[]),
            ]),
            builtin: BTreeSet::from(["configfs".to_owned()]),
        };
        assert_eq!(
            order(&modules, &["xfs", "libcrc32c", "configfs"]).expect("an order"),
            ["crc32c_generic.ko", "libcrc32c.ko", "xfs.ko"]
        );
        assert_eq!(
            order(&modules, &["broken"]).unwrap_err(),
            "kernel 6.1.0-x has no module `absent`, which broken needs: there is neither a file of it, nor is it in the \
             list of what is built in"
        );
        assert!(order(&modules, &["null-blk"]).unwrap_err().contains("has no module `null_blk`: there is neither"));
    }

    #[test]
    fn without_a_list_of_what_is_built_in_the_kernel_is_asked() {
        let modules = Modules { files: BTreeMap::from([module("xfs", &["crc16"], &[], &[])]), ..Modules::default() };
        assert_eq!(order(&modules, &["xfs", "ext4"]).expect("an order"), ["xfs.ko", "crc16?", "ext4?"]);
    }

    #[test]
    fn names_of_modules() {
        let name = |path: &str| module_name(Path::new(path));
        assert_eq!(name("kernel/fs/xfs/xfs.ko").as_deref(), Some("xfs"));
        assert_eq!(name("kernel/crc32c-intel.ko.xz").as_deref(), Some("crc32c_intel"));
        assert_eq!(name("modules.order"), None);
    }
}
