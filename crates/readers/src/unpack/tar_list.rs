use std::io;

use super::archive::{Member, Packing, Part};
use crate::input::Positioned;

/// The regular files in a tar archive, up to `limit`. A torn archive gives those before the tear.
pub fn members(file: &Positioned, limit: usize) -> io::Result<Vec<Member>> {
    let mut archive = tar::Archive::new(Part::whole(file));
    let mut members = Vec::new();
    for entry in archive.entries_with_seek()? {
        let Ok(entry) = entry else { break };
        let kind = entry.header().entry_type();
        let packing = match kind {
            _ if kind.is_file() || kind.is_contiguous() => Packing::None,
            _ if kind.is_gnu_sparse() => Packing::Unreadable,
            _ => continue,
        };
        let begin = entry.raw_file_position();
        members.push(Member::new(&entry.path_bytes(), packing, begin, begin.saturating_add(entry.size())));
        if members.len() == limit {
            break;
        }
    }
    Ok(members)
}
