//! Tells formats apart by their content, and unpacks what is packed.

use std::io;
use std::path::Path;

use thiserror::Error;
use unstarve_model::{EventSource, SourceError};

use crate::foreign;
use crate::ftrace_text::{self, FtraceText};
use crate::input::Input;
use crate::perf_data::{self, PerfData};
use crate::perf_script::{self, PerfScript};
use crate::perfetto::{self, Perfetto};
use crate::shifted_states::PutRight;
use crate::unpack::{MAX_LAYERS, Unpacked, unpack};
use crate::{systrace_page, trace_dat};

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
        name: "systrace HTML",
        sniff: systrace_page::recognises,
        open: |input| Ok(Box::new(systrace_page::open(input.into_stream()))),
    },
    Format {
        name: "perf script text",
        sniff: perf_script::recognises,
        open: |input| Ok(Box::new(PerfScript::new(input.into_stream()))),
    },
    Format {
        name: "ftrace text (trace, trace_pipe, trace-cmd report, a dump in the kernel's log)",
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
    #[error("{name} is packed more than {MAX_LAYERS} times over")]
    TooManyLayers {
        /// The file.
        name: String,
    },
    /// An archive holds nothing that can be read.
    #[error(
        "{name} is an archive without a recording that can be read (in it are {}); readable are {}",
        listed(members),
        readable()
    )]
    NoMember {
        /// The archive.
        name: String,
        /// Its first few members.
        members: Vec<String>,
    },
    /// An archive in an archive: unpacking one is enough to be asked for.
    #[error("{name} is itself an archive: unpack the outer one first")]
    ArchiveInArchive {
        /// The inner archive.
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

fn readable() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    names.join(", ") + "; each also inside gzip, zstd, xz, bzip2, zlib, tar or zip"
}

fn listed(members: &[String]) -> String {
    if members.is_empty() { "no files".to_owned() } else { members.join(", ") }
}

fn format_of(prefix: &[u8]) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.sniff)(prefix))
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
    let Unpacked { input, member } = unpack(input, |prefix| format_of(prefix).is_some())?;
    let name = input.name().to_owned();
    if input.prefix().is_empty() {
        return Err(OpenError::Empty { name });
    }
    let Some(format) = format_of(input.prefix()) else {
        return Err(OpenError::Unknown { name, looks: foreign::looks_like(input.prefix()) });
    };
    let source = (format.open)(input).map_err(|source| OpenError::Format { name, format: format.name, source })?;
    let source = PutRight::new(source);
    Ok(match member {
        Some(member) => member.name(Box::new(source)),
        None => Box::new(source),
    })
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
        assert!(jpeg.ends_with("each also inside gzip, zstd, xz, bzip2, zlib, tar or zip"));
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
        assert_eq!(error(&bytes), "x is packed more than 4 times over");
    }
}
