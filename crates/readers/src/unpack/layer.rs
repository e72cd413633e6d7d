//! Detects and removes one layer of compression, archive or text encoding.

use std::io;

use liblzma::stream::{CONCATENATED, Stream};

use super::archive::ArchiveKind;
use super::bounded::Budget;
use super::through;
use super::utf16::{self, Utf16};
use crate::input::Input;

/// A layer around a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The content is a stream.
    Stream(StreamLayer),
    /// The content is one of several files.
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
    /// The output of `atrace -z` as `adb` delivers it: a line `TRACE:`, then zlib data.
    Atrace {
        /// Where the zlib data begins.
        begin: usize,
    },
    /// UTF-16 text, as PowerShell writes it when redirecting output.
    Utf16(utf16::Order),
    /// A byte order mark before UTF-8 text.
    Utf8Mark,
}

/// xz needs no more than this to decompress its highest preset.
const XZ_MEMORY: u64 = 128 << 20;

/// `atrace` prints this and a newline before the compressed data.
const ATRACE_START: &[u8] = b"TRACE:";

impl Layer {
    /// The outermost layer of a file that begins with `prefix`.
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

/// Whether this is a zlib header: DEFLATE, a valid window size, no dictionary, a valid check, and a level that is in
/// use.
fn is_zlib(prefix: &[u8]) -> bool {
    matches!(prefix, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..])
}

/// Where the zlib data of an atrace dump begins. adb's shell may have changed the newline to `\r\n`, and messages of
/// atrace may come first.
fn after_atrace(prefix: &[u8]) -> Option<usize> {
    let head = &prefix[..prefix.len().min(1024)];
    let at = memchr::memmem::find(head, ATRACE_START)? + ATRACE_START.len();
    let newlines = prefix[at..].iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
    is_zlib(&prefix[at + newlines..]).then_some(at + newlines)
}

impl StreamLayer {
    /// Removes the layer.
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
    fn layers_are_detected_by_their_content() {
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
