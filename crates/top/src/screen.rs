//! Draws a view on a terminal.

use std::cmp::Ordering::Equal;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};
use unstarve_model::{CpuId, CpuSet, Nanos, Severity, Tid, clean};
use unstarve_sched::Rule;

use crate::App;
use crate::cpus::CpuView;
use crate::headline::identified;
use crate::panes::{detail_lines, help};
use crate::remedies::remedies;
use crate::side::{has_room, side, table_width};
use crate::view::{Row, RowsBy, View};

/// The keys and their functions, for the help.
pub const LEGEND: &[(&str, &str)] = &[
    ("Up, Down, j, k", "choose a row"),
    ("Enter", "a group: its tasks; a task: blame, wakers, work, waits"),
    ("Esc, q", "back; q also ends"),
    ("r", "what to do about it: the finding, its remedies and how to undo them"),
    ("t", "groups or tasks; live, groups are roles"),
    ("g", "tasks of names that differ only in numbers: one group"),
    ("s", "sort by wait, longest, count or name"),
    ("/", "filter by name, kind, rule or culprit"),
    ("Space, p", "pause; the recording goes on"),
    ("n, Right", "in a replay that is paused: a step"),
    ("h, ?", "this help"),
];

/// Draws a view.
pub fn draw(frame: &mut Frame<'_>, view: &View, app: &App) {
    let one = Constraint::Length(1);
    let [first, head, cpus, body, foot] =
        Layout::vertical([one, one, one, Constraint::Min(3), one]).areas(frame.area());
    let width = usize::from(first.width);
    let answer = format!(" {:<width$}", fit(&view.headline, "", width.saturating_sub(1)));
    let style = Style::new().fg(badness(view.alarm)).add_modifier(Modifier::REVERSED | Modifier::BOLD);
    frame.render_widget(Paragraph::new(answer).style(style), first);
    frame.render_widget(
        Paragraph::new(title(view, app, head.width)).style(Style::new().add_modifier(Modifier::DIM)),
        head,
    );
    frame.render_widget(Paragraph::new(strip(&view.cpus, cpus.width)), cpus);
    match &view.detail {
        Some(detail) => frame.render_widget(Paragraph::new(detail_lines(detail, body)), body),
        None if view.rows.is_empty() => frame.render_widget(Paragraph::new(nobody(view, app)), body),
        // Printed output has no row with the cursor.
        None if has_room(body) && app.selected() < view.rows.len() => {
            let [left, right] =
                Layout::horizontal([Constraint::Length(table_width(body.width)), Constraint::Min(1)]).areas(body);
            table(frame, view, app, left);
            side(frame, view, &view.rows[app.selected()], right);
        }
        None => table(frame, view, app, body),
    }
    frame.render_widget(
        Paragraph::new(keys(view, app, foot.width)).style(Style::new().add_modifier(Modifier::DIM)),
        foot,
    );
    if app.shows_help() {
        help(frame);
    }
    if let Some((victim, tid)) = app.remedied() {
        remedies(frame, view, &Row::of_nothing(victim.clone(), tid.map(Tid)), app.scrolled());
    }
}

/// A part of a line with its importance.
type Part = (u8, String);

/// The parts that fit into a line, in their order; the least important are left out first.
fn fitting(mut parts: Vec<Part>, width: u16) -> String {
    let length = |parts: &[Part]| parts.iter().map(|(_, text)| text.chars().count() + 2).sum::<usize>();
    while parts.len() > 1 && length(&parts) > usize::from(width) + 1 {
        let least = parts.iter().enumerate().min_by_key(|(_, (matters, _))| *matters).map(|(index, _)| index);
        parts.remove(least.unwrap_or(0));
    }
    format!(" {}", parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("  "))
}

fn title(view: &View, app: &App, width: u16) -> String {
    let mut parts = vec![
        (2, "unstarve top".to_owned()),
        (4, view.source.clone()),
        (5, format!("{:.1} s", view.since_start_ns as f64 / 1e9)),
        (6, format!("window {}", Nanos(view.window_ns))),
        (3, format!("by {}", app.order().word())),
    ];
    parts.extend(view.engine.map(|engine| (1, engine.to_owned())));
    parts.extend(view.own_cpu.map(|own| (0, format!("own CPU {:.1} %", own * 100.0))));
    parts.extend(app.opened_group().map(|group| (4, format!("of {}", clean(group)))));
    if view.lost > 0 {
        parts.push((7, format!("{} events LOST", view.lost)));
    }
    if app.is_paused() {
        parts.push((8, "PAUSED".to_owned()));
    }
    fitting(parts, width)
}

/// A CPU's load in eighths.
const BAR_LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Maximum CPUs written out; with more each is a bar.
const MAX_SPELT_CPUS: usize = 4;

/// The load of each CPU; CPUs with waiting tasks are marked.
fn strip(cpus: &[CpuView], width: u16) -> Line<'static> {
    let is_spelt = cpus.len() <= MAX_SPELT_CPUS;
    let spelt = || {
        let one = |cpu: &CpuView| {
            let waiting = if cpu.waiting > 0 { format!(", {} waiting", cpu.waiting) } else { String::new() };
            let text = format!("  CPU {} {:>3.0} %{waiting}", cpu.cpu, cpu.busy * 100.0);
            Span::styled(text, Style::new().fg(full(cpu)))
        };
        Line::from(cpus.iter().map(one).collect::<Vec<_>>())
    };
    if let Some(line) = is_spelt.then(spelt).filter(|line| line.width() <= usize::from(width)) {
        return line;
    }
    let all: CpuSet = cpus.iter().map(|cpu| CpuId(cpu.cpu)).collect();
    let title = format!(" CPUs {all} ");
    let room = usize::from(width).saturating_sub(title.len() + 1).max(1);
    // If several CPUs share a column, it shows the busiest, or one with a waiting task.
    let bars = cpus.chunks(cpus.len().div_ceil(room)).filter_map(|chunk| {
        let most =
            chunk.iter().max_by(|a, b| (a.waiting, a.busy).partial_cmp(&(b.waiting, b.busy)).unwrap_or(Equal))?;
        let level = BAR_LEVELS[((most.busy * 8.0).round() as usize).min(8)];
        Some(Span::styled(level.to_string(), Style::new().fg(full(most))))
    });
    Line::from(std::iter::once(Span::raw(title)).chain(bars).collect::<Vec<_>>())
}

fn full(cpu: &CpuView) -> Color {
    match cpu {
        CpuView { waiting: 1.., .. } => Color::Red,
        CpuView { busy: 0.95.., .. } => Color::Yellow,
        _ => Color::Reset,
    }
}

fn keys(view: &View, app: &App, width: u16) -> String {
    if let Some(why) = app.problem() {
        return format!(" {}", fit(&clean(why), "", usize::from(width).saturating_sub(1)));
    }
    if app.is_typing() {
        return fitting(
            vec![(1, format!("filter: {}_ ", app.filter())), (0, "Enter keeps it, Esc drops it".to_owned())],
            width,
        );
    }
    let first: &[(u8, &str)] = match (view.by, app.opened_group().is_some()) {
        (RowsBy::Role, false) => &[(7, "q quit"), (5, "Enter its tasks"), (6, "t tasks")],
        (RowsBy::Role, true) => &[(7, "Esc groups"), (5, "Enter look"), (6, "t all tasks")],
        (RowsBy::Task, true) => &[(7, "Esc groups"), (5, "Enter look"), (6, "r remedy")],
        (RowsBy::Task, false) if app.lists_groups() => {
            &[(7, "q quit"), (5, "Enter its tasks"), (6, "r remedy"), (1, "t tasks")]
        }
        (RowsBy::Task, false) => &[(7, "q quit"), (5, "Enter look"), (6, "r remedy"), (1, "t groups")],
    };
    let rest: &[(u8, &str)] = &[(3, "s sort"), (2, "/ filter"), (4, "Space pause"), (8, "h help")];
    let mut parts: Vec<Part> = first.iter().chain(rest).map(|(matters, text)| (*matters, (*text).to_owned())).collect();
    if !app.filter().is_empty() {
        parts.push((9, format!("[filter: {}]", app.filter())));
    }
    fitting(parts, width)
}

fn nobody(view: &View, app: &App) -> String {
    let window = Nanos(view.window_ns);
    let which = match app.filter() {
        "" => String::new(),
        filter => format!(" that matches \"{filter}\""),
    };
    match (view.by, app.opened_group()) {
        (RowsBy::Role, Some(role)) => format!(
            "\n  No thread of {}{which} was seen waiting for 10 ms or more.\n  \
             t: all tasks, by their events. Esc: back to the groups.",
            clean(role)
        ),
        _ if view.has_seen_a_window() => format!("\n  Nobody{which} waited in the last {window}."),
        _ => format!("\n  No wait{which} so far: the first {window} are not over."),
    }
}

/// The colour of a rule: warm if another task caused the wait, cold if none did.
pub(crate) fn colour(rule: Option<Rule>) -> Color {
    match rule {
        Some(Rule::Class | Rule::Priority | Rule::NotPreempted | Rule::Weight | Rule::Throttled) => Color::Red,
        Some(Rule::WakeupPreemption | Rule::Count) => Color::Magenta,
        Some(Rule::Irq | Rule::Softirq) => Color::Yellow,
        Some(Rule::Idle) => Color::Blue,
        _ => Color::Reset,
    }
}

/// The colour of a row, by its severity as `explain` would judge it.
pub(crate) fn badness(severity: Option<Severity>) -> Color {
    match severity {
        Some(Severity::Critical) => Color::Red,
        Some(Severity::Warning) => Color::Yellow,
        _ => Color::Reset,
    }
}

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Victim,
    Kind,
    Cpu,
    Wait,
    Longest,
    Share,
    Mean,
    Now,
    Rule,
    Culprit,
}

/// The columns: title, the minimum terminal width for it, and its own width, except for names, which share the remaining
/// space. Victim and culprit come before everything else.
const TABLE_COLUMNS: [(Column, &str, u16, usize); 10] = [
    (Column::Victim, "TASK", 0, 0),
    (Column::Kind, "KIND", 76, 9),
    (Column::Cpu, "CPU", 76, 3),
    (Column::Wait, "    WAIT", 0, 8),
    (Column::Longest, " LONGEST", 64, 8),
    (Column::Share, "SHARE", 76, 5),
    (Column::Mean, " MEAN", 76, 5),
    (Column::Now, "     NOW", 100, 8),
    (Column::Rule, "RULE", 56, 9),
    (Column::Culprit, "CULPRIT", 0, 0),
];
/// On a screen of this width, the rule has a wider column.
const WIDE_RULE: (u16, usize) = (120, 17);

/// Of one thread the share of the time is known, of several how many wait on average.
const ONLY_OF_TASKS: Column = Column::Share;
const ONLY_OF_GROUPS: Column = Column::Mean;

/// The columns that fit, with their titles and widths.
fn columns(screen: u16, of_groups: bool) -> Vec<(Column, &'static str, usize)> {
    let mut shown: Vec<(Column, &str, usize)> = Vec::new();
    for (column, title, least, width) in TABLE_COLUMNS {
        if column == if of_groups { ONLY_OF_TASKS } else { ONLY_OF_GROUPS } {
            continue;
        }
        let is_wide = column == Column::Rule && screen >= WIDE_RULE.0;
        if least <= screen {
            shown.push((column, title, if is_wide { WIDE_RULE.1 } else { width }));
        }
    }
    let fixed = shown.iter().map(|(.., width)| width).sum::<usize>() + shown.len() - 1;
    let rest = usize::from(screen).saturating_sub(fixed);
    let victim = (rest / 2).min(32);
    for (column, _, width) in &mut shown {
        match column {
            Column::Victim => *width = victim,
            Column::Culprit => *width = rest - victim,
            _ => {}
        }
    }
    shown
}

/// What the rows are.
fn heading(app: &App) -> String {
    match app.opened_group() {
        Some(group) => format!("TASK of {}", clean(group)),
        None if app.lists_groups() => "GROUP".to_owned(),
        None => "TASK".to_owned(),
    }
}

fn table(frame: &mut Frame<'_>, view: &View, app: &App, area: Rect) {
    let columns = columns(area.width, app.lists_groups());
    let of_rows = heading(app);
    let titles = columns.iter().map(|(column, title, width)| match column {
        Column::Victim => fit(&of_rows, "", *width),
        _ => (*title).to_owned(),
    });
    let head = TableRow::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
    let rows = view.rows.iter().map(|row| {
        let cells = columns.iter().map(|&(column, _, width)| cell(row, column, width, app.lists_groups()));
        TableRow::new(cells).style(Style::new().fg(badness(row.severity)))
    });
    let widths = columns.iter().map(|&(.., width)| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    let table = Table::new(rows, widths)
        .header(head)
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(Some(app.selected()).filter(|row| *row < view.rows.len()));
    frame.render_stateful_widget(table, area, &mut state);
}

/// A name and its suffix in `columns`: the name is cut if there is no room.
pub(crate) fn fit(name: &str, rest: &str, columns: usize) -> String {
    let room = columns.saturating_sub(rest.chars().count());
    if name.chars().count() <= room {
        return format!("{name}{rest}");
    }
    let cut: String = name.chars().take(room.saturating_sub(1)).collect();
    format!("{cut}~{rest}")
}

/// A name with its thread id, if the row is one task.
pub(crate) fn with_tid(name: &str, tid: Option<u32>) -> String {
    tid.map_or_else(|| name.to_owned(), |tid| format!("{name}[{tid}]"))
}

fn cell(row: &Row, column: Column, width: usize, is_group: bool) -> Cell<'static> {
    let right = |text: String| format!("{text:>width$}");
    Cell::new(match column {
        Column::Victim => {
            // A star marks a task that waits now.
            let star = if row.waiting_ns.is_some() { "*" } else { "" };
            let one = || row.tid.filter(|_| !is_group).map_or_else(String::new, |tid| format!("[{tid}]"));
            let which = if row.tasks > 1 { format!(" x{}", row.tasks) } else { one() };
            fit(&row.victim, &format!("{which}{star}"), width)
        }
        Column::Kind => row.kind.to_owned(),
        Column::Cpu => row.cpu.map_or_else(String::new, |cpu| right(cpu.to_string())),
        Column::Wait => right(length(row.wait_ns, row.waiting_ns)),
        Column::Longest => right(length(row.longest_ns, row.waiting_ns)),
        Column::Share => right(percent(row.share)),
        Column::Mean => right(row.mean_waiting.map_or_else(String::new, |mean| format!("{mean:.1}"))),
        Column::Now => right(row.waiting_ns.map_or_else(String::new, |ns| Nanos(ns).to_string())),
        Column::Rule => {
            let text = row.rule.map_or_else(String::new, |rule| fit(rule.word(), "", width));
            return Cell::new(Span::styled(text, Style::new().fg(colour(row.rule))));
        }
        Column::Culprit => culprit(row, width),
    })
}

/// The length of finished waits; without any, how long the present wait has lasted.
fn length(over: u64, now: Option<u64>) -> String {
    match now.filter(|_| over == 0) {
        Some(now) => format!(">{}", Nanos(now)),
        None => Nanos(over).to_string(),
    }
}

/// The culprit, with its thread id if there is room.
fn culprit(row: &Row, width: usize) -> String {
    let name = row.culprit.clone().unwrap_or_default();
    let full = row.culprit_tid.map_or_else(|| name.clone(), |tid| identified(&name, tid));
    if full.chars().count() <= width { full } else { fit(&name, "", width) }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share.clamp(0.0, 1.0) * 100.0)
}
