use std::io;

use liblzma::stream::{CONCATENATED, Stream};

use super::archive::ArchiveKind;
use super::bounded::Budget;
use super::through;
use super::utf16::{self, Utf16};
use crate::input::Input;

/// Something that a recording is wrapped in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// What comes out is read from beginning to end.
    Stream(StreamLayer),
    /// What comes out is one of several files.
    Archive(ArchiveKind),
}

/// A layer that is a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamLayer {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    Zlib,
    /// `atrace -z`, as `adb` delivers it: a line `TRACE:`, then zlib.
    Atrace {
        /// Where the packed bytes begin.
        begin: usize,
    },
    /// Text, as PowerShell redirects it.
    Utf16(utf16::Order),
    /// A byte order mark before text in UTF-8.
    Utf8Mark,
}

/// xz promises no more memory for its highest preset.
const XZ_MEMORY: u64 = 128 << 20;

/// `atrace` prints this and a newline before what it packed.
const ATRACE: &[u8] = b"TRACE:";

impl Layer {
    /// Which layer something that begins so has.
    pub fn of(prefix: &[u8]) -> Option<Layer> {
        use StreamLayer::*;
        let stream = match prefix {
            [0x1f, 0x8b, 8, ..] => Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Bzip2,
            [0xef, 0xbb, 0xbf, ..] => Utf8Mark,
            _ if is_zlib(prefix) => Zlib,
            _ => {
                let other = after_atrace(prefix).map(|begin| Atrace { begin });
                let other = other.or_else(|| utf16::order(prefix).map(Utf16));
                return other.map(Layer::Stream).or_else(|| ArchiveKind::of(prefix).map(Layer::Archive));
            }
        };
        Some(Layer::Stream(stream))
    }
}

/// A zlib header: DEFLATE, a window that exists, no dictionary, the check, and one of the levels that are written.
fn is_zlib(prefix: &[u8]) -> bool {
    matches!(prefix, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..])
}

/// Where the packed bytes of an atrace dump begin. adb's shell may have made `\r\n` of the newline; messages of atrace
/// may come before.
fn after_atrace(prefix: &[u8]) -> Option<usize> {
    let head = &prefix[..prefix.len().min(1024)];
    let at = memchr::memmem::find(head, ATRACE)? + ATRACE.len();
    let newlines = prefix[at..].iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
    is_zlib(&prefix[at + newlines..]).then_some(at + newlines)
}

impl StreamLayer {
    /// Takes the layer off.
    pub fn open(self, input: Input, budget: &mut Budget) -> io::Result<Input> {
        through(input, budget, |packed| {
            Ok(match self {
                StreamLayer::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(packed)) as Box<dyn io::Read + Send>,
                StreamLayer::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
                StreamLayer::Xz => {
                    let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
                    Box::new(liblzma::bufread::XzDecoder::new_stream(packed, stream))
                }
                StreamLayer::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
                StreamLayer::Zlib => Box::new(flate2::bufread::ZlibDecoder::new(packed)),
                StreamLayer::Atrace { begin } => {
                    Box::new(flate2::bufread::ZlibDecoder::new(without_head(packed, begin)?))
                }
                StreamLayer::Utf16(order) => Box::new(Utf16::new(packed, order)),
                StreamLayer::Utf8Mark => Box::new(without_head(packed, 3)?),
            })
        })
    }
}

fn without_head<R: io::Read>(mut stream: R, length: usize) -> io::Result<R> {
    io::copy(&mut io::Read::take(&mut stream, length as u64), &mut io::sink())?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_told_by_their_content() {
        let of = |bytes: &[u8]| match Layer::of(bytes) {
            Some(Layer::Stream(stream)) => format!("{stream:?}"),
            Some(Layer::Archive(kind)) => format!("{kind:?}"),
            None => "-".to_owned(),
        };
        assert_eq!(of(b"\x1f\x8b\x08x"), "Gzip");
        assert_eq!(of(b"BZh91AY&SYx"), "Bzip2");
        assert_eq!(of(b"BZhello is text"), "-");
        assert_eq!(of(b"\x78\x9cabc"), "Zlib");
        assert_eq!(of(b"capturing trace... done\nTRACE:\r\n\x78\x9cabc"), "Atrace { begin: 32 }");
        assert_eq!(of(b"TRACE:\nno zlib"), "-");
        assert_eq!(of(b"\xef\xbb\xbf# tracer: nop"), "Utf8Mark");
        assert_eq!(of(b"PK\x03\x04xx"), "Zip");
        assert_eq!(of(b"\xff\xfe#\0"), "Utf16(Little)");
        assert_eq!(of(b""), "-");
    }
}
