//! Lists the members of a zip archive.

use std::io;

use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive};

use super::archive::{Member, Packing};
use crate::input::Positioned;

impl ReaderAt for Positioned {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Positioned::read_at(self, offset, buffer)
    }
}

/// The directory is found from the end of the archive; a comment of up to this length may follow it.
const MAX_COMMENT: u64 = 1 << 17;

/// The files in a zip archive, up to `limit`.
pub fn members(file: &Positioned, limit: usize) -> io::Result<Vec<Member>> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::with_max_search_space(MAX_COMMENT)
        .locate_in_reader(file.clone(), &mut buffer, file.length())
        .map_err(|(_, error)| no_directory(&error))?;
    let mut members = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Ok(Some(entry)) = entries.next_entry() {
        if entry.is_dir() {
            continue;
        }
        let packing = match entry.compression_method() {
            _ if entry.flags().is_encrypted() => Packing::Unreadable,
            CompressionMethod::STORE => Packing::None,
            CompressionMethod::DEFLATE => Packing::Deflate,
            _ => Packing::Unreadable,
        };
        if let Ok(found) = archive.get_entry(entry.wayfinder()) {
            let (begin, end) = found.compressed_data_range();
            members.push(Member::new(entry.file_path().as_bytes(), packing, begin, end));
        }
        if members.len() == limit {
            break;
        }
    }
    Ok(members)
}

fn no_directory(error: &rawzip::Error) -> io::Error {
    io::Error::other(format!("the zip archive has no directory at its end ({error}): copy or download it again"))
}
