//! Episodes that were open when a watch was killed: nobody has seen their end, and the next watch says so.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::agent::alert_sender::Alert;
use crate::agent::board::Board;
use crate::agent::last_words::Awaits;
use crate::episode::{End, EndReason, Episode};

/// Says the last words on those of which nothing else is missing.
pub(super) fn say_ends(episodes: &[Episode], board: &Board, alerts: &Sender<Alert>) {
    for episode in episodes {
        let last = Arc::new(episode.clone().ended(&End::unseen(EndReason::WatchKilled)));
        board.write(|published| published.list(Arc::clone(&last)));
        let _ = alerts.send(Alert::Said(last));
    }
}

/// For one that is still to be explained, the last word comes after that. The log may have its end. Those of earlier versions have none.
pub(super) fn restore(episode: &Episode, board: &Board) {
    let end = episode.end().or_else(|| episode.lasts.then(|| End::unseen(EndReason::WatchKilled)));
    if let Some(end) = end {
        let id = episode.announced_as.as_ref().unwrap_or(&episode.id);
        board.last_words.begin(Arc::new(Episode { id: id.clone(), ..episode.clone() }), Awaits::Explanation);
        let _ = board.last_words.end(id, end);
    }
}
