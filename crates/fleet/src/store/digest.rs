//! Digests of files.

use sha2::{Digest, Sha256};

/// The first half of SHA-256, in hexadecimal: nobody can make another file with the same digest.
pub(crate) fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
