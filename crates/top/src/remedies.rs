//! What to do about the chosen task: its findings, and their remedies in the order and with the commands of `explain`.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use unstarve_diagnose::report::{Boot, Finding, Remedy};
use unstarve_model::{Nanos, clean};

use crate::screen::{badness, with_tid};
use crate::side::whole_words;
use crate::view::{FixableRecording, Row, View};

/// The recording of `unstarve record`, which names its boot.
const RECORDED: &str = "unstarve.dat";
const RECORD: &str = "sudo unstarve record --for 10s";

impl FixableRecording {
    /// The commands that show a remedy's plan, as `explain` prints them.
    pub(crate) fn plan(&self, remedy: &Remedy) -> Vec<String> {
        if !remedy.is_carried_out() {
            return Vec::new();
        }
        match self {
            FixableRecording::ToBeMade => vec![RECORD.to_owned(), remedy.plan_command(RECORDED, Boot::Named)],
            FixableRecording::File(file, boot) => vec![remedy.plan_command(file, *boot)],
        }
    }
}

/// Draws the remedies for a task in place of the table.
pub(crate) fn remedies(frame: &mut Frame<'_>, view: &View, row: &Row, scrolled: u16) {
    let area = frame.area();
    let place = Rect::new(0, 1, area.width, area.height.saturating_sub(1));
    let width = usize::from(place.width.saturating_sub(4)).max(8);
    let name = with_tid(&row.victim, row.tid);
    let lines = lines(view, row, &name, width);
    let room = usize::from(place.height.saturating_sub(2));
    let hidden = lines.len().saturating_sub(room);
    let from = usize::from(scrolled).min(hidden);
    let below = hidden - from;
    let more = match below {
        0 => String::new(),
        _ => format!(" {below} more lines: Down "),
    };
    let block = Block::bordered()
        .title(format!(" what to do about {} ", clean(&name)))
        .title_bottom(Line::from(more).left_aligned())
        .title_bottom(Line::from(" any other key closes this ").right_aligned());
    let lines: Vec<Line<'_>> = lines.into_iter().skip(from).take(room).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

fn lines(view: &View, row: &Row, name: &str, width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for finding in view.about(row) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let style = Style::new().fg(badness(Some(finding.severity))).add_modifier(Modifier::BOLD);
        let sentence = format!("{}  {}", finding.severity.word().to_uppercase(), clean(&finding.sentence));
        lines.extend(wrapped(&sentence, "  ", style, width));
        lines.extend(of_finding(view, finding, width));
    }
    if lines.is_empty() {
        let calm = format!("Nothing is wrong with {} in the last {}: no remedy.", clean(name), Nanos(view.window_ns));
        return wrapped(&calm, "", Style::new(), width);
    }
    lines.push(Line::default());
    lines.extend(wrapped(
        "The command shows the plan. With sudo and --apply: do it. Undo: sudo unstarve fix --undo",
        "",
        Style::new().add_modifier(Modifier::DIM),
        width,
    ));
    lines
}

/// The fix, then the others, with their numbers in `explain`.
fn of_finding(view: &View, finding: &Finding, width: usize) -> Vec<Line<'static>> {
    let Some(fix) = finding.fix() else {
        return wrapped("  Fix      none that is known", "", Style::new(), width);
    };
    let others = finding.remedies.iter().enumerate().filter(|(index, _)| *index != fix.index);
    let mut lines = Vec::new();
    for (place, (index, remedy)) in std::iter::once((fix.index, fix.remedy)).chain(others).enumerate() {
        let label = match place {
            0 => "Fix",
            1 => "Also",
            _ => "",
        };
        if place > 0 {
            lines.push(Line::default());
        }
        let text = format!("  {label:<5}{:>2}  {}", index + 1, clean(&remedy.text));
        lines.extend(wrapped(&text, REMEDY_INDENT, Style::new().add_modifier(Modifier::BOLD), width));
        if !remedy.risk.is_empty() {
            let risk = format!("{REMEDY_INDENT}Risk: {}", clean(&remedy.risk));
            lines.extend(wrapped(&risk, REMEDY_INDENT, Style::new(), width));
        }
        match view.recording.plan(remedy).as_slice() {
            [] => lines.extend(wrapped(
                &format!("{REMEDY_INDENT}{}", by_hand(remedy)),
                REMEDY_INDENT,
                Style::new(),
                width,
            )),
            commands => lines.extend(
                commands
                    .iter()
                    .flat_map(|command| wrapped(&format!("{REMEDY_INDENT}{command}"), REMEDY_INDENT, COMMAND, width)),
            ),
        }
    }
    lines
}

const REMEDY_INDENT: &str = "           ";
const COMMAND: Style = Style::new().fg(ratatui::style::Color::Green);

/// What no command of `fix` does.
fn by_hand(remedy: &Remedy) -> String {
    match remedy.is_short() && !remedy.apply.is_empty() {
        true => clean(&remedy.apply).into_owned(),
        false => "By hand: no command does this.".to_owned(),
    }
}

fn wrapped(text: &str, indent: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let options = whole_words(width).subsequent_indent(indent);
    let lines = textwrap::wrap(text, options);
    lines.into_iter().map(|line| Line::from(Span::styled(format!(" {line}"), style))).collect()
}
