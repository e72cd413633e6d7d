//! What remedies would do, where people see it: `explain`, the page, and the numbers of `predict` and `fix`.

use std::process::{Command, Output};

use serde_json::Value;

/// A remedy is predicted and helps; one helps and starves others; and one where everything is refused.
const REMEDY_HELPS: &str = "truth/iouring-rt.6.1.fault.dat.zst";
const REMEDY_STARVES_OTHERS: &str = "truth/highpri-xfs.6.1.fault.dat.zst";
const REMEDY_REFUSED: &str = "truth/yield-spin.6.1.fault.dat.zst";
const NOBODY_STARVED: &str = "truth/cpu-rotation.6.12.none.dat.zst";

fn testdata(name: &str) -> String {
    format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn unstarve(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unstarve"));
    command.args(arguments).env("COLUMNS", "200").output().expect("it can be started")
}

fn text(arguments: &[&str]) -> String {
    String::from_utf8(unstarve(arguments).stdout).expect("UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(arguments)).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn remedies(report: &Value) -> Vec<&Value> {
    let findings = report["findings"].as_array().into_iter().flatten();
    findings.flat_map(|finding| finding["remedies"].as_array().into_iter().flatten()).collect()
}

#[test]
fn explain_has_a_line_of_what_is_known_and_none_of_a_refusal() {
    let known = text(&["explain", &testdata(REMEDY_HELPS)]);
    let line = known.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(line.contains("Predicted: remedy 1 takes the longest wait from 62.5 ms to"), "{known}");
    assert!(line.contains("and starves nobody; `unstarve predict FILE` has the rest."), "{known}");
    let refused = text(&["explain", &testdata(REMEDY_REFUSED)]);
    assert!(refused.contains("Fix ") && !refused.contains("redicted"), "{refused}");
    let report = json(&["explain", "--json", &testdata(REMEDY_REFUSED)]);
    assert!(remedies(&report).iter().any(|remedy| remedy["predicted"]["refused"][0].is_string()), "{report}");
    // Of a part nothing is predicted: what its findings lack was starved before.
    let part = json(&["explain", "--json", "--from", "+0s", &testdata(REMEDY_HELPS)]);
    assert!(
        !remedies(&part).is_empty() && remedies(&part).iter().all(|remedy| remedy["predicted"].is_null()),
        "{part}"
    );
}

#[test]
fn a_remedy_that_starves_others_is_offered_last_and_says_so() {
    let report = json(&["explain", "--json", &testdata(REMEDY_STARVES_OTHERS)]);
    let verdicts: Vec<&Value> = remedies(&report).into_iter().map(|remedy| &remedy["predicted"]["verdict"]).collect();
    assert_eq!(verdicts, ["helps", "helps-and-starves"]);
    let full = text(&["explain", "--full", &testdata(REMEDY_STARVES_OTHERS)]);
    assert!(full.contains("those predicted to harm somebody last"), "{full}");
    assert!(full.contains("it starves kworker/u2:2"), "{full}");
}

#[test]
fn numbers_of_predict_are_those_of_explain_and_fix() {
    for name in [
        REMEDY_HELPS,
        REMEDY_STARVES_OTHERS,
        "truth/hog-over-softirq.6.12.fault.dat.zst",
        "truth/polling-fair-thread.6.12.fault.dat.zst",
    ] {
        let file = testdata(name);
        let (report, predictions) = (json(&["explain", "--json", &file]), json(&["predict", "--json", &file]));
        let mut compared = 0;
        for subject in predictions["subjects"].as_array().expect("subjects") {
            let findings = report["findings"].as_array().expect("findings");
            let finding =
                findings.iter().find(|finding| finding["headline"] == subject["headline"]).expect("a finding");
            for change in subject["changes"].as_array().expect("changes") {
                let number = change["remedy"].as_u64().expect("a number");
                assert_eq!(finding["remedies"][number as usize - 1]["id"], change["name"], "{name}");
                compared += 1;
            }
        }
        let (first, id) = (&report["findings"][0], &report["findings"][0]["remedies"][0]["id"]);
        assert!(compared > 0 && first.is_object());
        let plan = json(&["fix", "--json", "--this-boot", "--finding", "1", "--remedy", "1", &file]);
        assert_eq!(plan["remedy"]["id"], *id, "{name}");
    }
}

#[test]
fn a_change_is_predicted_for_who_is_named_or_waited_longest() {
    let healthy = testdata(NOBODY_STARVED);
    let of = |arguments: &[&str]| json(&[&["predict", "--json"], arguments].concat());
    let longest = of(&[&healthy, "--change", "nice:*=5"]);
    let report = json(&["explain", "--json", &healthy]);
    let subject = &longest["subjects"][0];
    let waited = report["worst_waits"].as_array().expect("waits");
    assert!(waited.iter().any(|wait| wait["comm"] == subject["victim"]), "{longest}");
    assert!(subject["finding"].is_null() && subject["changes"][0]["name"] == "nice:*=5", "{longest}");
    let named = of(&[&testdata(REMEDY_HELPS), "--victim", "ring*", "--change", "policy:rtpoll=other"]);
    assert_eq!(named["subjects"][0]["victim"], "ringapp");
    assert_eq!(named["subjects"].as_array().map(Vec::len), Some(1));
    for (arguments, why) in [
        (&[healthy.as_str()][..], "nobody is starved in this recording"),
        (&[&healthy, "--victim", "*"], "--victim needs --change or --kernel"),
        (
            &[&healthy, "--victim", "\u{1b}[31m", "--change", "nice:*=5"],
            "no thread that ran or waited in the recording is `\\u{1b}[31m`",
        ),
    ] {
        let output = unstarve(&[&["predict"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn what_is_no_result_of_fix_is_no_page() {
    let directory = tempfile::tempdir().expect("a directory");
    let (came, page) = (directory.path().join("came.json"), directory.path().join("page.html"));
    let (came, page) = (came.to_str().expect("UTF-8"), page.to_str().expect("UTF-8"));
    let plan = |schema: &str, remedy: &str, compared: &str| {
        format!(
            r#"{{"schema":"{schema}","finding":{{"id":"rt-starvation"}},"remedy":{{"id":"{remedy}"}},"compared":[{compared}]}}"#
        )
    };
    let measured = r#"{"metric":"longest","measured":5}"#;
    let cases = [
        ("no JSON".to_owned(), "expected what `unstarve fix --apply --verify --json` prints"),
        (plan("unstarve.explain/1", "intruder-to-fair", measured), "expected the schema unstarve.fix/1"),
        (plan("unstarve.fix/1", "intruder-to-fair", ""), "nothing was measured"),
        (plan("unstarve.fix/1", "no-such", measured), "nothing is predicted here of no-such"),
        (plan("unstarve.fix/1", "intruder-to-fair", measured), "wrote"),
    ];
    for (written, why) in cases {
        std::fs::write(came, &written).expect("a file");
        let output = unstarve(&["report", &testdata(REMEDY_HELPS), "--came", came, "-o", page]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{written}: {said}");
        assert_eq!(output.status.success(), why == "wrote", "{said}");
    }
}
