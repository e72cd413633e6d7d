//! The pane beside the table of a wide terminal: who had the CPU of the row with the cursor, why, the fix, and its last windows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use unstarve_diagnose::report::Finding;
use unstarve_model::{Nanos, clean};

use crate::panes::name;
use crate::screen::{badness, colour, fit, with_tid};
use crate::view::{Row, RowsBy, View};

/// From this size of the table's place on there is room for the pane.
const MIN_SIDE_WIDTH: u16 = 120;
const MIN_SIDE_HEIGHT: u16 = 10;
/// Less than that of the labels: a command is long.
const COMMAND_INDENT: &str = "  ";
/// The table's smallest width with all of its columns.
const MIN_TABLE: u16 = 78;
/// Rows of the chart.
const MAX_CHART_ROWS: usize = 6;
/// The width of the labels with their indent.
const LABEL_COLUMNS: usize = 10;

/// Whether there is room for the pane beside the table.
pub(crate) fn has_room(area: Rect) -> bool {
    area.width >= MIN_SIDE_WIDTH && area.height >= MIN_SIDE_HEIGHT
}

/// The table's width on a terminal of this width.
pub(crate) fn table_width(width: u16) -> u16 {
    (width * 3 / 5).max(MIN_TABLE)
}

/// Draws the pane about a row.
pub(crate) fn side(frame: &mut Frame<'_>, view: &View, row: &Row, area: Rect) {
    let width = usize::from(area.width.saturating_sub(3)).max(12);
    let lines: Vec<Line<'_>> = lines(view, row, width).into_iter().take(usize::from(area.height)).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::LEFT)), area);
}

fn lines(view: &View, row: &Row, width: usize) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let who = match row.tasks {
        0 | 1 => with_tid(&row.victim, row.tid),
        tasks => format!("{} x{tasks}", row.victim),
    };
    let mut lines =
        vec![Line::from(Span::styled(format!(" {}", fit(&who, "", width)), bold.fg(badness(row.severity))))];
    let finding = view.about(row).next();
    if let Some(finding) = finding {
        let text = format!("{}: {}", finding.severity.word(), clean(&finding.headline));
        lines.extend(wrapped(&text, "", width));
    }
    lines.extend(chart(row, width));
    lines.extend(row.rule.into_iter().flat_map(|rule| label("Why", &format!("{} ({rule})", rule.meaning()), width)));
    lines.extend(label("Longest", &longest(view, row), width));
    lines.extend(fix(view, finding, width));
    lines.extend(curve(view, row, width));
    lines
}

/// Who had the CPU, longest first, with bars.
fn chart(row: &Row, width: usize) -> Vec<Line<'static>> {
    let total: u64 = row.blame.iter().map(|piece| piece.ns).fold(0, u64::saturating_add);
    if total == 0 {
        return Vec::new();
    }
    let mut lines = vec![
        Line::default(),
        Line::from(Span::styled(" Who had the CPU while it waited", Style::new().add_modifier(Modifier::BOLD))),
    ];
    let shown = &row.blame[..row.blame.len().min(MAX_CHART_ROWS)];
    let names: Vec<String> = shown.iter().map(name).collect();
    let longest_name = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).min(width / 2);
    // `  999 ms  100 %` and three gaps.
    let bar = width.saturating_sub(longest_name + 19).min(40);
    for (piece, name) in shown.iter().zip(&names) {
        let share = piece.ns as f64 / total as f64;
        let drawn = "█".repeat((share * bar as f64).round() as usize);
        let numbers = format!("{:>8} {:>4.0} %", Nanos(piece.ns).to_string(), share * 100.0);
        let name = fit(name, "", longest_name);
        lines.push(Line::from(vec![
            Span::styled(format!("  {name:<longest_name$} "), Style::new().fg(colour(Some(piece.rule)))),
            Span::styled(format!("{drawn:<bar$}"), Style::new().fg(colour(Some(piece.rule)))),
            Span::raw(format!(" {numbers}")),
        ]));
    }
    let rest = &row.blame[shown.len()..];
    if !rest.is_empty() {
        let ns = rest.iter().map(|piece| piece.ns).fold(0, u64::saturating_add);
        let others = if rest.len() == 1 { "1 other".to_owned() } else { format!("{} others", rest.len()) };
        lines.push(Line::from(format!(
            "  {others:<longest_name$} {:bar$} {:>8} {:>4.0} %",
            "",
            Nanos(ns).to_string(),
            ns as f64 / total as f64 * 100.0
        )));
    }
    lines.push(Line::default());
    lines
}

fn longest(view: &View, row: &Row) -> String {
    let window = Nanos(view.window_ns);
    let over = match row.longest_ns {
        0 => None,
        ns => Some(format!("{} in the last {window}", Nanos(ns))),
    };
    let now = row.waiting_ns.map(|ns| format!("waiting now for {}", Nanos(ns)));
    over.into_iter().chain(now).collect::<Vec<_>>().join("; ")
}

/// The same fix as `explain` shows first, and the command that plans it.
fn fix(view: &View, finding: Option<&Finding>, width: usize) -> Vec<Line<'static>> {
    let Some(finding) = finding else {
        return match view.by {
            RowsBy::Role => label("Fix", "needs the events of its tasks: press r", width),
            RowsBy::Task => label("Fix", "none needed: nobody is starved here", width),
        };
    };
    let Some(fix) = finding.fix() else { return label("Fix", "none that is known", width) };
    let mut lines = label("Fix", &clean(fix.remedy.action()), width);
    for command in view.recording.plan(fix.remedy) {
        let style = Style::new().fg(ratatui::style::Color::Green);
        lines.extend(wrapped(&command, COMMAND_INDENT, width).into_iter().map(|line| line.style(style)));
    }
    let more = finding.remedies.len().saturating_sub(1);
    if more > 0 {
        lines.extend(label("", &format!("{more} more, with their risks: press r"), width));
    }
    lines
}

/// Levels of the curve, in eighths.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// For how much of the time it waited, over the last windows.
fn curve(view: &View, row: &Row, width: usize) -> Vec<Line<'static>> {
    let step = view.history_step_ns;
    if row.history.is_empty() || step == 0 {
        return Vec::new();
    }
    let each = row.history.len().div_ceil(width.max(1)).max(1);
    // From the newest on, so that the last column is whole.
    let sums: Vec<u64> = row.history.rchunks(each).map(|steps| steps.iter().sum::<u64>()).collect();
    let whole = step.saturating_mul(each as u64);
    let most = sums.iter().copied().max().unwrap_or(0).max(whole);
    let level = |ns: &u64| match *ns {
        0 => LEVELS[0],
        ns => LEVELS[((ns as f64 / most as f64 * 8.0).ceil() as usize).clamp(1, 8)],
    };
    let drawn: String = sums.iter().rev().map(level).collect();
    let full = match most > whole {
        true => format!("{:.1} threads", most as f64 / whole as f64),
        false => "all the time".to_owned(),
    };
    let span = Nanos(step.saturating_mul(row.history.len() as u64));
    vec![
        Line::default(),
        Line::from(Span::styled(format!(" Waiting, last {span}"), Style::new().add_modifier(Modifier::BOLD))),
        Line::from(Span::styled(format!(" {drawn}"), Style::new().fg(colour(row.rule)))),
        Line::from(Span::styled(
            format!(" {} a column, full: {full}", Nanos(whole)),
            Style::new().add_modifier(Modifier::DIM),
        )),
    ]
}

fn label(name: &str, text: &str, width: usize) -> Vec<Line<'static>> {
    if text.is_empty() {
        return Vec::new();
    }
    let first = format!("{name:<LABEL_COLUMNS$}");
    let options = whole_words(width).initial_indent(&first);
    let rest = " ".repeat(LABEL_COLUMNS);
    let lines = textwrap::wrap(text, options.subsequent_indent(&rest));
    lines.into_iter().map(|line| Line::from(format!(" {line}"))).collect()
}

fn wrapped(text: &str, indent: &str, width: usize) -> Vec<Line<'static>> {
    let options = whole_words(width).initial_indent(indent).subsequent_indent(indent);
    textwrap::wrap(text, options).into_iter().map(|line| Line::from(format!(" {line}"))).collect()
}

/// Lines break at blanks alone: options and file names have hyphens.
pub(crate) fn whole_words<'a>(width: usize) -> textwrap::Options<'a> {
    textwrap::Options::new(width)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
}
