//! Texts as HTML.

use std::fmt::Write;

/// The look of the report pages.
const STYLE: &str = include_str!("../../../crates/html/assets/page.css");
/// What only this page has.
const MORE: &str = ".heat{background:color-mix(in srgb,var(--queue) calc(100% * var(--share)),transparent)}";

/// The text as HTML shows it, with nothing in it that could be markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in unstarve_model::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The whole file. It has no program: nothing may run, nothing may be loaded.
pub fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>{STYLE}{MORE}{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(title),
        dark()
    )
}

/// The dark colours where the reader's system asks for them; the report page's own program chooses there.
fn dark() -> String {
    let block =
        [":root[data-theme=dark]{", ":root[data-theme='dark']{"].into_iter().find_map(|head| STYLE.split_once(head));
    let colours = block.and_then(|(_, rest)| rest.split_once('}')).map(|(colours, _)| colours);
    colours.map(|colours| format!("@media (prefers-color-scheme:dark){{:root{{{colours}}}}}")).unwrap_or_default()
}

/// A cell of a table.
pub enum Cell {
    /// What the row is about.
    Head(String),
    /// Words.
    Text(Option<String>),
    /// A number with its unit.
    Number(String),
    /// A part of a whole, shown by its colour, too.
    Heat(Option<f64>),
    /// A way to another page.
    Link(String, String),
}

/// A table, in a box that can be scrolled.
pub fn table(id: &str, names: &[String], rows: &[Vec<Cell>]) -> String {
    let mut out = format!("<div class=\"scroll matrix\"><table id=\"{id}\">\n<thead><tr>");
    for name in names {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| out.push_str(&cell_text(cell)));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Head(text) => format!("<th scope=\"row\">{}</th>", escaped(text)),
        Cell::Text(text) => format!("<td>{}</td>", escaped(text.as_deref().unwrap_or("–"))),
        Cell::Number(text) => format!("<td class=\"number\">{}</td>", escaped(text)),
        Cell::Heat(None) => "<td class=\"number muted\">–</td>".to_owned(),
        // The square root: a tenth is still seen beside a whole.
        Cell::Heat(Some(share)) => format!(
            "<td class=\"number heat\" style=\"--share:{:.3}\">{}</td>",
            share.clamp(0.0, 1.0).sqrt() * 0.8,
            percent(*share)
        ),
        Cell::Link(text, to) => format!("<td><a href=\"{}\">{}</a></td>", escaped(to), escaped(text)),
    }
}

/// A part of a whole, with three figures.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup_and_no_program_runs() {
        let text = whole("<b>", &table("t", &["<i>".to_owned()], &[vec![Cell::Text(Some("\"><script>".to_owned()))]]));
        assert!(!text.contains("<script") && !text.contains("<b>") && !text.contains("<i>"), "{text}");
        assert!(dark().contains("--bg:"), "the dark colours are found");
        assert!(!STYLE.contains("</style"));
    }

    #[test]
    fn parts_have_three_figures() {
        assert_eq!([0.0, 0.000_01, 0.012_34, 0.5].map(percent), ["0 %", "< 0.01 %", "1.23 %", "50.0 %"]);
    }
}
