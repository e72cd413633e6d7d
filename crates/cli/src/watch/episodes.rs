//! `unstarve watch episodes`: lists stored episodes.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use unstarve_term::clean;
use unstarve_watch::episode::{Episode, Stage, is_id, line, unfinished_line};
use unstarve_watch::store::{is_held, read_log};
use unstarve_watch::trace_in;

use super::{StoreArgs, print};
use crate::output::{self, counted};

/// List the episodes that were seen
#[derive(Args)]
#[command(after_help = "Exit code: 0, also if there is none; 2 if the store cannot be read.")]
pub struct EpisodesArgs {
    /// Only those since then: a time ago (30m, 2h, 7d), or a moment in UTC (2026-11-23, 2026-11-23T01:23:45Z)
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Print JSON lines (schema unstarve.watch-episode/1)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn run(args: &EpisodesArgs) -> Result<ExitCode> {
    let since = args.since.as_deref().map(Since::parse).transpose()?;
    let directory = args.store.readable()?;
    let log = read_log(&directory).map_err(|error| output::hint_at_root(error.into()))?;
    let wanted = log.episodes.iter().filter(|episode| since.as_ref().is_none_or(|since| since.has(episode)));
    let mut wanted: Vec<&Episode> = wanted.collect();
    // The log is in the order of explanation.
    wanted.sort_by_key(|episode| episode.at_ns);
    // Checked after reading the log: an episode without its final entry was unfinished then.
    let is_orphaned = is_held(&directory) == Some(false);
    let mut text = String::new();
    for episode in wanted {
        let is_unfinished = is_orphaned && episode.stage == Stage::Begun;
        text += &match (args.json, is_unfinished) {
            (true, false) => serde_json::to_string(episode)?,
            (true, true) => {
                let mut episode = serde_json::to_value(episode)?;
                episode["unfinished"] = true.into();
                episode.to_string()
            }
            (false, false) => format!("{}  {}{}", when(episode), line(episode), removed(&directory, episode)),
            (false, true) => format!("{}  {}", when(episode), unfinished_line(episode)),
        };
        text.push('\n');
    }
    if text.is_empty() && !args.json {
        let which = if since.is_some() { "No such episode" } else { "No episodes" };
        text = format!("{which} in {}.\n", clean(&directory.display().to_string()));
    }
    if log.torn > 0 {
        output::remark(&format!(
            "{} of the log left out: written when the watch was killed",
            counted(log.torn, "line")
        ));
    }
    print(&text)
}

/// The note for an episode whose trace was removed to make room.
fn removed(store: &Path, episode: &Episode) -> &'static str {
    let of = match &episode.trace_of {
        None => episode.trace_bytes.map(|_| &episode.id),
        other => other.as_ref(),
    };
    let is_gone = |id: &String| {
        let trace = trace_in(&store.join(id)).symlink_metadata();
        trace.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    if of.filter(|id| is_id(id)).is_some_and(is_gone) { "; its trace was removed to make room" } else { "" }
}

/// `2026-11-23T01:23:45Z`, as `--since` takes it.
pub(super) fn when(episode: &Episode) -> String {
    to_the_second(&episode.at)
}

/// A UTC time in RFC 3339, cut to seconds.
pub(super) fn to_the_second(moment: &str) -> String {
    let second: String = moment.chars().take(19).collect();
    format!("{}Z", clean(&second))
}

/// The start of `--since`.
enum Since {
    /// Nanoseconds since 1970.
    Moment(u64),
    /// The beginning of an RFC 3339 time: such texts sort in time order.
    Text(String),
}

impl Since {
    fn parse(text: &str) -> Result<Since> {
        if let Some(ago) = parse_ago(text) {
            let then = SystemTime::now().checked_sub(ago).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
            let then = then.and_then(|then| u64::try_from(then.as_nanos()).ok());
            return then.map(Since::Moment).with_context(|| format!("--since {text}: that is before 1970"));
        }
        let is_date = |text: &str| {
            text.len() >= 10
                && text.bytes().enumerate().all(|(at, byte)| match at {
                    4 | 7 => byte == b'-',
                    10 => byte == b'T' || byte == b' ',
                    13 | 16 => byte == b':',
                    19 => byte == b'.',
                    _ => byte.is_ascii_digit(),
                })
        };
        let moment = text.trim_end_matches('Z');
        if !is_date(moment) {
            bail!(
                "--since {text}: expected a time ago such as 30m, 2h or 7d, or a moment such as 2026-11-23T01:23:45Z"
            );
        }
        Ok(Since::Text(moment.replacen(' ', "T", 1)))
    }

    fn has(&self, episode: &Episode) -> bool {
        match self {
            Since::Moment(then) => episode.at_ns >= *then,
            Since::Text(then) => episode.at.as_str() >= then.as_str(),
        }
    }
}

fn parse_ago(text: &str) -> Option<Duration> {
    unstarve_watch::config::parse_time(text, None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_ago_or_a_moment() {
        let episode = Episode { at: "2026-11-23T01:23:45.678000000Z".into(), at_ns: 1, ..Episode::default() };
        for (text, has) in [
            ("2026-11-23", true),
            ("2026-11-24", false),
            ("2026-11-23T01:23:45Z", true),
            ("2026-11-23 01:23:46", false),
            ("1h", false),
        ] {
            assert_eq!(Since::parse(text).expect(text).has(&episode), has, "{text}");
        }
        for bad in ["", "yesterday", "2h30", "-1h", "2026/11/23", "99999d"] {
            assert!(Since::parse(bad).is_err(), "{bad}");
        }
    }
}
