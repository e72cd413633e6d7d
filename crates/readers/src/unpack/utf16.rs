//! Converts UTF-16 to UTF-8. PowerShell writes UTF-16 for `trace-cmd report > file`.

use std::io::{self, Read};

/// The byte order of UTF-16 text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Little,
    Big,
}

/// The byte order of text that begins with `prefix`, if it is UTF-16: by its byte order mark, or because every other
/// byte is a NUL, which no other text has.
pub fn order(prefix: &[u8]) -> Option<Order> {
    match prefix {
        [0xff, 0xfe, 0, 0, ..] => None,
        [0xff, 0xfe, ..] => Some(Order::Little),
        [0xfe, 0xff, ..] => Some(Order::Big),
        _ => unmarked(prefix),
    }
}

fn unmarked(prefix: &[u8]) -> Option<Order> {
    let (units, _) = prefix[..prefix.len().min(SAMPLE_BYTES)].as_chunks::<2>();
    let plain = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let all = |little: bool| {
        units
            .iter()
            .all(|&[first, second]| if little { plain(first) && second == 0 } else { first == 0 && plain(second) })
    };
    match units.len() {
        0..MIN_UNITS => None,
        _ if all(true) => Some(Order::Little),
        _ if all(false) => Some(Order::Big),
        _ => None,
    }
}

/// With fewer units this may be a coincidence.
const MIN_UNITS: usize = 16;
const SAMPLE_BYTES: usize = 256;

const BLOCK_BYTES: usize = 1 << 16;

/// Decodes UTF-16 to UTF-8 and drops the byte order mark. Invalid units become replacement characters.
pub struct Utf16<R> {
    input: R,
    order: Order,
    /// Bytes not yet decoded: half a unit, or the first half of a surrogate pair.
    packed: Vec<u8>,
    text: Vec<u8>,
    given: usize,
    begun: bool,
    at_end: bool,
}

impl<R: Read> Utf16<R> {
    /// The text of `input`.
    pub fn new(input: R, order: Order) -> Utf16<R> {
        Utf16 { input, order, packed: Vec::new(), text: Vec::new(), given: 0, begun: false, at_end: false }
    }

    fn fill(&mut self) -> io::Result<()> {
        let start = self.packed.len();
        self.packed.resize(start + BLOCK_BYTES, 0);
        let length = self.input.read(&mut self.packed[start..]);
        self.packed.truncate(start + *length.as_ref().unwrap_or(&0));
        self.at_end = length? == 0;
        let (units, _) = self.packed.as_chunks::<2>();
        let mut units: Vec<u16> = units.iter().map(|&unit| self.unit(unit)).collect();
        let mut used = units.len() * 2;
        // The second half of a surrogate pair may be in the next block.
        if !self.at_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
            used -= 2;
        }
        let mark = usize::from(!self.begun && units.first() == Some(&0xfeff));
        self.begun |= !units.is_empty();
        self.text.clear();
        self.given = 0;
        for character in char::decode_utf16(units[mark..].iter().copied()) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.packed.drain(..used);
        Ok(())
    }

    fn unit(&self, bytes: [u8; 2]) -> u16 {
        match self.order {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.text.len() && !self.at_end {
            self.fill()?;
        }
        let length = buffer.len().min(self.text.len() - self.given);
        buffer[..length].copy_from_slice(&self.text[self.given..self.given + length]);
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time, so that every unit and pair is split.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn text_comes_out_whatever_the_order_and_however_torn() {
        let text = "fio-126 [000] x: 𝄞 é\r\n".repeat(3);
        for (order, mark) in [(Order::Little, true), (Order::Big, true), (Order::Little, false), (Order::Big, false)] {
            let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
            let bytes: Vec<u8> = match order {
                Order::Little => units.flat_map(u16::to_le_bytes).collect(),
                Order::Big => units.flat_map(u16::to_be_bytes).collect(),
            };
            assert_eq!(super::order(&bytes[..if mark { bytes.len() } else { 32 }]), Some(order));
            let mut out = String::new();
            Utf16::new(Slow(&bytes), order).read_to_string(&mut out).unwrap();
            assert_eq!(out, text);
        }
        assert_eq!(super::order(b"# tracer: nop, and more text"), None);
        assert_eq!(super::order(&[0; 64]), None);
    }
}
