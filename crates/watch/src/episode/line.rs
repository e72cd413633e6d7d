//! Formats an episode as one line of text.

use std::fmt::Write as _;

use unstarve_diagnose::report::FindingId;
use unstarve_model::{Nanos, clean};
use unstarve_sched::Rule;

use super::end::EndReason;
use super::record::{Episode, Party, Seen, Stage};

/// The line of an episode that was not finished, as long as no watch uses its store.
pub fn unfinished_line(episode: &Episode) -> String {
    format!("episode {} was not finished (no watch has its store): {}", clean(&episode.id), about(episode))
}

/// One line for people and logs: `kworker/0:1[71] waited 85.0 ms while hog[4711] had its CPU (class, rt-starvation)`.
pub fn line(episode: &Episode) -> String {
    let has = match episode.stage {
        Stage::Begun if episode.duration_ns.is_some() => " has begun and is over",
        Stage::Begun => " has begun",
        Stage::Complete => "",
        Stage::Ended => " is over",
    };
    format!("episode {}{has}: {}", clean(&episode.id), about(episode))
}

fn about(episode: &Episode) -> String {
    let mut text = String::new();
    match (&episode.victim, &episode.verdict) {
        (Some(victim), _) => text += &sentence(episode, victim),
        (None, Some(verdict)) => text += &clean(verdict),
        (None, None) => text += "recorded on demand",
    }
    text += &others(episode);
    text += &began_with(episode);
    if let Some(remedy) = episode.remedy.as_ref().filter(|remedy| !remedy.text.is_empty()) {
        let _ = write!(text, "; first remedy: {} ({})", clean(&remedy.text), clean(remedy.id.as_str()));
    }
    if let Some(other) = &episode.other_finding {
        let _ = write!(text, "; explain found {} of {} instead", clean(other.finding.as_str()), named(&other.victim));
    }
    if let Some(guard) = &episode.guard {
        let _ = match guard.held {
            true => write!(text, "; the guard's policy held"),
            false => write!(text, "; the guard's policy did not hold: {}", clean(&guard.but.join(", "))),
        };
    }
    text += &lasted(episode);
    if let Some(other) = &episode.trace_of {
        let _ = write!(text, "; it is in the trace of {}", clean(other));
    }
    if let Some(problem) = &episode.problem {
        let _ = write!(text, "; {}", clean(problem));
    }
    if episode.not_kept > 0 {
        let _ = write!(
            text,
            "; {} before it have no line: too many at once",
            unstarve_model::counted(episode.not_kept, "episode")
        );
    }
    text
}

/// How long it was, and what was waited in all: `; it lasted 4.90 s, with 3.92 s of such waits`.
fn lasted(episode: &Episode) -> String {
    let mut text = String::new();
    if let Some(ns) = episode.duration_ns {
        let _ = write!(text, "; it lasted {}", Nanos(ns));
    }
    if let Some(ns) = episode.total_ns.filter(|ns| *ns > 0) {
        let _ = write!(text, ", with {} of such waits", Nanos(ns));
    }
    text + &match (episode.ended_by, &episode.continued_as) {
        (Some(EndReason::Continued), Some(other)) => format!("; it goes on as {}", clean(other)),
        (Some(EndReason::WatchEnded), _) => "; the watch ended before it did".to_owned(),
        (Some(EndReason::WatchKilled), _) => "; its end was not seen, because the watch was killed".to_owned(),
        (Some(EndReason::MachineStood), _) => "; then the machine stood still".to_owned(),
        (Some(EndReason::Calm | EndReason::Crowded | EndReason::Continued) | None, _) => String::new(),
    }
}

fn sentence(episode: &Episode, victim: &Party) -> String {
    // Without a finding the time is the counters', or that of one wait in the trace.
    let counted = episode.trigger.as_ref().filter(|seen| episode.finding.is_none() && seen.blamed_ns == episode.ns);
    let of_role = counted.and_then(|seen| of_role(seen, victim)).filter(|_| episode.many_tasks().is_none());
    let mut text = match episode.many_tasks() {
        Some(tasks) => format!("{} waited", of_many(victim, tasks)),
        None => format!("{} waited", of_role.as_deref().unwrap_or(&named(victim))),
    };
    if let Some(ns) = episode.ns {
        let _ = write!(text, " {}", Nanos(ns));
    }
    if of_role.is_some() {
        text += " in all";
    }
    if let Some(culprit) = &episode.culprit {
        let is_one = episode.many_tasks().is_none() && of_role.is_none() && !victim.comm.is_empty();
        let whose = if is_one { "its CPU" } else { "their CPUs" };
        let _ = write!(text, " while {} had {whose}", named(culprit));
    }
    let finding = episode.finding.as_ref().map(FindingId::as_str);
    let rule = episode.rule.map(Rule::word);
    let why: Vec<&str> = rule.into_iter().chain(finding.filter(|finding| Some(*finding) != rule)).collect();
    if !why.is_empty() {
        let _ = write!(text, " ({})", clean(&why.join(", ")));
    }
    text
}

/// The other victims: `; kworker/1:0[18] and 2 others were starved, too`.
fn others(episode: &Episode) -> String {
    let is_headline = |party: &Party| {
        episode.victim.as_ref().is_some_and(|victim| {
            let is_same_task = match (party.tid, victim.tid) {
                // Parties without a tid are identified by what their tasks share.
                (None, None) => {
                    !party.comm.is_empty() && (&party.comm, &party.cgroup) == (&victim.comm, &victim.cgroup)
                }
                (one, other) => one == other,
            };
            is_same_task || (party.comm.is_empty() && party.role == victim.role)
        })
    };
    let is_culprit =
        |party: &Party| party.tid.is_some() && episode.culprit.as_ref().is_some_and(|culprit| culprit.tid == party.tid);
    let others = episode.victims.iter().map(|other| &other.victim);
    let mut others = others.filter(|other| !is_headline(other) && !is_culprit(other));
    let Some(first) = others.next() else { return String::new() };
    match others.count() as u64 + episode.more_victims {
        0 => format!("; {} starved, too", named(first)),
        more => format!("; {} and {} starved, too", named(first), unstarve_model::counted(more, "other")),
    }
}

/// The wait that triggered the episode, if the headline is about another victim: `; it began when rcu tasks waited 156 ms`.
fn began_with(episode: &Episode) -> String {
    let (Some(seen), Some(victim), Some(_)) = (&episode.trigger, &episode.victim, &episode.finding) else {
        return String::new();
    };
    match &seen.victim {
        Some(first) if !is_the_same(first, victim) => {
            let time = seen.blamed_ns.filter(|ns| *ns > 0).map_or_else(String::new, |ns| format!(" {}", Nanos(ns)));
            match of_role(seen, first) {
                Some(tasks) => format!("; it began when {tasks} waited{time} in all"),
                None => format!("; it began when {} waited{time}", named(first)),
            }
        }
        _ => String::new(),
    }
}

/// Whether the headline's victim is the one that the counters saw, as far as they identified it.
fn is_the_same(seen: &Party, victim: &Party) -> bool {
    let is_program = seen.role.as_deref().is_some_and(|role| role.starts_with('/'));
    match seen.tid {
        Some(tid) if victim.tid == Some(tid) || victim.comm == seen.comm => true,
        Some(_) => !is_program && seen.role.is_some() && victim.role == seen.role,
        None => victim.role == seen.role,
    }
}

/// `bash (304 threads) of nginx.service`.
fn of_many(party: &Party, tasks: u32) -> String {
    let place = party.place.word().map_or(String::new(), |word| format!(" of {}", clean(&word)));
    format!("{} ({tasks} threads){place}", clean(&party.comm))
}

/// `tasks of /x, vic[28018] among them`: the counters' time is a sum over the tasks of a role, and one of them is known.
fn of_role(seen: &Seen, victim: &Party) -> Option<String> {
    let role = victim.role.as_deref().filter(|_| !victim.comm.is_empty())?;
    let is_sum = seen.blamed_ns.is_some_and(|ns| seen.trigger.is_sum(ns));
    let tasks =
        if role.starts_with('/') { format!("tasks of {}", clean(role)) } else { format!("{} tasks", clean(role)) };
    is_sum.then(|| format!("{tasks}, {} among them,", named(victim)))
}

/// `hog[4711] of nginx.service`; the role if no task is known.
fn named(party: &Party) -> String {
    let mut text = match (&party.role, party.comm.as_str()) {
        // A group within the role is known.
        (Some(role), "") if party.cgroup.as_ref().is_some_and(|cgroup| cgroup.starts_with(&format!("{role}/"))) => {
            format!("{} tasks", clean(party.cgroup.as_deref().unwrap_or_default()))
        }
        (Some(role), "") => format!("{} tasks", clean(role)),
        (_, comm) => clean(comm).into_owned(),
    };
    if let Some(tid) = party.tid {
        let _ = write!(text, "[{tid}]");
    }
    if let Some(word) = party.place.word() {
        let _ = write!(text, " of {}", clean(&word));
    }
    text
}

/// A victim or culprit by itself: `hog[4711] · nginx.service`; of several threads their number.
pub fn of_party(party: &Party, tasks: Option<u32>) -> String {
    let mut text = match party.comm.as_str() {
        // For a group that its own quota throttles, the group itself is known, and not only the role.
        "" => party.cgroup.clone().or(party.role.clone()).unwrap_or_default(),
        comm => comm.to_owned(),
    };
    match (tasks, party.tid) {
        (Some(tasks), _) => text += &format!(" ({tasks} threads)"),
        (None, Some(tid)) => text += &format!("[{tid}]"),
        (None, None) => {}
    }
    if let Some(word) = party.place.word() {
        let _ = write!(text, " · {word}");
    }
    text
}

/// The line of an episode in a log: it ends with the command that shows the episode, once it can be shown.
pub fn line_with_command(episode: &Episode) -> String {
    let has_more = episode.stage > Stage::Begun && (episode.trace_bytes.is_some() || episode.trace_of.is_some());
    let next = if has_more { format!("; next: unstarve watch show {}", clean(&episode.id)) } else { String::new() };
    line(episode) + &next
}

/// How an episode began, as the counters saw it; `None` for a dump on demand.
pub fn began(episode: &Episode) -> Option<String> {
    let seen = episode.trigger.as_ref()?;
    let mut text = String::from("began when ");
    let of_role = seen.victim.as_ref().and_then(|victim| of_role(seen, victim));
    text += &of_role.clone().or_else(|| seen.victim.as_ref().map(named)).unwrap_or_else(|| "somebody".to_owned());
    text += " waited";
    if let Some(ns) = seen.blamed_ns.filter(|ns| *ns > 0) {
        let _ = write!(text, " {}", Nanos(ns));
    }
    if of_role.is_some() {
        text += " in all";
    }
    if let Some(culprit) = &seen.culprit {
        let _ = write!(text, " while {} had the CPU", named(culprit));
    }
    if let Some(rule) = seen.rule {
        let _ = write!(text, " ({rule})");
    }
    Some(format!("{text}: {}", seen.trigger.words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::{FirstRemedy, GuardWord, Place, Trigger};

    #[test]
    fn a_line_is_one_line_and_drives_no_terminal() {
        let party = |comm: &str, tid, unit: Option<&str>| Party {
            comm: comm.to_owned(),
            tid: Some(tid),
            place: Place { unit: unit.map(str::to_owned), ..Place::default() },
            ..Party::default()
        };
        let mut episode = Episode {
            id: "20261123-012345-678".into(),
            victim: Some(party("kworker/0:1", 71, None)),
            culprit: Some(party("hog\n\u{1b}[31m", 4711, Some("batch.service"))),
            rule: Some(unstarve_sched::Rule::Class),
            ns: Some(85_000_000),
            finding: Some("rt-starvation".into()),
            remedy: Some(FirstRemedy { id: "lower-priority".into(), text: "Lower it.".into(), apply: String::new() }),
            guard: Some(GuardWord { pid: 1, policy: "p".into(), held: false, but: vec!["2 values refused".into()] }),
            not_kept: 2,
            ..Episode::default()
        };
        assert_eq!(
            line(&episode),
            "episode 20261123-012345-678: kworker/0:1[71] waited 85.0 ms while hog\\n\\u{1b}[31m[4711] of batch.service had \
             its CPU (class, rt-starvation); first remedy: Lower it. (lower-priority); the guard's policy did not hold: 2 \
             values refused; 2 episodes before it have no line: too many at once"
        );
        // Waits of many threads are not shown as those of one; for a single thread the line is as before.
        episode.victim_tasks = Some(304);
        episode.victim = Some(party("bash", 25405, Some("user@0.service")));
        let text = line(&episode);
        assert!(text.contains(": bash (304 threads) of user@0.service waited 85.0 ms while"), "{text}");
        episode.victim_tasks = Some(1);
        assert!(line(&episode).contains(": bash[25405] of user@0.service waited"));
        episode.victim = None;
        assert!(line(&episode).starts_with("episode 20261123-012345-678: recorded on demand; first"));
    }

    #[test]
    fn the_beginning_has_who_why_and_the_threshold() {
        let party = |comm: &str, tid| Party { comm: comm.to_owned(), tid: Some(tid), ..Party::default() };
        let seen = Seen {
            trigger: Trigger::Wait { ns: 50_000_000, threshold_ns: 20_000_000 },
            since_mono_ns: None,
            victim: Some(party("ksoftirqd/1", 18)),
            culprit: Some(party("hog\n", 4711)),
            rule: Some(Rule::Weight),
            blamed_ns: Some(54_400_000),
        };
        let episode = Episode { trigger: Some(seen), verdict: Some("Nobody is starved.".into()), ..Episode::default() };
        assert_eq!(
            began(&episode).as_deref(),
            Some(
                "began when ksoftirqd/1[18] waited 54.4 ms while hog\\n[4711] had the CPU (weight): one wait took 50.0 ms or \
                 more; the threshold is wait = 20.0 ms"
            )
        );
        assert_eq!(began(&Episode::default()), None);
    }

    #[test]
    fn one_thread_does_not_get_the_sum_of_its_role() {
        let victim = Party { role: Some("/x".into()), comm: "vicD".into(), tid: Some(28018), ..Party::default() };
        let seen = |trigger, ns| Seen {
            trigger,
            since_mono_ns: None,
            victim: Some(victim.clone()),
            culprit: None,
            rule: Some(Rule::Class),
            blamed_ns: Some(ns),
        };
        let said = |trigger, ns| {
            let victim = Some(victim.clone());
            let seen = seen(trigger, ns);
            let episode = Episode { victim, ns: Some(ns), rule: seen.rule, trigger: Some(seen), ..Episode::default() };
            (line(&episode), began(&episode).expect("it began"))
        };
        let second = 1_000_000_000;
        let oldest = Trigger::Oldest { ns: 4 * second, threshold_ns: second };
        let sum = "tasks of /x, vicD[28018] among them, waited 31.7 s in all";
        for trigger in [Trigger::Share { share: 1.0, threshold: 0.2 }, oldest] {
            let (line, began) = said(trigger, 31_700_000_000);
            assert!(line.contains(&format!(": {sum} (class)")), "{line}");
            assert!(began.contains(sum), "{began}");
        }
        let (line, _) = said(oldest, 4 * second);
        assert!(line.contains(": vicD[28018] waited 4.00 s (class)"), "{line}");
    }

    #[test]
    fn no_word_is_said_twice_and_what_is_over_has_not_just_begun() {
        let victim = Some(Party { role: Some("/x".into()), ..Party::default() });
        let (rule, finding) = (Some(Rule::Throttled), Some("throttled".into()));
        let episode = Episode { stage: Stage::Begun, victim, rule, finding, ..Episode::default() };
        assert!(line(&episode).ends_with(" has begun: /x tasks waited (throttled)"), "{}", line(&episode));
        let over = Episode { duration_ns: Some(4_780_000_000), ..episode };
        let text = line(&over);
        assert!(text.contains(" has begun and is over: ") && text.ends_with("; it lasted 4.78 s"), "{text}");
    }
}
