//! The page of `unstarve fix`: the plan and its outcome.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::{Change, Place, Value};
use unstarve_diagnose::report::{Finding, FindingId, Predicted, Remedy, RemedyId, Report};
use unstarve_executor::authority::Author;
use unstarve_executor::journal::Step;
use unstarve_executor::manual_changes::named;
use unstarve_executor::plan::{self, Answer, Planned};
use unstarve_guard::verify::{Fared, Figures, Waits};
use unstarve_model::{Nanos, Severity, Tid};

use crate::guard::single_waits;
use crate::measured::{Compared, compared, comparison};
use crate::predict::prediction_in_a_sentence;
use crate::{Charset, Look, clean};

/// A plan and its outcome.
pub struct Page<'a> {
    /// The recording.
    pub file: String,
    /// Its report.
    pub report: &'a Report,
    /// The finding's index in the report.
    pub finding: usize,
    /// The remedy's index in the finding.
    pub remedy: usize,
    /// What would be changed here.
    pub plan: &'a [Planned<'a>],
    /// Remedies before it that were skipped, with the reason.
    pub skipped: &'a [Skipped],
    /// Why the recording's thread ids are invalid on this host.
    pub strange: Option<String>,
    /// If others than root and this process's user could have written the recording: the evidence, and who.
    pub written: Option<(String, Author)>,
    /// The forms of `--as` that can make it permanent.
    pub lasting: Vec<&'static str>,
    /// The outcome; `None` for a plan alone.
    pub came: Option<Came>,
    /// The commands that apply and undo it.
    pub commands: Commands,
    /// Threads whose end is all that prevents the plan.
    pub ended: Option<Ended>,
    /// What a model of the scheduler says that it would do; `None` if it was not asked.
    pub predicted: Option<&'a Predicted>,
}

/// Threads that have ended, so that nothing can be changed now.
pub struct Ended {
    /// Their names.
    pub names: Vec<String>,
    /// The command that keeps a remedy for the next time that they start, if one can be kept.
    pub next_time: Option<String>,
}

/// Commands of `unstarve fix`.
pub struct Commands {
    /// Tries it, and keeps it if it helps.
    pub apply: String,
    /// Undoes it.
    pub undo: String,
}

/// A skipped remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The finding's index in the report.
    pub finding: usize,
    /// Its index in the finding.
    pub remedy: usize,
    /// The reason.
    pub why: String,
}

/// The outcome of a plan.
pub enum Came {
    /// Nothing was changed because of the obstacles.
    NothingDone,
    /// The changes are in force.
    Applied,
    /// The changes were tried.
    Tried {
        /// Whether they are in force.
        helped: bool,
        /// Whether the measurement decided; if not, there were too few waits.
        is_known: bool,
        /// The reason.
        reason: String,
        /// The victim's waits without the change, with it, and without it again.
        measured: Box<[Fared; 3]>,
        /// The figures that decided against it.
        figures: Option<Figures>,
    },
}

impl Page<'_> {
    fn finding(&self) -> &Finding {
        &self.report.findings[self.finding]
    }

    fn remedy(&self) -> &Remedy {
        &self.finding().remedies[self.remedy]
    }

    /// What was measured with the changes, beside what was predicted; nothing without both.
    fn compared(&self) -> Vec<Compared> {
        match (&self.came, self.predicted) {
            (Some(Came::Tried { measured, .. }), Some(predicted)) => compared(predicted, &measured[1]),
            _ => Vec::new(),
        }
    }
}

/// Formats the page as text.
pub fn text(page: &Page<'_>, look: Look) -> String {
    let (finding, remedy) = (page.finding(), page.remedy());
    let wrap = |text: &str, indent: &str| {
        let options = textwrap::Options::new(look.width()).initial_indent(indent).subsequent_indent(indent);
        textwrap::fill(&clean(text), options)
    };
    let mut text = String::new();
    let count = page.report.findings.len();
    let _ = writeln!(text, "Finding {} of {count}: {} ({})", page.finding + 1, finding.id, finding.severity.word());
    let _ = writeln!(text, "{}\n", wrap(&finding.sentence, "  "));
    if let Some(ended) = &page.ended {
        let _ = writeln!(text, "{}", wrap(&have_ended(ended), ""));
        if let Some(command) = &ended.next_time {
            let _ = writeln!(text, "  {}", clean(command));
        }
        if let Some(warning) = written(page) {
            let _ = writeln!(text, "{}", wrap(&warning, ""));
        }
        return text;
    }
    // Where none can be applied, the list of the others has the reasons.
    let is_possible = plan::answer(page.plan) != Answer::Obstructed;
    for skipped in page.skipped.iter().filter(|skipped| is_possible || skipped.finding != page.finding) {
        let _ = writeln!(text, "{}", wrap(&not_taken(skipped, page), ""));
    }
    let _ = writeln!(text, "Remedy {} of {}: {}", page.remedy + 1, finding.remedies.len(), remedy.id);
    let _ = writeln!(text, "{}", wrap(&remedy.text, "  "));
    for planned in page.plan {
        plan_lines(&mut text, planned, look);
    }
    for line in plan::obstacles(page.plan) {
        let _ = writeln!(text, "{}", wrap(&format!("cannot be done here: {line}"), "    "));
    }
    if let Some(predicted) = page.predicted.map(prediction_in_a_sentence) {
        let _ = writeln!(text, "{}", wrap(&format!("Predicted: {predicted}"), "  "));
    }
    let _ = writeln!(text, "{}", wrap(&format!("Risk: {}", remedy.risk), "  "));
    let _ = writeln!(text, "{}", wrap(&format!("Valid on: {}", remedy.valid_on), "  "));
    if let Some(why) = &page.strange {
        let _ = writeln!(
            text,
            "{}",
            wrap(
                &format!("Numbers of threads, interrupts, queues and CPUs in {} mean nothing here: {why}.", page.file),
                "  "
            )
        );
    }
    if let Some(warning) = written(page) {
        let _ = writeln!(text, "{}", wrap(&warning, "  "));
    }
    text.push('\n');
    outcome(&mut text, page);
    if page.came.is_none() {
        others(&mut text, page);
    }
    text
}

/// Who else could have written the recording.
fn written(page: &Page<'_>) -> Option<String> {
    let (why, author) = page.written.as_ref()?;
    Some(format!(
        "{why}: {author} could have written anything in this recording. What it says of threads was compared with this host; whether the \
         remedy is right was not."
    ))
}

/// `poller has ended, so nothing can be changed now.`
fn have_ended(ended: &Ended) -> String {
    const MAX_SHOWN_NAMES: usize = 4;
    let mut names: Vec<String> =
        ended.names.iter().take(MAX_SHOWN_NAMES).map(|name| clean(name).into_owned()).collect();
    if ended.names.len() > MAX_SHOWN_NAMES {
        names.push(format!("{} more", ended.names.len() - MAX_SHOWN_NAMES));
    }
    let (who, has, it) = match names.as_slice() {
        [first @ .., last] if !first.is_empty() => (format!("{} and {last}", first.join(", ")), "have", "they start"),
        names => (names.concat(), "has", "it starts"),
    };
    let then = match ended.next_time {
        Some(_) => format!("For the next time {it}:"),
        None => format!("No form of --as can keep a remedy for the next time {it}: record again while it lasts."),
    };
    format!("{who} {has} ended, so nothing can be changed now. {then}")
}

/// `Remedy 1 (raise-worker) was skipped: thread 812 has ended.`
fn not_taken(skipped: &Skipped, page: &Page<'_>) -> String {
    let finding = &page.report.findings[skipped.finding];
    let of = match skipped.finding == page.finding {
        true => String::new(),
        false => format!(" of finding {} ({})", skipped.finding + 1, finding.id),
    };
    format!("Remedy {}{of} was skipped ({}): {}.", skipped.remedy + 1, finding.remedies[skipped.remedy].id, skipped.why)
}

/// Maximum changes of one kind listed; more are counted.
const MAX_SHOWN_CHANGES: usize = 16;

fn plan_lines(text: &mut String, planned: &Planned<'_>, look: Look) {
    let arrow = if look.charset() == Charset::Utf8 { "→" } else { "->" };
    for step in planned.steps.iter().take(MAX_SHOWN_CHANGES) {
        let (old, new) = (step.old.to_string(), step.new.to_string());
        let user = user_of(planned, step).map_or(String::new(), |user| format!(", uid {user}"));
        let _ = writeln!(text, "    {}{user}: {} {arrow} {}", named(step), clean(&old), clean(&new));
    }
    if planned.steps.len() > MAX_SHOWN_CHANGES {
        let _ = writeln!(text, "    and {} more threads likewise", planned.steps.len() - MAX_SHOWN_CHANGES);
    }
    if let Some(tid) = planned.gone {
        let _ = writeln!(text, "    thread {tid} has ended: nothing to do");
    }
    if planned.already > 0 {
        let _ = writeln!(text, "    {} so already", planned.already);
    }
}

/// The user that the program of a step runs as.
fn user_of(planned: &Planned<'_>, step: &Step) -> Option<u32> {
    match &step.target {
        Place::Task(key) => planned.users.get(&key.tid).copied(),
        Place::Session { .. } => planned.users.values().next().copied(),
        _ => None,
    }
}

fn outcome(text: &mut String, page: &Page<'_>) {
    let answer = plan::answer(page.plan);
    match &page.came {
        Some(Came::NothingDone) => text.push_str("Nothing was changed.\n"),
        Some(Came::Applied) => {
            let _ = writeln!(text, "Applied. Undo: {}", page.commands.undo);
        }
        Some(Came::Tried { helped, is_known, reason, measured, .. }) => {
            for (name, fared) in ["without it", "with it", "without it again"].iter().zip(measured.iter()) {
                let (ran, waited) = (&fared.ran_ns, &fared.waited_ns);
                // The rate is judged, because a victim that gets the CPU also does more.
                let rate = match ran {
                    0 => String::new(),
                    ran => format!(", {} for each second of running", Nanos(per_second(*waited, *ran))),
                };
                let _ = writeln!(
                    text,
                    "  {name:<18}{} ran {} and waited {}{rate}",
                    clean(&page.finding().victim.comm),
                    Nanos(*ran),
                    Nanos(*waited)
                );
                if let Some(waits) = single_waits(fared) {
                    let _ = writeln!(text, "  {:<18}{waits}", "");
                }
            }
            for line in page.compared().iter().filter_map(comparison) {
                let _ = writeln!(text, "  {line}");
            }
            match helped {
                true => {
                    let _ = writeln!(text, "It helped ({reason}), and is in force. Undo: {}", page.commands.undo);
                }
                false if !is_known => {
                    let _ = writeln!(text, "Not decided ({reason}). Reverted.");
                }
                false => {
                    let _ = writeln!(text, "It did not help ({reason}). Reverted.");
                }
            }
        }
        None if answer == Answer::NamesNothing => text.push_str("It names nothing that a program could change.\n"),
        None if answer == Answer::IsSoAlready => text.push_str("There is nothing to change: it is so already.\n"),
        None if answer == Answer::CanBeDone => {
            let Commands { apply, undo } = &page.commands;
            let _ = writeln!(
                text,
                "Nothing was changed. Apply, and keep it only if it helps:\n  {}\nUndo:\n  {}",
                clean(apply),
                clean(undo)
            );
        }
        None => text.push_str("It cannot be carried out here.\n"),
    }
    let in_force = !matches!(&page.came, Some(Came::NothingDone | Came::Tried { helped: false, .. }));
    if !page.lasting.is_empty() && answer != Answer::Obstructed && in_force {
        let _ = writeln!(
            text,
            "It lasts until a reboot at most. To make it last longer: --as {}",
            page.lasting.join(", --as ")
        );
    }
}

fn per_second(waited: u64, ran: u64) -> u64 {
    u64::try_from(u128::from(waited) * 1_000_000_000 / u128::from(ran)).unwrap_or(u64::MAX)
}

fn others(text: &mut String, page: &Page<'_>) {
    let remedies = &page.finding().remedies;
    if remedies.len() < 2 {
        return;
    }
    text.push_str("\nOther remedies of this finding (--remedy N):\n");
    for (index, remedy) in remedies.iter().enumerate().filter(|(index, _)| *index != page.remedy) {
        let by_hand = if remedy.changes.iter().any(Change::is_for_a_program) { "" } else { " (by hand)" };
        let is_this = |skipped: &&Skipped| (skipped.finding, skipped.remedy) == (page.finding, index);
        let skipped = page.skipped.iter().find(is_this).filter(|_| plan::answer(page.plan) == Answer::Obstructed);
        let why = skipped
            .filter(|_| by_hand.is_empty())
            .map_or(String::new(), |skipped| format!(": {}", clean(&skipped.why)));
        let _ = writeln!(text, "  {} {}{by_hand}{why}", index + 1, remedy.id);
    }
}

/// The page as JSON (`unstarve.fix/1`); additions only.
#[derive(Serialize, JsonSchema)]
pub struct FixReport<'a> {
    schema: &'static str,
    /// The recording.
    file: &'a str,
    finding: FindingLine<'a>,
    remedy: RemedyLine<'a>,
    /// Remedies before it that cannot be applied.
    skipped: Vec<SkippedLine<'a>>,
    /// Why the recording's numbers of threads, interrupts, queues and CPUs mean nothing here.
    other_boot: Option<&'a str>,
    /// Set if others than root and this process's user could have written the recording.
    written_by_others: Option<WrittenBy<'a>>,
    commands: CommandLines<'a>,
    /// What would be changed here, change by change.
    plan: Vec<PlanLine<'a>>,
    /// The forms of `--as` that can make it permanent.
    lasting: &'a [&'static str],
    /// The outcome; absent for a plan alone.
    came: Option<CameLine<'a>>,
    /// Set if nothing can be changed because the threads have ended.
    ended: Option<EndedLine<'a>>,
    /// What a model of the scheduler says that it would do, as a sentence; absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<String>,
    /// What was measured with the changes beside what was predicted; absent if not both were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compared: Vec<Compared>,
}

#[derive(Serialize, JsonSchema)]
struct EndedLine<'a> {
    names: &'a [String],
    /// The command that keeps a remedy for the next time that they start.
    next_time: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
struct FindingLine<'a> {
    /// Its number in the report, from 1.
    number: usize,
    id: &'a FindingId,
    severity: Severity,
    sentence: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct RemedyLine<'a> {
    /// Its number in the finding, from 1.
    number: usize,
    id: &'a RemedyId,
    text: &'a str,
    risk: &'a str,
    valid_on: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct SkippedLine<'a> {
    finding: usize,
    remedy: usize,
    id: &'a RemedyId,
    why: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct WrittenBy<'a> {
    why: &'a str,
    /// The user, if it is one.
    user: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
struct CommandLines<'a> {
    apply: &'a str,
    undo: &'a str,
}

#[derive(Serialize, JsonSchema)]
struct PlanLine<'a> {
    change: &'a Change,
    /// The writes to make; none if there is an obstacle.
    steps: Vec<StepLine<'a>>,
    /// How many targets have the value already.
    already: usize,
    obstacle: Option<String>,
    /// The thread has ended, and others of the same change are left.
    gone: Option<Tid>,
}

#[derive(Serialize, JsonSchema)]
struct StepLine<'a> {
    target: &'a Place,
    comm: &'a str,
    old: &'a Value,
    new: &'a Value,
    /// The user of a program.
    user: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum CameLine<'a> {
    Tried {
        /// Whether the changes are in force.
        applied: bool,
        helped: bool,
        /// Whether the measurement decided; if not, there were too few waits.
        known: bool,
        reason: &'a str,
        /// The victim without the change, with it, and without it again.
        measured: Vec<FaredLine<'a>>,
        /// The figures that decided against it.
        decided_by: Option<&'a Figures>,
        /// The command that takes it back.
        undo: &'a str,
    },
    Done {
        /// Whether the changes are in force.
        applied: bool,
        /// The command that takes it back.
        #[serde(skip_serializing_if = "Option::is_none")]
        undo: Option<&'a str>,
    },
}

#[derive(Serialize, JsonSchema)]
struct FaredLine<'a> {
    ran_ns: u64,
    waited_ns: u64,
    /// How many waits.
    count: u64,
    average_ns: Option<u64>,
    /// Single waits, if they were measured.
    waits: Option<&'a Waits>,
}

/// The page for JSON.
pub fn report<'a>(page: &'a Page<'_>) -> FixReport<'a> {
    // This older field of the JSON has no `sudo`.
    let undo = page.commands.undo.strip_prefix("sudo ").unwrap_or(&page.commands.undo);
    let (finding, remedy) = (page.finding(), page.remedy());
    let skipped = page.skipped.iter().map(|skipped| SkippedLine {
        finding: skipped.finding + 1,
        remedy: skipped.remedy + 1,
        id: &page.report.findings[skipped.finding].remedies[skipped.remedy].id,
        why: &skipped.why,
    });
    FixReport {
        schema: "unstarve.fix/1",
        file: &page.file,
        finding: FindingLine {
            number: page.finding + 1,
            id: &finding.id,
            severity: finding.severity,
            sentence: &finding.sentence,
        },
        remedy: RemedyLine {
            number: page.remedy + 1,
            id: &remedy.id,
            text: &remedy.text,
            risk: &remedy.risk,
            valid_on: &remedy.valid_on,
        },
        skipped: skipped.collect(),
        other_boot: page.strange.as_deref(),
        written_by_others: page.written.as_ref().map(|(why, author)| WrittenBy {
            why,
            user: match author {
                Author::User(user) => Some(*user),
                Author::Trusted | Author::Anybody => None,
            },
        }),
        predicted: page.predicted.map(prediction_in_a_sentence),
        compared: page.compared(),
        commands: CommandLines { apply: &page.commands.apply, undo: &page.commands.undo },
        plan: page.plan.iter().map(plan_line).collect(),
        lasting: &page.lasting,
        came: page.came.as_ref().map(|came| came_line(came, undo)),
        ended: page
            .ended
            .as_ref()
            .map(|ended| EndedLine { names: &ended.names, next_time: ended.next_time.as_deref() }),
    }
}

fn plan_line<'a>(planned: &'a Planned<'_>) -> PlanLine<'a> {
    let steps = planned.steps.iter().map(|step| StepLine {
        target: &step.target,
        comm: &step.comm,
        old: &step.old,
        new: &step.new,
        user: user_of(planned, step),
    });
    PlanLine {
        change: planned.change,
        steps: steps.collect(),
        already: planned.already,
        obstacle: planned.obstacle.as_ref().map(ToString::to_string),
        gone: planned.gone,
    }
}

fn came_line<'a>(came: &'a Came, undo: &'a str) -> CameLine<'a> {
    match came {
        Came::NothingDone => CameLine::Done { applied: false, undo: None },
        Came::Applied => CameLine::Done { applied: true, undo: Some(undo) },
        Came::Tried { helped, is_known, reason, measured, figures } => CameLine::Tried {
            applied: *helped,
            helped: *helped,
            known: *is_known,
            reason,
            measured: measured.iter().map(fared_line).collect(),
            decided_by: figures.as_ref(),
            undo,
        },
    }
}

/// The measurement of one side.
fn fared_line(fared: &Fared) -> FaredLine<'_> {
    FaredLine {
        ran_ns: fared.ran_ns,
        waited_ns: fared.waited_ns,
        count: fared.count(),
        average_ns: fared.average_ns(),
        waits: fared.waits.as_ref(),
    }
}
