//! Texts that are not lines of ASCII or UTF-8: UTF-16 of Windows' editors and shells, lines that end in CR alone, and mails whose
//! transfer encoding is quoted-printable (RFC 2045, 6.7).

use std::io::{self, BufReader, Cursor, Read};

/// What is read to find the encoding.
const ENCODING_SAMPLE_BYTES: u64 = 32 << 10;

/// How a text is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    /// Lines that end in LF or CR LF.
    Plain,
    Utf16 {
        is_big_endian: bool,
    },
    CarriageReturns,
    QuotedPrintable,
}

impl Encoding {
    /// The encoding of a text, by its beginning.
    fn of(beginning: &[u8]) -> Encoding {
        match beginning {
            [0xff, 0xfe, ..] => return Encoding::Utf16 { is_big_endian: false },
            [0xfe, 0xff, ..] => return Encoding::Utf16 { is_big_endian: true },
            _ => {}
        }
        let zeros = |at: usize| beginning.iter().skip(at).step_by(2).filter(|byte| **byte == 0).count();
        let (even, odd) = (zeros(0), zeros(1));
        // Text of Latin letters has a zero in nearly each pair, and on one side alone.
        let is_most = |zeros: usize| beginning.len() >= 8 && zeros * 2 > beginning.len() / 10 * 9;
        // Some letters have a zero on the other side.
        if is_most(even.max(odd)) && even.min(odd) * 50 <= even.max(odd) {
            return Encoding::Utf16 { is_big_endian: even > odd };
        }
        if beginning.contains(&b'\r') && !beginning.contains(&b'\n') {
            return Encoding::CarriageReturns;
        }
        if QUOTED_PRINTABLE.is_match(&String::from_utf8_lossy(beginning)) {
            Encoding::QuotedPrintable
        } else {
            Encoding::Plain
        }
    }
}

// A line of a mail's head. Without it any logged words could have a log read as a mail.
pattern!(QUOTED_PRINTABLE = r"(?im)^Content-Transfer-Encoding: *quoted-printable\s*$");

/// Encoders write capitals.
fn hexadecimal(digit: u8) -> Option<u8> {
    matches!(digit, b'0'..=b'9' | b'A'..=b'F')
        .then(|| (digit as char).to_digit(16))?
        .and_then(|digit| digit.try_into().ok())
}

/// The beginning of a text as the search for evidence needs it.
pub fn decoded_beginning(beginning: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    // Memory can be read.
    let _ = decoded(beginning).and_then(|mut decoded| decoded.read_to_end(&mut text));
    text
}

/// The same for one in which nothing has to be changed: as it is.
pub fn is_plain(beginning: &[u8]) -> bool {
    Encoding::of(beginning) == Encoding::Plain
}

/// A text as lines of UTF-8 that end in LF.
///
/// # Errors
/// If it cannot be read.
pub fn decoded<'a>(mut text: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut beginning = Vec::new();
    text.by_ref().take(ENCODING_SAMPLE_BYTES).read_to_end(&mut beginning)?;
    let encoding = Encoding::of(&beginning);
    let text = Cursor::new(beginning).chain(text);
    Ok(match encoding {
        Encoding::Plain => Box::new(text),
        other => Box::new(Decoder { input: BufReader::new(text), encoding: other, out: Vec::new(), at: 0 }),
    })
}

/// Bytes that are decoded at once.
const BLOCK: usize = 16 << 10;

struct Decoder<R> {
    input: BufReader<R>,
    encoding: Encoding,
    out: Vec<u8>,
    at: usize,
}

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.out.len() {
            (self.at, self.out) = (0, Vec::with_capacity(BLOCK));
            match self.encoding {
                Encoding::Utf16 { is_big_endian } => self.utf16(is_big_endian)?,
                Encoding::QuotedPrintable => self.quoted_printable()?,
                Encoding::CarriageReturns | Encoding::Plain => self.carriage_returns()?,
            }
        }
        let rest = &self.out[self.at..];
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

impl<R: Read> Decoder<R> {
    fn next(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.input.read(&mut byte)? > 0).then_some(byte[0]))
    }

    fn carriage_returns(&mut self) -> io::Result<()> {
        self.input.by_ref().take(BLOCK as u64).read_to_end(&mut self.out)?;
        self.out.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        Ok(())
    }

    /// Log lines are of the Basic Multilingual Plane; halves of other characters become a replacement.
    fn utf16(&mut self, is_big_endian: bool) -> io::Result<()> {
        while self.out.len() < BLOCK {
            let (Some(one), Some(other)) = (self.next()?, self.next()?) else { break };
            let unit = if is_big_endian { u16::from_be_bytes([one, other]) } else { u16::from_le_bytes([one, other]) };
            let letter = char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER);
            if letter != '\u{feff}' {
                self.out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(())
    }

    fn quoted_printable(&mut self) -> io::Result<()> {
        while self.out.len() < BLOCK {
            let Some(byte) = self.next()? else { break };
            if byte != b'=' {
                self.out.push(byte);
                continue;
            }
            match self.next()? {
                // The line goes on.
                Some(b'\n') => {}
                Some(b'\r') => {
                    self.next()?;
                }
                Some(high) => {
                    let low = self.next()?;
                    match (hexadecimal(high), low.and_then(hexadecimal)) {
                        // A line ends where the mail has it: an escape must not begin one.
                        (Some(high), Some(low)) => match high << 4 | low {
                            b'\n' | b'\r' => self.out.push(b' '),
                            byte => self.out.push(byte),
                        },
                        _ => self.out.extend([b'=', high].into_iter().chain(low)),
                    }
                }
                None => self.out.push(b'='),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, is_big_endian: bool) -> Vec<u8> {
        text.encode_utf16()
            .flat_map(|unit| if is_big_endian { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect()
    }

    #[test]
    fn each_encoding_gives_the_same_lines() {
        let text = "[    1.5] BUG: nice=0 cpus=3 – x\n[    2.5] y\n";
        let with_mark = format!("\u{feff}{text}");
        let table: [(&str, Vec<u8>); 6] = [
            ("plain", text.as_bytes().to_vec()),
            ("UTF-16 LE", utf16(&with_mark, false)),
            ("UTF-16 BE", utf16(&with_mark, true)),
            ("UTF-16 LE without a mark", utf16(&text.replace('–', "-"), false)),
            ("UTF-16 BE without a mark", utf16(&text.replace('–', "-"), true)),
            ("CR", text.replace('\n', "\r").into_bytes()),
        ];
        for (what, bytes) in table {
            let found = String::from_utf8(decoded_beginning(&bytes)).expect("UTF-8");
            assert_eq!(found.replace('-', "–"), text, "{what}");
            assert_eq!(is_plain(&bytes), what == "plain");
        }
    }

    #[test]
    fn a_mail_says_how_it_is_encoded() {
        let head = "Subject: x\nContent-Transfer-Encoding: quoted-printable\n\n";
        let body = "[    1.5] BUG: nice=3D0 cpu=\ns=3D3 =E2=80=93=20x\n[    2.5] =\r\ny=0Az\n";
        let found = String::from_utf8(decoded_beginning(format!("{head}{body}").as_bytes())).expect("UTF-8");
        assert_eq!(found, format!("{head}[    1.5] BUG: nice=0 cpus=3 –  x\n[    2.5] y z\n").replace("–  x", "– x"));
        assert!(is_plain(body.as_bytes()));
    }

    #[test]
    fn some_letters_of_utf16_have_a_zero_on_the_other_side() {
        let text = "[    1.5] BUG: x\n".repeat(40) + "\u{100}\n";
        assert_eq!(decoded_beginning(&utf16(&text, false)), text.as_bytes());
    }

    #[test]
    fn numbers_behind_equals_signs_are_no_escapes() {
        for text in ["pool cpus=20 node=0 nice=-20\n", "a=\nb=3D\nc=x d=y\n", "x=3Da cpus=10 flags=0x0\n", "", "="] {
            assert_eq!(Encoding::of(text.as_bytes()), Encoding::Plain, "{text}");
        }
        assert_eq!(Encoding::of(b"[  1.5] a\r\n[  2.5] b\r\n"), Encoding::Plain);
        assert_eq!(Encoding::of(&[0; 64]), Encoding::Plain);
    }
}
