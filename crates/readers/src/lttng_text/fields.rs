//! Parses the fields of an event in babeltrace's text.

/// A field's value as babeltrace prints it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// Decimal or hexadecimal; for an enumeration, the number after its name.
    Number(i64),
    /// Without its quotes; may contain escapes.
    Text(&'a [u8]),
}

/// The fields of an event, those of its contexts first: `{ cpu_id = 0 }, { comm = "fio", tid = 12 }`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fields<'a>(Vec<(&'a [u8], Value<'a>)>);

/// No kernel event has as many.
const MAX_FIELDS: usize = 64;

impl<'a> Fields<'a> {
    /// Parses all fields. Values that are neither numbers, texts nor enumerations are skipped.
    pub fn parse(mut text: &'a [u8]) -> Fields<'a> {
        let mut fields = Fields::default();
        while let Some(at) = memchr::memmem::find(text, b" = ") {
            let key = text[..at].rsplit(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').next().unwrap_or(&[]);
            let (value, rest) = value(&text[at + 3..]);
            if let Some(value) = value
                && fields.0.len() < MAX_FIELDS
            {
                fields.0.push((key, value));
            }
            text = rest;
        }
        fields
    }

    /// The last number with this name: the event's own fields follow those of its contexts.
    pub fn number(&self, key: &str) -> Option<i64> {
        match self.get(key)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// The last text with this name.
    pub fn text(&self, key: &str) -> Option<&'a [u8]> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        }
    }

    fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().rev().find(|(known, _)| *known == key.as_bytes()).map(|(_, value)| value)
    }
}

/// Parses the value at the start of `text`; also returns the rest.
fn value(text: &[u8]) -> (Option<Value<'_>>, &[u8]) {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let (inner, rest) = until_quote(quoted);
        return (Some(Value::Text(inner)), rest);
    }
    // `( "TASK_INTERRUPTIBLE" : container = 1 )`: the number follows as a field called `container`.
    if let Some(inner) = text.strip_prefix(b"( ") {
        let after_name = inner.strip_prefix(b"\"").map_or(inner, |quoted| until_quote(quoted).1);
        let number = memchr::memmem::find(after_name, b"container = ").map(|at| &after_name[at + 12..]);
        return number
            .and_then(integer)
            .map_or((None, after_name), |(number, rest)| (Some(Value::Number(number)), rest));
    }
    integer(text).map_or((None, text), |(number, rest)| (Some(Value::Number(number)), rest))
}

/// Splits at the next unescaped quote.
fn until_quote(text: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return (&text[..at], &text[at + 1..]),
            _ => at += 1,
        }
    }
    (text, &[])
}

fn integer(text: &[u8]) -> Option<(i64, &[u8])> {
    let (digits, negative) = text.strip_prefix(b"-").map_or((text, false), |digits| (digits, true));
    let (value, rest) = match digits.strip_prefix(b"0x") {
        Some(hex) => {
            let end = hex.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(hex.len());
            (u64::from_str_radix(std::str::from_utf8(&hex[..end]).ok()?, 16).ok()? as i64, &hex[end..])
        }
        None => {
            let (value, rest) = crate::text::number::leading(digits)?;
            // Unsigned 64-bit fields: a flush ends at sector 18446744073709551615.
            (if negative { i64::try_from(value).ok()? } else { value as i64 }, rest)
        }
    };
    Some((if negative { value.checked_neg()? } else { value }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds_and_names_that_look_like_fields() {
        let text = b"{ cpu_id = 3 }, { tid = 7 }, { comm = \"a\\\", tid = 9\", tid = 12, prio = -51, work = \
                     0xffff888000000001, state = ( \"TASK_INTERRUPTIBLE\" : container = 1 ), list = [ [0] = 5 ] }";
        let fields = Fields::parse(text);
        assert_eq!(fields.text("comm"), Some(&b"a\\\", tid = 9"[..]));
        let numbers = ["cpu_id", "tid", "prio", "work", "state"].map(|key| fields.number(key));
        assert_eq!(numbers, [Some(3), Some(12), Some(-51), Some(0xffff_8880_0000_0001_u64 as i64), Some(1)]);
        assert_eq!(fields.number("comm"), None);
        assert_eq!(Fields::parse(b"{ a = \"torn").text("a"), Some(&b"torn"[..]));
    }
}
