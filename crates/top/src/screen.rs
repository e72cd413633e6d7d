//! A view on a terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row as TableRow, Table, TableState};
use unstarve_model::Nanos;

use crate::App;
use crate::view::{Detail, Piece, Row, View};

/// What keys do, for the help.
pub const LEGEND: &[(&str, &str)] = &[
    ("Up, Down, j, k", "choose a task"),
    ("Enter", "look at it: blame, wakers, work items, single waits"),
    ("Esc, q", "back; q also ends"),
    ("s", "sort by wait, longest, count or name"),
    ("/", "filter by name, kind, rule or culprit"),
    ("Space, p", "pause; the recording goes on"),
    ("n, Right", "in a replay that is paused: a step"),
    ("h, ?", "this help"),
];

/// Draws a view.
pub fn draw(frame: &mut Frame<'_>, view: &View, app: &App) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(title(view, app)).style(Style::new().add_modifier(Modifier::REVERSED)), head);
    match &view.detail {
        Some(detail) => frame.render_widget(Paragraph::new(detail_lines(detail, body)), body),
        None if view.rows.is_empty() => frame.render_widget(Paragraph::new(nobody(view, app)), body),
        None => table(frame, view, app, body),
    }
    frame.render_widget(Paragraph::new(keys(app)).style(Style::new().add_modifier(Modifier::DIM)), foot);
    if app.shows_help() {
        help(frame);
    }
}

fn title(view: &View, app: &App) -> String {
    let mut text = format!(
        " unstarve top  {}  {:.1} s  window {}  by {}",
        view.source,
        view.since_start_ns as f64 / 1e9,
        Nanos(view.window_ns),
        app.order().word()
    );
    if let Some(own) = view.own_cpu {
        text += &format!("  own CPU {:.1} %", own * 100.0);
    }
    if view.lost > 0 {
        text += &format!("  {} events LOST", view.lost);
    }
    if app.is_paused() {
        text += "  PAUSED";
    }
    text
}

fn keys(app: &App) -> String {
    if app.is_typing() {
        return format!(" filter: {}_   Enter keeps it, Esc drops it", app.filter());
    }
    let filter = if app.filter().is_empty() { String::new() } else { format!("  [filter: {}]", app.filter()) };
    format!(" q quit  Enter look  s sort  / filter  Space pause  h help{filter}")
}

fn nobody(view: &View, app: &App) -> String {
    match app.filter() {
        "" => format!("\n  Nobody waited in the last {}.", Nanos(view.window_ns)),
        filter => format!("\n  Nobody that matches \"{filter}\" waited in the last {}.", Nanos(view.window_ns)),
    }
}

/// The colour of a rule: what others do to a task is warm, what is nobody's doing is cold.
fn colour(rule: Option<&str>) -> Color {
    match rule {
        Some("class" | "weight" | "throttled") => Color::Red,
        Some("wakeup-preemption" | "count") => Color::Magenta,
        Some("irq" | "softirq") => Color::Yellow,
        Some("idle") => Color::Blue,
        _ => Color::Reset,
    }
}

/// Columns of a table on a terminal of some width.
#[derive(Clone, Copy)]
struct Widths {
    victim: usize,
    rule: usize,
    culprit: usize,
}

/// Kind, CPU, wait, longest, share.
const FIXED: [usize; 5] = [9, 3, 8, 8, 5];

impl Widths {
    fn of(area: Rect) -> Widths {
        let rule = if area.width >= 120 { 17 } else { 9 };
        let rest = usize::from(area.width).saturating_sub(FIXED.iter().sum::<usize>() + rule + 7);
        let victim = (rest * 3 / 5).min(32);
        Widths { victim, rule, culprit: rest - victim }
    }

    fn constraints(self) -> [Constraint; 8] {
        let [kind, cpu, wait, longest, share] = FIXED;
        let all = [self.victim, kind, cpu, wait, longest, share, self.rule, self.culprit];
        all.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)))
    }
}

fn table(frame: &mut Frame<'_>, view: &View, app: &App, area: Rect) {
    let widths = Widths::of(area);
    let head = TableRow::new(["VICTIM", "KIND", "CPU", "    WAIT", " LONGEST", "SHARE", "RULE", "CULPRIT"])
        .style(Style::new().add_modifier(Modifier::BOLD));
    let rows = view.rows.iter().map(|row| cells(row, widths));
    let table = Table::new(rows, widths.constraints())
        .header(head)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(app.selected()).filter(|row| *row < view.rows.len()));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A name and what belongs to it, in so many columns: the name is cut if they are too few.
fn fit(name: &str, rest: &str, columns: usize) -> String {
    let room = columns.saturating_sub(rest.chars().count());
    if name.chars().count() <= room {
        return format!("{name}{rest}");
    }
    let cut: String = name.chars().take(room.saturating_sub(1)).collect();
    format!("{cut}~{rest}")
}

fn cells(row: &Row, widths: Widths) -> TableRow<'static> {
    let right = |text: String, width: usize| format!("{text:>width$}");
    let culprit = row.culprit.clone().unwrap_or_default();
    let waiting = row.waiting_ns.map_or_else(String::new, |ns| format!(" (waits now: {})", Nanos(ns)));
    let is_room = culprit.chars().count() + waiting.chars().count() <= widths.culprit;
    TableRow::new([
        // Who waits at this moment has a star.
        fit(&row.victim, &format!("[{}]{}", row.tid, if row.waiting_ns.is_some() { "*" } else { "" }), widths.victim),
        row.kind.to_owned(),
        row.cpu.map_or_else(String::new, |cpu| right(cpu.to_string(), 3)),
        right(Nanos(row.wait_ns).to_string(), 8),
        right(Nanos(row.longest_ns).to_string(), 8),
        right(percent(row.share), 5),
        row.rule.map_or_else(String::new, |rule| fit(rule, "", widths.rule)),
        if is_room { culprit + &waiting } else { fit(&culprit, "", widths.culprit) },
    ])
    .style(Style::new().fg(colour(row.rule)))
}

fn percent(share: f64) -> String {
    if share > 9.99 { format!("{:.0}x", share) } else { format!("{:.0} %", share * 100.0) }
}

fn blame(list: &[Piece]) -> String {
    let piece = |piece: &Piece| {
        // `idle idle` would say it twice.
        let rule = if piece.occupant.starts_with(piece.rule) { "" } else { piece.rule };
        format!("{} {rule}{}{}", piece.occupant, if rule.is_empty() { "" } else { " " }, Nanos(piece.ns))
    };
    list.iter().map(piece).collect::<Vec<_>>().join(", ")
}

fn detail_lines(detail: &Detail, area: Rect) -> Vec<Line<'static>> {
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
                    piece.occupant,
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

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (72.min(area.width), (LEGEND.len() as u16 + 8).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    let key = |(key, does): &(&str, &str)| Line::from(format!(" {key:<16} {does}"));
    let mut lines: Vec<Line<'_>> = LEGEND.iter().map(key).collect();
    lines.push(Line::default());
    lines.push(Line::from(" WAIT and LONGEST are of waits that ended in the window; SHARE is WAIT"));
    lines.push(Line::from(" as a part of it. RULE says why the culprit had the CPU: docs/blame.md."));
    lines.push(Line::from(" A star: waits at this moment, for 10 ms at least."));
    lines.push(Line::from(" Any key closes this."));
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" unstarve top ")), place);
}
