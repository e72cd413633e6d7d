//! The status of a running watch.

use super::Watch;
use crate::agent::board::Published;
use crate::agent::config::Address;

impl Watch {
    /// The bound address, or the one that is being tried. A changed configuration takes effect later.
    fn listen<'a>(&'a self, published: &'a Published) -> &'a Address {
        published.listening.as_ref().unwrap_or_else(|| self.serving.wanted())
    }

    pub(super) fn status(&self) -> String {
        let published = self.board.read();
        let reading = published.reading.as_ref();
        let status = serde_json::json!({
            "schema": "unstarve.watch-status/1",
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "engine": published.engine,
            "since": reading.map(|reading| reading.since.wall.to_string()),
            "at": reading.map(|reading| reading.at.wall.to_string()),
            "recorder": published.recorder.word(),
            "thresholds": self.config.thresholds.in_full(),
            "store": self.config.store.directory,
            "listen": self.listen(&published),
            "listening": published.listening.is_some(),
            "episodes": published.counts.episodes,
            "kept": published.counts.kept.map(|kept| kept.episodes),
            "kept_bytes": published.counts.kept.map(|kept| kept.bytes),
            "unexplained": published.counts.kept.map(|kept| kept.unexplained),
            "not_kept": published.counts.not_kept,
            "suppressed": published.counts.suppressed,
            "open": self.detector.is_open(),
            "cpu_seconds": reading.map(|reading| reading.cost.process.as_secs_f64()),
            "lost": reading.map(|reading| reading.lost),
            "problems": published.problems.values().collect::<Vec<_>>(),
        });
        status.to_string()
    }
}
