//! What a kernel file shows after a write.

/// The file's content after the write, or why the kernel refuses it.
pub(super) fn shown(path: &str, before: &str, written: &str) -> Result<String, String> {
    let refuse = |why: &str| Err(format!("{path}: `{}` {why}; it held `{}`", written.trim(), before.trim()));
    let word = written.trim();
    if path.ends_with("/features") || path.ends_with("_features") {
        return features(before, word).map_or_else(|| refuse("is no feature"), Ok);
    }
    if let Some(list) = choice(before, word) {
        return list.map_or_else(|| refuse("is not one of the words"), Ok);
    }
    match path.rsplit('/').next() {
        Some("cpu.max") => cpu_max(before, word).map_or_else(|| refuse("is no quota and period"), Ok),
        Some("cpu.weight") if !in_range(word, 1, 10_000) => refuse("is no weight"),
        Some("cpu.shares") if !in_range(word, 2, 262_144) => refuse("is no number of shares"),
        Some(name) if name.ends_with("_list") || name.ends_with("mask") || name == "rps_cpus" => {
            let is_set = word.chars().all(|c| c.is_ascii_hexdigit() || "-,".contains(c)) && !word.is_empty();
            if is_set { Ok(format!("{word}\n")) } else { refuse("is no set of CPUs") }
        }
        _ if before.trim().parse::<i64>().is_ok() && word.parse::<i64>().is_err() => refuse("is no number"),
        _ => Ok(format!("{word}\n")),
    }
}

fn in_range(word: &str, least: i64, greatest: i64) -> bool {
    word.parse::<i64>().is_ok_and(|number| (least..=greatest).contains(&number))
}

fn features(before: &str, word: &str) -> Option<String> {
    let bare = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
    let mut known = false;
    let words: Vec<&str> = before
        .split_ascii_whitespace()
        .map(|old| {
            let same = bare(old) == bare(word);
            known |= same;
            if same { word } else { old }
        })
        .collect();
    let end = &before[before.trim_end().len()..];
    known.then(|| format!("{}{end}", words.join(" ")))
}

/// `none (voluntary) full`, `[none] mq-deadline`; `None` for other files.
fn choice(before: &str, word: &str) -> Option<Option<String>> {
    let (open, close) = [('(', ')'), ('[', ']')].into_iter().find(|(open, close)| {
        before.split_ascii_whitespace().any(|word| word.starts_with(*open) && word.ends_with(*close))
    })?;
    let words: Vec<&str> = before.split_ascii_whitespace().map(|word| word.trim_matches([open, close])).collect();
    if !words.contains(&word) {
        return Some(None);
    }
    let shown =
        words.iter().map(|each| if *each == word { format!("{open}{each}{close}") } else { (*each).to_owned() });
    Some(Some(format!("{}\n", shown.collect::<Vec<_>>().join(" "))))
}

/// A quota alone keeps the period.
fn cpu_max(before: &str, written: &str) -> Option<String> {
    let mut words = written.split_ascii_whitespace();
    let quota = words.next().filter(|quota| *quota == "max" || quota.parse::<u64>().is_ok_and(|us| us >= 1000))?;
    let period = words.next().or_else(|| before.split_ascii_whitespace().nth(1)).unwrap_or("100000");
    period.parse::<u64>().ok().filter(|us| (1000..=1_000_000).contains(us))?;
    words.next().is_none().then(|| format!("{quota} {period}\n"))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn as_the_kernel_does() {
        let of = |path, before, written| shown(path, before, written).ok();
        assert_eq!(of("/d/sched/features", "A NO_B \n", "B\n").as_deref(), Some("A B \n"));
        assert_eq!(of("/d/sched/features", "A NO_B \n", "C\n"), None);
        assert_eq!(
            of("/d/sched/preempt", "none (voluntary) full\n", "full\n").as_deref(),
            Some("none voluntary (full)\n")
        );
        assert_eq!(of("/d/sched/preempt", "none (voluntary) full\n", "(full)\n"), None);
        assert_eq!(of("/g/cpu.max", "max 100000\n", "50000").as_deref(), Some("50000 100000\n"));
        assert_eq!(of("/g/cpu.weight", "100\n", "0"), None);
        assert_eq!(of("/proc/sys/kernel/x", "1\n", ""), None);
    }
}
