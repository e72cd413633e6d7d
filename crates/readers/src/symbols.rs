//! The recorded kernel's symbols (`/proc/kallsyms`), loaded only when an address has to be resolved.
//!
//! The text has 100,000 to 300,000 lines, and building a table takes longer than decoding a small trace. Work functions
//! are few, and their addresses are exact, so the text is searched in place. The kernel's own symbols are sorted by
//! address and found by binary search; module symbols follow in load order and are found by a linear search. Only an
//! address inside a function requires the table.

use std::fmt;

use memchr::memmem;

use crate::input::Positioned;

/// Loads the text of kallsyms; `None` if the file has none or it cannot be read.
pub type LoadSymbols = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// Symbols by address.
#[derive(Default)]
pub struct Symbols {
    /// Set if the text is uncompressed in a file. It is then searched there first: each of the few functions of a trace
    /// takes about twenty small reads, while loading five megabytes takes as long as decoding 50,000 events.
    in_file: Option<InFile>,
    state: State,
}

/// An uncompressed kallsyms text in a file.
struct InFile {
    file: Positioned,
    start: u64,
    length: u64,
    /// The name found last.
    name: Vec<u8>,
}

#[derive(Default)]
enum State {
    #[default]
    None,
    NotLoaded(LoadSymbols),
    Loaded {
        text: Vec<u8>,
        searches: u32,
        table: Option<Vec<(u64, usize)>>,
    },
}

impl State {
    fn of(text: Vec<u8>) -> State {
        State::Loaded { text, searches: 0, table: None }
    }
}

/// A linear search costs a tenth of building the table. After this many, the table is cheaper.
const MAX_SEARCHES: u32 = 16;

/// No function is longer. An address further from a symbol is somewhere else (a freed module, a BPF program).
const MAX_FUNCTION: u64 = 1 << 20;

impl Symbols {
    /// Symbols that `load` provides when the first address has to be resolved.
    pub fn lazily(load: LoadSymbols) -> Symbols {
        Symbols { in_file: None, state: State::NotLoaded(load) }
    }

    /// Symbols whose text is in the file at `start`.
    pub fn in_file(file: Positioned, start: u64, length: u64) -> Symbols {
        let whole = file.clone();
        let load = move || {
            let mut text = vec![0; usize::try_from(length.min(whole.length().saturating_sub(start))).ok()?];
            let read = whole.read_at(start, &mut text).ok()?;
            text.truncate(read);
            Some(text)
        };
        let in_file = InFile { file, start, length, name: Vec::new() };
        Symbols { in_file: Some(in_file), state: State::NotLoaded(Box::new(load)) }
    }

    /// Symbols from a kallsyms text.
    pub fn from_text(text: Vec<u8>) -> Symbols {
        Symbols { in_file: None, state: State::of(text) }
    }

    /// The function at or around `address`.
    pub fn resolve(&mut self, address: u64) -> Option<&[u8]> {
        if address == 0 {
            return None;
        }
        if let (Some(in_file), State::NotLoaded(_)) = (&mut self.in_file, &self.state)
            && in_file.find(address).is_some()
        {
            return self.in_file.as_ref().map(|in_file| in_file.name.as_slice());
        }
        if matches!(self.state, State::NotLoaded(_))
            && let State::NotLoaded(load) = std::mem::take(&mut self.state)
        {
            self.state = load().map_or(State::None, State::of);
        }
        let State::Loaded { text, searches, table } = &mut self.state else { return None };
        let mut line = halving(text, address);
        if line.is_none() && table.is_none() && *searches < MAX_SEARCHES {
            *searches += 1;
            line = searching(text, address);
        }
        let line = match line {
            Some(line) => line,
            None => around(table.get_or_insert_with(|| functions(text)), address)?,
        };
        Some(Line::parse(&text[line..])?.name)
    }
}

impl InFile {
    /// Maximum length of a line: `KSYM_NAME_LEN` is 512 since 6.1, `MODULE_NAME_LEN` 56.
    const LINE: u64 = 1 << 10;
    /// The binary search stops at a range of this size.
    const WINDOW: u64 = 16 << 10;

    /// Finds the symbol at exactly `address` by binary search and stores its name in `name`; `None` if it is not found.
    fn find(&mut self, address: u64) -> Option<()> {
        let (mut low, mut high) = (0, self.length);
        while high - low > InFile::WINDOW {
            let middle = low + (high - low) / 2;
            let block = self.read(middle, InFile::LINE)?;
            let begin = memchr::memchr(b'\n', &block)? + 1;
            let line = Line::parse(&block[begin..])?;
            // Several symbols may share an address, and the first is wanted. It is after any line with a smaller
            // address.
            if line.address < address {
                low = middle + begin as u64;
            } else {
                high = middle + begin as u64;
            }
        }
        let window = self.read(low, high - low + InFile::LINE)?;
        // The last line may be incomplete.
        let whole = &window[..memchr::memrchr(b'\n', &window)? + 1];
        let line = Line::parse(&whole[halving(whole, address)?..])?;
        self.name.clear();
        self.name.extend_from_slice(line.name);
        Some(())
    }

    fn read(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        let mut block = vec![0; usize::try_from(length.min(self.length - at)).ok()?];
        let read = self.file.read_at(self.start + at, &mut block).ok()?;
        block.truncate(read);
        Some(block)
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::None => "Symbols(none)",
            State::NotLoaded(_) => "Symbols(not loaded)",
            State::Loaded { .. } => "Symbols(loaded)",
        })
    }
}

/// `ffffffff810d7ba3 T try_to_wake_up`, with `\t[module]` after a module's symbol.
struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a [u8],
}

impl Line<'_> {
    /// The first line of `text`.
    fn parse(text: &[u8]) -> Option<Line<'_>> {
        let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
        let digits = memchr::memchr(b' ', line)?;
        if digits == 0 || digits > 16 {
            return None;
        }
        let address = line[..digits]
            .iter()
            .try_fold(0u64, |value, &digit| Some(value << 4 | u64::from(char::from(digit).to_digit(16)?)))?;
        let (&kind, name) = line[digits + 1..].split_first()?;
        let name = name.strip_prefix(b" ")?;
        let name = &name[..name.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(name.len())];
        (!name.is_empty()).then_some(Line { address, kind, name })
    }
}

/// The start of the line that contains byte `at`.
fn line_start(text: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1)
}

/// Binary search for the line of exactly `address`, for text that is sorted.
fn halving(text: &[u8], address: u64) -> Option<usize> {
    let (mut low, mut high) = (0, text.len());
    while low < high {
        let start = line_start(text, low + (high - low) / 2).max(low);
        let line = Line::parse(&text[start..])?;
        if line.address == address {
            return Some(first_alias(text, start, address));
        }
        if line.address < address {
            low = start + memchr::memchr(b'\n', &text[start..]).unwrap_or(text.len() - start) + 1;
        } else {
            high = start;
        }
    }
    None
}

/// The first of several symbols with the same address: the one that the kernel prints (`%ps`).
fn first_alias(text: &[u8], mut start: usize, address: u64) -> usize {
    while start > 0 {
        let before = line_start(text, start - 1);
        if Line::parse(&text[before..]).is_none_or(|line| line.address != address) {
            break;
        }
        start = before;
    }
    start
}

/// Linear search for the line of exactly `address`.
fn searching(text: &[u8], address: u64) -> Option<usize> {
    let needle = format!("{address:x} ");
    memmem::find_iter(text, needle.as_bytes())
        .map(|at| line_start(text, at))
        .find(|&start| Line::parse(&text[start..]).is_some_and(|line| line.address == address))
}

/// All functions as (address, start of line), sorted.
fn functions(text: &[u8]) -> Vec<(u64, usize)> {
    let mut start = 0;
    let mut table = Vec::new();
    while start < text.len() {
        if let Some(line) = Line::parse(&text[start..])
            && line.address != 0
            && matches!(line.kind, b't' | b'T' | b'w' | b'W')
        {
            table.push((line.address, start));
        }
        start += memchr::memchr(b'\n', &text[start..]).unwrap_or(text.len() - start) + 1;
    }
    table.sort_unstable();
    table
}

/// The last function that starts before `address`.
fn around(table: &[(u64, usize)], address: u64) -> Option<usize> {
    let after = table.partition_point(|&(begin, _)| begin <= address);
    let (begin, _) = *table.get(after.checked_sub(1)?)?;
    if address - begin >= MAX_FUNCTION {
        return None;
    }
    let first = table.partition_point(|&(other, _)| other < begin);
    table.get(first).map(|&(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernel symbols sorted, then module symbols in load order.
    const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
0000000000001000 A cpu_debug_store
ffffffff81000000 T startup_64
ffffffff81000000 T _stext
ffffffff810d7ba0 T try_to_wake_up
ffffffff810d8000 t wq_worker
ffffffff82000000 D jiffies
ffffffffc0400000 t late_fn\t[late]
ffffffffc0300000 t nullb_work\t[null_blk]
ffffffffc0300100 T nullb_end\t[null_blk]
";

    fn name(address: u64) -> Option<String> {
        let mut symbols = Symbols::from_text(KALLSYMS.into());
        symbols.resolve(address).map(|name| String::from_utf8(name.to_vec()).unwrap())
    }

    #[test]
    fn exact_addresses_are_found_sorted_or_not() {
        assert_eq!(name(0xffffffff810d7ba0).as_deref(), Some("try_to_wake_up"));
        assert_eq!(name(0xffffffff81000000).as_deref(), Some("startup_64"));
        assert_eq!(name(0xffffffffc0300000).as_deref(), Some("nullb_work"));
        assert_eq!(name(0xffffffffc0400000).as_deref(), Some("late_fn"));
    }

    #[test]
    fn an_address_inside_a_function_is_that_function() {
        assert_eq!(name(0xffffffff810d7c00).as_deref(), Some("try_to_wake_up"));
        assert_eq!(name(0xffffffffc0300104).as_deref(), Some("nullb_end"));
        assert_eq!(name(0xffffffff82000010), None, "data, and far from any function");
        assert_eq!(name(0), None);
        assert_eq!(name(u64::MAX), None);
    }

    #[test]
    fn the_text_is_read_when_the_first_address_asks_and_once() {
        let mut symbols = Symbols::lazily(Box::new(|| Some(KALLSYMS.into())));
        assert_eq!(format!("{symbols:?}"), "Symbols(not loaded)");
        assert!(symbols.resolve(0xffffffff810d8000).is_some());
        assert_eq!(format!("{symbols:?}"), "Symbols(loaded)");
        assert_eq!(Symbols::lazily(Box::new(|| None)).resolve(1), None);
    }

    fn in_file(text: &str) -> Symbols {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        write!(file, "before{text}after").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let file = crate::input::Input::from_file(file, "test".into()).unwrap().into_positioned().unwrap();
        Symbols::in_file(file, 6, text.len() as u64)
    }

    #[test]
    fn a_long_text_is_searched_where_it_lies() {
        let mut text = String::new();
        for index in 0..20_000u64 {
            let address = 0xffffffff81000000 + index / 2 * 64;
            text += &format!("{address:x} T function_{index}{}\n", "_long".repeat((index % 50) as usize));
        }
        text += "ffffffffc0400000 t late_fn\t[late]\nffffffffc0300000 t nullb_work\t[null_blk]\n";
        let (mut there, mut loaded) = (in_file(&text), Symbols::from_text(text.clone().into()));
        for index in (0..10_000).step_by(37).chain([0, 1, 9_998, 9_999]) {
            let address = 0xffffffff81000000 + index * 64;
            let name = there.resolve(address).map(<[u8]>::to_vec);
            assert!(name.as_ref().is_some_and(|name| name.starts_with(b"function_")));
            assert_eq!(name.as_deref(), loaded.resolve(address), "{index}");
        }
        assert_eq!(format!("{there:?}"), "Symbols(not loaded)");
        assert_eq!(there.resolve(0xffffffffc0300000), Some(b"nullb_work".as_slice()));
        assert_eq!(there.resolve(0xffffffff81000041), loaded.resolve(0xffffffff81000041), "inside a function");
    }

    #[test]
    fn damaged_text_in_a_file_gives_nothing() {
        for text in ["", "\n", "ffffffff81000000", "zz T x\n", &"x".repeat(50_000), &"\n".repeat(50_000)] {
            assert_eq!(in_file(text).resolve(0xffffffff81000000), None, "{:?}", text.get(..20));
        }
    }

    #[test]
    fn damaged_text_gives_nothing() {
        for text in ["", "\n\n", "zz T x\n", "ffffffff81000000", "ffffffff81000000 T", "ffffffff81000000 T \n"] {
            assert_eq!(Symbols::from_text(text.into()).resolve(0xffffffff81000000), None, "{text:?}");
        }
    }

    #[test]
    fn hidden_addresses_name_nothing() {
        // Without privileges the kernel shows zeros (kptr_restrict).
        let mut symbols = Symbols::from_text("0000000000000000 T a\n0000000000000000 T b\n".into());
        assert_eq!(symbols.resolve(0xffffffff81000000), None);
    }
}
