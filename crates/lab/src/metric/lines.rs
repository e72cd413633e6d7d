//! Metrics from the lab's own loads: lines `metric NAME NUMBER UNIT higher|lower|neither`; other lines are ignored.

use super::{Better, Metric, beginning};

pub(super) fn parse(output: &str, load: &str) -> Result<Vec<Metric>, String> {
    let mut metrics = Vec::new();
    for (index, line) in output.lines().enumerate() {
        let Some(rest) = line.strip_prefix("metric ") else { continue };
        let malformed = || {
            let (line, number) = (beginning(line), index + 1);
            format!(", line {number}: expected `metric NAME NUMBER UNIT higher|lower|neither`, found `{line}`")
        };
        metrics.push(read(rest, load).ok_or_else(malformed)?);
    }
    Ok(metrics)
}

fn read(rest: &str, load: &str) -> Option<Metric> {
    let mut words = rest.split_ascii_whitespace();
    let (name, value, unit, better) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
    let better = match better {
        "higher" => Better::Higher,
        "lower" => Better::Lower,
        "neither" => Better::Neither,
        _ => return None,
    };
    words.next().is_none().then(|| Metric::of(load, name, value, unit, better))
}

#[cfg(test)]
mod tests {
    use unstarve_load::metric::line;

    use super::*;

    #[test]
    fn lines_are_read_back_and_talk_is_skipped() {
        let output = format!("64 bytes\n{}\n", line("max", 94_800_000u64, "ns", Better::Lower));
        let metrics = super::super::parse("load", &output, "ping").expect("metrics");
        assert_eq!(metrics, [Metric::of("ping", "max", 94_800_000.0, "ns", Better::Lower)]);
    }

    #[test]
    fn silence_and_damage_are_errors_not_zeros() {
        let said = ["", "hello\x1b[2J", "metric max 12", "metric max inf ns lower", "metric max 1 ns down"]
            .map(|output| super::super::parse("load", output, "ping").expect_err("an error").to_string());
        insta::assert_snapshot!(said.join("\n"), @"
        load `ping` measured nothing; it printed: nothing
        load `ping` measured nothing; it printed: hello [2J
        load `ping`, line 1: expected `metric NAME NUMBER UNIT higher|lower|neither`, found `metric max 12`
        load `ping`, line 1: expected `metric NAME NUMBER UNIT higher|lower|neither`, found `metric max inf ns lower`
        load `ping`, line 1: expected `metric NAME NUMBER UNIT higher|lower|neither`, found `metric max 1 ns down`
        ");
    }
}
