//! Matches paths against the patterns in [`super::Setting::paths`].

/// Whether a path matches a pattern.
pub(super) fn fits(pattern: &str, path: &str) -> bool {
    let Some(at) = pattern.find(['{', '*']) else { return pattern == path };
    let Some(rest) = path.strip_prefix(&pattern[..at]) else { return false };
    let Some((place, after)) = pattern[at..].split_once('}') else { return true };
    let is_part = |c: char| match place {
        "{GROUP" => true,
        "{NAME" => c != '/',
        _ => c.is_ascii_digit(),
    };
    // Any way to split the path may match.
    let parts = rest.char_indices().take_while(|(_, c)| is_part(*c));
    parts.map(|(at, c)| &rest[at + c.len_utf8()..]).any(|rest| fits(after, rest))
}
