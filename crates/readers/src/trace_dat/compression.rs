use std::io::{self, Read};

use super::TraceDatError;

/// How the sections of a version 7 file are packed.
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

    /// Unpacks a section of a file.
    pub(super) fn unpack(self, packed: &[u8], length: usize, unpacked: &mut Vec<u8>) -> Result<(), String> {
        Unpacker::new(self).unpack(packed, length, unpacked)
    }
}

/// Unpacks one piece after the other: making zstd's tables anew for each chunk of 40 KiB would cost a quarter of the
/// time of reading.
pub(super) struct Unpacker {
    compression: Compression,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Unpacker {
    pub(super) fn new(compression: Compression) -> Unpacker {
        Unpacker { compression, zstd: None }
    }

    /// Unpacks `packed` into `unpacked`, which should become `length` bytes; the caller has checked that so many may
    /// be asked for. On damage, `unpacked` holds what came out before it.
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
