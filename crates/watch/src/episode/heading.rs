//! Which findings of a trace may head an episode, and with what: the rules that keep a headline honest.
//!
//! A finding is about the victim that the counters saw, about another one of its class, or about a program where kernel threads began the
//! episode. It blames the tasks and the rule of the counters, or others. It explains *enough*, or *little*: less than half of what the trigger
//! blames, where a finding that is as near explains more. Another episode may be about the same trace.
//!
//! | about | culprit and rule | explains | in its own trace | has the trace of several | in the trace of another |
//! |---|---|---|---|---|---|
//! | the counters' victim | any | enough | heads | heads | heads |
//! | another of its class | the counters' | enough | heads | heads, if none is about the victim | its cause heads |
//! | another of its class | others | enough | heads | heads, if none is about the victim | no |
//! | a program, kernel threads began it | the counters' | enough | its cause heads | its cause heads | its cause heads |
//! | a program, kernel threads began it | others | any | no | no | no |
//! | any | any | little | no | no | no |
//!
//! Where the *cause* of a finding heads, the victim stays whom the counters saw, and the culprit, the finding and the remedy are the finding's. It
//! must be proved that the victim waited for that culprit: the counters saw that very task, or the longest wait of the victim's role is blamed on it.
//!
//! Where the trigger names the culprit's task, and the trace has a finding that blames that very task, no finding that blames others heads, except
//! about the counters' victim.
//!
//! What heads has one source: a finding that blames others than the counters, and not known whom of them, heads nothing, because the culprit would
//! be the counters' and the rule and the remedy the finding's.
//!
//! A dump on demand has no victim: every finding may head it.

use unstarve_diagnose::report::{Culprit, Finding, Severity, Victim};

use super::headline::{Choice, Explanation, Fit, has_one_of, is_about_seen_task, is_by_limit, is_seen_culprit};
use super::record::Episode;
use crate::engine::reading::{RoleKind, VictimClass};

/// What of a finding heads the episode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Heads {
    /// Its culprit, rule and remedy; the victim is the counters'.
    Cause,
    /// All of it.
    Victim,
}

/// A finding at the head of an episode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headline<'a> {
    pub finding: &'a Finding,
    pub heads: Heads,
}

/// What decides between findings that may head an episode: the greatest does.
type Rank = (Heads, Option<Fit>, bool, Severity, u8);

/// Whom a finding is about, beside the victim that the counters saw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum About {
    /// A program, where kernel threads began the episode.
    Program,
    /// Another victim of the same class, or of any if programs began it.
    Another,
    /// That victim.
    Seen,
}

impl Explanation {
    /// The finding that heads an episode, and with what; `None` if the trace has none of its time, or none that may ([`Explanation::heads`]).
    pub(super) fn headline<'a>(&'a self, episode: &Episode, choice: Choice) -> Option<Headline<'a>> {
        let bad: Vec<&'a Finding> = self.of_its_time(episode).collect();
        let near = self.of_seen_culprit(&bad, episode);
        let may_head = |finding: &&'a Finding| {
            self.heads(finding, episode, choice, &near).map(|heads| Headline { finding, heads })
        };
        // The report is sorted worst first: of equals take the first.
        let better = |best: Option<(Rank, Headline<'a>)>, next: Headline<'a>| {
            let rank = self.rank(&next, episode, choice, &bad);
            match best {
                Some((best, headline)) if best >= rank => Some((best, headline)),
                _ => Some((rank, next)),
            }
        };
        near.iter().filter_map(may_head).fold(None, better).map(|(_, headline)| headline)
    }

    /// Without those that blame others than the task that the trigger names, if any blames that one. All other tasks of its role have the same
    /// rule and role.
    fn of_seen_culprit<'a>(&self, bad: &[&'a Finding], episode: &Episode) -> Vec<&'a Finding> {
        let seen = episode.trigger.as_ref().and_then(|seen| seen.culprit.as_ref()?.tid);
        let blames_it = |finding: &&&Finding| {
            self.blamed(finding, episode).is_some_and(|culprit| seen.is_some_and(|tid| culprit.tids.contains(&tid)))
        };
        match bad.iter().any(|finding| blames_it(&finding)) {
            true => {
                let is_near = |finding: &&&Finding| blames_it(finding) || self.about(finding, episode) == About::Seen;
                bad.iter().filter(is_near).copied().collect()
            }
            false => bad.to_vec(),
        }
    }

    /// Whether the culprit, the rule and the remedy can be of one source.
    fn has_one_source(&self, finding: &Finding, episode: &Episode) -> bool {
        let is_same_rule = |culprit: &Culprit| episode.rule.is_none_or(|rule| rule == culprit.rule);
        // The remedy and the finding are about the first culprit: of one victim's waits others can be by a higher class.
        let is_of_finding = |main: &Culprit| {
            finding.culprits.first().is_none_or(|first| first.rule.is_precedence() == main.rule.is_precedence())
        };
        if let Some(main) = self.main_culprit(finding, episode) {
            return is_by_limit(finding) || is_of_finding(main);
        }
        is_by_limit(finding) || finding.culprits.is_empty() || finding.culprits.iter().any(is_same_rule)
    }

    /// The order of the findings that may head an episode.
    fn rank(&self, headline: &Headline<'_>, episode: &Episode, choice: Choice, bad: &[&Finding]) -> Rank {
        let Headline { finding, heads } = *headline;
        let fit = self.fit(finding, episode);
        // A task that keeps other tasks waiting is not the victim of the episode, even if its own quota throttles it. Kernel threads that
        // triggered the episode are its subject all the same.
        let blames =
            |other: &&Finding| self.blamed(other, episode).is_some_and(|row| has_one_of(&row.tids, &finding.victim));
        let is_blamed = bad.iter().any(|other| other.severity >= finding.severity && blames(other));
        let is_alone = self.is_of_kernel_threads_seen(finding, episode) || !is_blamed;
        // The same victim with another cause is as near as another victim with the same cause.
        let nearness = match fit {
            Fit::None => 0,
            Fit::Culprit | Fit::Victim => 1,
            Fit::Both => 2,
        };
        let by_fit = (choice != Choice::Worst).then_some(fit);
        (heads, by_fit, is_alone, finding.severity, nearness)
    }

    /// What of this finding may head the episode, by the table of the module; `bad` are all findings of its time.
    pub(super) fn heads(
        &self,
        finding: &Finding,
        episode: &Episode,
        choice: Choice,
        bad: &[&Finding],
    ) -> Option<Heads> {
        if self.explains_little(finding, episode, bad) || !self.has_one_source(finding, episode) {
            return None;
        }
        match (self.about(finding, episode), self.fit(finding, episode)) {
            (About::Seen, _) => Some(Heads::Victim),
            (About::Program, Fit::Both | Fit::Culprit) => self.cause(finding, episode),
            (About::Program, Fit::Victim | Fit::None) => None,
            (About::Another, Fit::Culprit | Fit::Both) if choice == Choice::VictimAlone => self.cause(finding, episode),
            (About::Another, fit) => match choice {
                Choice::Worst => self.may_be_worst(finding, episode),
                Choice::OwnVictim => fit != Fit::None,
                Choice::VictimAlone => false,
            }
            .then_some(Heads::Victim),
        }
    }

    fn about(&self, finding: &Finding, episode: &Episode) -> About {
        let of_kernel_threads = self.class(episode) == Some(VictimClass::Kernel);
        if self.fit(finding, episode) >= Fit::Victim && is_about_seen_task(finding, episode) {
            About::Seen
        } else if of_kernel_threads && is_program(&finding.victim) {
            About::Program
        } else {
            About::Another
        }
    }

    /// The class of the victim that the counters saw.
    fn class(&self, episode: &Episode) -> Option<VictimClass> {
        let role = episode.victim.as_ref()?.role.as_deref()?;
        RoleKind::named(role).map(VictimClass::of)
    }

    /// Whether it explains less than half of what the trigger blames, and another finding that is as near or nearer explains more.
    fn explains_little(&self, finding: &Finding, episode: &Episode, bad: &[&Finding]) -> bool {
        let Some(blamed) = episode.trigger.as_ref().and_then(|seen| seen.blamed_ns) else { return false };
        let explained = self.explained(finding, episode);
        let nearness = self.nearness(finding, episode);
        let explains_more =
            |other: &&Finding| self.nearness(other, episode) >= nearness && self.explained(other, episode) > explained;
        explained.saturating_mul(2) < blamed && bad.iter().any(explains_more)
    }

    /// How near a finding is to what the counters saw: their victim, or their culprit and rule, or neither.
    fn nearness(&self, finding: &Finding, episode: &Episode) -> (bool, bool) {
        let is_seen = self.about(finding, episode) == About::Seen;
        (is_seen, is_seen || self.fit(finding, episode) != Fit::None)
    }

    /// How much of what the trigger blames a finding can explain: what its tasks waited for the culprits of the counters, or else for its own.
    fn explained(&self, finding: &Finding, episode: &Episode) -> u64 {
        if self.fit(finding, episode) == Fit::None {
            return 0;
        }
        let seen = finding.culprits.iter().filter(|culprit| is_seen_culprit(culprit, episode));
        let by_seen = seen.map(|culprit| culprit.ns).fold(0, u64::saturating_add);
        by_seen.max(self.main_culprit(finding, episode).map_or(0, |culprit| culprit.ns))
    }

    /// The cause of a finding about others heads the episode if its victim is proved to have waited for that culprit.
    fn cause(&self, finding: &Finding, episode: &Episode) -> Option<Heads> {
        let culprit = self.blamed(finding, episode)?;
        self.is_proved(culprit, episode).then_some(Heads::Cause)
    }

    fn is_proved(&self, culprit: &Culprit, episode: &Episode) -> bool {
        if let Some(tid) = episode.culprit.as_ref().and_then(|culprit| culprit.tid) {
            return culprit.tids.contains(&tid);
        }
        let role = episode.victim.as_ref().and_then(|victim| victim.role.as_deref());
        let wait = role.and_then(|role| self.worst_wait(role, episode));
        let main = wait.and_then(|wait| wait.blame.first());
        main.is_some_and(|main| main.rule == culprit.rule && main.tids.iter().any(|tid| culprit.tids.contains(tid)))
    }
}

/// Whether a victim is no kernel thread, as far as the trace shows: any program can have the name of one.
fn is_program(victim: &Victim) -> bool {
    victim.kernel_thread.map_or_else(|| !victim.kind.is_named_as_kernel_thread(), |is_one| !is_one)
}

#[cfg(test)]
#[path = "heading_tests.rs"]
mod tests;
