//! Which machine this is, whatever its name.
//!
//! `/etc/machine-id` is confidential (machine-id(5)), so programs publish a hash of it that is their own. This one is what
//! `systemd-id128 machine-id --app-specific=98e90b8a5fbf4ab7a6a4c24c9a2e1b3d` prints.

use sha2::{Digest, Sha256};

use crate::Root;

/// This program, for the hash.
const APPLICATION_ID: [u8; 16] = 0x98e9_0b8a_5fbf_4ab7_a6a4_c24c_9a2e_1b3d_u128.to_be_bytes();

/// SHA-256's block.
const BLOCK_BYTES: usize = 64;

/// The machine's id for unstarve: 32 hexadecimal digits. `None` where `/etc/machine-id` is missing or has no id yet, as in most
/// containers.
pub fn machine_id(root: &Root) -> Option<String> {
    let text = std::fs::read_to_string(root.path("/etc/machine-id")).ok()?;
    let digits = text.trim();
    let machine = u128::from_str_radix(digits, 16).ok().filter(|id| digits.len() == 32 && *id != 0)?;
    Some(format!("{:032x}", of_application(machine, APPLICATION_ID)))
}

/// What sd_id128_get_machine_app_specific(3) gives: the first half of HMAC-SHA256 with the machine's id as the key, marked as a
/// UUID of version 4.
fn of_application(machine: u128, application: [u8; 16]) -> u128 {
    let padded = |pad: u8| {
        let mut key = [pad; BLOCK_BYTES];
        key.iter_mut().zip(machine.to_be_bytes()).for_each(|(padded, byte)| *padded ^= byte);
        key
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(application).finalize();
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize();
    let id = outer[..16].iter().fold(0, |id: u128, byte| id << 8 | u128::from(*byte));
    let (version, variant) = (0xf_u128 << 76, 0xc_u128 << 60);
    id & !version & !variant | 0x4 << 76 | 0x8 << 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let place = tempfile::tempdir().expect("a place for files");
        std::fs::create_dir(place.path().join("etc")).expect("it can be made");
        std::fs::write(place.path().join("etc/machine-id"), text).expect("it can be written");
        machine_id(&Root::at(place.path()))
    }

    /// Said by `systemd-id128 machine-id --app-specific=…` of systemd 252 on a machine with this id.
    #[test]
    fn it_is_what_systemd_says() {
        assert_eq!(read("4c4c4544004d4a108046c7c04f4e4d32\n").as_deref(), Some("2f909645591348fcbb77fdeb450eec34"));
    }

    #[test]
    fn what_is_no_id_gives_none() {
        for text in [
            "",
            "uninitialized\n",
            "00000000000000000000000000000000\n",
            "4c4c4544\n",
            "+c4c4544004d4a108046c7c04f4e4d3\n",
        ] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(machine_id(&Root::at("/nowhere/at/all")), None);
    }
}
