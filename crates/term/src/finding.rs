//! Findings and remedies on the page of `unstarve explain`.

use unstarve_diagnose::proofs::has_helped;
use unstarve_diagnose::report::{Finding, Instance, PricePaid, Remedy, RemedyId, Report, TraceSummary};
use unstarve_model::Nanos;

use crate::bars::chart;
use crate::ink::{FAINT, Ink, PLAIN, STRONG, of_severity};
use crate::predict::prediction_in_a_sentence;
use crate::text::{columns, counted, grouped, seconds, tasks, time_of_day, victim};

/// Maximum payers and worst instances shown.
const MAX_SHOWN_PAYERS: usize = 5;
const MAX_SHOWN_INSTANCES: usize = 3;

/// Where `unstarve fix` finds the shown remedies.
#[derive(Clone, Copy)]
pub(crate) struct FixReference<'a> {
    /// The recording, quoted for a shell; `None` if `fix` would find other remedies in it.
    pub(crate) file: Option<&'a str>,
    pub(crate) report: &'a Report,
}

impl FixReference<'_> {
    /// `unstarve fix trace.dat --finding 2 --remedy raise-worker`.
    fn fix(self, finding: usize, remedy: &RemedyId) -> Option<String> {
        let before = self.report.findings[..finding].iter().flat_map(|finding| &finding.remedies);
        // Without --finding, `fix` takes the first finding with the remedy.
        let is_first = !before.into_iter().any(|other| other.id == *remedy);
        let which = if is_first { String::new() } else { format!(" --finding {}", finding + 1) };
        Some(format!("unstarve fix {}{which} --remedy {remedy}", self.file?))
    }

    /// Whether the recording names its host and boot: snapshots of older versions do not.
    fn names_boot(self) -> bool {
        self.report.trace.snapshot && self.report.trace.host.is_some()
    }

    /// The option for a recording that names neither its host nor its boot.
    fn assertion(self) -> &'static str {
        if self.names_boot() { "" } else { " --this-boot" }
    }
}

/// Formats a finding: sentence, occupants, cost, evidence, remedies.
pub(crate) fn finding(ink: &mut Ink, finding: &Finding, index: usize, named: FixReference<'_>) {
    heading(ink, finding);
    ink.paragraph("  ", PLAIN, &finding.sentence);
    ink.blank();
    if !finding.blame.is_empty() {
        ink.paragraph("  ", STRONG, &format!("Who had the CPU while {} waited", victim(&finding.victim)));
        chart(ink, &finding.blame, &finding.culprits);
    }
    ink.paragraph("    ", FAINT, &waits(finding));
    price(ink, finding);
    instances(ink, finding, &named.report.trace);
    bullets(ink, "Evidence", &finding.evidence);
    bullets(ink, "What could change this", &finding.losses);
    remedies(ink, &finding.remedies, index, named);
    ink.blank();
}

fn heading(ink: &mut Ink, finding: &Finding) {
    let facts = format!("confidence {:.0} %{}", finding.confidence.clamp(0.0, 1.0) * 100.0, place(finding));
    let word = finding.severity.word().to_uppercase();
    let style = of_severity(finding.severity);
    let fits = columns(&word) + columns(finding.id.as_str()) + columns(&facts) + 4 <= ink.look.width();
    let beside = if fits { format!("  {facts}") } else { String::new() };
    ink.line(&[(style, &word), (PLAIN, "  "), (STRONG, finding.id.as_str()), (FAINT, &beside)]);
    if !fits {
        ink.paragraph("  ", FAINT, &facts);
    }
}

fn place(finding: &Finding) -> String {
    let mut text = match finding.cpus.as_slice() {
        [] => String::new(),
        [cpu] => format!(", CPU {cpu}"),
        cpus @ [_, .., last] if cpus.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) => {
            format!(", CPUs {}-{last}", cpus[0])
        }
        cpus if cpus.len() <= 8 => {
            format!(", CPUs {}", cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
        }
        cpus => format!(", {} CPUs", cpus.len()),
    };
    if let Some(period) = finding.period_ns {
        text.push_str(&format!(", every {}", Nanos(period)));
    }
    text
}

fn waits(finding: &Finding) -> String {
    let waits = &finding.waits;
    let mut text = format!(
        "{}: total {}, p99 {}, max {}",
        counted(waits.count, "wait"),
        Nanos(waits.total_ns),
        Nanos(waits.p99_ns),
        Nanos(waits.max_ns)
    );
    if waits.owed_ns > 0 {
        text.push_str(&format!(". It ran {} less than its fair share", Nanos(waits.owed_ns)));
    }
    text
}

fn price(ink: &mut Ink, finding: &Finding) {
    if finding.price.is_empty() {
        return;
    }
    ink.line(&[(PLAIN, "  "), (STRONG, "Cost")]);
    for payer in finding.price.iter().take(MAX_SHOWN_PAYERS) {
        let who = tasks(&payer.comm, &payer.tids, payer.tasks.max(payer.tids.len() as u32));
        ink.paragraph("    ", PLAIN, &format!("{who} {}", lost(payer)));
    }
    let more = finding.price.len().saturating_sub(MAX_SHOWN_PAYERS) as u64;
    if more > 0 {
        ink.line(&[(FAINT, &format!("    and {} more", grouped(more)))]);
    }
}

/// The time a payer lost: asleep until the victim woke it, or in the same queue; and the part that came through a
/// device.
pub(crate) fn lost(payer: &PricePaid) -> String {
    let lost = lost_how(payer);
    match payer.through_device_ns {
        0 => lost,
        through if through >= payer.ns.saturating_sub(payer.waited_ns) => format!("{lost}, through a block device"),
        through => format!("{lost}, of which {} through a block device", Nanos(through)),
    }
}

fn lost_how(payer: &PricePaid) -> String {
    let slept = Nanos(payer.ns.saturating_sub(payer.waited_ns));
    let waited = Nanos(payer.waited_ns);
    match (slept, waited) {
        (slept, Nanos::ZERO) => format!("waited {slept} for it"),
        (Nanos::ZERO, waited) => format!("waited {waited} for the same CPU"),
        (slept, waited) => {
            format!("lost {}: {waited} queued for the same CPU, {slept} asleep until it was done", Nanos(payer.ns))
        }
    }
}

/// Formats a finding in one line.
pub(crate) fn headline(ink: &mut Ink, finding: &Finding) {
    let word = finding.severity.word().to_uppercase();
    ink.paragraph("", of_severity(finding.severity), &format!("{word}  {}: {}", finding.id, finding.sentence));
}

fn instances(ink: &mut Ink, finding: &Finding, trace: &TraceSummary) {
    let worst: Vec<String> = finding
        .worst
        .iter()
        .take(MAX_SHOWN_INSTANCES)
        .map(|at| {
            let length = Nanos(at.end_ns.saturating_sub(at.start_ns));
            format!("{} s{} on CPU {} for {length}", seconds(at.start_ns), moment(at, trace), at.cpu)
        })
        .collect();
    if !worst.is_empty() {
        ink.paragraph("  ", PLAIN, &format!("Worst at {}.", worst.join("; ")));
    }
}

/// ` (+1.205 s, 14:03:07.205 UTC)`, if the time of day is known.
fn moment(at: &Instance, trace: &TraceSummary) -> String {
    let Some(time) = at.start_utc.as_deref().and_then(time_of_day) else { return String::new() };
    let since = at.start_ns.saturating_sub(trace.start_ns);
    format!(" (+{}.{:03} s, {time} UTC)", since / 1_000_000_000, since / 1_000_000 % 1_000)
}

fn bullets(ink: &mut Ink, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    ink.line(&[(PLAIN, "  "), (STRONG, title)]);
    for line in lines {
        ink.paragraph("    - ", PLAIN, line);
    }
}

fn remedies(ink: &mut Ink, remedies: &[Remedy], finding: usize, named: FixReference<'_>) {
    if remedies.is_empty() {
        return;
    }
    let title = match remedies {
        [_] => "Fix",
        several if has_helped(several) => "Fixes, those that helped on this kernel first",
        _ => "Fixes, least invasive first",
    };
    let harms = |remedy: &Remedy| remedy.predicted.as_ref().is_some_and(|of| of.verdict.harms_somebody());
    let harmful = if remedies.iter().any(harms) { ", those predicted to harm somebody last" } else { "" };
    ink.line(&[(PLAIN, "  "), (STRONG, title), (STRONG, if remedies.len() > 1 { harmful } else { "" })]);
    let mut left_out = None;
    for (index, remedy) in remedies.iter().enumerate() {
        ink.paragraph(&format!("  {}. ", index + 1), PLAIN, &remedy.text);
        let fix = named.fix(finding, &remedy.id).filter(|_| !remedy.is_short());
        let (apply, undo) = match &fix {
            Some(fix) => (format!("sudo {fix}{} --apply", named.assertion()), "sudo unstarve fix --undo".to_owned()),
            None => (remedy.apply.clone(), remedy.undo.clone()),
        };
        left_out = left_out.or(fix);
        for (label, command) in [("do:    ", &apply), ("undo:  ", &undo)] {
            if !command.trim().is_empty() {
                ink.command(&format!("     {label}"), command);
            }
        }
        for (label, text) in [("risk:  ", &remedy.risk), ("valid: ", &remedy.valid_on)] {
            if !text.trim().is_empty() {
                ink.paragraph(&format!("     {label}"), FAINT, text);
            }
        }
        for proved in remedy.proved.iter().filter(|proved| proved.this_series) {
            ink.paragraph("     lab:   ", FAINT, &proved.to_string());
        }
        // Why something is not known is for `unstarve predict`.
        if let Some(predicted) = remedy.predicted.as_ref().filter(|predicted| predicted.refused.is_empty()) {
            ink.paragraph("     here:  ", FAINT, &format!("predicted: {}", prediction_in_a_sentence(predicted)));
        }
    }
    if let Some(fix) = left_out {
        ink.paragraph("  ", FAINT, "Where unstarve is not installed, shell commands do the same:");
        ink.line(&[(FAINT, &format!("    {fix} --as shell"))]);
        if !named.names_boot() {
            let text = "The recording does not name its host. --this-boot asserts that this is the host, and that it has not been \
                        rebooted since.";
            ink.paragraph("  ", FAINT, text);
        }
    }
}
