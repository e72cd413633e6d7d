//! The small fleet with a day before: 30 hours earlier it had all rows that it has, but none of `/batch.slice`, a host more, and its episodes were
//! storms of wakeups on 6.1, those of one host about a program.

use std::path::Path;
use std::process::Command;

const FLEET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/fleet");

/// Of `unstarve lab proofs --cells testdata/proofs --parquet`: what helped against a storm of wakeups on 6.1.
pub const PROOFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sql/tests/lab/proofs.parquet");

/// Makes it, with what was proved beside it. Who writes answers a question about the small fleet into a file.
pub fn fleet_with_a_day_before(write: impl Fn(&str, &Path)) -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place for files");
    let copied = Command::new("cp").arg("-r").arg(format!("{FLEET}/.")).arg(place.path()).status();
    assert!(copied.expect("cp can be started").success());
    let earlier = "ts - interval '30 hours' as ts";
    for (table, question) in [
        (
            "blame_rollup",
            format!(
                "select host, boot_id, {earlier}, span_ns, victim_role, victim_kind, occupant, rule, ns, kernel, labels
                 from blame_rollup where occupant <> '/batch.slice'"
            ),
        ),
        (
            "wait_rollup",
            format!(
                "select 'host-gone' as host, boot_id, {earlier}, span_ns, victim_role, victim_kind, cgroup, n, sum_ns, max_ns, buckets,
                 kernel, labels from wait_rollup where host = 'host-0000'"
            ),
        ),
        (
            "episodes",
            format!(
                "select * replace (id || '-storm' as id, {earlier}, 'wake-storm' as finding, '6.1.0-planted' as kernel,
                 case when host = 'host-0003' then 'other' else victim_role end as victim_role) from episodes"
            ),
        ),
    ] {
        write(&question, &place.path().join(format!("table={table}/earlier.parquet")));
    }
    let proofs = place.path().join("table=proofs");
    std::fs::create_dir(&proofs).expect("it can be made");
    std::fs::copy(PROOFS, proofs.join("proofs.parquet")).expect("it can be copied");
    place
}
