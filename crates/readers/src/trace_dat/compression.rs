//! Decompression of the sections of a version 7 file.

use std::io::{self, Read};

use super::TraceDatError;

/// How the sections of a version 7 file are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compression {
    None,
    Zlib,
    Zstd,
}

impl Compression {
    pub(super) fn from_name(name: &str) -> Result<Compression, TraceDatError> {
        match name {
            "none" => Ok(Compression::None),
            "zlib" => Ok(Compression::Zlib),
            "zstd" => Ok(Compression::Zstd),
            other => Err(TraceDatError::Compression(other.to_owned())),
        }
    }

    /// Decompresses one section of a file.
    pub(super) fn unpack(self, packed: &[u8], length: usize, unpacked: &mut Vec<u8>) -> Result<(), String> {
        Unpacker::new(self).unpack(packed, length, unpacked)
    }
}

/// Decompresses one piece after the other with one context. To set up zstd's tables again for each chunk of 40 KiB
/// would take a quarter of the reading time.
pub(super) struct Unpacker {
    compression: Compression,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Unpacker {
    pub(super) fn new(compression: Compression) -> Unpacker {
        Unpacker { compression, zstd: None }
    }

    /// Decompresses `packed` into `unpacked`, which should get `length` bytes; the caller has checked that this length
    /// may be allocated. On damage, `unpacked` holds the bytes before it.
    pub(super) fn unpack(&mut self, packed: &[u8], length: usize, unpacked: &mut Vec<u8>) -> Result<(), String> {
        unpacked.clear();
        let outcome = match self.compression {
            Compression::None => {
                unpacked.extend_from_slice(&packed[..packed.len().min(length)]);
                Ok(())
            }
            Compression::Zlib => {
                let decoder = flate2::bufread::ZlibDecoder::new(packed);
                decoder.take(length as u64).read_to_end(unpacked).map(drop)
            }
            Compression::Zstd => self.unpack_zstd(packed, length, unpacked),
        };
        match outcome {
            Err(error) => Err(error.to_string()),
            Ok(()) if unpacked.len() < length => Err(format!("{} bytes came out instead of {length}", unpacked.len())),
            Ok(()) => Ok(()),
        }
    }

    fn unpack_zstd(&mut self, packed: &[u8], length: usize, unpacked: &mut Vec<u8>) -> io::Result<()> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        unpacked.reserve(length);
        zstd.decompress_to_buffer(packed, unpacked).map(drop)
    }
}
