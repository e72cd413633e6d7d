//! Parses events printed with the tracefs option `fields` (6.4 and later): each field's name with its number in two
//! bases.

use super::number::leading;

/// Converts `comm=cargo pid=0x1b21 (6945) prio=0x78 (120) target_cpu=0x1 (1)` to the kernel's usual form, with decimal
/// numbers only. Pointers, which are negative in decimal, stay as they are. `None` if there is no such number.
pub fn in_decimal(body: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(body.len());
    let mut rest = body;
    let mut any = false;
    while let Some(at) = memchr::memmem::find(rest, b"=0x") {
        let (before, number) = rest.split_at(at + 1);
        plain.extend_from_slice(before);
        let digits = number[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (hexadecimal, after) = number.split_at(2 + digits);
        match after.strip_prefix(b" (").and_then(decimal) {
            Some((value, after)) => {
                plain.extend_from_slice(if value.starts_with(b"-") { hexadecimal } else { value });
                rest = after;
                any = true;
            }
            None => {
                plain.extend_from_slice(hexadecimal);
                rest = after;
            }
        }
    }
    plain.extend_from_slice(rest);
    any.then_some(plain)
}

/// Parses `6945) rest`: the number and the text after the bracket.
fn decimal(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, after) = leading(text.strip_prefix(b"-").unwrap_or(text)).or_else(|| too_large(text))?;
    Some((&text[..text.len() - after.len()], after.strip_prefix(b")")?))
}

/// A negative 64-bit number may be too large for [`leading`].
fn too_large(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.strip_prefix(b"-")?;
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| (0, &digits[count..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_two_bases_become_one() {
        let table = [
            ("comm=a=0x1 b pid=0x1b21 (6945) target_cpu=0x1 (1)", "comm=a=0x1 b pid=6945 target_cpu=1"),
            ("vec=0x4 (4)", "vec=4"),
            ("work=0xffff8881020f7c40 (-131387309982656) function=f", "work=0xffff8881020f7c40 function=f"),
            ("work=0xffffffff (12", "-"),
            ("pid=12", "-"),
        ];
        for (body, plain) in table {
            let expected = (plain != "-").then(|| plain.as_bytes().to_vec());
            assert_eq!(in_decimal(body.as_bytes()), expected, "{body}");
        }
    }
}
