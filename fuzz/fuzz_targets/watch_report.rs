//! The report of an episode's trace, as the watch reads it back: refused, or its words on the episode, which break no line.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_model::WallTime;
use unstarve_watch::episode::{Episode, Explanation, id_of, line};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(found) = Explanation::parse(bytes) else { return Corpus::Reject };
    let at = WallTime(1_764_000_187_000_000_000);
    for many in [false, true] {
        let mut episode = Episode::begun(id_of(at), at);
        match many {
            false => episode.note_trace(&found),
            true => episode.note_trace_of_many(&found),
        }
        episode.note_tasks(&found);
        let mut shared = Episode::begun(id_of(at), at);
        shared.note_shared(&episode, Some(&found));
        for episode in [&episode, &shared] {
            assert!(!line(episode).contains(|c: char| c.is_control()));
            let json = serde_json::to_vec(episode).expect("JSON");
            assert!(!json.contains(&b'\n'));
            assert_eq!(serde_json::from_slice::<Episode>(&json).expect("its own").id, episode.id);
            assert!(episode.victims.len() <= 16);
        }
    }
    Corpus::Keep
});
