//! Truncates paths of cgroups: a group's owner can nest groups until a path has 4,096 bytes, and an episode contains dozens of paths.

use unstarve_model::clean;

/// Maximum bytes of a path. The path of a container in a pod has about 200.
const MAX_PATH_BYTES: usize = 512;

/// Replaces what is left out.
const LEFT_OUT: char = '…';

/// A path with control characters escaped; of a long path, its beginning and its end.
pub(super) fn cut(path: &str) -> String {
    let path = clean(path);
    if path.len() <= MAX_PATH_BYTES {
        return path.into_owned();
    }
    let part = (MAX_PATH_BYTES - LEFT_OUT.len_utf8()) / 2;
    let is_boundary = |at: &usize| path.is_char_boundary(*at);
    let head = (0..=part).rev().find(is_boundary).unwrap_or(0);
    let tail = (path.len() - part..path.len()).find(is_boundary).unwrap_or(path.len());
    format!("{}{LEFT_OUT}{}", &path[..head], &path[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_keeps_its_head_and_its_tail() {
        assert_eq!(cut("/system.slice/a\\x2d.service"), "/system.slice/a\\x2d.service");
        assert_eq!(cut("/a\u{1b}b"), "/a\\u{1b}b");
        let most = "/".repeat(MAX_PATH_BYTES);
        assert_eq!(cut(&most), most);
        let long = format!("/user.slice/{}/last", "x/".repeat(2000));
        let short = cut(&long);
        assert!(short.len() <= MAX_PATH_BYTES && short.len() > MAX_PATH_BYTES - 4, "{}", short.len());
        let (head, tail) = short.split_once(LEFT_OUT).expect("something is left out");
        assert!(long.starts_with(head) && head.starts_with("/user.slice/x/") && tail.ends_with("/x//last"), "{short}");
        assert_eq!(cut(&short), short);
    }

    #[test]
    fn nothing_is_longer_for_what_is_escaped_or_of_several_bytes() {
        for name in ["\u{1b}", "ä", "€", "𝄞", "\u{e0041}"] {
            for before in 0..4 {
                let short = cut(&format!("{}{}", "/".repeat(before), name.repeat(4000)));
                assert!(
                    (MAX_PATH_BYTES - 8..=MAX_PATH_BYTES).contains(&short.len()),
                    "{name:?} {before}: {}",
                    short.len()
                );
            }
        }
    }
}
