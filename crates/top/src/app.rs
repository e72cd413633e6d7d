//! What keys do.

use unstarve_model::{Comm, Tid};

use crate::{By, Order, Row, View};

/// A key, as far as it means something here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// A character.
    Char(char),
    /// Ctrl-C.
    Interrupt,
    /// One up.
    Up,
    /// One down.
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
    /// Right: in a replay, a step.
    Right,
}

/// What the caller has to do about a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Draw.
    Draw,
    /// A step of a replay that is paused.
    Step,
    /// End.
    Quit,
}

/// What is being typed, or shown over the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Table,
    Filter,
    Help,
    Remedy,
}

/// What the user has chosen.
#[derive(Clone, Debug)]
pub struct App {
    order: Order,
    filter: String,
    mode: Mode,
    paused: bool,
    grouped: bool,
    selected: usize,
    detail: Option<(Tid, Comm)>,
    /// Whose remedies are shown: its name and thread id, since rows are sorted again while they are.
    remedy: Option<(String, Option<u32>)>,
    by: By,
    /// What was shown before a task was looked at.
    before: By,
    /// Whether roles can be shown.
    has_roles: bool,
    /// What is said in the last line until the next key, such as why something that was asked for is not shown.
    problem: Option<String>,
}

const PAGE: usize = 10;

impl Default for App {
    fn default() -> App {
        App::new(Order::Wait, String::new())
    }
}

impl App {
    /// Sorted and filtered so.
    pub fn new(order: Order, filter: String) -> App {
        App {
            order,
            filter,
            mode: Mode::Table,
            paused: false,
            grouped: false,
            selected: 0,
            detail: None,
            remedy: None,
            by: By::Task,
            before: By::Task,
            has_roles: true,
            problem: None,
        }
    }

    /// For paper: no row has the cursor.
    pub fn without_cursor() -> App {
        App { selected: usize::MAX, ..App::default() }
    }

    /// By what rows are sorted.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Only rows with this in one of their texts.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether the filter is being typed.
    pub fn is_typing(&self) -> bool {
        self.mode == Mode::Filter
    }

    /// Whether help is shown.
    pub fn shows_help(&self) -> bool {
        self.mode == Mode::Help
    }

    /// Whether what to do about the chosen task is shown.
    pub fn shows_remedy(&self) -> bool {
        self.remedied().is_some()
    }

    /// The task about which it is shown what to do.
    pub(crate) fn remedied(&self) -> Option<&(String, Option<u32>)> {
        self.remedy.as_ref().filter(|_| self.mode == Mode::Remedy)
    }

    /// Whether tasks of alike names are one row.
    pub fn groups(&self) -> bool {
        self.grouped
    }

    /// Begins with tasks of alike names as one row.
    pub fn with_groups(self) -> App {
        App { grouped: true, ..self }
    }

    /// Begins with rows of these.
    pub fn showing(self, by: By) -> App {
        App { by, before: by, ..self }
    }

    /// Of a recording: there are single tasks alone.
    pub fn recorded(self) -> App {
        App { has_roles: false, ..self }
    }

    /// What was asked for cannot be shown, and why: it goes on with rows of these. Said until the next key.
    pub fn stay(&mut self, by: By, why: String) {
        self.detail = None;
        self.before = by;
        self.show(by);
        self.say(why);
    }

    /// Says something in the last line, until the next key.
    pub fn say(&mut self, what: String) {
        self.problem = Some(what);
    }

    /// What is said in the last line.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// What rows are of.
    pub fn by(&self) -> By {
        self.by
    }

    /// Whether time stands still on the screen.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The row with the cursor.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The task that is looked at.
    pub fn detail(&self) -> Option<(Tid, Comm)> {
        self.detail
    }

    /// Whether the filter lets a row through.
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

    /// Acts on a key; `view` is what was on the screen, `find` gives the task of a row.
    pub fn key(&mut self, key: Key, view: &View, find: impl Fn(&Row) -> Option<(Tid, Comm)>) -> Action {
        self.problem = None;
        if key == Key::Interrupt {
            return Action::Quit;
        }
        match self.mode {
            Mode::Filter => self.typed(key),
            Mode::Help | Mode::Remedy => self.mode = Mode::Table,
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

    fn command(&mut self, key: Key, view: &View, find: impl Fn(&Row) -> Option<(Tid, Comm)>) -> Action {
        let last = view.rows.len().saturating_sub(1);
        match key {
            Key::Char('q') if self.detail.is_none() => return Action::Quit,
            Key::Char('q') | Key::Escape | Key::Backspace => {
                self.detail = None;
                self.show(self.before);
            }
            Key::Char('t') if self.has_roles => {
                let other = if self.by == By::Task { By::Role } else { By::Task };
                self.before = other;
                self.show(other);
            }
            // What is known of single tasks comes from their events.
            Key::Char('r') if self.by == By::Role => self.show(By::Task),
            Key::Enter if self.by == By::Role => {
                self.detail = view.rows.get(self.selected).and_then(find);
                self.show(By::Task);
            }
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('g') => {
                self.grouped = !self.grouped;
                self.selected = 0;
            }
            Key::Char('r') => {
                self.remedy = self.chosen(view);
                if self.remedy.is_some() {
                    self.mode = Mode::Remedy;
                }
            }
            // The table is not on the screen: its keys choose nothing there.
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Enter | Key::Char('j' | 'k')
                if self.detail.is_some() => {}
            Key::Char('h' | '?') => self.mode = Mode::Help,
            Key::Char(' ' | 'p') => self.paused = !self.paused,
            Key::Char('n') | Key::Right => return Action::Step,
            Key::Up | Key::Char('k') => self.selected = self.selected.saturating_sub(1),
            Key::Down | Key::Char('j') => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            Key::PageDown => self.selected = (self.selected + PAGE).min(last),
            Key::Enter => self.detail = view.rows.get(self.selected).and_then(find),
            _ => {}
        }
        self.selected = self.selected.min(last);
        Action::Draw
    }

    /// The task that is looked at, else that of the row with the cursor.
    fn chosen(&self, view: &View) -> Option<(String, Option<u32>)> {
        match self.detail {
            Some((tid, comm)) => Some((comm.to_string(), Some(tid.0))),
            None => view.rows.get(self.selected).map(|row| (row.victim.clone(), row.tid)),
        }
    }

    fn show(&mut self, by: By) {
        if self.by != by {
            self.by = by;
            self.selected = 0;
        }
    }
}
