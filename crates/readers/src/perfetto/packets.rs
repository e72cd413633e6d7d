//! Splits a trace into packets, one at a time.

use std::io::{self, BufRead, BufReader, Read};

use prost::bytes::Bytes;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Perfetto reads 128 KiB of the kernel's buffer at a time, so a packet of scheduler events has a few hundred
/// kilobytes. Larger packets (heap dumps, video) are skipped.
pub const MAX_PACKET: u64 = 2 << 20;

/// `Trace.packet`: field 1, length-delimited.
const PACKET_KEY: u64 = 1 << 3 | 2;

/// Reads packets from a stream.
pub struct Packets<R> {
    input: BufReader<R>,
    offset: u64,
}

/// What comes next.
pub enum Next {
    Packet(Bytes),
    /// A packet too long to be of interest, which was skipped.
    Passed,
    End,
    /// The bytes after this offset are not a complete packet.
    Truncated {
        offset: u64,
        cut: bool,
    },
    /// The input ended inside the packet at this offset, after these bytes of it. `why` is the error, if it was not the
    /// end of the file.
    Begun {
        offset: u64,
        bytes: Bytes,
        why: Option<io::Error>,
    },
}

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 18;

/// The same for compressed data. Smaller, because damage can cost as many bytes before it.
const UNPACKED_PIECE: usize = 1 << 12;

impl<R: Read> Packets<R> {
    pub fn new(input: R) -> Packets<R> {
        Packets { input: BufReader::with_capacity(READ_BYTES, input), offset: 0 }
    }

    /// The packets of a decompressed stream.
    pub fn unpacked(input: R) -> Packets<R> {
        Packets { input: BufReader::with_capacity(UNPACKED_PIECE, input), offset: 0 }
    }

    pub fn next(&mut self) -> io::Result<Next> {
        let offset = self.offset;
        let truncated = |cut| Ok(Next::Truncated { offset, cut });
        let key = match self.varint()? {
            Varint::Value(key) => key,
            Varint::End => return Ok(Next::End),
            Varint::Cut => return truncated(true),
            Varint::TooLong => return truncated(false),
        };
        if key != PACKET_KEY {
            return truncated(false);
        }
        let length = match self.varint()? {
            Varint::Value(length) => length,
            Varint::TooLong => return truncated(false),
            Varint::End | Varint::Cut => return truncated(true),
        };
        if length > MAX_PACKET {
            let passed = io::copy(&mut self.input.by_ref().take(length), &mut io::sink())?;
            self.offset += passed;
            return if passed < length { truncated(true) } else { Ok(Next::Passed) };
        }
        let mut packet = Vec::new();
        // Allocates as bytes arrive, so a false length allocates nothing.
        let why = self.input.by_ref().take(length).read_to_end(&mut packet).err();
        self.offset += packet.len() as u64;
        let (whole, bytes) = (packet.len() as u64 == length, Bytes::from(packet));
        Ok(if whole { Next::Packet(bytes) } else { Next::Begun { offset, bytes, why } })
    }

    /// The offset of the next packet.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn varint(&mut self) -> io::Result<Varint> {
        let (mut value, mut length) = (0u64, 0);
        while length < 10 {
            let byte = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
                Ok([]) => return Ok(if length == 0 { Varint::End } else { Varint::Cut }),
                Ok([byte, ..]) => *byte,
            };
            self.input.consume(1);
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << (7 * length);
            length += 1;
            if byte & 0x80 == 0 {
                return Ok(Varint::Value(value));
            }
        }
        Ok(Varint::TooLong)
    }
}

enum Varint {
    Value(u64),
    End,
    Cut,
    TooLong,
}

/// One field of an encoded message.
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Splits the first field off an encoded message: its number and value. `None` if it is damaged.
pub fn take_field<'a>(message: &mut &'a [u8]) -> Option<(u32, Field<'a>)> {
    let (number, wire_type) = decode_key(message).ok()?;
    let skip = |message: &mut &'a [u8], length| {
        let (taken, rest) = message.split_at_checked(length)?;
        *message = rest;
        Some(taken)
    };
    let value = match wire_type {
        WireType::Varint => Field::Number(decode_varint(message).ok()?),
        WireType::LengthDelimited => {
            let length = usize::try_from(decode_varint(message).ok()?).ok()?;
            Field::Bytes(skip(message, length)?)
        }
        WireType::SixtyFourBit => skip(message, 8).map(|_| Field::Other)?,
        WireType::ThirtyTwoBit => skip(message, 4).map(|_| Field::Other)?,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    Some((number, value))
}

/// In a truncated message, finds the first field with one of these numbers and returns what is there of it.
pub fn begun_field<'a>(mut message: &'a [u8], numbers: &[u32]) -> Option<(u32, &'a [u8])> {
    loop {
        let mut field = message;
        let (number, wire_type) = decode_key(&mut field).ok()?;
        if numbers.contains(&number) && wire_type == WireType::LengthDelimited {
            let length = usize::try_from(decode_varint(&mut field).ok()?).ok()?;
            return Some((number, &field[..length.min(field.len())]));
        }
        take_field(&mut message)?;
    }
}

/// Whether `prefix` is the start of a trace: packets whose fields are plausible, as far as they go.
pub fn recognises(prefix: &[u8]) -> bool {
    let mut rest = prefix;
    let mut packets = 0;
    while rest.first() == Some(&(PACKET_KEY as u8)) {
        rest = &rest[1..];
        let Ok(length) = decode_varint(&mut rest) else { break };
        let Some((mut packet, after)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length))
        else {
            // The prefix ends in this packet: check its first field only.
            let plausible = length <= MAX_PACKET
                && decode_key(&mut { rest }).is_ok_and(|(number, wire_type)| is_plausible(number, wire_type));
            return plausible && (packets > 0 || rest.len() >= 64);
        };
        while !packet.is_empty() {
            let Ok((number, wire_type)) = decode_key(&mut { packet }) else { return false };
            if !is_plausible(number, wire_type) || take_field(&mut packet).is_none() {
                return false;
            }
        }
        packets += 1;
        rest = after;
    }
    packets > 0 && rest.is_empty()
}

/// Packets have no field numbers above 2000, and no groups.
fn is_plausible(number: u32, wire_type: WireType) -> bool {
    number <= 2000 && !matches!(wire_type, WireType::StartGroup | WireType::EndGroup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_distinguished_from_other_files() {
        // One packet: timestamp (8) 5, sequence (10) 1.
        let packet = [0x0a, 4, 8 << 3, 5, 10 << 3, 1];
        assert!(recognises(&packet));
        assert!(recognises(&packet.repeat(3)));
        assert!(recognises(&[&packet[..], &[0x0a, 200, 1, 0x0a, 100, 0]].concat()), "cut by the prefix's end");
        assert!(!recognises(b"\nhello world\n"));
        assert!(!recognises(b"\n\n\n\n"));
        assert!(!recognises(b"\xff\xd8\xff\xe0\0\x10JFIF"));
        assert!(!recognises(b""));
    }

    #[test]
    fn packets_come_one_by_one_and_damage_has_a_place() {
        let bytes = [&[0x0a, 2, 8 << 3, 5][..], &[0x0a, 9, 1, 2]].concat();
        let mut packets = Packets::new(&bytes[..]);
        assert!(matches!(packets.next().unwrap(), Next::Packet(packet) if packet[..] == [64, 5]));
        assert!(matches!(packets.next().unwrap(), Next::Begun { offset: 4, bytes, why: None } if bytes[..] == [1, 2]));
        assert!(matches!(Packets::new(&b"x"[..]).next().unwrap(), Next::Truncated { offset: 0, cut: false }));
        assert!(matches!(packets.next().unwrap(), Next::End));
        // A length of 4 GB, with 3 bytes present.
        let huge = [0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3];
        assert!(matches!(Packets::new(&huge[..]).next().unwrap(), Next::Truncated { offset: 0, cut: true }));
        assert!(matches!(Packets::new(&[0x0a; 0][..]).next().unwrap(), Next::End));
    }
}
