//! Metrics from fio's `--output-format=json`.
//!
//! Source: fio's documentation, "JSON output", and `stat.c` of fio 3.33; latencies in ns since fio 3.0.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Better, Metric, beginning};

#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    error: i64,
    read: Direction,
    write: Direction,
    #[serde(default)]
    usr_cpu: Option<f64>,
    #[serde(default)]
    sys_cpu: Option<f64>,
    #[serde(default)]
    ctx: Option<f64>,
}

#[derive(Deserialize)]
struct Direction {
    iops: f64,
    total_ios: f64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    max: f64,
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// The percentiles that become metrics: fio's key and our name.
const FIO_PERCENTILES: [(&str, &str); 3] = [("50.000000", "p50"), ("99.000000", "p99"), ("99.900000", "p99.9")];

pub(super) fn parse(output: &str, load: &str) -> Result<Vec<Metric>, String> {
    // fio prints warnings before the JSON, and messages after it.
    let json = output.find('{').map_or("", |start| &output[start..]);
    let parsed = serde_json::Deserializer::from_str(json).into_iter::<Output>().next();
    let failed = |error: serde_json::Error| {
        format!(": no fio JSON (is --output-format=json there?): {error}; it printed: {}", beginning(output))
    };
    let parsed = match parsed {
        Some(parsed) => parsed.map_err(failed)?,
        None => return Err(failed(serde::de::Error::custom("no `{` in the output"))),
    };
    if let Some(job) = parsed.jobs.iter().find(|job| job.error != 0) {
        return Err(format!(": fio's job `{}` failed with error {}", job.jobname, job.error));
    }
    let directions = || parsed.jobs.iter().flat_map(|job| [&job.read, &job.write]).filter(|part| part.total_ios > 0.0);
    let ios: f64 = directions().map(|part| part.total_ios).sum();
    if ios <= 0.0 {
        return Ok(Vec::new());
    }
    let mut metrics = rates(&parsed.jobs, load, ios);
    metrics.extend(latencies(&directions().map(|part| &part.clat_ns).collect::<Vec<_>>(), load));
    let mean = directions().map(|part| part.clat_ns.mean * part.total_ios).sum::<f64>() / ios;
    metrics.push(Metric::of(load, "clat_mean", mean, "ns", Better::Lower));
    metrics.extend(costs(&parsed.jobs, load, ios));
    Ok(metrics)
}

fn rates(jobs: &[Job], load: &str, ios: f64) -> Vec<Metric> {
    let sum = |of: fn(&Job) -> f64| jobs.iter().map(of).sum::<f64>();
    let (read, write) = (sum(|job| job.read.iops), sum(|job| job.write.iops));
    let mut metrics = vec![Metric::of(load, "iops", read + write, "1/s", Better::Higher)];
    if read > 0.0 && write > 0.0 {
        metrics.push(Metric::of(load, "read_iops", read, "1/s", Better::Higher));
        metrics.push(Metric::of(load, "write_iops", write, "1/s", Better::Higher));
    }
    metrics.push(Metric::of(load, "ios", ios, "1", Better::Neither));
    metrics
}

/// The largest latency of all parts; percentiles only if there is one part, because those of several cannot be
/// combined.
fn latencies(parts: &[&Latency], load: &str) -> Vec<Metric> {
    let max = parts.iter().map(|latency| latency.max).fold(0.0, f64::max);
    let mut metrics = vec![Metric::of(load, "clat_max", max, "ns", Better::Lower)];
    if let [only] = parts {
        let known = FIO_PERCENTILES.iter().filter_map(|(key, name)| Some((name, *only.percentile.get(*key)?)));
        metrics
            .extend(known.map(|(name, value)| Metric::of(load, &format!("clat_{name}"), value, "ns", Better::Lower)));
    }
    metrics
}

fn costs(jobs: &[Job], load: &str, ios: f64) -> Vec<Metric> {
    let sum = |of: fn(&Job) -> Option<f64>| jobs.iter().map(of).sum::<Option<f64>>();
    let mut metrics = Vec::new();
    if let Some(ctx) = sum(|job| job.ctx) {
        metrics.push(Metric::of(load, "ctx_per_io", ctx / ios, "switches/io", Better::Lower));
    }
    if let (Some(usr), Some(sys)) = (sum(|job| job.usr_cpu), sum(|job| job.sys_cpu)) {
        metrics.push(Metric::of(load, "cpu", usr + sys, "%", Better::Neither));
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::super::{Metric, parse};

    /// fio 3.33: one job of 4 KiB random writes, and two of mixed 8 KiB.
    const WRITE: &str = include_str!("../../testdata/fio-randwrite.json");
    const MIXED: &str = include_str!("../../testdata/fio-mixed-two-jobs.json");

    fn table(metrics: &[Metric]) -> String {
        metrics.iter().map(|m| format!("{:<18} {:>12.3} {} {:?}\n", m.name, m.value, m.unit, m.better)).collect()
    }

    #[test]
    fn one_job_gives_rates_percentiles_and_costs() {
        insta::assert_snapshot!(table(&parse("fio", WRITE, "fio").expect("metrics")), @"
        fio.iops              55281.157 1/s Higher
        fio.ios               55447.000 1 Neither
        fio.clat_max       17697819.000 ns Lower
        fio.clat_p50         103936.000 ns Lower
        fio.clat_p99        1155072.000 ns Lower
        fio.clat_p99.9      4554752.000 ns Lower
        fio.clat_mean        137139.767 ns Lower
        fio.ctx_per_io            0.124 switches/io Lower
        fio.cpu                  47.605 % Neither
        ");
    }

    #[test]
    fn several_parts_are_added_and_have_no_percentiles() {
        insta::assert_snapshot!(table(&parse("fio", MIXED, "disks").expect("metrics")), @"
        disks.iops            21810.190 1/s Higher
        disks.read_iops       16237.762 1/s Higher
        disks.write_iops       5572.428 1/s Higher
        disks.ios             21832.000 1 Neither
        disks.clat_max      4147440.000 ns Lower
        disks.clat_mean       90446.487 ns Lower
        disks.ctx_per_io          1.003 switches/io Lower
        disks.cpu                56.700 % Neither
        ");
    }

    #[test]
    fn warnings_around_the_json_do_not_matter() {
        let noisy = format!("note: both iodepth >= 1 and synchronous I/O engine\n{WRITE}\nfio: done\n");
        assert_eq!(parse("fio", &noisy, "fio").expect("metrics"), parse("fio", WRITE, "fio").expect("metrics"));
    }

    #[test]
    fn no_json_torn_json_and_failed_jobs_are_told() {
        let failed = WRITE.replacen("\"error\" : 0", "\"error\" : 28", 1);
        let idle = WRITE.replace("\"total_ios\" : ", "\"total_ios\" : 0, \"was\" : ");
        for (output, part) in [
            ("fio: engine libaio not loadable\n", "engine libaio not loadable"),
            (&WRITE[..WRITE.len() / 2], "EOF"),
            (failed.as_str(), "error 28"),
            (idle.as_str(), "measured nothing"),
        ] {
            let message = parse("fio", output, "fio").expect_err("an error").to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
