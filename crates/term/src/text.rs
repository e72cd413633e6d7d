//! Text for terminals: escaping, widths, names of tasks.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use unstarve_diagnose::report::{Culprit, Victim, VictimKind, short_cgroup};
use unstarve_model::{Policy, clean, is_harmful};
pub(crate) use unstarve_model::{counted, grouped};

use crate::Charset;

/// A character as it is, or escaped as `\u{…}`.
enum Escaped {
    Kept(Option<char>),
    Code(std::char::EscapeDefault),
}

impl Escaped {
    fn of(c: char, escape: bool) -> Escaped {
        if escape { Escaped::Code(c.escape_default()) } else { Escaped::Kept(Some(c)) }
    }
}

impl Iterator for Escaped {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        match self {
            Escaped::Kept(c) => c.take(),
            Escaped::Code(code) => code.next(),
        }
    }
}

/// The text in the charset, escaped.
pub(crate) fn fold(text: &str, charset: Charset) -> Cow<'_, str> {
    if charset == Charset::Utf8 || text.is_ascii() {
        return clean(text);
    }
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'µ' => folded.push('u'),
            '…' => folded.push_str("..."),
            '·' => folded.push('-'),
            '×' => folded.push('x'),
            '≤' => folded.push_str("<="),
            '≥' => folded.push_str(">="),
            '–' | '−' => folded.push('-'),
            '’' => folded.push('\''),
            '→' => folded.push_str("->"),
            c => folded.extend(Escaped::of(c, is_harmful(c) || !c.is_ascii())),
        }
    }
    Cow::Owned(folded)
}

/// The width of a text in terminal columns.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text in exactly `width` columns: cut with `…` (`~` in ASCII) or padded with spaces.
pub(crate) fn fit(text: &str, width: usize, charset: Charset) -> String {
    let mut out = if columns(text) <= width {
        text.to_owned()
    } else {
        let mut cut = String::new();
        let mut used = 0;
        for c in text.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide + 1 > width {
                break;
            }
            used += wide;
            cut.push(c);
        }
        cut.push(if charset == Charset::Utf8 { '…' } else { '~' });
        cut
    };
    let used = columns(&out);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    out
}

/// The text, cut with ` …` after the last word that fits in `width` columns; within the first word if that does not fit.
pub(crate) fn cut_at_word(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return text.into();
    }
    // ` …` takes two columns more in ASCII.
    let fits = |end: &usize| columns(&text[..*end]) + 4 <= width;
    let Some(end) = text.match_indices(' ').map(|(end, _)| end).take_while(fits).last() else {
        return fit(text, width.saturating_sub(2), Charset::Utf8).into();
    };
    format!("{} …", text[..end].trim_end_matches([',', ';', ':', '.'])).into()
}

/// A victim in short: `kworker/0:2[47] (iomap_dio_complete_work on dio/nullb0)`, `nfsd ×128`.
pub(crate) fn victim(victim: &Victim) -> String {
    let mut text = tasks(&place(victim), &victim.tids, victim.tasks);
    if let Some(scheduled) = &victim.scheduled {
        text.push_str(&format!(" {scheduled}"));
    }
    if let Some(work) = &victim.work {
        text.push_str(&match &work.workqueue {
            Some(workqueue) => format!(" ({} on {workqueue})", work.function),
            None => format!(" ({})", work.function),
        });
    }
    text
}

/// The victim's name; of a cgroup the pod, the unit or the end of its path.
pub(crate) fn place(victim: &Victim) -> Cow<'_, str> {
    match victim.kind {
        VictimKind::Cgroup => short_cgroup(&victim.comm).into(),
        _ => victim.comm.as_str().into(),
    }
}

/// What has a CPU, in short: `wl[231] RT 10`, `idle`, `softirq NET_RX`.
pub(crate) fn occupant(culprit: &Culprit) -> String {
    let mut text = tasks(&culprit.comm, &culprit.tids, culprit.tasks.max(culprit.tids.len() as u32));
    match (&culprit.scheduled, culprit.policy, culprit.prio) {
        (Some(scheduled), ..) => text.push_str(&format!(" {scheduled}")),
        // Reports of earlier versions. The kernel counts real-time priorities down from 99; chrt and others count up.
        (None, Some(Policy::Rt), Some(prio)) => text.push_str(&format!(" RT {}", 99 - prio.clamp(-1, 99))),
        (None, Some(Policy::Rt), None) => text.push_str(" RT"),
        (None, Some(Policy::Deadline), _) => text.push_str(" deadline"),
        (None, Some(Policy::Fair), Some(prio)) if prio != 120 => {
            text.push_str(&format!(" nice {}", prio.clamp(100, 139) - 120))
        }
        _ => {}
    }
    text
}

/// `fio[128]` for one thread, `fio ×3` for several, the bare name for other actors.
pub(crate) fn tasks(comm: &str, tids: &[u32], count: u32) -> String {
    match (tids, count) {
        ([tid], 0..=1) => format!("{comm}[{tid}]"),
        (_, 0..=1) => comm.to_owned(),
        (_, count) => format!("{comm} ×{count}"),
    }
}

/// Seconds on the trace's clock, as ftrace and perf print them.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}

/// `14:03:07.205` of `2026-11-22T14:03:07.205000123Z`.
pub(crate) fn time_of_day(utc: &str) -> Option<&str> {
    utc.get(11..23)
}

/// A culprit's process and cgroup: `tgid 117 · /system.slice/wl.service`; with several threads, their ids.
pub(crate) fn whereabouts(culprit: &Culprit) -> Option<String> {
    /// Maximum ids listed; the JSON report has more.
    const MAX_LISTED_IDS: usize = 6;
    let ids = |word: &str, ids: &[u32]| {
        let shown: Vec<String> = ids.iter().take(MAX_LISTED_IDS).map(u32::to_string).collect();
        let more = ids.len().saturating_sub(MAX_LISTED_IDS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{word} {}{more}", shown.join(" "))
    };
    let mut parts = Vec::new();
    if culprit.tids.len() > 1 {
        parts.push(ids("tid", &culprit.tids));
    }
    if !culprit.tgids.is_empty() {
        parts.push(ids("tgid", &culprit.tgids));
    }
    parts.extend(culprit.cgroups.iter().cloned());
    (!parts.is_empty()).then(|| parts.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_trace_cannot_drive_or_deceive_a_terminal() {
        assert_eq!(clean("fio"), "fio");
        assert_eq!(clean("\u{1b}[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(clean("a\u{202e}b\nc\u{9b}31m"), "a\\u{202e}b\\nc\\u{9b}31m");
        assert_eq!(fold("12 µs ≥ 3 × naïve", Charset::Ascii), "12 us >= 3 x na\\u{ef}ve");
    }

    #[test]
    fn a_column_is_exactly_as_wide_as_asked() {
        let fitted: Vec<String> =
            ["fio", "kworker/u16:3+events", "日本語日本語"].iter().map(|t| fit(t, 8, Charset::Utf8)).collect();
        assert_eq!(fitted, ["fio     ", "kworker…", "日本語… "]);
        assert!(fitted.iter().all(|text| columns(text) == 8));
        assert_eq!(fit("kworker/u16:3", 8, Charset::Ascii), "kworker~");
    }

    #[test]
    fn a_text_is_cut_after_a_word() {
        for (text, cut) in
            [("a few words", "a few words"), ("some more words", "some …"), ("unbreakable-name", "unbreakab…")]
        {
            assert_eq!(cut_at_word(text, 12), cut);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn seconds_have_six_decimals_as_in_perf() {
        assert_eq!([0, 812_098_000_123, 1_000].map(seconds), ["0.000000", "812.098000", "0.000001"]);
    }
}
