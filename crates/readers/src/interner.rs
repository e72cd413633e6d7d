//! Ids of long names, so that events can stay small.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use unstarve_model::{NameId, Names};

use crate::symbols::Symbols;

/// Maps the long names of a trace to ids, and function addresses to names.
///
/// New names are collected until [`Interner::take_new`] hands them over with the batch whose events use them.
#[derive(Debug, Default)]
pub struct Interner {
    names: Names,
    ids: FxHashMap<Box<[u8]>, NameId>,
    handed_over: usize,
    symbols: Symbols,
    functions: FxHashMap<u64, Option<NameId>>,
}

/// The kernel's own limit of a symbol's name (`KSYM_NAME_LEN`); longer ones are cut.
const MAX_NAME: usize = 512;

/// No kernel queues this many different work functions. Beyond this, addresses are looked up each time.
const MAX_FUNCTIONS: usize = 1 << 16;

impl Interner {
    /// An empty interner, without symbols.
    pub fn new() -> Interner {
        Interner::default()
    }

    /// Names function addresses by `symbols` from now on.
    pub fn set_symbols(&mut self, symbols: Symbols) {
        self.symbols = symbols;
        self.functions.clear();
    }

    /// The id of `name`. Invalid UTF-8 is replaced.
    pub fn intern(&mut self, name: &[u8]) -> NameId {
        let name = &name[..name.len().min(MAX_NAME)];
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let text: Cow<'_, str> = String::from_utf8_lossy(name);
        let id = self.names.push(&text);
        if id != NameId::OVERFLOW {
            self.ids.insert(name.into(), id);
        }
        id
    }

    /// The name of the function at `address`, if the symbols have one.
    #[inline]
    pub fn function(&mut self, address: u64) -> Option<NameId> {
        match self.functions.get(&address) {
            Some(&known) => known,
            None => self.look_up_function(address),
        }
    }

    /// The name of the symbol at or around `address`, without an id. Not cached.
    pub fn symbol(&mut self, address: u64) -> Option<&[u8]> {
        self.symbols.resolve(address)
    }

    #[cold]
    fn look_up_function(&mut self, address: u64) -> Option<NameId> {
        let mut symbols = std::mem::take(&mut self.symbols);
        let id = symbols.resolve(address).map(|name| self.intern(name));
        self.symbols = symbols;
        if self.functions.len() < MAX_FUNCTIONS {
            self.functions.insert(address, id);
        }
        id
    }

    /// Moves the names added since the last call to the end of `new` ([`unstarve_model::Batch::names`]).
    pub fn take_new(&mut self, new: &mut Vec<Box<str>>) {
        new.extend_from_slice(self.names.since(self.handed_over));
        self.handed_over = self.names.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_handed_over_once_and_keeps_its_id() {
        let mut interner = Interner::new();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let a = interner.intern(b"a");
        let b = interner.intern(b"b\xff");
        interner.take_new(&mut first);
        assert_eq!(interner.intern(b"a"), a);
        let c = interner.intern(b"c");
        interner.take_new(&mut second);
        let mut names = Names::default();
        names.extend(first);
        names.extend(second);
        assert_eq!([a, b, c].map(|id| names.get(id)), ["a", "b\u{fffd}", "c"]);
    }

    #[test]
    fn a_flood_of_names_stays_bounded() {
        let mut interner = Interner::new();
        for i in 0..Names::LIMIT + 10 {
            interner.intern(i.to_string().as_bytes());
        }
        assert_eq!(interner.intern(b"one more"), NameId::OVERFLOW);
        assert_eq!(interner.ids.len(), Names::LIMIT);
    }
}
