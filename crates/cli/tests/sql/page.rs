//! The page of many hosts: what is on it is what the views answer, and hosts cannot put anything else there.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{FLEET, copy, fleet_with_a_day_before, has_duckdb, path, sql, write};

fn rows(question: &str, place: &str) -> Vec<Vec<String>> {
    super::rows(question, place).iter().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The file, and the data in it.
fn page(arguments: &[&str]) -> (String, Value) {
    let place = tempfile::tempdir().expect("a place for files");
    let file = place.path().join("fleet.html");
    let output = sql(&[&["--page", file.to_str().expect("UTF-8")], arguments].concat());
    assert!(output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    assert_eq!(std::fs::read_dir(place.path()).expect("it is there").count(), 1, "nothing else is left");
    let text = std::fs::read_to_string(&file).expect("it was written");
    let data = text.split("id=\"data\">").nth(1).and_then(|rest| rest.split('<').next()).expect("the data");
    let packed = STANDARD.decode(data).expect("base64");
    let mut blob = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut blob).expect("gzip");
    let length = u32::from_le_bytes(blob[..4].try_into().expect("four bytes")) as usize;
    (text, serde_json::from_slice(&blob[4..4 + length]).expect("JSON"))
}

fn list<'a>(data: &'a Value, key: &str) -> &'a Vec<Value> {
    data["fleet"][key].as_array().expect("a list")
}

#[test]
fn hosts_and_their_waits_are_those_of_the_views() {
    if !has_duckdb() {
        return;
    }
    let (text, data) = page(&[FLEET]);
    let hosts = list(&data, "hosts");
    let of = |host: &Value, key: &str| host[key].as_u64().expect("a number");
    let kernel: Vec<bool> =
        list(&data, "roles").iter().map(|role| role["is_kernel"].as_bool().expect("a truth value")).collect();
    let waited = |host: &Value| -> u64 {
        let ns = host["ns"].as_array().expect("a list").iter().map(|ns| ns.as_u64().expect("a number"));
        ns.zip(&kernel).filter(|(_, is_kernel)| **is_kernel).map(|(ns, _)| ns).sum()
    };
    let found: BTreeMap<String, String> = hosts
        .iter()
        .map(|host| {
            (host["name"].as_str().expect("a name").to_owned(), format!("{},{}", waited(host), of(host, "watched_ns")))
        })
        .collect();
    let question = "select waited.host, waited.ns, watched.ns from worst_hosts waited join (
            select host, sum(span_ns) as ns from (select distinct host, ts, span_ns from wait_rollup) group by host) watched
        on waited.host = watched.host";
    let expected: BTreeMap<String, String> =
        rows(question, FLEET).into_iter().map(|row| (row[0].clone(), row[1..].join(","))).collect();
    assert_eq!(found, expected);
    let shares: Vec<f64> = hosts.iter().map(|host| waited(host) as f64 / of(host, "watched_ns") as f64).collect();
    assert!(shares.is_sorted_by(|one, other| one >= other), "worst first");
    assert!(text.contains("<h1>On ") && text.contains("host-0003"), "also without scripts");
    // Nothing of all waiting is missing.
    let all: u64 = hosts
        .iter()
        .map(|host| {
            let ns = host["ns"].as_array().expect("a list").iter().map(|ns| ns.as_u64().expect("a number"));
            ns.sum::<u64>() + of(host, "others_ns")
        })
        .sum();
    assert_eq!(rows("select sum(ns) from starved_roles", FLEET)[0][0], all.to_string());
    assert_eq!(data["fleet"]["rest"]["hosts"], 0);
}

/// Two machines with one name are two; rows without an id are of the only machine with their name; an hour of which one table has nothing
/// divides nothing.
#[test]
fn machines_and_hours_are_those_of_the_views() {
    if !has_duckdb() {
        return;
    }
    let place = copy(FLEET);
    let twin = "* replace ('f00dfeed00000000' as machine_id)";
    let hour_before = "* replace (null::varchar as machine_id, ts - interval 1 hour as ts)";
    for (table, question) in [
        ("wait_rollup", format!("select {twin} from wait_rollup where host = 'host-0001'")),
        ("blame_rollup", format!("select {twin} from blame_rollup where host = 'host-0001'")),
        (
            "wait_rollup",
            format!("select {hour_before} from wait_rollup where host = 'host-0002' and ts < '2026-11-22 01:00:00Z'"),
        ),
        (
            "wait_rollup",
            format!("select {hour_before} from wait_rollup where host = 'host-0003' and ts < '2026-11-22 01:00:00Z'"),
        ),
        (
            "blame_rollup",
            format!("select {hour_before} from blame_rollup where host = 'host-0003' and ts < '2026-11-22 01:00:00Z'"),
        ),
    ] {
        let hour = place.path().join(format!("merged/v1/table={table}/date=2026-11-21/hour=23"));
        std::fs::create_dir_all(&hour).expect("it can be made");
        let number = std::fs::read_dir(&hour).expect("it is there").count();
        write(&question, &hour.join(format!("more-{number}.parquet")));
    }
    let of = |data: &Value| -> BTreeMap<String, [u64; 3]> {
        let row = |host: &Value| {
            let ns = host["ns"].as_array().expect("a list").iter().map(|ns| ns.as_u64().expect("a number")).sum();
            let periods = host["periods"].as_array().expect("a list").len() as u64;
            (
                host["name"].as_str().expect("a name").to_owned(),
                [host["watched_ns"].as_u64().expect("a number"), ns, periods],
            )
        };
        list(data, "hosts").iter().map(row).collect()
    };
    let before = of(&page(&[FLEET]).1);
    let mut after = of(&page(&[path(place.path())]).1);
    let twins: Vec<String> = after.keys().filter(|name| name.starts_with("host-0001")).cloned().collect();
    assert!(twins.len() == 2 && twins.contains(&"host-0001 (f00dfeed)".to_owned()), "{twins:?}");
    for twin in twins {
        assert_eq!(after.remove(&twin), Some(before["host-0001"]), "{twin}");
    }
    let whole = after.remove("host-0003").expect("it is there");
    let [watched, ns, periods] = before["host-0003"];
    assert!(whole[0] == watched / 2 * 3 && whole[1] > ns && whole[2] == periods, "{whole:?}, before {watched} {ns}");
    let rest: BTreeMap<String, [u64; 3]> =
        before.into_iter().filter(|(name, _)| !["host-0001", "host-0003"].contains(&name.as_str())).collect();
    assert_eq!(after, rest);
}

/// Blame of the last hour has not come yet: that hour is in no sum, whether it is a part of its own or not.
#[test]
fn a_part_of_which_one_table_is_late_changes_no_sum() {
    if !has_duckdb() {
        return;
    }
    let place = copy(FLEET);
    std::fs::remove_dir_all(place.path().join("merged/v1/table=blame_rollup/date=2026-11-22/hour=01"))
        .expect("it is there");
    let sums = |arguments: &[&str]| -> BTreeMap<String, String> {
        let hosts = list(&page(arguments).1, "hosts").clone();
        hosts.iter().map(|host| (host["name"].to_string(), format!("{} {}", host["watched_ns"], host["ns"]))).collect()
    };
    let place = path(place.path());
    let whole = sums(&[place]);
    assert!(whole.len() == 20 && whole.values().all(|sums| sums.starts_with("3600000000000 ")), "{whole:?}");
    assert_eq!(whole, sums(&["--changed-at", "2026-11-22T01:00:00", place]));
}

#[test]
fn changes_are_set_before_against_after() {
    if !has_duckdb() {
        return;
    }
    let (_, data) = page(&[FLEET]);
    let hosts = list(&data, "hosts").iter();
    let changed = hosts.filter(|host| host["periods"].as_array().expect("a list").len() > 1);
    let mut found: Vec<Vec<String>> = changed
        .flat_map(|host| {
            let name = host["name"].as_str().expect("a name");
            let row = move |period: &Value| {
                let text = |key: &str| period[key].as_str().unwrap_or_default().to_owned();
                vec![name.to_owned(), text("kernel"), text("labels"), period["ns"].to_string()]
            };
            host["periods"].as_array().expect("a list").iter().map(row)
        })
        .collect();
    found.sort();
    let kernels = "select host, kernel, '' as labels, ns from kernel_changes";
    let labels = "select host, '6.12.0-plain' as kernel, coalesce(labels, ''), ns from label_changes order by 1, 2, 3";
    assert_eq!(found, rows(&format!("{kernels} union all {labels}"), FLEET), "one changed its kernel, one its labels");
    // A time that whoever asks knows of: all hosts have a before and an after.
    let (_, data) = page(&["--changed-at", "2026-11-22T01:00:00", FLEET]);
    for host in list(&data, "hosts") {
        let after: Vec<bool> = host["periods"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|period| period["is_after"].as_bool().expect("a truth value"))
            .collect();
        assert_eq!(after, [false, true], "{host}");
    }
}

#[test]
fn episodes_have_links_that_their_hosts_cannot_bend() {
    if !has_duckdb() {
        return;
    }
    let link = ["--link", "https://{host}:9846/episodes/{id}/report.html"];
    let (_, data) = page(&[&link[..], &[FLEET]].concat());
    assert!(
        list(&data, "episodes").iter().all(|episode| episode["link"].is_null()),
        "without a trace there is no report"
    );
    let place = tempfile::tempdir().expect("a place for files");
    let traced = "select * replace ('/var/lib/unstarve/watch/trace.dat' as trace_uri) from episodes";
    super::write(traced, &place.path().join("episodes.parquet"));
    let (_, data) = page(&[&link[..], &[path(place.path())]].concat());
    let episodes = list(&data, "episodes");
    assert_eq!(data["fleet"]["episodes_in_all"].as_u64(), Some(episodes.len() as u64));
    let worst = rows("select host, id, ns from worst_episodes order by ns desc, ts, host, id limit 1", FLEET).remove(0);
    let first = &episodes[0];
    assert_eq!([&first["host"], &first["id"]], [&worst[0], &worst[1]]);
    assert_eq!(first["link"], format!("https://{}:9846/episodes/{}/report.html", worst[0], worst[1]));
    let (_, data) = page(&[FLEET]);
    assert!(list(&data, "episodes").iter().all(|episode| episode["link"].is_null()), "nobody said where they are");
}

/// Names as hostile as Parquet can hold.
#[test]
fn names_of_hosts_stay_text() {
    if !has_duckdb() {
        return;
    }
    let place = tempfile::tempdir().expect("a place for files");
    let evil = "</script><img src=x onerror=alert(1)>\u{202e}\u{1b}[31m";
    for table in ["wait_rollup", "blame_rollup", "episodes"] {
        let (without, more) = match table {
            "episodes" => ("host, id, trace_uri", ", 'javascript:alert(1)' as id, 'javascript:alert(2)' as trace_uri"),
            _ => ("host", ""),
        };
        let renamed = format!("select * exclude ({without}), '{evil}' as host{more} from {table}");
        let file = place.path().join(format!("{table}.parquet"));
        let output = sql(&["-o", file.to_str().expect("UTF-8"), &renamed, FLEET]);
        assert!(output.status.success(), "{output:?}");
    }
    let place: &Path = place.path();
    let (text, data) = page(&["--link", "https://store.example/{host}/{id}", place.to_str().expect("UTF-8")]);
    assert_eq!(text.to_ascii_lowercase().matches("</script").count(), 2);
    assert!(!text.contains("<img") && !text.contains(['\u{202e}', '\u{1b}']));
    let whole = data.to_string();
    assert!(!whole.contains(['\u{202e}', '\u{1b}']) && whole.contains("\\\\u{1b}"), "harmless in the data, too");
    for episode in list(&data, "episodes") {
        let link = episode["link"].as_str().expect("a link");
        assert!(
            link.starts_with("https://store.example/%3C") && link.ends_with("/javascript%3Aalert%281%29"),
            "{link}"
        );
    }
}

/// A table that is not there is no health: neither of hosts nor of the time they were watched is anything claimed.
#[test]
fn what_no_row_says_is_not_known() {
    if !has_duckdb() {
        return;
    }
    for (missing, watched, waited) in [
        (&["wait_rollup"][..], false, true),
        (&["blame_rollup"], true, false),
        (&["wait_rollup", "blame_rollup"], false, false),
    ] {
        let place = copy(FLEET);
        for table in missing {
            std::fs::remove_dir_all(place.path().join(format!("merged/v1/table={table}"))).expect("it is there");
        }
        let (text, data) = page(&[path(place.path())]);
        let names: Vec<&str> =
            data["fleet"]["missing"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert_eq!(names, missing, "{missing:?}");
        assert!(!text.contains("No kernel thread waited") && !list(&data, "hosts").is_empty(), "{missing:?}");
        for host in list(&data, "hosts") {
            assert_eq!((host["watched_ns"].is_u64(), host["ns"].is_array()), (watched, waited), "{missing:?}: {host}");
        }
    }
}

#[test]
fn hours_without_a_wait_are_there_too() {
    if !has_duckdb() {
        return;
    }
    let days = fleet_with_a_day_before();
    let (_, data) = page(&[path(days.path())]);
    let at: Vec<i64> = list(&data, "hours").iter().map(|hour| hour["at_ms"].as_i64().expect("a moment")).collect();
    assert!(at.len() > 24 && at.windows(2).all(|pair| pair[1] - pair[0] == 3_600_000), "{at:?}");
}

#[test]
fn what_is_wrong_is_said() {
    if !has_duckdb() {
        return;
    }
    let cases: [(&[&str], &str); 5] = [
        (&["--page", "x.html", "select 1 from hosts", FLEET], "--page asks its own questions"),
        (&["--page", "/nowhere/at/all/x.html", FLEET], "/nowhere/at/all/x.html"),
        (&["--page", "x.html", "--changed-at", "soon", FLEET], "2026-11-22"),
        (&["--page", "x.html", "--link", "javascript:{id}", FLEET], "expected an address"),
        (&["--changed-at", "2026-11-22", "select 1 from hosts", FLEET], "--page"),
    ];
    for (arguments, word) in cases {
        let output = sql(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{arguments:?}: {output:?}");
    }
}
