//! Escapes text from outside before it is printed.

use std::borrow::Cow;

/// Escapes control characters and characters that reorder or hide text.
///
/// Names of tasks, cgroups, interrupts and work functions are chosen by other programs. Unescaped, they could control
/// the reader's terminal or make one name look like another.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_harmful(c) {
            cleaned.extend(c.escape_default());
        } else {
            cleaned.push(c);
        }
    }
    Cow::Owned(cleaned)
}

/// The same for a name that may not be UTF-8; its invalid bytes are escaped too (`\xff`).
pub fn clean_bytes(name: &[u8]) -> String {
    let mut cleaned = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        cleaned.push_str(&clean(chunk.valid()));
        for byte in chunk.invalid() {
            cleaned.push_str(&format!("\\x{byte:02x}"));
        }
    }
    cleaned
}

/// Whether a character controls a terminal, or hides or reorders its neighbours.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
