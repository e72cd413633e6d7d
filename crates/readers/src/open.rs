//! Opens a recording: detects its format by content, and unpacks compressed files and archives.

use std::io;
use std::path::Path;

use thiserror::Error;
use unstarve_model::{Batch, EventSource, SourceError};

use crate::foreign;
use crate::ftrace_text::{self, FtraceText};
use crate::input::Input;
use crate::lttng_text::{self, LttngText};
use crate::perf_data::{self, PerfData};
use crate::perf_script::{self, PerfScript};
use crate::perfetto::{self, Perfetto};
use crate::shifted_states::CorrectedStates;
use crate::text::TextError;
use crate::unpack::{MAX_LAYERS, Tests, Unpacked, unpack};
use crate::{systrace_page, trace_dat};

/// A format that can be read.
pub struct Format {
    /// Its name, and where such files come from.
    pub name: &'static str,
    /// Whether a file with this beginning is of this format. Gets the first 32 KiB, or everything if there is less.
    pub sniff: fn(&[u8]) -> bool,
    /// Opens a reader.
    pub open: fn(Input) -> Result<Box<dyn EventSource>, SourceError>,
}

/// All formats. The first one whose `sniff` matches is used, so those with magic numbers come before text formats.
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
    Format {
        name: "LTTng text (babeltrace2)",
        sniff: lttng_text::recognises,
        open: |input| Ok(Box::new(LttngText::new(input.into_stream()))),
    },
    // Protobuf has no magic number, so it comes last.
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
    /// The file cannot be opened, or its beginning cannot be read.
    #[error("cannot read {name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// It has no content.
    #[error("{name} is empty: the recording was not finished, or wrote elsewhere")]
    Empty {
        /// The file.
        name: String,
    },
    /// The content has no known format.
    #[error("{name} is not a readable recording ({looks}); readable formats: {}", readable())]
    Unknown {
        /// The file.
        name: String,
        /// What it looks like.
        looks: &'static str,
    },
    /// Too many nested layers of compression.
    #[error("{name} has more than {MAX_LAYERS} layers of compression")]
    TooManyLayers {
        /// The file.
        name: String,
    },
    /// An archive without any readable file.
    #[error(
        "{name} is an archive without a readable recording (it contains {}); readable formats: {}",
        listed(members),
        readable()
    )]
    NoMember {
        /// The archive.
        name: String,
        /// Its first few members.
        members: Vec<String>,
    },
    /// An archive inside an archive.
    #[error("{name} is itself an archive: unpack the outer one first")]
    ArchiveInArchive {
        /// The inner archive.
        name: String,
    },
    /// The format is known, but the reader cannot read the file.
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

/// Whether an error says that there is no event at all, so that the file may be a text of another kind.
pub fn has_no_events(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::Unknown { .. } | OpenError::NoMember { .. }))
        || matches!(error.downcast_ref(), Some(TextError::NoEvents { .. }))
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

/// Whether there is any event. A kernel log or an HTML page looks like a recording by its beginning, but mostly is not
/// one.
fn has_events(input: Input) -> bool {
    let Some(Ok(mut source)) = format_of(input.prefix()).map(|format| (format.open)(input)) else { return false };
    let mut batch = Batch::default();
    while source.read(&mut batch).unwrap_or(false) {
        if !batch.events.is_empty() {
            return true;
        }
    }
    !batch.events.is_empty()
}

/// The format of an unpacked recording that begins with `prefix` (32 KiB, or everything), by its name. Text must have an event
/// within it: logs and pages look like recordings, and mostly are none.
pub fn recording_format(prefix: &[u8]) -> Option<&'static str> {
    let format = format_of(prefix)?;
    let is_text = !prefix.contains(&0);
    let beginning = || Input::from_stream(Box::new(io::Cursor::new(prefix.to_vec())), String::new()).ok();
    (!is_text || beginning().is_some_and(has_events)).then_some(format.name)
}

/// Opens a recording in any known format.
pub fn open(path: &Path) -> Result<Box<dyn EventSource>, OpenError> {
    let name = path.display().to_string();
    open_input(Input::open(path).map_err(|source| OpenError::Io { name, source })?)
}

/// Opens a recording in any known format from standard input.
pub fn open_stdin() -> Result<Box<dyn EventSource>, OpenError> {
    open_input(Input::stdin().map_err(|source| OpenError::Io { name: "standard input".to_owned(), source })?)
}

/// Opens a recording in any known format from an input.
pub fn open_input(input: Input) -> Result<Box<dyn EventSource>, OpenError> {
    let tests = Tests { is_recording: |prefix| format_of(prefix).is_some(), has_events };
    let Unpacked { input, member } = unpack(input, tests)?;
    let name = input.name().to_owned();
    if input.prefix().is_empty() {
        return Err(OpenError::Empty { name });
    }
    let Some(format) = format_of(input.prefix()) else {
        return Err(OpenError::Unknown { name, looks: foreign::looks_like(input.prefix()) });
    };
    let source = (format.open)(input).map_err(|source| OpenError::Format { name, format: format.name, source })?;
    let source = CorrectedStates::new(source);
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
    fn unreadable_files_are_reported_with_the_readable_formats() {
        assert_eq!(error(b""), "x is empty: the recording was not finished, or wrote elsewhere");
        let jpeg = error(b"\xff\xd8\xff\xe0\0\x10JFIF");
        assert!(jpeg.starts_with("x is not a readable recording (it looks like a JPEG image); readable formats:"));
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

    const TEXT: &str = "  x-1  [000]  1.000000: softirq_entry: vec=1 [action=TIMER]\n";

    fn opened(bytes: &[u8]) -> Box<dyn EventSource> {
        let input = Input::from_stream(Box::new(io::Cursor::new(bytes.to_vec())), "x".into()).unwrap();
        open_input(input).unwrap_or_else(|error| panic!("{error}"))
    }

    /// How many events are read, in which format, and which other recordings are reported.
    fn read(bytes: &[u8]) -> (usize, String, Vec<String>) {
        let mut source = opened(bytes);
        let (mut batch, mut count) = (unstarve_model::Batch::default(), 0);
        while source.read(&mut batch).unwrap() {
            count += batch.events.len();
        }
        let losses = source.losses();
        let others = losses.iter().filter(|loss| loss.kind == unstarve_model::LossKind::OtherRecordings);
        (count, source.info().format.clone(), others.map(ToString::to_string).collect())
    }

    fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, content) in members {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, *content).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
        for (name, content) in members {
            let file = archive.new_file(name).compression_method(rawzip::CompressionMethod::DEFLATE);
            let (mut entry, config) = file.start().unwrap();
            let mut writer =
                config.wrap(flate2::write::DeflateEncoder::new(&mut entry, flate2::Compression::default()));
            writer.write_all(content).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    #[test]
    fn every_compression_and_encoding_comes_off() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        zlib.write_all(TEXT.as_bytes()).unwrap();
        let zlib = zlib.finish().unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
        xz.write_all(TEXT.as_bytes()).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(TEXT.as_bytes()).unwrap();
        let utf16: Vec<u8> = [0xfeff].into_iter().chain(TEXT.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let page = format!("<html>\n<script class=\"trace-data\">\n# tracer: nop\n{TEXT}</script>\n");
        let all = [
            gzip(TEXT.as_bytes()),
            zstd::encode_all(TEXT.as_bytes(), 0).unwrap(),
            xz.finish().unwrap(),
            bzip2.finish().unwrap(),
            [&b"TRACE:\n"[..], &zlib].concat(),
            zlib,
            [b"\xef\xbb\xbf", TEXT.as_bytes()].concat(),
            gzip(&utf16),
            utf16,
            page.into_bytes(),
        ];
        for bytes in all {
            let (events, format, _) = read(&bytes);
            assert_eq!(events, 1, "{format}: {:x?}", &bytes[..8]);
        }
    }

    #[test]
    fn an_archive_s_recording_is_found_and_named() {
        let members = [("README", &b"hello\n"[..]), ("a/trace.txt.gz", &gzip(TEXT.as_bytes()))];
        let expected = (1, "ftrace text from a/trace.txt.gz".to_owned(), Vec::new());
        assert_eq!(read(&gzip(&tar(&members))), expected);
        assert_eq!(read(&zip(&members)), expected);
    }

    #[test]
    fn what_only_looks_like_a_recording_does_not_stand_before_one() {
        let log = b"[    0.000000] Linux version 6.1.0 (debian-kernel@lists.debian.org)\n[    0.000001] Command line: quiet\n";
        let page = b"<!DOCTYPE html>\n<html><body>no trace</body></html>\n";
        let empty = b"# tracer: nop\n#\n";
        let members = [
            ("sos/dmesg", &log[..]),
            ("sos/report.html", page),
            ("sos/trace", empty),
            ("sos/perf.txt", TEXT.as_bytes()),
            ("sos/dmesg.1", log),
        ];
        let expected = (1, "ftrace text from sos/perf.txt".to_owned(), Vec::new());
        assert_eq!(read(&tar(&members)), expected);
        assert_eq!(read(&zip(&members)), expected);
        // No member has any event: the first one's error is reported.
        let mut source = opened(&tar(&members[..2]));
        let failed = source.read(&mut unstarve_model::Batch::default());
        assert!(failed.is_err(), "{}", source.info().format);
    }

    #[test]
    fn several_recordings_in_an_archive_are_reported() {
        let members = [("../../etc/one", TEXT.as_bytes()), ("two\x1b[2J", TEXT.as_bytes()), ("three", TEXT.as_bytes())];
        let (events, format, others) = read(&tar(&members));
        assert_eq!((events, format.as_str()), (1, "ftrace text from ../../etc/one"));
        assert_eq!(
            others,
            ["2 more recordings were not read (two\\u{1b}[2J, three; read another one with `tar -xOf x \
                 MEMBER | unstarve explain -`; several members to tar -xOf join the parts of a text that was split)"]
        );
    }

    #[test]
    fn archives_without_recordings_say_what_is_in_them() {
        let members = [("a.txt", &b"hello\n"[..]), ("b.txt", b"world\n")];
        for bytes in [tar(&members), zip(&members)] {
            let message = error(&bytes);
            assert!(message.starts_with("x is an archive without a readable recording (it contains a.txt, b.txt)"));
        }
        let inner = zip(&[("trace.txt", TEXT.as_bytes())]);
        assert!(error(&tar(&[("inner.zip", &inner)])).contains("it contains inner.zip"));
        let truncated = &inner[..inner.len() - 30];
        assert!(error(truncated).contains("has no directory at its end"), "{}", error(truncated));
    }

    #[test]
    fn no_torn_and_no_flipped_archive_does_harm() {
        let members = [("README", &b"hello\n"[..]), ("trace.txt", TEXT.as_bytes())];
        for bytes in [gzip(&tar(&members)), zip(&members)] {
            let survives = |bytes: &[u8]| {
                let input = Input::from_stream(Box::new(io::Cursor::new(bytes.to_vec())), "x".into());
                let Ok(mut source) = input.map_err(drop).and_then(|input| open_input(input).map_err(drop)) else {
                    return;
                };
                let mut batch = unstarve_model::Batch::default();
                while source.read(&mut batch).unwrap_or(false) {}
            };
            for length in 0..bytes.len() {
                survives(&bytes[..length]);
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                survives(&flipped);
            }
        }
    }

    #[test]
    fn layers_without_end_are_refused() {
        let mut bytes = b"x".to_vec();
        for _ in 0..10 {
            bytes = gzip(&bytes);
        }
        assert_eq!(error(&bytes), "x has more than 4 layers of compression");
    }
}
