//! The text of what a report comes to.

use std::fmt;

use unstarve_model::{Nanos, counted};

use crate::claim::{Answer, Conclusion, Lead, Reservation};
use crate::report::{Report, Selected, Severity, WorstWait};
use crate::words::{before_finding, nobody};

impl fmt::Display for Conclusion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_cut {
            f.write_str("The file is cut, and this is said of what is left of it. ")?;
        }
        if let Some(waits) = self.invisible {
            write!(f, "No wakeup was recorded, so {waits} are invisible here. ")?;
        }
        self.answer.fmt(f)
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEvents => f.write_str("No verdict: the trace has no scheduler events."),
            Self::NoVerdict { why, longest } => {
                longest.iter().try_for_each(|wait| write_wait(f, wait))?;
                write!(f, "Too little was recorded for a verdict: {why}.")
            }
            Self::Healthy { report, unknown } => write_healthy(f, report, *unknown),
            Self::HealthyPart { longest, selected } => write_healthy_part(f, *longest, *selected),
            Self::Found { lead, worst, others, selected } => {
                if let Some(selected) = selected {
                    f.write_str(&before_finding(selected, worst.selected_as))?;
                }
                if matches!(lead, Lead::Starved) && worst.severity < Severity::Critical {
                    f.write_str("Starved: ")?;
                }
                write!(f, "{lead}{} ({}).", worst.sentence.trim_end_matches('.'), worst.id)?;
                if let Lead::Unsure(why) = lead {
                    write!(f, " Low confidence: {why}.")?;
                }
                if *others > 0 {
                    write!(f, " {} below.", counted(*others, "more finding"))?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Lead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsure(_) | Self::Starved => Ok(()),
            Self::LikelyStarved => f.write_str("Most likely starved: "),
            Self::NotOutright => f.write_str("Nobody is starved outright, but "),
        }
    }
}

impl fmt::Display for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLittle(why) => f.write_str(why),
            Self::LessCertain(confidence) => {
                write!(f, "what was found is less than {:.0} % certain", confidence * 100.0)
            }
        }
    }
}

fn write_wait(f: &mut fmt::Formatter<'_>, wait: &WorstWait) -> fmt::Result {
    write!(f, "{} waited {}", wait.comm, wait.length())?;
    if let Some(occupant) = wait.blame.first() {
        write!(f, ", mostly while {} had its CPU", occupant.comm)?;
    }
    f.write_str(". ")
}

fn write_healthy_part(f: &mut fmt::Formatter<'_>, longest: Option<Nanos>, selected: Option<&Selected>) -> fmt::Result {
    match longest {
        Some(longest) => write!(f, "{}; the longest wait there took {longest}.", nobody(selected))?,
        None => f.write_str("Nothing in the selected part has waited.")?,
    }
    let elsewhere = selected.and_then(|selected| selected.elsewhere.as_ref());
    elsewhere.map_or(Ok(()), |elsewhere| write!(f, " Elsewhere, {elsewhere}."))
}

fn write_healthy(f: &mut fmt::Formatter<'_>, report: &Report, unknown: Option<Nanos>) -> fmt::Result {
    let trace = &report.trace;
    f.write_str("Nobody is starved.")?;
    if trace.waits_count > 0 {
        let total = Nanos(trace.waits_total_ns);
        write!(f, " {} for a CPU add up to {total}", counted(trace.waits_count, "wait"))?;
        match report.worst_waits.first() {
            Some(worst) => write!(f, "; the longest took {}.", worst.length())?,
            None => f.write_str(".")?,
        }
        if let Some(unknown) = unknown {
            write!(f, " For {unknown} of that it is unknown who had the CPU.")?;
        }
    }
    if let Some(path) = &trace.uncounted_limit {
        write!(
            f,
            " Whether the CPU limit of {path} stopped its tasks is not known: the recording lacks the kernel's counters of it \
             (`unstarve record` keeps them)."
        )?;
    }
    if !report.findings.is_empty() {
        write!(f, " {} below.", counted(report.findings.len() as u64, "remark"))?;
    }
    Ok(())
}
