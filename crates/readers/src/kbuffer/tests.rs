//! Tests of ring buffer pages, on pages built entry by entry.

use super::*;

/// A page built entry by entry.
struct Draw {
    endian: Endian,
    long: usize,
    time: u64,
    flags: u64,
    stored: Option<u64>,
    data: Vec<u8>,
}

impl Draw {
    fn new(endian: Endian, long: usize, time: u64) -> Draw {
        Draw { endian, long, time, flags: 0, stored: None, data: Vec::new() }
    }

    fn entry(mut self, type_len: u32, delta: u32, rest: &[u8]) -> Draw {
        let header = match self.endian {
            Endian::Little => type_len | delta << 5,
            Endian::Big => type_len << 27 | delta,
        };
        self.data.extend(self.endian.bytes32(header));
        self.data.extend(rest);
        self
    }

    fn words(self, type_len: u32, delta: u32, words: &[u32]) -> Draw {
        let bytes: Vec<u8> = words.iter().flat_map(|&word| self.endian.bytes32(word)).collect();
        self.entry(type_len, delta, &bytes)
    }

    fn long_bytes(&self, value: u64) -> Vec<u8> {
        match self.long {
            4 => self.endian.bytes32(value as u32).to_vec(),
            _ => self.endian.bytes64(value).to_vec(),
        }
    }

    fn page(&self) -> Vec<u8> {
        let mut page = self.endian.bytes64(self.time).to_vec();
        page.extend(self.long_bytes(self.data.len() as u64 | self.flags));
        page.extend(&self.data);
        if let Some(count) = self.stored {
            page.extend(self.long_bytes(count));
        }
        page.resize(256, 0);
        page
    }
}

fn read(endian: Endian, long: usize, page: &[u8]) -> Vec<String> {
    let format = PageFormat::usual(endian, long);
    let mut cursor = match format.begin(page) {
        Ok(cursor) => cursor,
        Err(bad) => return vec![bad.to_string()],
    };
    let mut shown: Vec<String> = cursor.missed().map(|missed| format!("{missed:?}")).into_iter().collect();
    while let Some(record) = format.next(page, &mut cursor) {
        shown.push(match record {
            Ok((time, data)) => format!("{time}: {}", String::from_utf8_lossy(&page[data])),
            Err(bad) => bad.to_string(),
        });
    }
    shown
}

const MACHINE_LAYOUTS: [(Endian, usize); 4] =
    [(Endian::Little, 8), (Endian::Little, 4), (Endian::Big, 8), (Endian::Big, 4)];

#[test]
fn every_kind_of_entry_on_every_kind_of_machine() {
    for (endian, long) in MACHINE_LAYOUTS {
        let length: [u8; 4] = endian.bytes32(4 + 6);
        let page = Draw::new(endian, long, 1000)
            .entry(1, 5, b"abcd")
            .entry(2, 0, b"efghijkl")
            .words(TIME_EXTEND, 7, &[1])
            .entry(0, 3, &[&length[..], b"sixsix\0\0"].concat())
            .words(PADDING_ENTRY, 10, &[8, 0])
            .words(PADDING_ENTRY, 1, &[4])
            .entry(1, 2, b"last")
            .words(TIME_STAMP, 1, &[1])
            .entry(1, 0, b"abs.")
            .words(PADDING_ENTRY, 0, &[])
            .entry(1, 9, b"none")
            .page();
        assert_eq!(
            read(endian, long, &page),
            [
                "1005: abcd",
                "1005: efghijkl",
                "134218743: sixsix\0\0", // 1005 + 2^27 + 7 + 3
                "134218755: last",       // + 10 of the discarded event + 2; its delta of 1 is only a marker
                "134217729: abs.",
            ],
            "{endian:?} {long}"
        );
    }
}

#[test]
fn what_no_reader_looks_at_is_cleared_and_nothing_else_is_changed() {
    for (endian, long) in MACHINE_LAYOUTS {
        let mut draw = Draw::new(endian, long, 1000)
            .entry(1, 5, b"abcd")
            .entry(PADDING_ENTRY, 10, &[&endian.bytes32(12)[..], b"secret-1"].concat())
            .words(TIME_EXTEND, 7, &[1])
            .entry(2, 3, b"efghijkl")
            .entry(PADDING_ENTRY, 0, &[&endian.bytes32(12)[..], b"secret-2"].concat());
        draw.flags = 3 << 30;
        draw.stored = Some(42);
        let mut page = draw.page();
        let end = page.len();
        page[end - 8..].copy_from_slice(b"secret-3");
        let before = read(endian, long, &page);
        PageFormat::usual(endian, long).clear_unused(&mut page).expect("a whole page");
        assert_eq!(read(endian, long, &page), before);
        assert_eq!(before.len(), 3, "{before:?}");
        assert!(!page.windows(6).any(|bytes| bytes == b"secret"), "{endian:?} {long}");
    }
}

#[test]
fn missed_events_are_reported_with_their_number_if_stored() {
    for (endian, long) in MACHINE_LAYOUTS {
        let mut draw = Draw::new(endian, long, 7).entry(1, 0, b"abcd");
        assert_eq!(read(endian, long, &draw.page()), ["7: abcd"]);
        draw.flags = 1 << 31;
        assert_eq!(read(endian, long, &draw.page()), ["Uncounted", "7: abcd"]);
        draw.flags = 3 << 30;
        draw.stored = Some(42);
        assert_eq!(read(endian, long, &draw.page()), ["Count(42)", "7: abcd"]);
    }
}

#[test]
fn absolute_times_keep_the_upper_bits_and_pass_their_end() {
    let near_end = 0x0fff_ffff_ffff_fff0; // the five upper bits set, the lower 59 nearly at their maximum
    let page = Draw::new(Endian::Little, 8, near_end)
        .entry(1, 0, b"abcd")
        .words(TIME_STAMP, 5, &[0])
        .entry(1, 0, b"efgh")
        .page();
    let after = 0x1000_0000_0000_0005u64;
    assert_eq!(read(Endian::Little, 8, &page), [format!("{near_end}: abcd"), format!("{after}: efgh")]);
    assert_eq!(absolute(99, 100 | 1 << 60), 99 | 1 << 60, "a small step back is not a wrap");
}

#[test]
fn damage_is_located_and_ends_the_page() {
    let read = |page: &[u8]| read(Endian::Little, 8, page);
    let draw = || Draw::new(Endian::Little, 8, 0);
    assert_eq!(read(&[0; 7]), ["the header is cut off at byte 7 of the page"]);
    let mut page = draw().page();
    page[8..12].copy_from_slice(&300u32.to_le_bytes());
    assert_eq!(read(&page), ["more bytes of events than the page has at byte 8 of the page"]);
    assert_eq!(
        read(&draw().entry(1, 1, b"abcd").entry(28, 1, b"abcd").page()),
        ["1: abcd", "an event's data goes beyond the page's events at byte 24 of the page"]
    );
    for word in [0, 3, 100, u32::MAX] {
        assert_eq!(read(&draw().words(0, 1, &[word]).page()).len(), 1, "{word}");
    }
    for word in [100, u32::MAX] {
        assert_eq!(read(&draw().words(PADDING_ENTRY, 1, &[word]).page()).len(), 1, "{word}");
    }
}

#[test]
fn header_page_says_where_things_are() {
    let text = |long: usize| {
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{};\tsize:4080;\tsigned:1;\n",
            8 + long
        )
    };
    for (endian, long) in MACHINE_LAYOUTS {
        assert_eq!(PageFormat::parse(endian, &text(long)), Ok(PageFormat::usual(endian, long)));
    }
    assert_eq!(PageFormat::parse(Endian::Little, &text(2)), Err(PageFormatError::Field("commit")));
    assert_eq!(PageFormat::parse(Endian::Little, ""), Err(PageFormatError::Field("timestamp")));
}

#[test]
fn a_first_page_has_nothing_before_it() {
    for (endian, long) in [(Endian::Little, 8), (Endian::Big, 8), (Endian::Little, 4), (Endian::Big, 4)] {
        let format = PageFormat::usual(endian, long);
        let mut draw = Draw::new(endian, long, 1_000).words(1, 5, &[7]);
        draw.flags = 3 << 30;
        draw.stored = Some(99);
        let mut page = draw.page();
        assert_eq!(format.begin(&page).expect("a page").missed(), Some(Missed::Count(99)));
        let end = format.begin(&page).expect("a page").end;
        format.make_first(&mut page);
        let cursor = format.begin(&page).expect("a page");
        assert_eq!((cursor.missed(), cursor.time(), cursor.end), (None, 1_000, end), "{endian:?} {long}");
    }
}
