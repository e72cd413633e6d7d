use unstarve_export::{Kind, Table};

/// The tables of docs/export.md are those of the program.
#[test]
fn every_column_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/export.md");
    let documentation = std::fs::read_to_string(path).expect("docs/export.md");
    let mut rest = documentation.as_str();
    for table in Table::ALL {
        let head = format!("### `{}`", table.word());
        rest = rest.split_once(&head).unwrap_or_else(|| panic!("docs/export.md has no {head}")).1;
        let expected: String = table.columns().iter().map(line).collect();
        assert!(rest.trim_start().starts_with(HEAD), "{head}");
        let lines = rest.trim_start().strip_prefix(HEAD).unwrap_or_default();
        assert!(lines.starts_with(&expected), "docs/export.md should say under {head}:\n{HEAD}{expected}");
    }
}

const HEAD: &str = "| column | type | unit | meaning |\n|---|---|---|---|\n";

fn line(column: &unstarve_export::Column) -> String {
    let kind = match column.kind {
        Kind::U64 => "u64",
        Kind::U32 => "u32",
        Kind::I32 => "i32",
        Kind::Text => "text",
    };
    let optional = if column.presence == unstarve_export::Presence::Optional { "?" } else { "" };
    format!("| `{}` | {kind}{optional} | {} | {} |\n", column.name, column.unit, column.meaning)
}
