//! Long names of a trace, stored once.

use std::fmt;

/// Index of a long name (a work function, workqueue or interrupt) in a trace's [`Names`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NameId(u32);

impl NameId {
    /// Stands for every name beyond the first [`Names::LIMIT`].
    pub const OVERFLOW: NameId = NameId(u32::MAX);
}

/// The long names of a trace, each once.
///
/// A reader interns names as it finds them and hands new ones over with the batch whose events use them
/// ([`crate::Batch::names`]). The analysis appends them to its own table, so an id means the same on both sides without
/// a lock.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: Vec<Box<str>>,
}

impl Names {
    /// No real kernel has this many work functions, workqueues and interrupts. A file with more is damaged or hostile,
    /// and the rest of its names is not kept.
    pub const LIMIT: usize = 1 << 16;

    /// Adds a name. The caller (an interner) must know that it is new.
    pub fn push(&mut self, text: &str) -> NameId {
        if self.texts.len() >= Names::LIMIT {
            return NameId::OVERFLOW;
        }
        self.texts.push(text.into());
        NameId((self.texts.len() - 1) as u32)
    }

    /// The id of a name, if it is known. Linear search: for tests and small tables.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.texts.iter().position(|known| &**known == text).map(|index| NameId(index as u32))
    }

    /// Appends a reader's new names, in its order.
    pub fn extend(&mut self, new: impl IntoIterator<Item = Box<str>>) {
        self.texts.extend(new);
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The names from the `start`-th on.
    pub fn since(&self, start: usize) -> &[Box<str>] {
        &self.texts[start.min(self.texts.len())..]
    }

    /// The text of a name, unescaped.
    pub fn get(&self, id: NameId) -> &str {
        match self.texts.get(id.0 as usize) {
            Some(text) => text,
            None if id == NameId::OVERFLOW => "(too many names)",
            None => "(undefined)",
        }
    }
}

impl fmt::Display for NameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
