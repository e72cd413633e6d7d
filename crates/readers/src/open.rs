//! Tells formats apart by their content, and peels gzip and zstd off the outside.

use std::io;
use std::path::Path;

use thiserror::Error;
use unstarve_model::{EventSource, SourceError};

use crate::ftrace_text::{self, FtraceText};
use crate::input::Input;
use crate::perf_data::{self, PerfData};
use crate::perf_script::{self, PerfScript};
use crate::perfetto::{self, Perfetto};
use crate::trace_dat;

/// A format that can be read.
pub struct Format {
    /// What it is called, with where such files come from.
    pub name: &'static str,
    /// Whether a file that begins so is of this format. Gets 32 KiB, or all there are.
    pub sniff: fn(&[u8]) -> bool,
    /// Starts reading.
    pub open: fn(Input) -> Result<Box<dyn EventSource>, SourceError>,
}

/// All of them. The first whose `sniff` agrees is it, so those with a magic number come before those of text.
pub const FORMATS: &[Format] = &[
    Format { name: "trace.dat (trace-cmd, unstarve record)", sniff: trace_dat::sniff, open: trace_dat::open },
    Format { name: "perf.data", sniff: perf_data::recognises, open: |input| Ok(Box::new(PerfData::open(input)?)) },
    Format {
        name: "perf script text",
        sniff: perf_script::recognises,
        open: |input| Ok(Box::new(PerfScript::new(input.into_stream()))),
    },
    Format {
        name: "ftrace text (trace, trace_pipe, trace-cmd report)",
        sniff: ftrace_text::recognises,
        open: |input| Ok(Box::new(FtraceText::new(input.into_stream()))),
    },
    // Protobuf has no magic number: last.
    Format {
        name: "Perfetto",
        sniff: perfetto::recognises,
        open: |input| Ok(Box::new(Perfetto::new(input.into_stream()))),
    },
];

/// Why a recording cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened or its beginning cannot be read.
    #[error("cannot read {name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("{name} is empty: the recording was not finished, or wrote elsewhere")]
    Empty {
        /// The file.
        name: String,
    },
    /// The content is of no known format.
    #[error("{name} is not a recording that can be read ({looks}); readable are {}", readable())]
    Unknown {
        /// The file.
        name: String,
        /// What it looks like.
        looks: &'static str,
    },
    /// Compression within compression without end.
    #[error("{name} is compressed more than {MAX_LAYERS} times over")]
    TooManyLayers {
        /// The file.
        name: String,
    },
    /// The format is known, but its reader cannot make anything of the file.
    #[error("cannot read {name} as {format}: {source}")]
    Format {
        /// The file.
        name: String,
        /// The format that its content claims.
        format: &'static str,
        /// The reader's reason.
        source: SourceError,
    },
}

/// `trace.dat.gz.zst` is odd, a hundred layers are an attack.
const MAX_LAYERS: usize = 4;

fn readable() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ") + "; each also inside gzip or zstd"
}

/// Opens a recording of any known format.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, OpenError> {
    let name = path.display().to_string();
    open_input(Input::open(path).map_err(|source| OpenError::Io { name, source })?)
}

/// Reads a recording of any known format from standard input.
pub fn open_stdin() -> Result<Box<dyn EventSource>, OpenError> {
    open_input(Input::stdin().map_err(|source| OpenError::Io { name: "standard input".to_owned(), source })?)
}

/// Reads a recording of any known format from an input.
pub fn open_input(input: Input) -> Result<Box<dyn EventSource>, OpenError> {
    let input = peel(input)?;
    let name = input.name().to_owned();
    if input.prefix().is_empty() {
        return Err(OpenError::Empty { name });
    }
    let Some(format) = FORMATS.iter().find(|format| (format.sniff)(input.prefix())) else {
        return Err(OpenError::Unknown { name, looks: looks_like(input.prefix()) });
    };
    (format.open)(input).map_err(|source| OpenError::Format { name, format: format.name, source })
}

/// Removes compression from the outside, however often it was applied.
fn peel(mut input: Input) -> Result<Input, OpenError> {
    for _ in 0..=MAX_LAYERS {
        let name = input.name().to_owned();
        let peeled = match input.prefix() {
            [0x1f, 0x8b, ..] => {
                let stream = io::BufReader::with_capacity(1 << 16, input.into_stream());
                Input::from_stream(Box::new(flate2::bufread::MultiGzDecoder::new(stream)), name.clone())
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::stream::read::Decoder::new(input.into_stream())
                .and_then(|decoder| Input::from_stream(Box::new(decoder), name.clone())),
            _ => return Ok(input),
        };
        input = peeled.map_err(|source| OpenError::Io { name, source })?;
    }
    Err(OpenError::TooManyLayers { name: input.name().to_owned() })
}

/// A word about content that nothing here reads: most often the wrong file was named.
fn looks_like(prefix: &[u8]) -> &'static str {
    match prefix {
        [0xff, 0xd8, 0xff, ..] => "it looks like a JPEG image",
        [0x89, b'P', b'N', b'G', ..] => "it looks like a PNG image",
        [0x7f, b'E', b'L', b'F', ..] => "it looks like an ELF program",
        [b'P', b'K', 3, 4, ..] => "it looks like a zip archive",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "it looks like an xz file: unpack it first",
        [b'B', b'Z', b'h', ..] => "it looks like a bzip2 file: unpack it first",
        _ if prefix.iter().all(|&b| b == 0) => "its beginning is all zeros",
        // The prefix may end within a character.
        _ if std::str::from_utf8(prefix).map_or_else(|error| error.error_len().is_none(), |_| true) => {
            "it is text, but no line looks like a scheduler event"
        }
        _ => "its content is of no known format",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn error(bytes: &[u8]) -> String {
        let input = Input::from_stream(Box::new(io::Cursor::new(bytes.to_vec())), "x".into()).unwrap();
        open_input(input).err().unwrap().to_string()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_told_with_what_can() {
        assert_eq!(error(b""), "x is empty: the recording was not finished, or wrote elsewhere");
        let jpeg = error(b"\xff\xd8\xff\xe0\0\x10JFIF");
        assert!(jpeg.starts_with("x is not a recording that can be read (it looks like a JPEG image); readable are"));
        assert!(jpeg.ends_with("each also inside gzip or zstd"));
        assert!(error(&[0; 100]).contains("all zeros"));
        assert!(error(&gzip(b"\x89PNG")).contains("PNG"));
        assert!(error(&zstd::encode_all(&b"\x7fELF"[..], 0).unwrap()).contains("ELF"));
    }

    #[test]
    fn a_mails_head_may_stand_before_the_trace() {
        let trace = include_bytes!("../../../testdata/traces/fsdevel-perf-script.txt");
        let mail = [&b"Received: from one host by another\n".repeat(300)[..], trace].concat();
        let input = Input::from_stream(Box::new(io::Cursor::new(mail)), "mail".into()).unwrap();
        assert_eq!(open_input(input).unwrap().info().format, "perf script text");
    }

    #[test]
    fn layers_without_end_are_refused() {
        let mut bytes = b"x".to_vec();
        for _ in 0..10 {
            bytes = gzip(&bytes);
        }
        assert_eq!(error(&bytes), "x is compressed more than 4 times over");
    }
}
