//! The page that a running `unstarve watch` serves, in the look of the report: text and style without a program. It
//! reloads itself.

use std::fmt::Write as _;

use crate::html::{STYLE, escaped, hash};

/// The reload interval in seconds.
const RELOAD_SECONDS: u32 = 5;

/// A section of the page: a table, bars, or both.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Its heading.
    pub title: String,
    /// The text below the heading.
    pub note: String,
    /// The table's head; empty without a table.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Rows of bars.
    pub bars: Vec<Bar>,
    /// Labels below the bars from left to right: the first and last at the ends, the others evenly between.
    pub axis: Vec<String>,
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// One for each column, one less if there is a link.
    pub cells: Vec<String>,
    /// A tooltip.
    pub hint: Option<String>,
    /// In the last column.
    pub link: Option<Link>,
}

/// A link on the same server.
#[derive(Clone, Debug)]
pub struct Link {
    /// The path.
    pub to: String,
    /// What is shown.
    pub text: String,
}

/// Values over time.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Their name.
    pub name: String,
    /// Their sum.
    pub sum: String,
    /// Fractions of the highest bar, 0 to 1, with the tooltip of each.
    pub parts: Vec<(f64, String)>,
}

const MORE_STYLE: &str = "\
@media (prefers-color-scheme:dark){:root{--bg:#121417;--surface:#1a1d21;--text:#e9eaec;--muted:#a3a9b1;--line:#34393f;\
--grid:#2a2e33;--accent:#74b3f2;--queue:#f08a3c;--code:#24282d;--shadow:none;color-scheme:dark}}\
main{padding-top:1.6rem}.live td,.live th{padding:.3rem .7rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}\
.live table{width:100%;border-collapse:collapse;background:var(--surface);box-shadow:var(--shadow);font-size:.92rem}\
.live th{color:var(--muted);font-weight:600;border-bottom:1px solid var(--line)}.live tr+tr td{border-top:1px solid var(--grid)}\
.live .note{color:var(--muted);margin:.2rem 0 .6rem}.live .wide{overflow-x:auto}\
.live .course{display:grid;grid-template-columns:minmax(8rem,14rem) 1fr minmax(5rem,auto);gap:.2rem .8rem;align-items:center}\
.live svg{width:100%;height:34px;display:block}.live rect{fill:var(--queue)}.live line{stroke:var(--line)}.live .tick{stroke:var(--grid)}\
.live .axis{display:flex;justify-content:space-between;color:var(--muted);font-size:.8rem;margin-bottom:1.2rem}\
.live .axis span{width:0;display:flex;justify-content:center;white-space:nowrap}\
@media (max-width:600px){.live .course{grid-template-columns:minmax(0,1fr)}}";

/// Makes the page.
pub fn page(headline: &str, notes: &[String], panels: &[Panel]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"refresh\" content=\"{RELOAD_SECONDS}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>unstarve watch</title>\n<style>{STYLE}</style>\n<style>{MORE_STYLE}</style>\n</head>\n<body>\n\
         <main class=\"live\">\n<h1>{}</h1>\n",
        escaped(headline)
    );
    for note in notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(note));
    }
    for panel in panels {
        panel.write(&mut out);
    }
    out + "</main>\n</body>\n</html>\n"
}

/// The content security policy: style only.
pub fn policy() -> String {
    format!(
        "default-src 'none'; style-src '{}' '{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(MORE_STYLE)
    )
}

impl Panel {
    fn write(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<section>\n<h2>{}</h2>\n<p class=\"note\">{}</p>",
            escaped(&self.title),
            escaped(&self.note)
        );
        if !self.rows.is_empty() {
            let heads: String = self.columns.iter().map(|column| format!("<th>{}</th>", escaped(column))).collect();
            let _ = writeln!(out, "<div class=\"wide\"><table>\n<tr>{heads}</tr>");
            self.rows.iter().for_each(|row| row.write(out));
            out.push_str("</table></div>\n");
        }
        if !self.bars.is_empty() {
            out.push_str("<div class=\"course\">\n");
            self.bars.iter().for_each(|bar| bar.write(out, self.axis.len()));
            if !self.axis.is_empty() {
                let labels: String = self.axis.iter().map(|label| format!("<span>{}</span>", escaped(label))).collect();
                let _ = writeln!(out, "<span></span><div class=\"axis\">{labels}</div><span></span>");
            }
            out.push_str("</div>\n");
        }
        out.push_str("</section>\n");
    }
}

impl Row {
    fn write(&self, out: &mut String) {
        let hint = self.hint.as_ref().map(|hint| format!(" title=\"{}\"", escaped(hint))).unwrap_or_default();
        let cells: String = self.cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        let link = self.link.as_ref();
        let link = link.map(|link| format!("<td><a href=\"{}\">{}</a></td>", escaped(&link.to), escaped(&link.text)));
        let _ = writeln!(out, "<tr{hint}>{cells}{}</tr>", link.unwrap_or_default());
    }
}

impl Bar {
    /// Draws a line at each of the axis's labels.
    fn write(&self, out: &mut String, labels: usize) {
        const HEIGHT: f64 = 34.0;
        let width = self.parts.len().max(1);
        let _ = write!(
            out,
            "<span>{}</span><svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
             <line x1=\"0\" x2=\"{}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/>",
            escaped(&self.name),
            width * 10,
            escaped(&self.name),
            width * 10
        );
        for label in 0..labels {
            let x = (width * 10 * label) as f64 / labels.saturating_sub(1).max(1) as f64;
            let _ = write!(out, "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"/>");
        }
        for (index, (part, hint)) in self.parts.iter().enumerate().filter(|(_, (part, _))| *part > 0.0) {
            let height = (part.min(1.0) * HEIGHT).max(1.0);
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"8\" height=\"{height:.1}\"><title>{}</title></rect>",
                index * 10 + 1,
                HEIGHT - height,
                escaped(hint)
            );
        }
        let _ = writeln!(out, "</svg><span>{}</span>", escaped(&self.sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_becomes_markup_and_styles_cannot_end_their_elements() {
        let evil = "</style><script>alert(1)</script>\"'\u{202e}".to_owned();
        let row = Row {
            cells: vec![evil.clone()],
            hint: Some(evil.clone()),
            link: Some(Link { to: evil.clone(), text: evil.clone() }),
        };
        let bars = vec![Bar { name: evil.clone(), sum: evil.clone(), parts: vec![(0.5, evil.clone())] }];
        let panel = Panel {
            title: evil.clone(),
            note: evil.clone(),
            columns: vec![evil.clone()],
            rows: vec![row],
            bars,
            axis: vec![evil.clone()],
        };
        let page = page(&evil, std::slice::from_ref(&evil), &[panel]);
        assert!(!page.contains("<script") && !page.contains('\u{202e}'));
        assert_eq!(page.matches("</style>").count(), 2);
        assert!(!MORE_STYLE.contains('<'));
    }
}
