//! What the last word on each open episode needs: the latest record, and the end. They come from two sides, in any order: a trace is explained in
//! seconds or minutes, and the main loop sees that the episode is over.
//!
//! An entry lives from the first word to the last one. There are as many as open and unexplained episodes, which are limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::episode::{End, Episode, Suffered};

/// The open episodes, by the id of their first word.
#[derive(Debug, Default)]
pub(crate) struct LastWords(Mutex<BTreeMap<String, Open>>);

#[derive(Debug)]
struct Open {
    word: Arc<Episode>,
    awaits: Awaits,
    joined: Vec<Suffered>,
    end: Option<End>,
}

/// What comes before an episode's last word, beside its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    /// The word that its trace is explained.
    Explanation,
    /// Nothing.
    Nothing,
}

/// What is said when an episode has ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Word {
    /// The last word, to all.
    Last(Box<Episode>),
    /// The first word with the end, for the log alone: a watch that is killed before the explanation does not lose it.
    Note(Box<Episode>),
}

/// Maximum victims remembered beside the first one; an episode lists fewer.
const MOST_JOINED: usize = 64;

impl LastWords {
    fn open(&self) -> MutexGuard<'_, BTreeMap<String, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An episode has begun.
    pub fn begin(&self, word: Arc<Episode>, awaits: Awaits) {
        self.open().insert(word.id.clone(), Open { word, awaits, joined: Vec::new(), end: None });
    }

    /// Another victim of its cause is above its threshold.
    pub fn join(&self, id: &str, joined: &Suffered) {
        if let Some(open) = self.open().get_mut(id).filter(|open| open.joined.len() < MOST_JOINED) {
            let is_known = |known: &Suffered| known.victim.role == joined.victim.role;
            if !open.joined.iter().any(is_known) {
                open.joined.push(joined.clone());
            }
        }
    }

    /// An episode has ended; `None` if it is not known.
    pub fn end(&self, id: &str, end: End) -> Option<Word> {
        let mut all = self.open();
        let open = all.get_mut(id)?;
        if open.awaits == Awaits::Explanation {
            let mut word = open.word.as_ref().clone();
            word.note_end(&end);
            open.end = Some(end);
            return Some(Word::Note(Box::new(word)));
        }
        let open = all.remove(id)?;
        Some(Word::Last(Box::new(open.last(&end))))
    }

    /// Adds the end to a record that is about to be published, if it is known.
    pub fn note(&self, episode: &mut Episode) {
        if let Some(end) = self.open().get(first_id(episode)).and_then(|open| open.end.as_ref()) {
            episode.note_end(end);
        }
    }

    /// A record was published, after which only the end is missing; returns the last word if that is known.
    pub fn complete(&self, episode: &Arc<Episode>) -> Option<Episode> {
        let mut all = self.open();
        let id = first_id(episode);
        let open = all.get_mut(id)?;
        (open.word, open.awaits) = (Arc::clone(episode), Awaits::Nothing);
        let end = open.end.take()?;
        all.remove(id).map(|open| open.last(&end))
    }
}

impl Open {
    fn last(self, end: &End) -> Episode {
        let mut word = Arc::unwrap_or_clone(self.word);
        self.joined.iter().for_each(|joined| word.note_joined(joined));
        word.ended(end)
    }
}

fn first_id(episode: &Episode) -> &str {
    episode.announced_as.as_ref().unwrap_or(&episode.id)
}

#[cfg(test)]
mod tests {
    use unstarve_model::{Nanos, WallTime};

    use super::*;
    use crate::episode::{EndReason, Stage, Totals};

    fn end() -> End {
        let totals = Totals { by_cause: Some(Nanos(3)), waited: Some(Nanos(4)) };
        let (at, duration) = (Some(WallTime(1_764_000_187_000_000_000)), Some(Nanos(5)));
        End { at, duration, totals, reason: EndReason::Calm, continued_as: None }
    }

    fn word(stage: Stage) -> Episode {
        Episode { id: "20261123-012345-678".into(), stage, lasts: true, ..Episode::default() }
    }

    const ID: &str = "20261123-012345-678";

    /// Whichever comes first, the explanation or the end: the last word comes once, after both, and has both.
    #[test]
    fn the_last_word_has_all_whatever_came_first() {
        let explained = || Episode { verdict: Some("v".into()), ..word(Stage::Complete) };
        let is_whole = |last: &Episode| {
            assert_eq!((last.stage, last.lasts, last.verdict.as_deref()), (Stage::Ended, false, Some("v")));
            assert_eq!((last.duration_ns, last.total_ns, last.waited_ns), (Some(5), Some(3), Some(4)));
            assert_eq!(last.ended_by, Some(EndReason::Calm));
        };
        // The explanation.
        let words = LastWords::default();
        words.begin(Arc::new(word(Stage::Begun)), Awaits::Explanation);
        let mut episode = explained();
        words.note(&mut episode);
        assert!(episode.lasts && episode.ended_by.is_none());
        assert_eq!(words.complete(&Arc::new(episode)), None);
        let Some(Word::Last(last)) = words.end(ID, end()) else { panic!("it is the last") };
        is_whole(&last);
        assert_eq!(words.end(ID, end()), None, "once");
        // The end.
        words.begin(Arc::new(word(Stage::Begun)), Awaits::Explanation);
        let Some(Word::Note(note)) = words.end(ID, end()) else { panic!("it is not explained yet") };
        assert_eq!((note.stage, note.duration_ns), (Stage::Begun, Some(5)));
        // The store had an episode of this name.
        let mut episode = Episode { id: format!("{ID}-2"), announced_as: Some(ID.into()), ..explained() };
        words.note(&mut episode);
        assert_eq!((episode.stage, episode.lasts, episode.duration_ns), (Stage::Complete, false, Some(5)));
        is_whole(&words.complete(&Arc::new(episode.clone())).expect("all is known"));
        assert_eq!(words.complete(&Arc::new(episode)), None, "once");
        // No explanation will come.
        words.begin(Arc::new(explained()), Awaits::Nothing);
        let Some(Word::Last(last)) = words.end(ID, end()) else { panic!("it is the last") };
        is_whole(&last);
        assert!(words.open().is_empty());
    }

    #[test]
    fn who_waited_later_is_in_the_last_word() {
        let words = LastWords::default();
        words.begin(Arc::new(word(Stage::Begun)), Awaits::Nothing);
        for number in [1, 2, 2] {
            let victim = crate::episode::Party { role: Some(format!("/{number}")), ..Default::default() };
            words.join(ID, &Suffered { victim, ..Suffered::default() });
        }
        let Some(Word::Last(last)) = words.end(ID, end()) else { panic!("it is the last") };
        let roles: Vec<_> = last.victims.iter().filter_map(|victim| victim.victim.role.as_deref()).collect();
        assert_eq!(roles, ["/1", "/2"]);
    }
}
