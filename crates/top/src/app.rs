//! The state of `top`'s user interface, and its keys.

use unstarve_model::{Comm, Tid};

use crate::group::stem;
use crate::{Order, Row, RowsBy, View};

/// A key with a function here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A character.
    Char(char),
    /// Ctrl-C.
    Interrupt,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// Enter.
    Enter,
    /// Escape.
    Escape,
    /// Backspace.
    Backspace,
    /// Right: one step in a replay.
    Right,
}

/// What the caller must do after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Draw.
    Draw,
    /// Advance a paused replay by a step.
    Step,
    /// End.
    Quit,
}

/// The input mode, or what covers the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Table,
    Filter,
    Help,
    Remedy,
}

/// The user's choices.
#[derive(Clone, Debug)]
pub struct App {
    order: Order,
    filter: String,
    mode: Mode,
    paused: bool,
    /// Whether rows of tasks are groups of names.
    grouped: bool,
    /// The group whose tasks are listed, and the row that it had.
    opened: Option<(String, usize)>,
    selected: usize,
    /// Lines of the remedies that were scrolled past.
    scrolled: u16,
    detail: Option<(Tid, Comm)>,
    /// The task whose remedies are shown: name and thread id, because rows are sorted again meanwhile.
    remedy: Option<(String, Option<u32>)>,
    by: RowsBy,
    /// The kind of rows before a task was opened.
    before: RowsBy,
    /// Whether roles can be shown.
    has_roles: bool,
    /// A message in the last line until the next key, for example why something cannot be shown.
    problem: Option<String>,
}

const ROWS_PER_PAGE_KEY: usize = 10;
/// Remedies of a task have fewer lines.
const MAX_SCROLLED: u16 = 500;

impl Default for App {
    fn default() -> App {
        App::new(Order::Wait, String::new())
    }
}

impl App {
    /// Starts with this order and filter.
    pub fn new(order: Order, filter: String) -> App {
        App {
            order,
            filter,
            mode: Mode::Table,
            paused: false,
            grouped: false,
            opened: None,
            selected: 0,
            scrolled: 0,
            detail: None,
            remedy: None,
            by: RowsBy::Task,
            before: RowsBy::Task,
            has_roles: true,
            problem: None,
        }
    }

    /// For printed output: no row has the cursor.
    pub fn without_cursor() -> App {
        App { selected: usize::MAX, ..App::default() }
    }

    /// The sort order.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Only rows with this text in a column are shown.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether the user types the filter.
    pub fn is_typing(&self) -> bool {
        self.mode == Mode::Filter
    }

    /// Whether help is shown.
    pub fn shows_help(&self) -> bool {
        self.mode == Mode::Help
    }

    /// Whether the remedies of a task are shown.
    pub fn shows_remedy(&self) -> bool {
        self.remedied().is_some()
    }

    /// The task whose remedies are shown.
    pub(crate) fn remedied(&self) -> Option<&(String, Option<u32>)> {
        self.remedy.as_ref().filter(|_| self.mode == Mode::Remedy)
    }

    /// Whether tasks with similar names share a row.
    pub fn groups(&self) -> bool {
        self.grouped
    }

    /// Whether the rows of tasks are groups of names now: not while the tasks of one are listed.
    pub(crate) fn lists_names(&self) -> bool {
        self.grouped && self.opened.is_none()
    }

    /// The group whose tasks are listed.
    pub fn opened_group(&self) -> Option<&str> {
        self.opened.as_ref().map(|(name, _)| name.as_str())
    }

    /// Lists the tasks of a group.
    pub fn in_group(self, name: &str) -> App {
        App { opened: Some((name.to_owned(), 0)), ..self }
    }

    /// Lines of the remedies that were scrolled past.
    pub(crate) fn scrolled(&self) -> u16 {
        self.scrolled
    }

    /// Starts with tasks of similar names in one row.
    pub fn with_groups(self) -> App {
        App { grouped: true, ..self }
    }

    /// Starts with this kind of rows.
    pub fn showing(self, by: RowsBy) -> App {
        App { by, before: by, ..self }
    }

    /// For a recording, or a selection of tasks: roles are not counted.
    pub fn recorded(self) -> App {
        App { has_roles: false, ..self }
    }

    /// Keeps rows of this kind because the requested ones are unavailable; shows why until the next key.
    pub fn stay(&mut self, by: RowsBy, why: String) {
        self.detail = None;
        self.before = by;
        self.show(by);
        self.say(why);
    }

    /// Shows a message in the last line until the next key.
    pub fn say(&mut self, what: String) {
        self.problem = Some(what);
    }

    /// The message in the last line.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The kind of rows.
    pub fn by(&self) -> RowsBy {
        self.by
    }

    /// Whether the screen is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The row with the cursor.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The opened task.
    pub fn detail(&self) -> Option<(Tid, Comm)> {
        self.detail
    }

    /// Whether a row matches the filter.
    pub fn takes(&self, row: &Row) -> bool {
        let wanted = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        wanted.is_empty()
            || has(&row.victim)
            || has(row.kind)
            || row.rule.is_some_and(|rule| has(rule.word()))
            || row.culprit.as_deref().is_some_and(has)
            || row.tid.is_some_and(|tid| tid.to_string() == wanted)
    }

    /// Handles a key; `view` is what was on the screen, `find` returns the task of a row.
    pub fn key(&mut self, key: Key, view: &View, find: impl Fn(&Row) -> Option<(Tid, Comm)>) -> Action {
        self.problem = None;
        if key == Key::Interrupt {
            return Action::Quit;
        }
        match self.mode {
            Mode::Filter => self.typed(key),
            Mode::Remedy => {
                if !self.scroll(key) {
                    self.mode = Mode::Table;
                }
            }
            Mode::Help => self.mode = Mode::Table,
            Mode::Table => return self.command(key, view, find),
        }
        Action::Draw
    }

    fn typed(&mut self, key: Key) {
        match key {
            Key::Char(c) if self.filter.len() < 64 => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Escape => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            Key::Enter => self.mode = Mode::Table,
            _ => {}
        }
        self.selected = 0;
    }

    /// Scrolls the remedies; whether the key does that.
    fn scroll(&mut self, key: Key) -> bool {
        let by = match key {
            Key::Up | Key::Char('k') => -1,
            Key::Down | Key::Char('j') => 1,
            Key::PageUp => -(ROWS_PER_PAGE_KEY as i16),
            Key::PageDown => ROWS_PER_PAGE_KEY as i16,
            _ => return false,
        };
        self.scrolled = self.scrolled.saturating_add_signed(by).min(MAX_SCROLLED);
        true
    }

    fn command(&mut self, key: Key, view: &View, find: impl Fn(&Row) -> Option<(Tid, Comm)>) -> Action {
        let last = view.rows.len().saturating_sub(1);
        match key {
            Key::Char('q') if self.detail.is_none() && self.opened.is_none() => return Action::Quit,
            // Not within the rows of `view`, which are those of the group.
            Key::Char('q') | Key::Escape | Key::Backspace => {
                self.back();
                return Action::Draw;
            }
            Key::Char('t') if self.has_roles => {
                let other = if self.by == RowsBy::Task { RowsBy::Role } else { RowsBy::Task };
                self.opened = None;
                self.before = other;
                self.show(other);
            }
            // Details of single tasks come from their events.
            Key::Char('r') if self.by == RowsBy::Role => self.show(RowsBy::Task),
            Key::Enter if self.lists_groups() => {
                if let Some(row) = view.rows.get(self.selected) {
                    let name = if row.is_role() { row.victim.clone() } else { stem(&row.victim) };
                    self.opened = Some((name, self.selected));
                    self.selected = 0;
                    return Action::Draw;
                }
            }
            Key::Enter if self.by == RowsBy::Role => {
                self.detail = view.rows.get(self.selected).and_then(find);
                self.show(RowsBy::Task);
            }
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('g' | 't') if self.by == RowsBy::Task && self.detail.is_none() => {
                self.grouped = !self.grouped;
                self.opened = None;
                self.selected = 0;
            }
            Key::Char('r') => {
                self.remedy = self.chosen(view);
                if self.remedy.is_some() {
                    self.mode = Mode::Remedy;
                    self.scrolled = 0;
                }
            }
            // The table is covered: its keys have no effect.
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Enter | Key::Char('j' | 'k')
                if self.detail.is_some() => {}
            Key::Char('h' | '?') => self.mode = Mode::Help,
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('n') | Key::Right => return Action::Step,
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(ROWS_PER_PAGE_KEY),
            Key::PageDown => self.selected = (self.selected + ROWS_PER_PAGE_KEY).min(last),
            Key::Enter => self.detail = view.rows.get(self.selected).and_then(find),
            _ => {}
        }
        self.selected = self.selected.min(last);
        Action::Draw
    }

    /// Whether the rows are groups: roles, or names.
    pub(crate) fn lists_groups(&self) -> bool {
        self.opened.is_none() && self.detail.is_none() && (self.by == RowsBy::Role || self.grouped)
    }

    /// From a task to the list, from the tasks of a group to the groups.
    fn back(&mut self) {
        if self.detail.take().is_some() {
            self.show(self.before);
        } else if let Some((_, row)) = self.opened.take() {
            self.selected = row;
        } else {
            self.show(self.before);
        }
    }

    /// The opened task, else the one with the cursor.
    fn chosen(&self, view: &View) -> Option<(String, Option<u32>)> {
        match self.detail {
            Some((tid, comm)) => Some((comm.to_string(), Some(tid.0))),
            None => view.rows.get(self.selected).map(|row| (row.victim.clone(), row.tid)),
        }
    }

    fn show(&mut self, by: RowsBy) {
        if self.by != by {
            self.by = by;
            self.selected = 0;
        }
    }
}
