use std::io::Read;

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

    /// Unpacks `packed` into `unpacked`, which gets the promised `length` or less: memory grows with what really
    /// comes out, not with what the file promises.
    pub(super) fn unpack(self, packed: &[u8], length: u64, unpacked: &mut Vec<u8>) -> Result<(), String> {
        unpacked.clear();
        let outcome = match self {
            Compression::None => {
                unpacked.extend_from_slice(packed);
                Ok(())
            }
            Compression::Zlib => flate2::bufread::ZlibDecoder::new(packed).take(length).read_to_end(unpacked).map(drop),
            Compression::Zstd => zstd::stream::read::Decoder::with_buffer(packed)
                .and_then(|decoder| decoder.take(length).read_to_end(unpacked))
                .map(drop),
        };
        match outcome {
            Err(error) => Err(error.to_string()),
            Ok(()) if (unpacked.len() as u64) < length => {
                Err(format!("{} bytes came out instead of {length}", unpacked.len()))
            }
            Ok(()) => Ok(()),
        }
    }
}
