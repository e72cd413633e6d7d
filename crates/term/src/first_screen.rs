//! The first screen of `unstarve explain`: which thread is starved, what starves it, why, the fix, and the command to type, in 22 rows.
//!
//! Everything else is on the full page ([`crate::page`]).

use unstarve_diagnose::proofs::{Answer, Proved};
use unstarve_diagnose::report::{
    Boot, Culprit, Finding, Instance, Missing, Remedy, Report, Scope, Severity, in_words, low_confidence, verdict,
};
use unstarve_model::{LossKind, Nanos};

use crate::Look;
use crate::bars;
use crate::evidence;
use crate::finding::lost;
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::page::{about, selected};
use crate::predict::remedy_in_a_sentence;
use crate::text::{columns, counted, cut_at_word, tasks, time_of_day, victim};

/// Lines of the block about the worst finding, with what to type below it: a terminal of 24, without the command typed and the next prompt.
pub(crate) const MAX_LINES: usize = 22;
/// Further culprits with a line each.
const MAX_OTHER_CULPRITS: usize = 12;
/// Other remedies that are named.
const MAX_OTHER_REMEDIES: usize = 2;
/// The width of the labels (`Why`, `Cost`, …) with their indent.
const LABEL_COLUMNS: usize = 10;

/// A part of a screen. Where lines are short, the part with the highest rank goes first.
pub(crate) struct Part {
    pub text: String,
    /// Rows on the terminal.
    pub rows: usize,
    /// 0 always stays.
    pub rank: u8,
    /// Whether a blank line separates it from the part above.
    pub gap: bool,
}

impl Part {
    pub fn new(look: Look, rank: u8, gap: bool, write: impl FnOnce(&mut Ink)) -> Part {
        let mut ink = Ink::new(look);
        write(&mut ink);
        Part { rows: ink.rows(), text: ink.finish(), rank, gap }
    }

    fn height(&self) -> usize {
        self.rows + usize::from(self.gap)
    }
}

/// Formats the first screen. `file` is the recording's name, quoted for a shell, if `unstarve fix` can read it.
pub fn first_screen(report: &Report, scope: Scope, file: Option<&str>, look: Look) -> String {
    if let Some(evidence) = &report.evidence {
        return evidence::first_screen(report, evidence, look);
    }
    let screen = Screen { report, scope, file, look };
    let (alarms, remarks): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| finding.severity > Severity::Info);
    match alarms.split_first() {
        Some((lead, others)) => screen.of_alarms(lead, others, remarks.len()),
        None => screen.of_remarks(&remarks),
    }
}

struct Screen<'a> {
    report: &'a Report,
    scope: Scope,
    file: Option<&'a str>,
    look: Look,
}

impl Screen<'_> {
    fn of_alarms(&self, lead: &Finding, others: &[&Finding], remarks: usize) -> String {
        // Findings with the lead's culprits are the same trouble.
        let (also, others): (Vec<&Finding>, Vec<&Finding>) =
            others.iter().partition(|other| same_culprits(&lead.culprits, &other.culprits));
        let count = others.len();
        let others = by_culprit(&others);
        // Of the same culprit, and remarks.
        let unnamed = (count - others.len() + remarks) as u64;
        let mut parts = vec![
            self.part(0, false, |ink| self.heading(ink, lead)),
            self.part(1, true, |ink| bars::short_chart(ink, lead)),
            self.part(2, false, |ink| label(ink, "Why", &why(lead))),
            self.part(4, false, |ink| label(ink, "Others", &others_hit(&also))),
            self.part(5, false, |ink| label(ink, "Cost", &cost(lead))),
            self.part(6, false, |ink| label(ink, "When", &self.when(lead))),
            self.part(1, false, |ink| label(ink, "Lost", &self.incomplete())),
            self.part(0, true, |ink| fix(ink, lead)),
            self.part(3, false, |ink| other_remedies(ink, lead)),
            self.part(2, false, |ink| predicted(ink, lead)),
            self.part(7, true, |ink| self.not_recorded(ink)),
        ];
        let count = others.len().min(MAX_OTHER_CULPRITS);
        parts.push(self.part(0, true, |ink| self.other_culprits(ink, &others, unnamed)));
        parts.push(self.part(0, true, |ink| self.next(ink, lead)));
        // Two culprits more fit the terminal, too; each further one takes a line more.
        fitted(parts, MAX_LINES + count.saturating_sub(2))
    }

    fn of_remarks(&self, remarks: &[&Finding]) -> String {
        let parts = vec![
            self.part(0, false, |ink| {
                ink.paragraph("", STRONG, &verdict(self.report, self.scope).text);
                ink.paragraph("", FAINT, &about(&self.report.trace));
                if let Some(selected) = selected(self.report, None) {
                    ink.paragraph("", FAINT, &selected);
                }
            }),
            self.part(0, true, |ink| self.other_culprits(ink, remarks, 0)),
            self.part(1, true, |ink| self.not_recorded(ink)),
            self.part(0, true, |ink| self.see_also(ink)),
        ];
        fitted(parts, MAX_LINES)
    }

    fn part(&self, rank: u8, gap: bool, write: impl FnOnce(&mut Ink)) -> Part {
        Part::new(self.look, rank, gap, write)
    }

    fn heading(&self, ink: &mut Ink, lead: &Finding) {
        let word = format!("{}  ", lead.severity.word().to_uppercase());
        let place = match lead.cpus.as_slice() {
            [cpu] => format!(" on CPU {cpu}"),
            _ => String::new(),
        };
        ink.labelled((of_severity(lead.severity), &word), STRONG, &format!("{}{place}", headline(lead)));
        if let Some(selected) = selected(self.report, lead.selected_as) {
            ink.paragraph("  ", FAINT, &selected);
        }
        ink.paragraph("  ", PLAIN, &self.how_much(lead));
        if let Some(why) = low_confidence(self.report, lead) {
            ink.paragraph("  ", FAINT, &format!("Low confidence: {why}."));
        }
    }

    /// `Kept waiting up to 90.0 ms, every 1.00 s: 177 ms of 2.02 s. Confidence 95 %`
    fn how_much(&self, lead: &Finding) -> String {
        let trace = &self.report.trace;
        let span = Nanos(trace.end_ns.saturating_sub(trace.start_ns));
        let culprits = lead.culprits.iter().map(|culprit| culprit.ns).fold(0u64, u64::saturating_add);
        let lost = Nanos(if culprits == 0 { lead.waits.total_ns } else { culprits });
        let period = lead.period_ns.map(|period| format!(", every {}", Nanos(period))).unwrap_or_default();
        // The longest of those that are the culprits' doing, where they are listed.
        let worst = lead.worst.first().map(|at| Nanos(at.end_ns.saturating_sub(at.start_ns)));
        let longest = worst.filter(|_| !lead.culprits.is_empty()).unwrap_or(Nanos(lead.waits.max_ns));
        let longest = longest.min(if lead.victim.tasks > 1 { longest } else { lost });
        let sum = match u64::from(lead.victim.tasks.max(1)) {
            // Of a selected part it is not known here how long it is.
            1 if self.scope == Scope::Part => format!("{lost} in all"),
            1 => format!("{lost} of {span}"),
            tasks if self.scope == Scope::Part || lost.0 / tasks < span.0 / 100 => {
                format!("{tasks} threads, {lost} in all")
            }
            // A sum over threads can exceed the recording.
            tasks => {
                let share = Nanos(lost.0 / tasks).share_of(span).min(1.0) * 100.0;
                format!("{tasks} threads, each {share:.0} % of the time on average")
            }
        };
        let confidence = lead.confidence.clamp(0.0, 1.0) * 100.0;
        format!("Kept waiting up to {longest}{period}: {sum}. Confidence {confidence:.0} %")
    }
}

impl Screen<'_> {
    /// The times of the worst waits, from the beginning of the recording.
    fn when(&self, lead: &Finding) -> String {
        let at = |instance: &Instance| {
            let since = instance.start_ns.saturating_sub(self.report.trace.start_ns);
            let length = Nanos(instance.end_ns.saturating_sub(instance.start_ns));
            let utc = instance.start_utc.as_deref().and_then(time_of_day).map(|time| format!(", {time} UTC"));
            format!(
                "+{}.{:03} s ({length}{})",
                since / 1_000_000_000,
                since / 1_000_000 % 1_000,
                utc.unwrap_or_default()
            )
        };
        let worst: Vec<String> = lead.worst.iter().take(MAX_SHOWN_INSTANCES).map(at).collect();
        if worst.is_empty() { String::new() } else { format!("worst at {}", worst.join(" and ")) }
    }

    /// `unnamed`: further findings that get no line.
    fn other_culprits(&self, ink: &mut Ink, others: &[&Finding], unnamed: u64) {
        for other in others.iter().take(MAX_OTHER_CULPRITS) {
            let word = format!("{:<8}  ", other.severity.word().to_uppercase());
            let text = cut_at_word(&other.sentence, self.look.width().saturating_sub(columns(&word)));
            ink.line(&[(of_severity(other.severity), &word), (PLAIN, &text)]);
        }
        let more = others.len().saturating_sub(MAX_OTHER_CULPRITS) as u64 + self.report.more_findings + unnamed;
        if more > 0 {
            ink.line(&[(FAINT, &format!("{} with --full", counted(more, "more finding")))]);
        }
    }

    /// What was lost of a recording that is not whole, in a line.
    fn incomplete(&self) -> String {
        let is_lost = |missing: &&Missing| {
            use LossKind::{EndsEarly, LostEvents, OtherRecordings, OutOfOrder, Truncated, UncountedGap, Undecodable};
            matches!(
                missing.loss.kind,
                LostEvents | UncountedGap | Truncated | Undecodable | OtherRecordings | OutOfOrder | EndsEarly
            )
        };
        let lost: Vec<String> =
            self.report.missing.iter().filter(is_lost).map(|missing| missing.loss.to_string()).collect();
        cut_at_word(&lost.join("; "), self.look.width().saturating_sub(LABEL_COLUMNS)).into_owned()
    }

    fn not_recorded(&self, ink: &mut Ink) {
        let missing = in_words(&self.report.missing);
        if missing.is_empty() {
            return;
        }
        let room = (self.look.width() * 2).saturating_sub(20);
        ink.paragraph("  ", FAINT, &cut_at_word(&format!("Not recorded: {}", missing.join("; ")), room));
    }

    /// What to type next.
    fn next(&self, ink: &mut Ink, lead: &Finding) {
        let Some((_, remedy)) = shown_remedy(lead).filter(|(_, remedy)| is_carried_out(remedy)) else {
            return self.see_also(ink);
        };
        let trace = &self.report.trace;
        let Some(file) = self.file else { return self.see_also(ink) };
        // Only a snapshot of a version that names its host says on which boot it was made.
        let names_boot = trace.boot() == Boot::Named;
        let place = match &trace.host {
            Some(host) => format!(" on {host}"),
            None => " on the recorded machine".to_owned(),
        };
        let condition = if names_boot { "" } else { ", if it has not been rebooted since" };
        ink.paragraph("", PLAIN, &format!("Next{place}{condition}:"));
        let plan = remedy.plan_command(file, trace.boot());
        ink.command("  ", &plan);
        ink.line(&[(FAINT, "  shows the plan. With sudo and --apply: do it. Undo: sudo unstarve fix --undo")]);
        self.see_also(ink);
    }

    fn see_also(&self, ink: &mut Ink) {
        ink.paragraph("", FAINT, "Details: --full · Page: unstarve report FILE · Waits: unstarve timeline FILE");
    }
}

/// Maximum worst waits that are named.
const MAX_SHOWN_INSTANCES: usize = 2;

/// A label and its text, wrapped below itself; nothing without a text.
pub(crate) fn label(ink: &mut Ink, name: &str, text: &str) {
    if !text.is_empty() {
        ink.labelled((STRONG, &format!("  {name:<8}")), PLAIN, text);
    }
}

/// What happened, without numbers; reports of earlier versions have the sentence alone.
fn headline(finding: &Finding) -> &str {
    if finding.headline.is_empty() { &finding.sentence } else { &finding.headline }
}

/// The reason, or the rule by which the first culprit had the CPU.
fn why(lead: &Finding) -> String {
    if let Some(why) = &lead.why {
        return why.clone();
    }
    let first = lead.culprits.first();
    first.map(|culprit| format!("{} (rule: {})", culprit.rule.meaning(), culprit.rule)).unwrap_or_default()
}

/// The victims of findings with the same culprits.
fn others_hit(also: &[&Finding]) -> String {
    let mut names: Vec<String> = also.iter().map(|other| victim(&other.victim)).collect();
    names.dedup();
    names.join(", ")
}

fn cost(lead: &Finding) -> String {
    let Some(first) = lead.price.first() else { return String::new() };
    let who = tasks(&first.comm, &first.tids, first.tasks.max(first.tids.len() as u32));
    let more = lead.price.len() as u64 - 1;
    let more = if more > 0 { format!("; {} lost time, too", counted(more, "other")) } else { String::new() };
    format!("{who} {}{more}", lost(first))
}

fn fix(ink: &mut Ink, lead: &Finding) {
    let Some((_, remedy)) = shown_remedy(lead) else {
        return label(ink, "Fix", "none that is known; --full has the evidence");
    };
    label(ink, "Fix", action(remedy));
    let tested = remedy.proved.iter().find(|proved| proved.this_series && proved.answer == Answer::Helped);
    let mut parts: Vec<String> = tested.map(test_result).into_iter().collect();
    if !remedy.risk.is_empty() {
        parts.push(format!("Risk: {}", remedy.main_risk()));
    }
    ink.paragraph("          ", FAINT, &parts.join(" "));
}

/// `Lab test on 6.1: the longest ping −86 %.`
fn test_result(proved: &Proved) -> String {
    format!("Lab test on {}: {}{}.", proved.kernel, proved.metric_in_words(), proved.effect_in_words())
}

fn other_remedies(ink: &mut Ink, lead: &Finding) {
    let shown = shown_remedy(lead).map(|(index, _)| index);
    let others = lead.remedies.iter().enumerate().filter(|(index, _)| Some(*index) != shown);
    for (place, (index, remedy)) in others.take(MAX_OTHER_REMEDIES).enumerate() {
        let name = if place == 0 { "Also" } else { "" };
        let room = ink.look.width().saturating_sub(LABEL_COLUMNS + 3);
        label(ink, name, &format!("{}  {}", index + 1, cut_at_word(action(remedy), room)));
    }
}

/// What the remedy that is shown would do, or else the first of which it is known. A refusal says nothing here.
fn predicted(ink: &mut Ink, lead: &Finding) {
    let shown = shown_remedy(lead).map(|(index, _)| index);
    let all = shown.into_iter().chain(0..lead.remedies.len());
    let mut known = all.filter_map(|index| Some((index, lead.remedies[index].predicted.as_ref()?)));
    if let Some(sentence) = known.find_map(|(index, predicted)| remedy_in_a_sentence(index + 1, predicted)) {
        ink.paragraph("          ", FAINT, &format!("Predicted: {sentence}; `unstarve predict FILE` has the rest."));
    }
}

/// The remedy that is shown as the fix, with its place: the first that `fix` can carry out, else the first.
fn shown_remedy(lead: &Finding) -> Option<(usize, &Remedy)> {
    lead.fix().map(|fix| (fix.index, fix.remedy))
}

/// Whether `fix` can carry it out, and not only a person.
fn is_carried_out(remedy: &Remedy) -> bool {
    remedy.is_carried_out()
}

/// What a remedy does, without why: its first clause.
fn action(remedy: &Remedy) -> &str {
    remedy.action()
}

fn same_culprits(one: &[Culprit], other: &[Culprit]) -> bool {
    match (one.first(), other.first()) {
        (Some(one), Some(other)) => one.comm == other.comm && one.tids == other.tids && one.rule == other.rule,
        _ => false,
    }
}

/// The first finding of each further culprit.
fn by_culprit<'a>(findings: &[&'a Finding]) -> Vec<&'a Finding> {
    let mut first: Vec<&Finding> = Vec::new();
    for finding in findings {
        if !first.iter().any(|known| same_culprits(&known.culprits, &finding.culprits)) {
            first.push(finding);
        }
    }
    first
}

/// The parts as one text. While it has too many rows, the part with the highest rank is left out.
pub(crate) fn fitted(mut parts: Vec<Part>, max: usize) -> String {
    parts.retain(|part| !part.text.is_empty());
    let height = |parts: &[Part]| parts.iter().map(Part::height).sum::<usize>();
    while height(&parts) > max {
        let least = (0..parts.len()).max_by_key(|index| parts[*index].rank).filter(|index| parts[*index].rank > 0);
        let Some(least) = least else { break };
        parts.remove(least);
    }
    parts.iter().map(|part| format!("{}{}", if part.gap { "\n" } else { "" }, part.text)).collect()
}
