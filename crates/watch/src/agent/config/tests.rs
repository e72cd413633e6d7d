//! Tests of parsing and checking configurations.

use unstarve_model::Nanos;

use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("watch.toml"), text).map_err(|error| error.to_string())
}

#[test]
fn nothing_written_is_the_default() {
    assert_eq!(parse("version = 1\n"), Ok(Config::default()));
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn what_is_printed_reads_the_same() {
    let text = Config::default().to_toml();
    assert_eq!(parse(&text), Ok(Config::default()), "{text}");
}

#[test]
fn everything_that_can_be_written_is_read() {
    let (on, off) =
        include_str!("../../../../../examples/watch.toml").split_once("# Off without").expect("the example");
    let off: String = off.lines().skip(1).map(|line| format!("{}\n", line.trim_start_matches(['#', ' ']))).collect();
    let config = parse(&format!("{on}{off}")).expect("the example");
    assert!(config.otlp.is_some() && config.webhook.is_some() && config.tables.is_some());
    assert_ne!(config, Config::default());
    assert_eq!(parse(&config.to_toml()), Ok(config.clone()));
    let role = config.thresholds.of("ksoftirqd");
    assert_eq!(role.wait, Some(Length(Duration::from_millis(20))));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cases = [
        ("version = 2", "watch.toml:1:1: version 2 is not known; expected 1"),
        ("verison = 1", "watch.toml:1:1: unknown field `verison`"),
        ("[recorder]\nkeep = \"10\"\n", "watch.toml:2:8: `10`: expected a time such as 250ms, 10s, 2m, 1h or 14d"),
        (
            "[thresholds]\nwait = 500\n",
            "watch.toml:2:8: invalid type: integer `500`, expected a time such as 250ms, 10s, 2m, 1h or 14d",
        ),
        ("[tables]\nevery = 60\n", "watch.toml:2:9: invalid type: integer `60`, expected a time such as 250ms"),
        ("[recorder]\nbuffer-mib = 100000\n", "watch.toml:2:1: 100000 is out of range; expected 1 to 1024"),
        ("[store]\ndirectory = \"relative\"\n", "watch.toml:2:1: `relative` is relative; expected an absolute path"),
        ("[store]\ndirectory = \"/a\"\n[tables]\ndirectory = \"b\"\n", "watch.toml:4:1: `b` is relative"),
        ("store.directory = \"c\"\n", "watch.toml:1:1: `c` is relative"),
        ("[recorder]\nkeep = \"11m\"\n", "watch.toml:2:1: 11m is out of range; expected 1s to 10m"),
        ("[listen]\naddress = \"0.0.0.0:9\"\n", "watch.toml:2:1: 0.0.0.0:9 can be reached from other machines"),
        (
            "[listen]\naddress = \"localhost\"\n",
            "watch.toml:2:11: `localhost`: expected an address such as 127.0.0.1:9846, unix:/PATH, or off",
        ),
        ("[thresholds]\nshare = 1.5\n", "watch.toml:2:9: 1.5: expected a part between 0 and 1"),
        (
            "[webhook]\nurl = \"ftp://x\"\n",
            "watch.toml:2:7: `ftp://`: expected a URL that begins with http:// or https://",
        ),
        (
            "[recorder]\nmode = \"no\"\n",
            "watch.toml:2:8: unknown variant `no`, expected one of `always`, `armed`, `off`",
        ),
        ("[tables]\nmib = 0\n", "watch.toml:2:1: 0 is out of range; expected 1 or more"),
        ("[tables]\nage = \"5m\"\n", "watch.toml:2:1: 5m is out of range; expected 1h to 366d"),
        (
            "[tables.labels]\nsite = \"a,b\"\n",
            "watch.toml:2:1: label `site` = `a,b`: expected a key of letters, digits and _-./ that begins with a letter, and a value without comma and =",
        ),
        ("[labels]\n9a = \"b\"\n", "watch.toml:2:1: label `9a` = `b`: expected a key"),
        ("[labels]\na.b = 1\n", "watch.toml:2:1: invalid type: map, expected a string"),
        (
            "[labels]\n\"a.b\" = \"1\"\nA_B = \"2\"\n",
            "watch.toml:1:1: label `a.b`: in metrics and in the journal `A_B` has the same name",
        ),
        ("[metrics]\npreset = \"small\"\n", "watch.toml:2:10: unknown variant `small`, expected `full` or `thin`"),
        ("[metrics]\nblame = 0\n", "watch.toml:2:1: 0 is out of range; expected 1 to 100, \"all\" or \"off\""),
        ("[metrics]\nblame = 101\n", "watch.toml:2:1: 101 is out of range"),
        ("[metrics]\nblame = \"none\"\n", "watch.toml:2:9: expected \"all\", \"off\", or how many combinations"),
        ("[metrics]\nblame = -1\n", "watch.toml:2:9: expected \"all\", \"off\", or how many combinations"),
        ("[metrics]\nworkloads = 101\n", "watch.toml:2:1: 101 is out of range; expected 0 to 100"),
        ("a = [", "watch.toml:1:"),
        (
            "[thresholds.role.kworkr]\nwait = \"1s\"\n",
            "watch.toml:1:18: `kworkr` is no role; expected one of ksoftirqd, direct-io, kworker, rcu, storage, nfsd, kernel, \
             real-time, other, or the path of a top-level cgroup such as /system.slice",
        ),
        ("[thresholds]\n# kworkr\nrole.kworkr.wait = \"1s\"\n", "watch.toml:3:6: `kworkr` is no role"),
        ("[thresholds.role]\n\"group\" = { ignore = true }\n", "watch.toml:2:2: `group` is no role"),
        ("[thresholds.role.idle]\nwait = \"1s\"\n", "watch.toml:1:18: `idle` is no role"),
        (
            "[thresholds.role.\"/a.slice/b.service\"]\nignore = true\n",
            "watch.toml:1:19: `/a.slice/b.service` is no top-level cgroup",
        ),
        ("[thresholds.role.\"/\"]\nignore = true\n", "watch.toml:1:19: `/` is no top-level cgroup"),
    ];
    for (text, expected) in cases {
        let error = parse(text).expect_err(text);
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
    }
    assert!(parse("[listen]\naddress = \"0.0.0.0:9\"\nallow-remote = true\n").is_ok());
}

#[test]
fn lengths_have_days_and_are_printed_as_they_are_read() {
    for (text, seconds, printed) in [
        ("14d", 14 * 86_400, "14d"),
        ("336h", 14 * 86_400, "14d"),
        ("90m", 5_400, "90m"),
        ("1.5h", 5_400, "90m"),
        ("2min", 120, "2m"),
    ] {
        let length: Length = text.parse().expect(text);
        assert_eq!((length.0, length.to_string().as_str()), (Duration::from_secs(seconds), printed), "{text}");
    }
    for bad in ["", "d", "1", "-1d", "1 d", "1w", "1e3s", "..s", "367d", "99999999999999999999d"] {
        assert!(bad.parse::<Length>().is_err(), "{bad}");
    }
}

#[test]
fn a_directory_is_called_one() {
    let place = tempfile::tempdir().expect("a directory");
    let error = Config::load(place.path()).expect_err("no file").to_string();
    assert_eq!(error, format!("{}: is a directory; expected a TOML file", place.path().display()));
}

#[test]
fn the_schema_names_every_key_of_the_example() {
    let schema = Config::schema();
    for line in include_str!("../../../../../examples/watch.toml").lines() {
        if let Some((key, _)) = line.trim_start_matches("# ").split_once(" = ") {
            let key = key.rsplit('.').next().unwrap_or(key);
            assert!(schema.contains(&format!("\"{key}\"")), "{key}");
        }
    }
}

#[test]
fn what_is_printed_in_full_says_all_that_holds_and_means_the_same() {
    let (on, off) =
        include_str!("../../../../../examples/watch.toml").split_once("# Off without").expect("the example");
    let off: String = off.lines().skip(1).map(|line| format!("{}\n", line.trim_start_matches(['#', ' ']))).collect();
    for text in
        [String::new(), on.to_owned(), format!("{on}{off}"), "[thresholds]\nshare = 0.9\nwait = \"3s\"\n".to_owned()]
    {
        let config = parse(&text).expect("a configuration");
        let printed = config.in_full();
        // The path of a webhook is not shown, and a file without it is refused.
        let shown = printed.replace("http://127.0.0.1:9847/(not shown)", "http://127.0.0.1:9847/hook");
        let again = parse(&shown).expect(&printed);
        for role in ["ksoftirqd", "kworker", "real-time", "other", "/batch.slice", "/any.slice"] {
            assert_eq!(again.thresholds.of(role), config.thresholds.of(role), "{role}\n{printed}");
        }
        let unwritten = |config: &Config| Config {
            thresholds: Thresholds::default(),
            metrics: Metrics::default(),
            ..config.clone()
        };
        assert_eq!(again.metrics.limits(), config.metrics.limits(), "{printed}");
        assert_eq!(unwritten(&again), unwritten(&config), "{printed}");
        assert_eq!(again.in_full(), printed, "printed again it is the same");
        for part in ["[thresholds.role.rcu]", "otlp", "webhook", "buffer-mib", "every = "] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
    }
    let printed = Config::default().in_full();
    let rcu = printed.split("[thresholds.role.rcu]").nth(1).expect("its table");
    assert!(rcu.trim_start().starts_with("wait = \"50ms\"\nshare = 0.3\noldest = \"50ms\"\n"), "{printed}");
}

#[test]
fn the_schema_is_of_what_is_printed() {
    let schema: serde_json::Value = serde_json::from_str(&Config::schema()).expect("JSON");
    let printed: toml::Table = toml::from_str(&Config::default().in_full()).expect("TOML");
    for key in printed.keys() {
        assert!(schema["properties"].get(key).is_some(), "{key}: {schema}");
    }
    assert_eq!(schema["additionalProperties"], false, "what is unknown is refused");
}

#[test]
fn what_no_threshold_notices_is_negligible() {
    let of = |text: &str| parse(text).expect("right").thresholds.negligible(Duration::from_millis(250));
    assert_eq!(of(""), Nanos::from_millis(10));
    assert_eq!(of("[thresholds]\nwait = \"4ms\"\n"), Nanos::from_millis(2), "holds for groups");
    assert_eq!(of("[thresholds.role.\"/pods\"]\noldest = \"6ms\"\n"), Nanos::from_millis(3));
    assert_eq!(of("[thresholds.role.kworker]\nshare = 0.02\n"), Nanos::from_micros(2_500));
    assert_eq!(of("[thresholds]\nstalled = 0.0\n"), Nanos(0), "then it never rests");
}

#[test]
fn a_file_with_an_error_still_names_its_store() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("watch.toml");
    let named = |text: &str| {
        std::fs::write(&file, text).expect("written");
        Config::store_named_in(Some(&file))
    };
    assert_eq!(named("[store]\ndirectory = \"/s\"\n[thresholds.role.kworkers]\nwait = \"1s\"\n"), Some("/s".into()));
    for text in
        ["[store]\n", "[store]\ndirectory = 7\n", "[store\ndirectory = \"/s\"\n", "[store]\ndirectory = \"s\"\n"]
    {
        assert_eq!(named(text), None, "{text}");
    }
    assert_eq!(Config::store_named_in(Some(&place.path().join("none"))), None);
}

#[test]
fn what_can_never_be_sent_is_refused_with_its_place() {
    let wrong = |text: &str| parse(text).expect_err(text).to_string();
    for (line, says) in [
        ("url = \"ftp://h/\"", "2:7: `ftp://`: expected a URL that begins with http:// or https://"),
        ("url = \"http://h/s3cret key\"", "2:7: no request can be sent to this URL: invalid uri character"),
        ("url = \"http://:80/s3cret\"", "2:7: "),
        ("url = \"http://h/(not shown)\"", "2:7: no request can be sent to this URL"),
        ("url = \"http://h/\"\nheaders = { \"X Y\" = \"s3cret\" }", "3:11: `X Y` is no name of a header"),
        ("url = \"http://h/\"\nheaders = { X = \"s3cret\\n\" }", "3:11: the header X cannot be sent: control"),
        ("url = \"http://h/\"\nheaders = { X = \"(not shown)\" }", "3:11: the header X was printed without its value"),
    ] {
        let said = wrong(&format!("[webhook]\n{line}\n"));
        assert!(said.contains(says) && !said.contains("s3cret"), "{line}: {said}");
    }
}

#[test]
fn no_secret_is_printed() {
    let text = "[webhook]\nurl = \"https://me:s3cret@h/services/s3cret?k=s3cret\"\nheaders = { Authorization = \"s3cret\" }\n\
                [otlp]\nendpoint = \"http://h:4318/v1/metrics\"\nheaders = { api-key = \"s3cret\" }\n";
    let printed = parse(text).expect("right").in_full();
    assert!(!printed.contains("s3cret") && printed.contains("https://h/(not shown)"), "{printed}");
    assert!(
        printed.contains("Authorization = \"(not shown)\"") && printed.contains("api-key = \"(not shown)\""),
        "{printed}"
    );
    assert!(printed.contains("http://h:4318/v1/metrics"), "{printed}");
}

/// Each key of `[metrics]` by itself and beside each preset.
#[test]
fn a_key_of_metrics_holds_over_the_preset() {
    let full = SeriesLimits { blame: Blame::All, histograms: true, workloads: 20 };
    let thin = SeriesLimits { blame: Blame::Worst(10), histograms: false, workloads: 5 };
    for (preset, limits) in [("", full), ("preset = \"full\"\n", full), ("preset = \"thin\"\n", thin)] {
        for (key, expected) in [
            ("", limits),
            ("blame = \"all\"", SeriesLimits { blame: Blame::All, ..limits }),
            ("blame = \"off\"", SeriesLimits { blame: Blame::Off, ..limits }),
            ("blame = 3", SeriesLimits { blame: Blame::Worst(3), ..limits }),
            ("histograms = true", SeriesLimits { histograms: true, ..limits }),
            ("histograms = false", SeriesLimits { histograms: false, ..limits }),
            ("workloads = 0", SeriesLimits { workloads: 0, ..limits }),
        ] {
            let config = parse(&format!("[metrics]\n{preset}{key}\n")).expect("right");
            assert_eq!(config.metrics.limits(), expected, "{preset}{key}");
            assert_eq!(parse(&config.in_full()).map(|again| again.metrics.limits()), Ok(expected), "{preset}{key}");
        }
    }
}

/// Where labels may be written: nowhere, in either place, in both.
#[test]
fn labels_are_of_the_whole_watch_and_their_old_place_is_read() {
    let labels = |pairs: &[(&str, &str)]| -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    for (new, old, expected) in [
        ("", "", labels(&[])),
        ("a = \"1\"", "", labels(&[("a", "1")])),
        ("", "a = \"1\"", labels(&[("a", "1")])),
        ("a = \"1\"", "b = \"2\"", labels(&[("a", "1"), ("b", "2")])),
        ("a = \"1\"", "a = \"2\"", labels(&[("a", "1")])),
    ] {
        let config = parse(&format!("[labels]\n{new}\n[tables.labels]\n{old}\n")).expect("right");
        assert_eq!(config.labels, expected, "{new} and {old}");
        assert_eq!(config.remarks().count(), usize::from(!old.is_empty()), "{new} and {old}");
        let printed = config.in_full();
        assert_eq!(printed.contains("[tables.labels] is the old place"), !old.is_empty(), "{printed}");
        assert_eq!(
            parse(&printed).map(|again| (again.labels, again.has_old_labels)),
            Ok((expected, false)),
            "{printed}"
        );
    }
    let many: String = (0..33).map(|number| format!("a{number} = \"1\"\n")).collect();
    let error = parse(&format!("[labels]\n{many}")).expect_err("too many");
    assert!(error.contains("there are more than 32 labels"), "{error}");
    let long = parse(&format!("[labels]\na = \"{}\"\n", "é".repeat(129))).expect_err("too long");
    assert!(long.contains("at most 48 and 256 bytes"), "{long}");
}
