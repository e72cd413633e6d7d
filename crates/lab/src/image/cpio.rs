//! Writes cpio archives for initial file systems.

use std::io::{self, Write};

/// Writes the archive format of initial file systems: `newc`, from the kernel's
/// Documentation/driver-api/early-userspace/buffer-format.rst.
///
/// All entries belong to root and have no date, and inode numbers count up: equal content gives equal bytes.
pub(crate) struct Archive<W: Write> {
    output: W,
    written: u64,
    inode: u32,
}

const DIRECTORY_MODE: u32 = 0o040_755;
const FILE_MODE: u32 = 0o100_000;
const LINK_MODE: u32 = 0o120_777;

impl<W: Write> Archive<W> {
    pub(crate) fn new(output: W) -> Archive<W> {
        Archive { output, written: 0, inode: 0 }
    }

    /// Adds a directory; its parents must have been added.
    pub(crate) fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY_MODE, &[])
    }

    /// Adds a file with `permissions` such as 0o755.
    pub(crate) fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, FILE_MODE | permissions, content)
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK_MODE, target.as_bytes())
    }

    /// Ends the archive at a multiple of 512 bytes, so that another archive may follow.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.pad(512)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        let too_large =
            |_| io::Error::new(io::ErrorKind::FileTooLarge, "a file of 4 GiB or more in an initial file system");
        let size = u32::try_from(content.len()).map_err(too_large)?;
        self.inode += 1;
        let name_size = path.len() as u32 + 1;
        let links = if mode == DIRECTORY_MODE { 2 } else { 1 };
        // inode, mode, uid, gid, links, mtime, size, device (2), special device (2), size of the name, checksum.
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.bytes(header.as_bytes())?;
        self.bytes(path.as_bytes())?;
        self.bytes(&[0])?;
        self.pad(4)?;
        self.bytes(content)?;
        self.pad(4)
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.output.write_all(bytes)
    }

    fn pad(&mut self, to: u64) -> io::Result<()> {
        let missing = (to - self.written % to) % to;
        self.bytes(&vec![0; missing as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_as_the_kernel_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.directory("bin").expect("written");
        archive.file("/bin/a", 0o755, b"hello").expect("written");
        archive.link("bin/b", "a").expect("written");
        let bytes = archive.finish().expect("written");
        assert_eq!(bytes.len(), 512);
        let text = String::from_utf8_lossy(&bytes).replace('\0', ".");
        let field = |at: usize| &text[at..at + 8];
        assert_eq!(&text[..6], "070701");
        assert_eq!((field(14), &text[110..116]), ("000041ed", "bin..."));
        let file = 116;
        assert_eq!((field(file + 14), field(file + 54), field(file + 94)), ("000081ed", "00000005", "00000006"));
        assert_eq!(&text[file + 110..file + 124], "bin/a.hello...");
        let link = file + 124;
        assert_eq!(&text[link + 110..link + 120], "bin/b.a...");
        assert!(text[link + 120..].contains("TRAILER!!!."));
    }
}
