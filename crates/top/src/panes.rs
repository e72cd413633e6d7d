//! Panes in place of the table or over it: details, help.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use unstarve_model::Nanos;

use crate::detail::Detail;
use crate::headline::identified;
use crate::screen::{LEGEND, colour};
use crate::view::Piece;

/// `hog[4711] FIFO 50`
pub(crate) fn name(piece: &Piece) -> String {
    piece.tid.map_or_else(|| piece.occupant.clone(), |tid| identified(&piece.occupant, tid))
}

fn blame(list: &[Piece]) -> String {
    let piece = |piece: &Piece| {
        // `idle idle` would repeat the word.
        let rule = if piece.occupant.starts_with(piece.rule.word()) { "" } else { piece.rule.word() };
        format!("{} {rule}{}{}", piece.occupant, if rule.is_empty() { "" } else { " " }, Nanos(piece.ns))
    };
    list.iter().map(piece).collect::<Vec<_>>().join(", ")
}

pub(crate) fn detail_lines(detail: &Detail, area: Rect) -> Vec<Line<'static>> {
    let bold = |text: String| Line::from(Span::styled(text, Style::new().add_modifier(Modifier::BOLD)));
    let mut lines = vec![bold(format!(" {}", detail.name))];
    match &detail.row {
        Some(row) => {
            lines.push(Line::from(format!(
                " waited {} in {} waits, up to {}; ran {}",
                Nanos(row.wait_ns),
                row.waits,
                Nanos(row.longest_ns),
                detail.ran
            )));
            lines.extend(row.waiting_ns.map(|ns| Line::from(format!(" has been waiting for {} now", Nanos(ns)))));
            lines.push(bold(" Who had the CPU meanwhile".to_owned()));
            for piece in row.blame.iter().take(usize::from(area.height) / 4) {
                let part = piece.ns as f64 / row.wait_ns.max(1) as f64 * 100.0;
                let text = format!(
                    "  {:<28} {:<17} {:>8} {part:>5.1} %",
                    name(piece),
                    piece.rule,
                    Nanos(piece.ns).to_string()
                );
                lines.push(Line::from(Span::styled(text, Style::new().fg(colour(Some(piece.rule))))));
            }
        }
        None => lines.push(Line::from(format!(" did not wait in the window; ran {}", detail.ran))),
    }
    if !detail.wakers.is_empty() {
        lines.push(bold(" Who woke it".to_owned()));
        lines.extend(
            detail.wakers.iter().take(4).map(|waker| Line::from(format!("  {:<28} {:>8}", waker.name, waker.count))),
        );
    }
    if !detail.work.is_empty() {
        lines.push(bold(" Work items, from queueing to end on average".to_owned()));
        lines.extend(detail.work.iter().take(4).map(|work| {
            let latency = work.latency.map_or_else(|| "not seen".to_owned(), |latency| latency.to_string());
            Line::from(format!("  {:<28} {:>8}  {latency}", work.function, work.items))
        }));
    }
    lines.push(bold(" Its last waits".to_owned()));
    if detail.last.is_empty() {
        lines.push(Line::from("  none yet since you look"));
    }
    let room = usize::from(area.height).saturating_sub(lines.len());
    lines.extend(detail.last.iter().take(room).map(|wait| {
        Line::from(format!(
            "  {:>7} ago  CPU {:<3} {:>8}  {}",
            wait.ago.to_string(),
            wait.cpu,
            wait.length.to_string(),
            blame(&wait.blame)
        ))
    }));
    lines
}

/// The meanings of columns, for the help.
const NOTES: [&str; 3] = [
    "WAIT and LONGEST are of waits that ended in the window; > is how long a first one has lasted. SHARE: the part of the window in which it waited. MEAN: how many threads of a group waited at a time.",
    "RULE says why the culprit had the CPU: docs/blame.md.",
    "A star: waits now, for 10 ms or more (NOW). Red: critical; yellow: a warning, as `unstarve explain` judges the last one to two windows.",
];
/// From this width on keys have a separate column.
const KEYS_APART: usize = 60;

/// The help in lines of this width. The notes are left out if there is no room.
fn help_lines(width: usize, height: usize) -> Vec<String> {
    let key = |&(key, does): &(&str, &str)| {
        let (first, rest) = match width >= KEYS_APART {
            true => (format!("{key:<16} "), " ".repeat(17)),
            false => (format!("{key}: "), "  ".to_owned()),
        };
        let options = textwrap::Options::new(width).initial_indent(&first).subsequent_indent(&rest);
        textwrap::wrap(does, options).into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
    };
    let mut lines: Vec<String> = LEGEND.iter().flat_map(key).collect();
    let notes: Vec<String> =
        NOTES.iter().flat_map(|note| textwrap::wrap(note, width)).map(std::borrow::Cow::into_owned).collect();
    if lines.len() + 1 + notes.len() < height {
        lines.push(String::new());
        lines.extend(notes);
    }
    // The line that says how to close it is always shown.
    lines.truncate(height.saturating_sub(1));
    lines.push("Any key closes this.".to_owned());
    lines
}

pub(crate) fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    // Includes a border and a column of space.
    let width = 76.min(area.width);
    let lines = help_lines(usize::from(width.saturating_sub(4)), usize::from(area.height.saturating_sub(2)));
    let height = (u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2)).min(area.height);
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let lines: Vec<Line<'_>> = lines.into_iter().map(|line| Line::from(format!(" {line}"))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" unstarve top ")), place);
}
