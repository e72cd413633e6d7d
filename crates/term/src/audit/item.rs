//! An item of a page: the hits about one subject in one part.

use unstarve_change::Target;
use unstarve_check::{Audit, Hit, Kind, Part, Severity};
use unstarve_facts::Version;

use super::style;
use crate::Look;
use crate::ink::{COMMAND, FAINT, Ink, PLAIN};
use crate::text::{columns, counted};

/// The hits about one subject in one part.
pub(super) struct Item<'a> {
    pub(super) part: Part,
    pub(super) hits: Vec<&'a Hit>,
}

/// All items in the order of the hits.
pub(super) fn items<'a>(hits: impl IntoIterator<Item = &'a Hit>) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for hit in hits {
        let part = hit.part();
        match items.iter_mut().find(|item| item.part == part && item.subject() == hit.subject) {
            Some(item) => item.hits.push(hit),
            None => items.push(Item { part, hits: vec![hit] }),
        }
    }
    items
}

impl<'a> Item<'a> {
    pub(super) fn subject(&self) -> &'a str {
        &self.hits[0].subject
    }

    pub(super) fn kind(&self) -> Kind {
        self.hits[0].kind
    }

    pub(super) fn severity(&self) -> Severity {
        self.hits.iter().map(|hit| hit.severity).max().unwrap_or(Severity::Info)
    }

    /// `newidle-cost (6.12.43 to 6.12.63): CPUs stay idle beside waiting tasks`.
    fn text(&self) -> String {
        let mut briefs: Vec<&str> = Vec::new();
        for hit in &self.hits {
            let brief = if hit.brief.is_empty() { &hit.sentence } else { &hit.brief };
            if !briefs.contains(&brief.as_str()) {
                briefs.push(brief);
            }
        }
        let levels = self.hits.iter().find_map(|hit| hit.levels.as_ref());
        let levels =
            levels.filter(|_| self.part == Part::Levels).map(|levels| format!(" ({levels})")).unwrap_or_default();
        format!("{}{levels}: {}", self.subject(), briefs.join("; "))
    }

    /// The files that set it: `/etc/sysctl.d/90.conf:7, /etc/tuned/fast/tuned.conf:7 (fast)`.
    fn places(&self) -> Option<String> {
        let places = self.hits.iter().flat_map(|hit| &hit.places);
        let shown: Vec<String> = places
            .map(|place| {
                let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
                let owner = place.owner.as_ref().map(|owner| format!(" ({owner})")).unwrap_or_default();
                format!("{}{line}{owner}", place.file)
            })
            .collect();
        match shown.as_slice() {
            [] => None,
            [first, second, rest @ ..] if rest.len() > 1 => Some(format!("{first}, {second} and {} more", rest.len())),
            few => Some(few.join(", ")),
        }
    }

    /// The lines of the item. Those of a setting name its files and the command that replaces it.
    pub(super) fn lines(&self, look: Look) -> Vec<String> {
        let mut ink = Ink::new(look);
        let label = format!("  {:<8}  ", label(self.severity()));
        ink.labelled((style(self.severity()), &label), PLAIN, &self.text());
        if self.part == Part::Settings {
            let margin = " ".repeat(columns(&label));
            if let Some(places) = self.places() {
                ink.paragraph(&format!("{margin}set in "), FAINT, &places);
            }
            if let Some(line) = self.hits.iter().find_map(|hit| sysctl_line(hit)) {
                ink.paragraph(&format!("{margin}to keep it: "), PLAIN, &format!("{line} in /etc/sysctl.d"));
            }
            let commands = self.hits.iter().flat_map(|hit| &hit.fixes).flat_map(|fix| fix.short_commands());
            for command in commands.filter(|text| columns(text) + 26 <= look.width()).take(2) {
                ink.line(&[(PLAIN, &margin), (PLAIN, "at each boot: "), (COMMAND, &command)]);
            }
        }
        ink.finish().lines().map(str::to_owned).collect()
    }
}

/// The sysctl line that keeps a value that was set by hand.
fn sysctl_line(hit: &Hit) -> Option<String> {
    let setting = hit.setting.as_ref().filter(|_| hit.kind == Kind::Lost)?;
    let is_sysctl = hit.fixes.iter().flat_map(|fix| &fix.changes).any(|change| match &change.target {
        Target::File { path } => path.starts_with("/proc/sys/kernel/"),
        _ => false,
    });
    is_sysctl.then(|| format!("kernel.{} = {}", setting.name, setting.value))
}

/// `CRITICAL`, `WARNING`, `note`.
pub(super) fn label(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "WARNING",
        Severity::Info => "note",
    }
}

/// The heading of a part.
pub(super) fn heading(part: Part, items: &[&Item<'_>], audit: &Audit) -> String {
    let to = audit.upgrade_to.as_deref().unwrap_or("the other kernel");
    match part {
        Part::New => "New problems".to_owned(),
        Part::Settings => "Settings of yours".to_owned(),
        Part::Defaults => "Defaults that move".to_owned(),
        Part::Hits => format!("In Linux {to}, and hits what you run"),
        Part::Levels => match first_level_without(items) {
            Some(level) => format!("In some stable levels of {to}; {level} and later have none of these"),
            None => format!("In some stable levels of {to}: give the whole version, as in 6.12.107"),
        },
        Part::Today if audit.upgrade_to.is_some() => format!("Wrong today, and also with Linux {to}"),
        Part::Today => "Also".to_owned(),
        Part::Ends => format!("Ended by Linux {to}"),
        Part::OtherLoads => "Reported for loads that this host does not run".to_owned(),
        Part::Unseen => "Reported for loads that a snapshot does not show".to_owned(),
    }
}

/// The first stable level that has none of these, if each names its last.
fn first_level_without(items: &[&Item<'_>]) -> Option<Version> {
    let last = |item: &&Item<'_>| -> Option<Version> {
        let levels = item.hits.iter().find_map(|hit| hit.levels.as_deref())?;
        levels.rsplit(' ').next()?.parse::<Version>().ok().filter(|version| version.patch.is_some())
    };
    let all: Option<Vec<Version>> = items.iter().map(last).collect();
    let highest = all?.into_iter().max_by_key(|version| version.patch)?;
    Some(Version { patch: highest.patch.map(|patch| patch + 1), ..highest })
}

/// The first sentence of an upgrade's page, after the kernels: `4 settings of yours go, 2 defaults move, 1 bug hits what
/// you run`.
pub(super) fn summary(items: &[Item<'_>]) -> String {
    let count = |part: Part, kinds: &[Kind]| {
        items.iter().filter(|item| item.part == part && (kinds.is_empty() || kinds.contains(&item.kind()))).count()
            as u64
    };
    let mut parts = Vec::new();
    let mut add = |count: u64, one: &str, many: &str| {
        if count > 0 {
            parts.push(if count == 1 { format!("1 {one}") } else { format!("{count} {many}") });
        }
    };
    add(count(Part::New, &[]), "new problem", "new problems");
    let gone = count(Part::Settings, &[Kind::Gone, Kind::Renamed]);
    let moved = count(Part::Settings, &[Kind::Moved]);
    let redefined = count(Part::Settings, &[Kind::Redefined]);
    // The first of these says what they are.
    add(gone, "setting of yours goes", "settings of yours go");
    match gone {
        0 => add(moved, "setting of yours moves", "settings of yours move"),
        _ => add(moved, "moves", "move"),
    }
    match gone + moved {
        0 => add(redefined, "setting of yours means something else", "settings of yours mean something else"),
        _ => add(redefined, "means something else", "mean something else"),
    }
    let lost = count(Part::Settings, &[Kind::Lost]);
    match gone + moved + redefined {
        0 => add(lost, "value set by hand is lost", "values set by hand are lost"),
        _ => add(lost, "set by hand is lost", "set by hand are lost"),
    }
    add(count(Part::Defaults, &[]), "default moves", "defaults move");
    add(count(Part::Hits, &[Kind::Bug]), "bug hits what you run", "bugs hit what you run");
    add(count(Part::Hits, &[Kind::Change]), "change hits what you run", "changes hit what you run");
    add(count(Part::Levels, &[Kind::Bug]), "bug depends on the stable level", "bugs depend on the stable level");
    add(
        count(Part::Levels, &[Kind::Change]),
        "change depends on the stable level",
        "changes depend on the stable level",
    );
    let (ended, bugs_ended) = (count(Part::Ends, &[]), count(Part::Ends, &[Kind::Bug]));
    add(bugs_ended, "bug ends", "bugs end");
    add(ended - bugs_ended, "problem ends", "problems end");
    if parts.is_empty() { "nothing of yours changes".to_owned() } else { parts.join(", ") }
}

/// `3 more: R04, R05, R06`, in one line.
pub(super) fn folded(items: &[&Item<'_>], look: Look) -> Option<String> {
    if items.is_empty() {
        return None;
    }
    let names: Vec<&str> = items.iter().map(|item| item.subject()).collect();
    let count = format!("  {} more (--full): ", items.len());
    let mut text = String::new();
    let width = look.width().saturating_sub(columns(&count));
    for (index, name) in names.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        // Space for `, …`.
        if columns(&text) + columns(separator) + columns(name) + 3 > width {
            text.push_str(if index == 0 { "…" } else { ", …" });
            break;
        }
        text.push_str(separator);
        text.push_str(name);
    }
    let mut ink = Ink::new(look);
    ink.line(&[(FAINT, &format!("{count}{text}"))]);
    Some(ink.finish().trim_end().to_owned())
}

/// How many items of which severity are because of the upgrade, and how many are wrong today already: as many as are listed.
pub(super) fn totals(audit: &Audit, items: &[Item<'_>]) -> String {
    let of = |keep: fn(Part) -> bool| super::tally(items.iter().filter(|item| keep(item.part)).map(Item::severity));
    let (new, today) = (of(Part::is_of_the_upgrade), of(|part| part == Part::Today));
    let cause = if audit.is_downgrade { "the older kernel" } else { "the upgrade" };
    if items.iter().all(|item| item.part == Part::Ends) {
        return format!("Nothing found by {}.", counted(audit.rules.len() as u64, "rule"));
    }
    let new = match new.is_empty() {
        true => format!("Because of {cause}: nothing."),
        false => format!("Because of {cause}: {new}."),
    };
    match today.is_empty() {
        true => format!("{new} Today already: nothing."),
        false => format!("{new} Today already: {today}."),
    }
}
