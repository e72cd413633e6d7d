//! Defaults for a scenario's file: only the main load and its `argv` are required.

use std::path::{Path, PathBuf};

use super::{Load, Scenario};

impl Scenario {
    /// Names loads without a name, and makes a single load the main one. `file` is the scenario's own path.
    pub(super) fn fill(&mut self, file: &str) {
        if self.name.is_empty() {
            let stem = Path::new(file).file_stem().map(|stem| stem.to_string_lossy().to_ascii_lowercase());
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            self.name = stem.unwrap_or_default().chars().map(plain).collect();
        }
        if self.title.is_empty() {
            self.title.clone_from(&self.name);
        }
        if let [only] = &mut self.load[..] {
            only.main = true;
        }
        for index in 0..self.load.len() {
            if self.load[index].name.is_empty() {
                self.load[index].name = self.new_name(&self.load[index]);
            }
        }
    }

    /// The program's name, or the kind of a built-in load; numbered if it is taken.
    fn new_name(&self, load: &Load) -> String {
        let word = match &load.argv[..] {
            [own, kind, ..] if own == "load" => kind,
            [program, ..] => program,
            [] => return "load".to_owned(),
        };
        let word = word.rsplit('/').next().unwrap_or(word);
        let taken = |name: &str| self.load.iter().any(|other| other.name == name);
        let numbered = (2..).map(|number| format!("{word}-{number}"));
        std::iter::once(word.to_owned()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }

    /// Resolves the scenario's tools and files relative to its directory.
    pub(super) fn resolve(&mut self, file: &Path) {
        let directory = file.parent().unwrap_or(Path::new("."));
        let whole = |path: &Path| std::path::absolute(directory.join(path)).unwrap_or_else(|_| directory.join(path));
        for tool in self.tools.iter_mut().filter(|tool| tool.contains('/')) {
            *tool = whole(Path::new(&*tool)).to_string_lossy().into_owned();
        }
        let from = self.file.iter_mut().filter_map(|file| file.from.as_mut());
        from.for_each(|from: &mut PathBuf| *from = whole(from));
    }
}
