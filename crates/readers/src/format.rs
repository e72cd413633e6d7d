//! Parser of event formats: the text of tracefs `events/<system>/<event>/format`.
//!
//! Recordings carry these texts, so a reader need not know which kernel wrote them: ids, offsets and sizes differ
//! between kernels, and fields come and go (`success` left `sched_waking` in 5.11; `comm` fields became `__data_loc` in
//! 6.16).

use thiserror::Error;

/// Why a format text cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// There is no `name:` line.
    #[error("event format without a `name:` line")]
    NoName,
    /// There is no usable `ID:` line.
    #[error("format of event {event} without an `ID:` line of at most 65535")]
    NoId {
        /// The event.
        event: String,
    },
    /// A field's line lacks a name, an offset or a size, or has impossible values.
    #[error("field line {line:?} is not `field:TYPE NAME; offset:N; size:N; signed:N;`")]
    Field {
        /// The line.
        line: String,
    },
    /// A field that decoding needs is missing.
    #[error("format of event {event} has no usable field `{field}`")]
    MissingField {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
    },
    /// Two formats of one file have `common_type` at different offsets.
    #[error("format of event {event} has `common_type` at another offset than the formats before it")]
    CommonType {
        /// The event.
        event: String,
    },
}

/// An event's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventFormat {
    /// `sched_switch`.
    pub name: String,
    /// The id that the kernel gave it at boot; `common_type` of its records.
    pub id: u16,
    /// All fields; the common ones come first.
    pub fields: Vec<Field>,
    /// What follows `print fmt:`; empty if there is none.
    pub print: String,
}

/// One field of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name without array brackets.
    pub name: String,
    /// How to read its bytes.
    pub kind: FieldKind,
    /// Where it begins in the record, in bytes.
    pub offset: usize,
    /// Its size in bytes; for dynamic kinds the size of the locator.
    pub size: usize,
    /// Whether an integer is signed.
    pub signed: bool,
}

/// How to read the bytes of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// A number or a pointer of `size` bytes.
    Integer,
    /// `char name[N]`: text in place.
    Text,
    /// `__data_loc`: a 32-bit locator, `length << 16 | offset from the record's start`.
    DataLoc,
    /// `__rel_data_loc` (5.18 and later): the same, but the offset counts from the end of the locator.
    RelDataLoc,
    /// Any other array.
    Array,
}

/// Upper limit for field offsets. A record fits into one sub-buffer (up to 64 KiB pages; since 6.8 sub-buffers can be
/// larger), and fields are at its beginning.
const MAX_RECORD: usize = 1 << 20;

/// The event name in the first line of a format text, without parsing the rest.
pub fn event_name(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("name:")).map(str::trim)
}

impl EventFormat {
    /// Parses the text of a `format` file.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let name = event_name(text).filter(|name| !name.is_empty()).ok_or(FormatError::NoName)?.to_owned();
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .and_then(|id| id.trim().parse().ok())
            .ok_or_else(|| FormatError::NoId { event: name.clone() })?;
        let print = text.lines().find_map(|line| line.strip_prefix("print fmt:")).unwrap_or("").trim().to_owned();
        Ok(EventFormat { name, id, fields: parse_fields(text)?, print })
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses the `field:` lines of a text, in order. tracefs `events/header_page` consists of such lines only.
pub fn parse_fields(text: &str) -> Result<Vec<Field>, FormatError> {
    text.lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix("field:").or_else(|| line.strip_prefix("field special:")))
        .map(|line| parse_field(line).ok_or_else(|| FormatError::Field { line: line.to_owned() }))
        .collect()
}

fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';');
    let declaration = parts.next()?.trim();
    let (mut offset, mut size, mut signed) = (None, None, false);
    for (key, value) in parts.filter_map(|part| part.trim().split_once(':')) {
        match key {
            "offset" => offset = value.trim().parse::<usize>().ok(),
            "size" => size = value.trim().parse::<usize>().ok(),
            "signed" => signed = value.trim() != "0",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    if offset > MAX_RECORD || size > MAX_RECORD {
        return None;
    }
    let (kind, declaration) = match declaration {
        d if d.starts_with("__data_loc") => (Some(FieldKind::DataLoc), d),
        d if d.starts_with("__rel_data_loc") => (Some(FieldKind::RelDataLoc), d),
        d => (None, d),
    };
    // `char prev_comm[16]`, `__data_loc char[] name`, `void * work`, `struct list_head *list`.
    let (ty, name) = declaration.rsplit_once([' ', '*', '\t'])?;
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    if name.is_empty() {
        return None;
    }
    let is_text = is_array && ty.split_whitespace().any(|word| word == "char");
    let kind = kind.unwrap_or(match (is_array, is_text) {
        (_, true) => FieldKind::Text,
        (true, false) => FieldKind::Array,
        (false, false) => FieldKind::Integer,
    });
    Some(Field { name: name.to_owned(), kind, offset, size, signed })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IRQ: &str = "name: irq_handler_entry
ID: 147
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int irq;\toffset:8;\tsize:4;\tsigned:1;
\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:1;
\tfield:__rel_data_loc char[] rel;\toffset:16;\tsize:4;\tsigned:1;
\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;
\tfield:void * work;\toffset:40;\tsize:8;\tsigned:0;
\tfield:unsigned long args[6];\toffset:48;\tsize:48;\tsigned:0;

print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)
";

    #[test]
    fn every_shape_of_field_is_understood() {
        let format = EventFormat::parse(IRQ).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("irq_handler_entry", 147));
        let shown: Vec<String> = format
            .fields
            .iter()
            .map(|f| {
                format!("{} {:?} {}+{} {}", f.name, f.kind, f.offset, f.size, if f.signed { "signed" } else { "" })
            })
            .collect();
        assert_eq!(
            shown,
            [
                "common_type Integer 0+2 ",
                "common_flags Integer 2+1 ",
                "common_preempt_count Integer 3+1 ",
                "common_pid Integer 4+4 signed",
                "irq Integer 8+4 signed",
                "name DataLoc 12+4 signed",
                "rel RelDataLoc 16+4 signed",
                "comm Text 20+16 ",
                "work Integer 40+8 ",
                "args Array 48+48 ",
            ]
        );
        assert_eq!(format.print, "\"irq=%d name=%s\", REC->irq, __get_str(name)");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |text: &str| EventFormat::parse(text).unwrap_err().to_string();
        assert_eq!(error(""), "event format without a `name:` line");
        assert_eq!(error("name: x\nID: 70000\n"), "format of event x without an `ID:` line of at most 65535");
        assert_eq!(
            error("name: x\nID: 7\n\tfield:int y;\tsize:4;\n"),
            r#"field line "int y;\tsize:4;" is not `field:TYPE NAME; offset:N; size:N; signed:N;`"#
        );
        assert!(EventFormat::parse("name: x\nID: 7\n\tfield:int y;\toffset:99999999;\tsize:4;\n").is_err());
    }
}
